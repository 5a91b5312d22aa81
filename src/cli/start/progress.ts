import { Clusters, type Cluster } from '../../api/cluster.ts';
import { Fleets, type Fleet } from '../../api/fleet.ts';
import { Machines, type Machine } from '../../api/machine.ts';
import type { Clock, Log } from '../../api/ports.ts';
import { isFinished, RemedyOperationJobs, type RemedyOperationJob } from '../../api/remedy-operation-job.ts';
import { isOver, Rollouts, type Rollout } from '../../api/rollout.ts';
import { createCache, type Cache } from '../../kube/cache.ts';
import type { Client } from '../../kube/client.ts';
import { sleep } from '../../kube/clock.ts';
import type { Reflector } from '../../kube/reflector.ts';
import type { Output } from '../output.ts';
import { reportJob } from './job-progress.ts';
import { ProgressLines } from './progress-lines.ts';
import { reportRollout } from './rollout-progress.ts';

export interface ProgressOptions {
  /** By context name; `hub` is the hub, the others are cells. */
  clients: ReadonlyMap<string, Client>;
  output: Output;
  clock: Clock;
  log: Log;
  signal: AbortSignal;
}

export interface Progress {
  /** Waits until there is something to show, at most this long. */
  firstState(maxMs: number): Promise<void>;
  fleet(): Fleet | undefined;
  clusters(): Cluster[];
  machines(cell: string): Machine[];
  /** From now on prints each step of imports, rollouts and repairs as one line; on a terminal one more line shows where things stand. */
  start(): void;
  stop(): Promise<void>;
}

/** What is known of the hub and its cells. */
interface Stores {
  fleets: Reflector<Fleet>;
  clusters: Reflector<Cluster>;
  rollouts: Reflector<Rollout>;
  /** By cell. */
  machines: ReadonlyMap<string, Reflector<Machine>>;
  /** By cell. */
  jobs: ReadonlyMap<string, Reflector<RemedyOperationJob>>;
}

function storesOf(caches: ReadonlyMap<string, Cache>): Stores {
  const hub = caches.get('hub');
  if (hub === undefined) throw new Error('no hub');
  const cells = [...caches].filter(([name]) => name !== 'hub');
  return {
    fleets: hub.store(Fleets),
    clusters: hub.store(Clusters),
    rollouts: hub.store(Rollouts),
    machines: new Map(cells.map(([name, cache]) => [name, cache.store(Machines)])),
    jobs: new Map(cells.map(([name, cache]) => [name, cache.store(RemedyOperationJobs)])),
  };
}

export function followProgress({ clients, output, clock, log, signal }: ProgressOptions): Progress {
  const stopped = new AbortController();
  const both = AbortSignal.any([signal, stopped.signal]);
  const caches = new Map<string, Cache>(
    [...clients].map(([name, client]) => [name, createCache({ client, clock, random: Math.random, log, signal: both })]),
  );
  const stores = storesOf(caches);
  const lines = new ProgressLines(output);
  return {
    async firstState(maxMs) {
      const until = clock.monotonic() + maxMs;
      while (!isFleetKnown(stores) && clock.monotonic() < until && !both.aborted) await sleep(clock, 100, both).catch(() => undefined);
    },
    fleet: () => stores.fleets.list()[0],
    clusters: () => stores.clusters.list(),
    machines: (cell) => stores.machines.get(cell)?.list() ?? [],
    start() {
      reportPresent(stores, lines);
      reportChanges(stores, lines);
      const redraw = (): void => {
        if (both.aborted) return lines.clear();
        lines.draw(standOf(stores));
        clock.setTimer(1000, redraw);
      };
      if (output.live) redraw();
    },
    async stop() {
      lines.clear();
      stopped.abort(new Error('stopping'));
      await Promise.all([...caches.values()].map((cache) => cache.done()));
    },
  };
}

