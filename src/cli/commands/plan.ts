import { readFileSync } from 'node:fs';
import { Option, type Command } from 'commander';
import { messageOf } from '../../api/errors.ts';
import { ISOLATIONS } from '../../api/fleet.ts';
import { plainText } from '../../api/plain-text.ts';
import type { Isolation } from '../../sync/render/wall.ts';
import { connect, connectionFlags, type ConnectionFlags } from '../connection.ts';
import { EXIT, fail } from '../exit.ts';
import { ofCommand, reportIsolation } from '../fleet-flags.ts';
import { namedFolder } from '../fleet-folder.ts';
import { age, type Output } from '../output.ts';
import { outputFlag } from '../output-flag.ts';
import type { HubSnapshot } from '../plan/snapshot.ts';
import type { Made } from '../plan/make.ts';
import type { RunCommand } from '../program.ts';
import { cliError } from '../errors.ts';

interface Flags extends ConnectionFlags {
  folder?: string;
  fleet?: string;
  snapshot?: string;
  isolation?: Isolation;
  output?: 'json' | 'markdown';
}

const DAY_MS = 24 * 3_600_000;
const RENDER_MS = 300_000;

/** `kubenode plan` and `kubenode snapshot`. Neither writes anything. */
export function planCommand(program: Command, run: RunCommand): void {
  connectionFlags(program.command('plan [revision]'))
    .description(
      'show what a commit would do before it is merged: on which clusters and machines, how it disrupts them, what blocks it, what a revert costs. Without a revision: the files in the folder as they are. Exit code 0: nothing changes; 1: something does; 3: the hub would refuse it; 4: no plan could be made; 5: a part of it would be held back by the limits of deletions. In CI plan HEAD: what a checkout has in its files may not be what is in the commit',
    )
    .option('--folder <folder>', 'the fleet repository; default: the one around the working directory')
    .option('--fleet <name>', 'Fleet of the hub (default: the only one)')
    .option('--snapshot <file>', 'file that `kubenode snapshot` printed; used instead of a hub')
    .addOption(
      new Option('--isolation <wall>', 'weakest wall around the code of the fleet that is accepted (default: the best there is)').choices(
        ISOLATIONS,
      ),
    )
    .addOption(outputFlag(['json', 'markdown'], 'one JSON object, or a comment for a pull request'))
    .action((revision: string | undefined, flags: Flags) =>
      run(async (output) => {
        try {
          return await report(await make(revision, flags, output), flags.output, output);
        } catch (error) {
          // 1 means that something changes.
          const code = fail(output, error);
          return code === EXIT.failed ? EXIT.unplanned : code;
        }
      }),
    );
}

export function snapshotCommand(program: Command, run: RunCommand): void {
  connectionFlags(program.command('snapshot'))
    .description(
      'what `kubenode plan --snapshot FILE` needs of a hub: names of clusters, of the Secrets of their kubeconfigs, of units and of all MachineSets in cells, numbers and digests, without addresses, credentials and messages',
    )
    .action((flags: ConnectionFlags) =>
      run(async (output) => {
        const { snapshotText } = await import('../plan/snapshot.ts');
        output.print(snapshotText(await ofHub(flags)));
        return EXIT.ok;
      }),
    );
}

async function make(revision: string | undefined, flags: Flags, output: Output): Promise<Made> {
  const snapshot = flags.snapshot === undefined ? await ofHub(flags) : await ofFile(flags.snapshot, Date.now());
  const [{ makePlan }, { bundleFor }, { checkRules }, { judgeObject }] = await Promise.all([
    import('../plan/make.ts'),
    import('../bundles.ts'),
    import('../../rules/check.ts'),
    import('../object-rules.ts'),
  ]);
  const renderer = { childPath: await bundleFor('render'), isolation: flags.isolation ?? 'process', checkRules, judgeObject };
  const request = { folder: namedFolder(flags.folder), revision, fleet: flags.fleet };
  output.report('doing', 'rendering the commit, and what is there now');
  const made = await makePlan(request, snapshot, renderer, AbortSignal.timeout(RENDER_MS)).catch((error: unknown) => {
    throw ofCommand(error);
  });
  if (made.isolation !== undefined) reportIsolation(made.isolation, output);
  return made;
}

async function ofHub(flags: ConnectionFlags): Promise<HubSnapshot> {
  const { takeSnapshot } = await import('../plan/snapshot.ts');
  const { client, close } = await connect(flags);
  try {
    return await takeSnapshot(client, Date.now());
  } finally {
    await close();
  }
}

/** An old one is used, with a warning. */
export async function ofFile(file: string, nowMs: number): Promise<HubSnapshot> {
  const { parseSnapshot } = await import('../plan/snapshot.ts');
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (cause) {
    throw cliError('Usage', `the snapshot cannot be read: ${messageOf(cause)}`, { cause, next: 'kubenode snapshot > FILE' });
  }
  const snapshot = parseSnapshot(text, file);
  const ageMs = nowMs - Date.parse(snapshot.takenAt);
  if (ageMs <= DAY_MS) return snapshot;
  return { ...snapshot, warnings: [`the snapshot is ${age(ageMs)} old: what the hub did since is not in this plan`] };
}

/** Returns the exit code. */
export async function report(made: Made, format: 'json' | 'markdown' | undefined, output: Output): Promise<number> {
  const { planLines } = await import('../plan/lines.ts');
  const { planMarkdown } = await import('../plan/markdown.ts');
  const { isNothing } = await import('../plan/forecast.ts');
  if (format !== 'markdown') for (const warning of made.warnings) output.report('warning', plainText(warning));
  switch (format) {
    case 'json':
      output.print(JSON.stringify(made));
      break;
    case 'markdown':
      output.print(planMarkdown(made));
      break;
    case undefined:
      output.print(planLines(made).join('\n'));
      break;
    default:
      return format satisfies never;
  }
  if (made.result.state === 'Refused') return EXIT.refused;
  if (made.result.forecast.heldBack !== undefined) return EXIT.heldBack;
  return isNothing(made.result.forecast) ? EXIT.ok : EXIT.differs;
}
