import { Clusters, type Cluster } from '../../api/cluster.ts';
import { Fleets, type Fleet } from '../../api/fleet.ts';
import { Machines, type Machine } from '../../api/machine.ts';
import type { Clock, Log } from '../../api/ports.ts';
import { isFinished, RemedyOperationJobs, type RemedyOperationJob } from '../../api/remedy-operation-job.ts';
import { isOver, Rollouts, type Rollout } from '../../api/rollout.ts';
import { createCache, type Cache } from '../../kube/cache.ts';
import type { Client } from '../../kube/client.ts';
import { sleep } from '../../kube/clock.ts';
import type { Output } from '../output.ts';

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
  firstLook(maxMs: number): Promise<void>;
  fleet(): Fleet | undefined;
  clusters(): Cluster[];
  machines(cell: string): Machine[];
  /** From now on says each step of imports, rollouts and repairs as one line; on a terminal one more line shows where things stand. */
  start(): void;
  stop(): Promise<void>;
}

export function followProgress({ clients, output, clock, log, signal }: ProgressOptions): Progress {
  const stopped = new AbortController();
  const both = AbortSignal.any([signal, stopped.signal]);
  const caches = new Map<string, Cache>(
    [...clients].map(([name, client]) => [name, createCache({ client, clock, random: Math.random, log, signal: both })]),
  );
  const hub = caches.get('hub');
  if (hub === undefined) throw new Error('no hub');
  const fleets = hub.store(Fleets);
  const clusters = hub.store(Clusters);
  const rollouts = hub.store(Rollouts);
  const machines = new Map([...caches].filter(([name]) => name !== 'hub').map(([name, cache]) => [name, cache.store(Machines)]));
  const jobs = new Map([...caches].filter(([name]) => name !== 'hub').map(([name, cache]) => [name, cache.store(RemedyOperationJobs)]));
  const said = new Map<string, string>();
  let drawn = false;

  function clear(): void {
    if (drawn) process.stderr.write('\r\u001B[2K');
    drawn = false;
  }

  function draw(): void {
    if (!output.live) return;
    const open = rollouts.list().filter((rollout) => ['Progressing', 'Soaking', 'Pending'].includes(rollout.status?.phase ?? 'Pending'));
    const parts = [...machines].map(
      ([cell, store]) => `${cell} ${store.list().filter((machine) => machine.status?.phase === 'Running').length}/${store.size}`,
    );
    clear();
    const text = `${parts.join('  ')}   ${open.length === 0 ? 'no rollout under way' : `rolling out: ${open.map((rollout) => rollout.metadata.name).join(', ')}`}`;
    process.stderr.write(text.slice(0, Math.max(20, (process.stderr.columns || 80) - 1)));
    drawn = true;
  }

  let isSilent = false;
  function silently(tell: () => void): void {
    isSilent = true;
    tell();
    isSilent = false;
  }

  function once(key: string, value: string, say: () => void): void {
    if (said.get(key) === value) return;
    said.set(key, value);
    if (isSilent) return;
    clear();
    say();
  }

  function ofRollout(rollout: Rollout): void {
    const units = rollout.status?.units ?? [];
    const gathered = gatheredOf(units);
    for (const unit of units) {
      const name = `${rollout.metadata.name} ${unit.unit}`;
      const isGathered = gathered.includes(unit);
      for (const cluster of unit.clusters ?? []) {
        const text = `${name} on ${cluster.name}`;
        once(`${name} ${cluster.name}`, cluster.phase, () => {
          if (cluster.phase === 'Blocked') output.say('waiting', `${text}: ${cluster.message ?? 'blocked'}`);
          if (isGathered) return;
          if (cluster.phase === 'Waiting') output.say('doing', `${text}: ${cluster.lane === 'Restore' ? 'going back' : 'applied'}`);
          if (cluster.phase === 'Verified' && cluster.verifiedAt !== undefined)
            output.say('done', `${text}: ${cluster.lane === 'Restore' ? 'restored' : 'verified'}`);
        });
      }
      once(name, unit.phase, () => {
        if (unit.phase === 'Halted') output.say('failed', `${name} halted: ${unit.message ?? ''}`);
        if (unit.phase === 'Superseded') output.say('warning', `${name}: a newer commit took over`);
        if (unit.phase === 'Done' && !isGathered) output.say('done', `${name}: done on every cluster`);
      });
    }
    for (const cluster of rollout.spec.stages.flatMap(({ clusters }) => clusters)) {
      const places = gathered.flatMap((unit) => (unit.clusters ?? []).filter(({ name }) => name === cluster));
      if (places.length === 0 || places.some(({ phase }) => phase !== 'Verified')) continue;
      once(`${rollout.metadata.name} ${cluster}`, 'Verified', () => {
        if (places.some(({ verifiedAt }) => verifiedAt !== undefined))
          output.say('done', `${rollout.metadata.name} ${summary(gathered)} on ${cluster}: verified`);
      });
    }
    if (units.length > FEW && rollout.status?.phase === 'Done')
      once(rollout.metadata.name, 'Done', () =>
        output.say('done', `${rollout.metadata.name}: all ${units.length} units are done on every cluster`),
      );
  }

  function ofFleet(fleet: Fleet): void {
    const ready = fleet.status?.conditions?.find((condition) => condition.type === 'Ready');
    if (ready === undefined) return;
    once(`fleet ${fleet.metadata.name}`, `${ready.reason} ${ready.message}`, () =>
      output.say(
        ready.status === 'False' ? 'failed' : 'doing',
        `fleet ${fleet.metadata.name}: ${ready.status === 'False' ? `${ready.reason}: ` : ''}${ready.message}`,
      ),
    );
  }

  function ofMachine(cell: string, machine: Machine): void {
    const { phase } = machine.status ?? {};
    // The first moments of a machine: the line at the bottom counts it.
    if (phase === undefined || phase === 'Pending' || phase === 'Provisioning') return;
    once(`${cell}/${machine.metadata.name}`, phase, () =>
      output.say(
        phase === 'Running' ? 'done' : phase === 'Degraded' || phase === 'NodeLost' ? 'failed' : 'doing',
        `${cell}: machine ${machine.metadata.name} is ${phase}`,
      ),
    );
  }

  function ofJob(cell: string, job: RemedyOperationJob): void {
    const { rule, action, node } = job.spec;
    const { phase, verdict, answer, explanation } = job.status ?? {};
    const text = `${cell}: rule ${rule} on node ${node}`;
    const because = explanation === undefined ? '' : `: ${explanation}`;
    const say = (): void => {
      switch (phase) {
        case undefined:
          return;
        case 'Pending':
          if (verdict?.allowed === false) output.say('waiting', `${text}: ${action} waits for Defender: ${answer ?? 'refused'}`);
          return;
        case 'Granted':
        case 'Running':
          return output.say('doing', `${text}: ${action} is ${phase}`);
        case 'Verifying':
          return output.say('doing', `${text}: ${action} is over; waiting for the proof that the node is healthy`);
        case 'Succeeded':
          return output.say('done', `${text}: ${action} succeeded${because}`);
        case 'Failed':
        case 'NeedsHuman':
          return output.say('failed', `${text}: ${action} is ${phase}${because}`);
        case 'Cancelled':
          return output.say('warning', `${text}: ${action} was cancelled${because}`);
        case 'Shadow':
          return output.say('warning', `${text}: it would begin with ${action} now, and does nothing: its mode is Shadow`);
        default:
          return phase satisfies never;
      }
    };
    once(`${cell}/${job.metadata.name}`, `${phase} ${phase === 'Pending' ? (verdict?.limit ?? '') : ''}`, say);
  }

  return {
    async firstLook(maxMs) {
      const until = clock.monotonic() + maxMs;
      const known = (): boolean => {
        const [fleet] = fleets.list();
        return (
          fleet?.status?.conditions?.some((condition) => condition.type === 'Ready') === true &&
          (clusters.size > 0 || fleet.status.conditions.some((condition) => condition.status === 'False'))
        );
      };
      while (!known() && clock.monotonic() < until && !both.aborted) await sleep(clock, 100, both).catch(() => undefined);
    },
    fleet: () => fleets.list()[0],
    clusters: () => clusters.list(),
    machines: (cell) => machines.get(cell)?.list() ?? [],
    start() {
      const redraw = (): void => {
        if (both.aborted) return clear();
        draw();
        clock.setTimer(1000, redraw);
      };
      fleets.list().forEach(ofFleet);
      for (const rollout of rollouts.list().toSorted((a, b) => a.spec.sequence - b.spec.sequence)) {
        // What was over before this start was told by another.
        if (isOver(rollout.status?.phase)) silently(() => ofRollout(rollout));
        else ofRollout(rollout);
      }
      for (const [cell, store] of machines)
        for (const machine of store.list()) {
          if (machine.status?.phase === 'Running') silently(() => ofMachine(cell, machine));
          else ofMachine(cell, machine);
        }
      for (const [cell, store] of jobs) {
        for (const job of store.list()) if (isFinished(job)) silently(() => ofJob(cell, job));
        for (const job of store.list()) ofJob(cell, job);
        store.subscribe((event) => 'object' in event && event.type !== 'deleted' && ofJob(cell, event.object));
      }
      fleets.subscribe((event) => 'object' in event && event.type !== 'deleted' && ofFleet(event.object));
      rollouts.subscribe((event) => 'object' in event && event.type !== 'deleted' && ofRollout(event.object));
      for (const [cell, store] of machines) {
        store.subscribe((event) => {
          if (!('object' in event)) return;
          if (event.type === 'deleted')
            once(`${cell}/${event.object.metadata.name}`, 'gone', () =>
              output.say('done', `${cell}: machine ${event.object.metadata.name} is gone`),
            );
          else ofMachine(cell, event.object);
        });
      }
      if (output.live) redraw();
    },
    async stop() {
      clear();
      stopped.abort(new Error('stopping'));
      await Promise.all([...caches.values()].map((cache) => cache.done()));
    },
  };
}

type Unit = NonNullable<NonNullable<Rollout['status']>['units']>[number];

/** Kinds whose rollouts change machines, and are watched step by step. */
const WATCHED = ['MachineComponentSet/', 'MachineSet/'];
const FEW = 3;

/** Units that are told of together, a line a cluster: what is only applied and accepted, where a commit has more of it than anybody reads line by line. */
function gatheredOf(units: readonly Unit[]): Unit[] {
  const light = units.filter(({ unit }) => !WATCHED.some((kind) => unit.startsWith(kind)));
  return light.length > FEW ? light : [];
}

/** `DefenderPolicy/default, Namespace/web, 8 NodeRemediers`. */
function summary(units: readonly Unit[]): string {
  const byKind = Map.groupBy(units, ({ unit }) => unit.slice(0, unit.indexOf('/')));
  return [...byKind].map(([kind, of]) => (of.length === 1 ? of[0]?.unit : `${of.length} ${plural(kind)}`)).join(', ');
}

const plural = (kind: string): string => (kind.endsWith('y') ? `${kind.slice(0, -1)}ies` : `${kind}s`);
