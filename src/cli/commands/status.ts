import type { Command } from 'commander';
import { Clusters, type Attention, type Cluster, type Orphan } from '../../api/cluster.ts';
import { Fleets, type Fleet } from '../../api/fleet.ts';
import { isOver, Rollouts, type Rollout } from '../../api/rollout.ts';
import { LABELS } from '../../api/names.ts';
import { connect, connectionFlags, type ConnectionFlags } from '../connection.ts';
import { EXIT } from '../exit.ts';
import { age, table, type Output } from '../output.ts';
import { outputFlag } from '../output-flag.ts';
import type { RunCommand } from '../program.ts';

export function statusCommand(program: Command, run: RunCommand): void {
  connectionFlags(program.command('status'))
    .description('show fleets, clusters and rollouts under way, as the hub sees them; exit code 1 when something needs a person')
    .addOption(outputFlag(['json'], 'one JSON object'))
    .action((flags: ConnectionFlags & { output?: 'json' }) =>
      run(async (output) => {
        const { client, close } = await connect(flags);
        try {
          const [fleets, clusters, rollouts] = await Promise.all([
            client.listAll(Fleets),
            client.listAll(Clusters),
            client.listAll(Rollouts),
          ]);
          return report(fleets.items, clusters.items, rollouts.items, Date.now(), flags.output === 'json', output);
        } finally {
          await close();
        }
      }),
    );
}

const conditionOf = (
  object: { status?: { conditions?: { type: string; status: string; reason: string; message: string }[] } },
  type: string,
) => object.status?.conditions?.find((condition) => condition.type === type);

type ClusterAttention = Attention & { cluster: string };

/** A machine that is upgraded or repaired is away for a while; that needs no person. */
const PATIENCE_MS = 600_000;

/** A condition's time is when its status changed: one that was False for another reason before keeps that time. */
function lineOf({ cluster, object, type, reason, message, since }: ClusterAttention, nowMs: number): string {
  return `${cluster}: ${object}: ${reason}: ${message} (${type === 'Progressing' ? 'no progress ' : ''}for ${age(nowMs - Date.parse(since))})`;
}

/**
 * Halts that the hub has on record and no rollout under way shows: what a cell halted after its rollout was done. They apply to every cluster until a person
 * retries them (docs/protocols.md#e13).
 */
function recordedHalts(fleets: readonly Fleet[], clusters: readonly Cluster[], rollouts: readonly Rollout[], nowMs: number): string[] {
  const shown = new Set(
    rollouts
      .filter(isUnderWay)
      .flatMap(({ spec, status }) =>
        (status?.units ?? []).filter(({ phase }) => phase === 'Halted').map(({ unit }) => `${spec.fleet} ${unit}`),
      ),
  );
  return clusters.flatMap(({ metadata, status }) =>
    (status?.units ?? []).flatMap(({ unit, fleet, halt }) => {
      if (halt === undefined || shown.has(`${fleet} ${unit}`) || !fleets.some((each) => each.metadata.name === fleet)) return [];
      const owner = rollouts
        .filter(({ spec }) => spec.fleet === fleet && spec.units.some((each) => each.unit === unit))
        .toSorted((a, b) => b.spec.sequence - a.spec.sequence)[0];
      const next = owner === undefined ? 'a commit that changes it' : `kubenode rollout retry ${owner.metadata.name}`;
      return [`${metadata.name}: ${unit} is halted for ${age(nowMs - Date.parse(halt.since))}: ${halt.message}; next: ${next}`];
    }),
  );
}

/** What the hub found in cells and neither a commit nor a record has: no hub changes or removes it (docs/protocols.md#e17). */
function orphanLines({ metadata: { name }, status }: Cluster): string[] {
  const { total, first } = status?.orphans ?? { total: 0, first: [] };
  const lines = first.map((each) => `${name}: ${each.object}: ${ORPHAN_TEXT[each.reason](each.fleet)}`);
  const more = total - first.length;
  return more <= 0
    ? lines
    : [...lines, `${name}: ${more} more objects like these; next: kubectl get ${KINDS} -A -l ${LABELS.fleet}, there`];
}

