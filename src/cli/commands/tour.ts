import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { Option, type Command } from 'commander';
import { CodedError, messageOf } from '../../api/errors.ts';
import { EXIT } from '../exit.ts';
import type { Output } from '../output.ts';
import { outputFlag } from '../output-flag.ts';
import type { Run } from '../program.ts';

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

interface Flags {
  output?: 'json';
  keep?: boolean;
  part?: 'change' | 'repair';
  repository: string;
  controlPlanes?: string;
  patience: string;
}

export function tourCommand(program: Command, run: Run): void {
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
  const [{ cloneFleet }, { startSystem }, { changeSteps, importStep }, { repairSteps }] = await Promise.all([
    import('../tour/fleet.ts'),
    import('../tour/system.ts'),
    import('../tour/steps.ts'),
    import('../tour/repair-steps.ts'),
  ]);
  const patience = Number(flags.patience);
  if (!(patience >= 1 && patience <= 100))
    throw new CodedError('Usage', `--patience must be a number from 1 to 100, got "${flags.patience}"`);
  const controlPlanes = flags.controlPlanes === undefined ? undefined : resolve(flags.controlPlanes);
  if (controlPlanes !== undefined) await (await import('../tour/unused.ts')).requireUnused(controlPlanes);
  const interrupted = new AbortController();
  const { signal } = interrupted;
  const onSignal = (): void => interrupted.abort(new CodedError('Interrupted', 'interrupted'));
  // Also more than once: npm passes on what the terminal has sent already.
  for (const name of SIGNALS) process.on(name, onSignal);
  const dir = await mkdtemp(join(tmpdir(), 'kubenode-tour-'));
  const began = performance.now();
  let failed = false;

  async function step<T>({ name, run }: { name: string; run: () => Promise<T> }, detail: (value: T) => string): Promise<T | undefined> {
    const started = performance.now();
    if (flags.output !== 'json') output.say('doing', name);
    try {
      const value = await run();
      tell(true, detail(value));
      return value;
    } catch (error) {
      failed = true;
      tell(false, messageOf(error));
      return undefined;
    }
    function tell(ok: boolean, detail: string): void {
      const ms = Math.round(performance.now() - started);
      if (flags.output === 'json') output.print(JSON.stringify({ step: name, ok, ms, detail }));
      else output.say(ok ? 'done' : 'failed', `${(ms / 1000).toFixed(1)} s  ${detail}`);
    }
  }

  const system = await step(
    {
      name: 'clone the fleet and start: hub, three cells, one agent a node',
      run: async () => {
        const fleet = await cloneFleet(resolve(flags.repository), join(dir, 'fleet'));
        return {
          fleet,
          system: await startSystem(fleet.dir, join(dir, 'state'), {
            patience,
            signal,
            ...(controlPlanes === undefined ? {} : { controlPlanes }),
          }),
        };
      },
    },
    ({ system }) => `up, state in ${system.state}`,
  );
  if (system !== undefined) {
    // A later step builds on the earlier ones: after the first that fails there is nothing to show.
    const steps = [
      importStep(system.system),
      ...(flags.part === 'repair' ? [] : changeSteps(system.system, system.fleet)),
      ...(flags.part === 'change' ? [] : repairSteps(system.system, system.fleet)),
    ];
    for (const each of steps) {
      if (!failed) await step<string>(each, (detail) => detail);
    }
    await system.system.stop();
  }
  for (const name of SIGNALS) process.removeListener(name, onSignal);
  // Who interrupts does not look for what went wrong.
  const keep = flags.keep === true || (failed && !signal.aborted);
  if (!keep) await rm(dir, { recursive: true, force: true });
  if (failed && !keep) {
    output.say('failed', 'interrupted; everything is stopped and removed');
    return EXIT.failed;
  }
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  if (flags.output !== 'json')
    output.say(
      failed ? 'failed' : 'done',
      failed ? `not every step came true; what is left is in ${dir}` : `every step came true, in ${seconds} s`,
    );
  else if (failed) output.say('failed', `what is left is in ${dir}`);
  return failed ? EXIT.failed : EXIT.ok;
}
