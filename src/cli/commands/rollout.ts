import { MachineComponentSets } from '../../api/machine-component-set.ts';
import { isUnitOf } from '../../api/unit.ts';
import type { Command } from 'commander';
import { isOver, Rollouts, type Rollout } from '../../api/rollout.ts';
import type { Stored } from '../../api/wire.ts';
import { hasReason } from '../../kube/api-error.ts';
import type { Client } from '../../kube/client.ts';
import { connect, connectionFlags, type ConnectionFlags } from '../connection.ts';
import { EXIT } from '../exit.ts';
import { age, table, type Output } from '../output.ts';
import { outputFlag } from '../output-flag.ts';
import type { RunCommand } from '../program.ts';
import { goOn, whatStays } from '../why/rollout.ts';
import { cliError } from '../errors.ts';

interface Flags extends ConnectionFlags {
  output?: 'json' | 'yaml';
  dryRun?: boolean;
  wait?: string;
}

/** `kubenode rollout show|pause|resume|retry`. Rollouts live in the hub: the current context must be it. */
export function rolloutCommand(program: Command, run: RunCommand): void {
  const rollout = program.command('rollout').description('show, pause, resume and retry rollouts of a fleet (uses the hub)');

  connectionFlags(rollout.command('show [name]'))
    .description('show where each unit of a rollout is; without a name: all rollouts, newest first')
    .addOption(outputFlag(['json', 'yaml'], 'the objects as they are'))
    .option('--wait <seconds>', 'wait until the rollout is done: exit code 0 done, 1 halted, 8 still pending')
    .action((name: string | undefined, flags: Flags) =>
      run(async (output) => await withHub(flags, (hub) => show(hub, name, flags, output))),
    );

  for (const verb of Object.keys(VERBS) as Verb[])
    connectionFlags(rollout.command(`${verb} <name>`))
      .description(VERBS[verb].description)
      .option('--dry-run', 'print what would be done, and do nothing')
      .action((name: string, flags: Flags) =>
        run(async (output) => await withHub(flags, (hub) => steer(hub, verb, name, flags.dryRun === true, output))),
      );
}

type Verb = 'pause' | 'resume' | 'retry';

interface Steering {
  description: string;
  done: string;
  spec: () => object;
  /** Names of the Rollouts to change, or why there is nothing to do. */
  targets: (rollout: Rollout) => readonly string[] | string;
}

const VERBS: Readonly<Record<Verb, Steering>> = {
  pause: {
    description: 'stop the forward lanes where they are; a restore goes on',
    done: 'paused',
    spec: () => ({ paused: true }),
    targets: ({ metadata, spec, status }) => {
      if (isOver(status?.phase)) return `it is ${status.phase}`;
      return spec.paused === true ? 'it is paused already' : [metadata.name];
    },
  },
  resume: {
    description: 'let a paused rollout go on',
    done: 'resumed',
    spec: () => ({ paused: null }),
    // A pause belongs to what it paused: the pause of an older rollout may block this one.
    targets: ({ metadata, spec, status }) => {
      const pausers = (status?.units ?? []).flatMap(({ pausedBy }) => pausedBy ?? []);
      const names = new Set([...(spec.paused === true ? [metadata.name] : []), ...pausers]);
      return names.size === 0 ? 'it is not paused' : [...names];
    },
  },
  retry: {
    description: 'lift halts and revocations of a rollout and try its failed machines again',
    done: 'will be tried again',
    spec: () => ({ retry: new Date().toISOString() }),
    // What is done has evidence: of that its cells try nothing again.
    targets: (rollout) => (canRetry(rollout) ? [rollout.metadata.name] : whyNoRetry(rollout)),
  },
};

function canRetry({ status }: Rollout): boolean {
  if (!isOver(status?.phase)) return true;
  return (status?.units ?? []).some(({ revoked, clusters = [] }) => revoked === true || clusters.some(({ halted }) => halted === true));
}

function whyNoRetry({ spec, status }: Rollout): string {
  const set = spec.units.map(({ unit }) => unit).find((unit) => isUnitOf(unit, MachineComponentSets));
  const patch = `kubectl --context CLUSTER patch machinecomponentset ${set?.slice(set.indexOf('/') + 1) ?? ''} --type merge -p '{"spec":{"rolloutID":"again-1"}}'`;
  const machines =
    set === undefined ? '' : `; machines that failed within the limit of their set are tried again by a new rolloutID there: ${patch}`;
  return `it is ${status?.phase ?? 'Pending'}, and nothing of it is halted or revoked${machines}`;
}

/** Errors: NotFound, NothingToDo. */
export async function steer(hub: Client, verb: Verb, name: string, dryRun: boolean, output: Output): Promise<number> {
  const { spec, done, targets } = VERBS[verb];
  const found = targets(await find(hub, name));
  if (typeof found === 'string')
    throw cliError('NothingToDo', `there is nothing to ${verb} in rollout "${name}": ${found}`, {
      next: `kubenode rollout show ${name}`,
    });
  for (const each of found) {
    await hub.patch(Rollouts, { name: each }, { merge: { spec: spec() } }, { fieldManager: 'kubenode-cli', dryRun });
    output.report('done', `rollout/${each} ${done}${dryRun ? ' (dry run)' : ''}`);
  }
  return EXIT.ok;
}