function isFleetKnown({ fleets, clusters }: Stores): boolean {
  const [fleet] = fleets.list();
  const conditions = fleet?.status?.conditions ?? [];
  const isJudged = conditions.some((condition) => condition.type === 'Ready');
  return isJudged && (clusters.size > 0 || conditions.some((condition) => condition.status === 'False'));
}

/** One line: machines that run, and rollouts under way. */
function standOf({ machines, rollouts }: Stores): string {
  const open = rollouts.list().filter((rollout) => ['Progressing', 'Soaking', 'Pending'].includes(rollout.status?.phase ?? 'Pending'));
  const parts = [...machines].map(
    ([cell, store]) => `${cell} ${store.list().filter((machine) => machine.status?.phase === 'Running').length}/${store.size}`,
  );
  return `${parts.join('  ')}   ${open.length === 0 ? 'no rollout under way' : `rolling out: ${open.map((rollout) => rollout.metadata.name).join(', ')}`}`;
}

/** What was over before this start was printed by another process. */
function reportPresent({ fleets, rollouts, machines, jobs }: Stores, lines: ProgressLines): void {
  for (const fleet of fleets.list()) reportFleet(lines, fleet);
  for (const rollout of rollouts.list().toSorted((a, b) => a.spec.sequence - b.spec.sequence)) {
    if (isOver(rollout.status?.phase)) lines.muted(() => reportRollout(lines, rollout));
    else reportRollout(lines, rollout);
  }
  for (const [cell, store] of machines)
    for (const machine of store.list()) {
      if (machine.status?.phase === 'Running') lines.muted(() => reportMachine(lines, cell, machine));
      else reportMachine(lines, cell, machine);
    }
  for (const [cell, store] of jobs) {
    for (const job of store.list()) if (isFinished(job)) lines.muted(() => reportJob(lines, cell, job));
    for (const job of store.list()) reportJob(lines, cell, job);
  }
}

function reportChanges({ fleets, rollouts, machines, jobs }: Stores, lines: ProgressLines): void {
  for (const [cell, store] of jobs)
    store.subscribe((event) => 'object' in event && event.type !== 'deleted' && reportJob(lines, cell, event.object));
  fleets.subscribe((event) => 'object' in event && event.type !== 'deleted' && reportFleet(lines, event.object));
  rollouts.subscribe((event) => 'object' in event && event.type !== 'deleted' && reportRollout(lines, event.object));
  for (const [cell, store] of machines) {
    store.subscribe((event) => {
      if (!('object' in event)) return;
      const { name } = event.object.metadata;
      if (event.type === 'deleted') lines.once(`${cell}/${name}`, 'gone', () => lines.print('done', `${cell}: machine ${name} is gone`));
      else reportMachine(lines, cell, event.object);
    });
  }
}

function reportFleet(lines: ProgressLines, fleet: Fleet): void {
  const ready = fleet.status?.conditions?.find((condition) => condition.type === 'Ready');
  if (ready === undefined) return;
  lines.once(`fleet ${fleet.metadata.name}`, `${ready.reason} ${ready.message}`, () =>
    lines.print(
      ready.status === 'False' ? 'failed' : 'doing',
      `fleet ${fleet.metadata.name}: ${ready.status === 'False' ? `${ready.reason}: ` : ''}${ready.message}`,
    ),
  );
}

function reportMachine(lines: ProgressLines, cell: string, machine: Machine): void {
  const { phase } = machine.status ?? {};
  // The first moments of a machine: the line at the bottom counts it.
  if (phase === undefined || phase === 'Pending' || phase === 'Provisioning') return;
  lines.once(`${cell}/${machine.metadata.name}`, phase, () =>
    lines.print(
      phase === 'Running' ? 'done' : phase === 'Degraded' || phase === 'NodeLost' ? 'failed' : 'doing',
      `${cell}: machine ${machine.metadata.name} is ${phase}`,
    ),
  );
}