/** Those that the hub watches in cells. */
const KINDS = 'machinesets,machinecomponentsets,noderemediers,defenderpolicies';
const KEEP = `to keep it without a Fleet, remove its label ${LABELS.fleet}`;

const ORPHAN_TEXT: Record<Orphan['reason'], (fleet: string) => string> = {
  NotDeclared: (fleet) =>
    `no commit of Fleet ${fleet} and no record of the hub has it, so no hub changes or removes it; next: declare it in fleet/, and remove it by a later commit if it is not needed; ${KEEP}`,
  FleetAbsent: (fleet) =>
    `Fleet ${fleet}, which applied it, does not exist, so no hub changes or removes it; next: create that Fleet again, or declare it in another one once it has no label; ${KEEP}`,
};

const isUnderWay = ({ status }: Rollout): boolean => !isOver(status?.phase);

/** Of fleets that never accepted a commit nothing is known. */
function unmanaged(fleets: readonly Fleet[], clusters: readonly Cluster[]): Cluster[] {
  const declared = fleets.map(({ status }) => status?.clusters);
  if (declared.length === 0 || declared.includes(undefined)) return [];
  const all = new Set(declared.flatMap((each) => each ?? []));
  return clusters.filter(({ metadata }) => !all.has(metadata.name) && metadata.deletionTimestamp === undefined);
}

/** What the hub has, as this command shows it. */
interface HubView {
  fleets: readonly Fleet[];
  clusters: readonly Cluster[];
  /** Rollouts under way, oldest first. */
  open: readonly Rollout[];
  /** What will probably pass by itself. */
  young: readonly ClusterAttention[];
  /** What needs a person, a line each. */
  trouble: readonly string[];
}

function viewOf(fleets: Fleet[], clusters: Cluster[], rollouts: Rollout[], nowMs: number): HubView {
  const attention = clusters.flatMap(({ metadata, status }): ClusterAttention[] =>
    (status?.attention ?? []).map((each) => ({ cluster: metadata.name, ...each })),
  );
  const isYoung = ({ type, since }: ClusterAttention): boolean => type === 'Available' && nowMs - Date.parse(since) < PATIENCE_MS;
  const open = rollouts
    .filter(isUnderWay)
    // No hub carries out what is left of a Fleet that was deleted.
    .filter(({ spec }) => fleets.some(({ metadata }) => metadata.name === spec.fleet))
    .sort((a, b) => a.spec.sequence - b.spec.sequence);
  const trouble = [
    ...fleets
      .filter((fleet) => conditionOf(fleet, 'Ready')?.status === 'False')
      .map((fleet) => `fleet/${fleet.metadata.name}: ${conditionOf(fleet, 'Ready')?.reason}: ${conditionOf(fleet, 'Ready')?.message}`),
    ...clusterTrouble(fleets, clusters),
    ...attention.filter((each) => !isYoung(each)).map((each) => lineOf(each, nowMs)),
    ...clusters.flatMap(orphanLines),
    ...open.flatMap((rollout) =>
      (rollout.status?.units ?? [])
        .filter((unit) => unit.phase === 'Halted')
        .map((unit) => `rollout/${rollout.metadata.name}: ${unit.unit}: ${unit.message ?? 'halted'}`),
    ),
    ...open.flatMap((rollout) => refusedLines(rollout, clusters)),
    ...recordedHalts(fleets, clusters, rollouts, nowMs),
  ];
  return { fleets, clusters, open, young: attention.filter(isYoung), trouble };
}

/** Units that a cluster refuses though it answers. One that is away or paused has a line, or a reason, of its own. */
function refusedLines({ metadata, status }: Rollout, clusters: readonly Cluster[]): string[] {
  const answering = new Set(
    clusters
      .filter((cluster) => conditionOf(cluster, 'Reachable')?.status === 'True' && cluster.spec.paused !== true)
      .map((cluster) => cluster.metadata.name),
  );
  return (status?.units ?? []).flatMap((unit) =>
    (unit.clusters ?? [])
      .filter(({ name, phase }) => phase === 'Blocked' && answering.has(name))
      .map(
        ({ name, message }) =>
          `rollout/${metadata.name}: ${unit.unit} cannot be applied in ${name}: ${message ?? 'no reason is reported'}; next: remove the cause, or commit other content`,
      ),
  );
}

