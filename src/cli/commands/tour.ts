import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { Option, type Command } from 'commander';
import { EXIT } from '../exit.ts';
import type { Output } from '../output.ts';
import { outputFlag } from '../output-flag.ts';
import type { RunCommand } from '../program.ts';
import { StepReport } from '../tour/step-report.ts';
import { cliError } from '../errors.ts';

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

interface Flags {
  output?: 'json';
  keep?: boolean;
  part?: 'change' | 'repair';
  repository: string;
  controlPlanes?: string;
  patience: string;
}

export function tourCommand(program: Command, run: RunCommand): void {
  program
    .command('tour')
    .description(
      'the whole system on a clone of its own in a temporary folder, step by step; exit code 0 only if every step was seen to come true',
    )
    .addOption(outputFlag(['json'], 'one JSON line a step: {step, ok, ms, detail}'))
    .addOption(new Option('--part <part>', 'only this part, after the import of the nodes; without it both').choices(['change', 'repair']))
    .option('--keep', 'leave the temporary folder')
    .option('--repository <dir>', 'the fleet repository to clone', '.')
    .option(
      '--control-planes <kubeconfig>',
      'use these API servers, which KubeNode has not been on, and start none: contexts hub, test, pre and prod. Nothing is deleted there',
    )
    .option('--patience <factor>', 'wait this many times as long before a step has failed: for slow machines', '1')
    .action((flags: Flags) => run((output) => tour(flags, output)));
}

async function tour(flags: Flags, output: Output): Promise<number> {
  const [{ cloneFleet }, { startSystem }, { changeSteps }, { importStep }, { repairSteps }] = await Promise.all([
    import('../tour/fleet.ts'),
    import('../tour/system.ts'),
    import('../tour/change-steps.ts'),
    import('../tour/import-step.ts'),
    import('../tour/repair-steps.ts'),
  ]);
  const patience = Number(flags.patience);
  if (!(patience >= 1 && patience <= 100)) throw cliError('Usage', `--patience must be a number from 1 to 100, got "${flags.patience}"`);
  const controlPlanes = flags.controlPlanes === undefined ? undefined : resolve(flags.controlPlanes);
  if (controlPlanes !== undefined) await (await import('../tour/unused.ts')).requireUnused(controlPlanes);
  const interrupted = new AbortController();
  const { signal } = interrupted;
  const onSignal = (): void => interrupted.abort(cliError('Interrupted', 'interrupted'));
  // Also more than once: npm passes on what the terminal has sent already.
  for (const name of SIGNALS) process.on(name, onSignal);
  const dir = await mkdtemp(join(tmpdir(), 'kubenode-tour-'));
  const steps = new StepReport(output, flags.output === 'json');
  const start = async () => {
    const fleet = await cloneFleet(resolve(flags.repository), join(dir, 'fleet'));
    const options = { patience, signal, ...(controlPlanes === undefined ? {} : { controlPlanes }) };
    return { fleet, system: await startSystem(fleet.dir, join(dir, 'state'), options) };
  };
  const started = await steps.run(
    { name: 'clone the fleet and start: hub, three cells, one agent a node', run: start },
    ({ system }) => `up, state in ${system.state}`,
  );
  if (started !== undefined) {
    const { fleet, system } = started;
    // A later step builds on the earlier ones: after the first that fails there is nothing to show.
    const all = [
      importStep(system),
      ...(flags.part === 'repair' ? [] : changeSteps(system, fleet)),
      ...(flags.part === 'change' ? [] : repairSteps(system, fleet)),
    ];
    for (const each of all) {
      if (!steps.failed) await steps.run(each, (detail) => detail);
    }
    await system.stop();
  }
  for (const name of SIGNALS) process.removeListener(name, onSignal);
  // A person who interrupts does not ask what failed.
  const keep = flags.keep === true || (steps.failed && !signal.aborted);
  if (!keep) await rm(dir, { recursive: true, force: true });
  steps.end(keep ? dir : undefined);
  return steps.failed ? EXIT.failed : EXIT.ok;
}