async function withHub(flags: ConnectionFlags, work: (hub: Client) => Promise<number>): Promise<number> {
  const { client, close } = await connect(flags);
  try {
    return await work(client);
  } catch (error) {
    // What is absent is one object, or the kind.
    if (!hasReason(error, 'NotFound') || error.details?.name !== undefined) throw error;
    throw cliError('NotAHub', 'this API server has no Rollouts: it is not a hub', {
      cause: error,
      next: 'name the hub: --context hub',
    });
  } finally {
    await close();
  }
}

async function find(hub: Client, name: string): Promise<Stored<Rollout>> {
  const found = await hub.find(Rollouts, { name });
  if (found !== undefined) return found;
  const newest = (await hub.listAll(Rollouts)).items.toSorted((a, b) => b.spec.sequence - a.spec.sequence);
  const names = newest.map((rollout) => rollout.metadata.name);
  throw cliError(
    'NotFound',
    `there is no rollout "${name}"${names.length === 0 ? '; there are none' : `; the newest are ${names.slice(0, 5).join(', ')}`}`,
    { next: 'kubenode rollout show' },
  );
}

export async function show(hub: Client, name: string | undefined, flags: Flags, output: Output): Promise<number> {
  if (name === undefined) {
    if (flags.wait !== undefined) throw cliError('Usage', '--wait waits for one rollout: name it', { next: 'kubenode rollout show' });
    const rollouts = (await hub.listAll(Rollouts)).items.sort((a, b) => b.spec.sequence - a.spec.sequence);
    if (flags.output !== undefined) return await dump(rollouts, flags.output, output);
    const now = Date.now();
    output.print(
      table(
        ['NAME', 'PHASE', 'UNITS', 'COMMIT', 'SUBJECT', 'AGE'],
        rollouts.map((rollout) => [
          rollout.metadata.name,
          rollout.status?.phase ?? 'Pending',
          String(rollout.spec.units.length),
          rollout.spec.commit.slice(0, 10),
          rollout.spec.subject ?? '',
          age(now - Date.parse(rollout.metadata.creationTimestamp)),
        ]),
      ),
    );
    return EXIT.ok;
  }
  const deadline = flags.wait === undefined ? 0 : performance.now() + seconds(flags.wait) * 1000;
  for (;;) {
    const rollout = await find(hub, name);
    const phase = rollout.status?.phase ?? 'Pending';
    const ended = phase === 'Halted' || isOver(phase);
    if (ended || performance.now() >= deadline) {
      if (flags.output === undefined) output.print(describe(rollout));
      else await dump([rollout], flags.output, output);
      if (flags.wait === undefined) return EXIT.ok;
      return phase === 'Halted' ? EXIT.failed : ended ? EXIT.ok : EXIT.pending;
    }
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

function seconds(text: string): number {
  const value = Number(text);
  if (!(value >= 0)) throw cliError('Usage', `--wait must be a number of seconds, got "${text}"`);
  return value;
}

export function describe(rollout: Rollout): string {
  const { spec, status } = rollout;
  const lines = [
    `${rollout.metadata.name}  ${status?.phase ?? 'Pending'}${spec.paused === true ? ' (paused)' : ''}`,
    `commit  ${spec.commit.slice(0, 10)} ${spec.subject ?? ''}${spec.author === undefined ? '' : ` (${spec.author})`}`,
    `stages  ${spec.stages.map((stage) => `${stage.name}: ${stage.clusters.join(', ') || 'none'}`).join(' → ')}`,
    '',
  ];
  const rows = spec.units.map((wanted) => {
    const { unit } = wanted;
    const at = status?.units?.find((each) => each.unit === unit);
    const clusters = (at?.clusters ?? []).map((cluster) => `${cluster.name}=${cluster.phase}`).join(' ');
    const phase = `${at?.phase ?? 'Pending'}${at?.revoked === true ? ', revoked' : ''}`;
    return [
      unit,
      phase,
      at?.lane ?? '',
      at?.stage ?? '',
      clusters,
      [at?.message, whatStays(wanted)].filter((part) => part !== undefined).join('; '),
    ];
  });
  const next = status?.phase === 'Halted' ? `\n\n${goOn(rollout)}` : '';
  return `${lines.join('\n')}\n${table(['UNIT', 'PHASE', 'LANE', 'STAGE', 'CLUSTERS', 'MESSAGE'], rows)}${next}`;
}

async function dump(rollouts: Rollout[], format: 'json' | 'yaml', output: Output): Promise<number> {
  if (format === 'json')
    output.print(JSON.stringify(rollouts.length === 1 ? rollouts[0] : { apiVersion: 'v1', kind: 'List', items: rollouts }, null, 2));
  else
    output.print(
      (await import('yaml')).stringify(rollouts.length === 1 ? rollouts[0] : { apiVersion: 'v1', kind: 'List', items: rollouts }, {
        compat: 'yaml-1.1',
      }),
    );
  return EXIT.ok;
}