/** Clusters that the hub cannot reach, that wait to be deleted, or that no fleet declares. */
function clusterTrouble(fleets: readonly Fleet[], clusters: readonly Cluster[]): string[] {
  return [
    ...clusters
      .filter((cluster) => conditionOf(cluster, 'Reachable')?.status === 'False')
      .map((cluster) => `cluster/${cluster.metadata.name}: ${conditionOf(cluster, 'Reachable')?.message}`),
    ...clusters
      .filter(({ metadata }) => metadata.deletionTimestamp !== undefined)
      .map(({ metadata: { name } }) => `cluster/${name}: its deletion waits; kubectl describe cluster ${name} shows for what`),
    ...unmanaged(fleets, clusters).map(
      ({ metadata: { name } }) =>
        `cluster/${name}: no fleet declares it: what was applied there stays, and no hub manages it; next: declare it in fleet/ again, or kubectl delete cluster ${name}`,
    ),
  ];
}

const asJson = ({ fleets, clusters, open, trouble }: HubView): string =>
  JSON.stringify({
    fleets: fleets.map(({ metadata, status }) => ({ name: metadata.name, ...status })),
    clusters: clusters.map(({ metadata, status }) => ({
      name: metadata.name,
      machines: status?.machines,
      attention: status?.attention ?? [],
      ...(status?.orphans === undefined ? {} : { orphans: status.orphans }),
      conditions: status?.conditions,
    })),
    rollouts: open.map(({ metadata, status }) => ({ name: metadata.name, ...status })),
    trouble,
  });

const fleetTable = (fleets: readonly Fleet[]): string =>
  table(
    ['FLEET', 'READY', 'COMMIT', 'UNITS', 'MESSAGE'],
    fleets.map((fleet) => [
      fleet.metadata.name,
      conditionOf(fleet, 'Ready')?.status ?? 'Unknown',
      fleet.status?.commit?.slice(0, 10) ?? '',
      String(fleet.status?.units ?? 0),
      (conditionOf(fleet, 'Ready')?.message ?? '').split('\n')[0] ?? '',
    ]),
  );

const clusterTable = (clusters: readonly Cluster[]): string =>
  table(
    ['CLUSTER', 'REACHABLE', 'MACHINES', 'READY'],
    clusters.map((cluster) => [
      cluster.metadata.name,
      conditionOf(cluster, 'Reachable')?.status ?? 'Unknown',
      String(cluster.status?.machines?.total ?? 0),
      String(cluster.status?.machines?.ready ?? 0),
    ]),
  );

const rolloutTable = (open: readonly Rollout[]): string =>
  table(
    ['ROLLOUT', 'UNIT', 'PHASE', 'STAGE', 'MESSAGE'],
    open.flatMap((rollout) =>
      (rollout.status?.units ?? [])
        .filter((unit) => !isOver(unit.phase))
        .map((unit) => [rollout.metadata.name, unit.unit, unit.phase, unit.stage ?? '', unit.message ?? '']),
    ),
  );

/** `nowMs`: by the clock of the reader. Returns the exit code. */
export function report(fleets: Fleet[], clusters: Cluster[], rollouts: Rollout[], nowMs: number, json: boolean, output: Output): number {
  const view = viewOf(fleets, clusters, rollouts, nowMs);
  if (json) {
    output.print(asJson(view));
  } else {
    output.print(fleetTable(fleets));
    output.print('');
    output.print(clusterTable(clusters));
    output.print('');
    output.print(view.open.length === 0 ? 'No rollout is under way.' : rolloutTable(view.open));
    for (const each of view.young) output.report('waiting', lineOf(each, nowMs));
    for (const line of view.trouble) output.report('failed', line);
  }
  return view.trouble.length === 0 ? EXIT.ok : EXIT.failed;
}
