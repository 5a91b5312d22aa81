import type { UnitStatus } from '../../../api/cluster.ts';
import type { Fleet } from '../../../api/fleet.ts';
import { API_VERSION } from '../../../api/kind.ts';
import type { Clock } from '../../../api/ports.ts';
import { isOver, type Rollout } from '../../../api/rollout.ts';
import { carriedBy, plan, removingBy } from '../../plan.ts';
import { wantedOf } from '../../wanted.ts';
import { records, REMOVAL } from '../../records.ts';
import { decide } from '../decide.ts';
import type { ClusterView, LiveUnit, Step } from '../world.ts';

interface Live {
  unitDigest: string | undefined;
  evidence: boolean;
  halted: string | undefined;
  drifted: boolean;
  ceiling: { unitDigest: string; nodes: number } | undefined;
  rolloutID: string | undefined;
}

export interface FleetWorldOptions {
  soakSeconds?: number;
  maxClusters?: number;
  clusters?: { prod: string[] };
  /** What the leader of the next turn takes for its clock; by default that of the hub's API server. */
  clockOf?: (server: Clock) => Clock;
}

/** A hub with clusters `test`, `pre` and prod's, in memory: plans and decisions are the real ones, cells are a few fields. */
export function fleetWorld(options: FleetWorldOptions = {}) {
  const prod = options.clusters?.prod ?? ['prod'];
  const only = options.clusters !== undefined && options.maxClusters !== undefined;
  const names = only ? [...prod] : ['test', 'pre', ...prod];
  const dropped = new Set<string>();
  const labels = new Map(names.map((name) => [name, { stage: prod.includes(name) ? 'prod' : name }]));
  const fleet: Fleet = {
    apiVersion: API_VERSION,
    kind: 'Fleet',
    metadata: { name: 'main' },
    spec: {
      source: { path: '/x' },
      stages: ['test', 'pre', 'prod'].map((name) => ({
        name,
        clusterSelector: { stage: name },
        soakSeconds: options.soakSeconds ?? 0,
        maxClusters: options.maxClusters ?? 1,
      })),
    },
  };
  let now = Date.UTC(2026, 0, 1);
  const server: Clock = { now: () => now, monotonic: () => now - Date.UTC(2026, 0, 1), setTimer: () => () => undefined };
  let leader = server;
  let rollouts: Rollout[] = [];
  const recorded = new Map<string, Map<string, UnitStatus>>(names.map((name) => [name, new Map()]));
  const cells = new Map<string, Map<string, Live>>(names.map((name) => [name, new Map()]));
  const gone = new Map<string, string | undefined>();
  const unsynced = new Set<string>();
  const log: string[] = [];
  const listeners: ((step: Extract<Step, { do: 'Apply' }>) => void)[] = [];
  let mainUnit = '';
  let observeAgain: number | undefined;

  const liveOf = (cluster: string, unit: string): Live | undefined => cells.get(cluster)?.get(unit);
  function change(cluster: string, unit: string, update: (record: UnitStatus | undefined) => UnitStatus | undefined): void {
    const next = update(recorded.get(cluster)?.get(unit));
    if (next === undefined) recorded.get(cluster)?.delete(unit);
    else recorded.get(cluster)?.set(unit, { ...next, unit });
  }
  function view(name: string): ClusterView {
    return {
      name,
      blocked: gone.get(name),
      units: recorded.get(name) ?? new Map(),
      failing: () => undefined,
      live(unit): LiveUnit {
        if (gone.get(name) !== undefined || unsynced.has(name)) return { state: 'Unknown' };
        const live = liveOf(name, unit);
        if (live === undefined) return { state: 'Absent' };
        return { state: 'Present', ...live, progress: undefined };
      },
    };
  }
  function carryOut(step: Step): void {
    const at = new Date(leader.now()).toISOString();
    now += 1;
    switch (step.do) {
      case 'Apply': {
        for (const listener of listeners) listener(step);
        log.push(`${step.cluster} ${step.digest}`);
        change(
          step.cluster,
          step.unit,
          records.begin(
            'main',
            { to: step.digest, lane: step.lane, commit: step.commit, asked: step.asked, revoked: step.revoked, found: step.found },
            step.over,
            [],
            () => true,
          ),
        );
        const before = liveOf(step.cluster, step.unit);
        if (before?.unitDigest === step.digest) before.drifted = false;
        else
          cells.get(step.cluster)?.set(step.unit, {
            unitDigest: step.digest,
            evidence: false,
            halted: undefined,
            drifted: false,
            ceiling: before?.ceiling,
            rolloutID: before?.rolloutID,
          });
        change(step.cluster, step.unit, records.applied(step.digest, step.commit, step.lane, at, []));
        return;
      }
      case 'Remove':
        change(
          step.cluster,
          step.unit,
          records.begin('main', { to: REMOVAL, lane: step.lane }, step.over, [], () => true),
        );
        cells.get(step.cluster)?.delete(step.unit);
        change(step.cluster, step.unit, records.removed({ left: [], empties: false }, at));
        return;
      case 'RecordEvidence':
        change(step.cluster, step.unit, records.verified(step.digest, step.commit, at, step.appliedAt));
        return;
      case 'Settle':
        change(step.cluster, step.unit, records.settled(step.since));
        return;
      case 'SoakAgain':
        change(step.cluster, step.unit, records.soaksAgain(step.digest, at));
        return;
      case 'Revoke':
        change(step.cluster, step.unit, records.revoked(step.digest, step.retry));
        return;
      case 'Uphold':
        change(step.cluster, step.unit, records.upheld(step.digest));
        return;
      case 'Reinstate':
        change(step.cluster, step.unit, records.reinstated(step.digest, step.retry));
        return;
      case 'RecordRetry':
        change(step.cluster, step.unit, records.retried(step.retry, step.over, step.lifts));
        return;
      case 'RecordHalt':
        change(step.cluster, step.unit, records.halted(step.digest, step.halt, at));
        return;
      case 'Lift':
        change(step.cluster, step.unit, records.lifted(step.digest, step.since));
        return;
      case 'Ceiling': {
        const live = liveOf(step.cluster, step.unit);
        if (live !== undefined) live.ceiling = step.ceiling;
        return;
      }
      // A cell of this world has no numbers.
      case 'KeepMachines':
        return;
      case 'TryAgain': {
        const live = liveOf(step.cluster, step.unit);
        if (live !== undefined) Object.assign(live, { rolloutID: step.rolloutID, halted: undefined });
        return;
      }
      default:
        step satisfies never;
    }
  }

  const world = {
    get rollouts(): readonly Rollout[] {
      return rollouts;
    },
    /** `special`: digests that differ in some clusters. */
    commit(units: Record<string, string>, special: Record<string, Record<string, string>> = {}): void {
      mainUnit = Object.keys(units)[0] ?? mainUnit;
      const wanted = wantedOf('main', rollouts, new Map([...recorded].map(([name, map]) => [name, [...map.values()]])));
      const declared = names.filter((name) => !dropped.has(name));
      const rendered = new Map(declared.map((name) => [name, new Map(Object.entries({ ...units, ...special[name] }))]));
      const known = new Map([...recorded].map(([name, map]) => [name, [...map.values()]]));
      const planned = plan({
        fleet,
        rendered,
        wanted,
        labels,
        carried: carriedBy(rollouts),
        removing: removingBy('main', rollouts, known),
      });
      if (planned.units.length === 0) return;
      const sequence = rollouts.length + 1;
      rollouts = [
        ...rollouts,
        {
          apiVersion: API_VERSION,
          kind: 'Rollout',
          metadata: { name: `main-${sequence}` },
          spec: { fleet: 'main', commit: `c${sequence}`, sequence, stages: planned.stages, units: planned.units },
        },
      ];
    },
    /** From the next commit on. */
    declare(name: string, stage: string): void {
      names.push(name);
      labels.set(name, { stage });
      recorded.set(name, new Map());
      cells.set(name, new Map());
    },
    /** Its Cluster is made again: the hub has no records of it. */
    forget: (name: string) => void recorded.set(name, new Map()),
    /** Its cell is made again, with nothing in it. */
    empty: (name: string) => void cells.set(name, new Map()),
    /** The fleet no longer declares it; a commit that changes nothing else is accepted. */
    drop: (name: string) => void dropped.add(name),
    /** One pass of the controller; `crashAfter` steps the process dies and reports nothing. */
    turn(crashAfter?: number): Step[] {
      now += 1000;
      leader = options.clockOf?.(server) ?? server;
      const { steps, statuses, again } = decide({
        now: leader.now(),
        fleet: 'main',
        members: new Set(names.filter((name) => !dropped.has(name))),
        rollouts,
        clusters: new Map(names.map((name) => [name, view(name)])),
      });
      observeAgain = again;
      for (const [index, step] of steps.entries()) {
        if (index === crashAfter) return steps;
        carryOut(step);
      }
      rollouts = rollouts.map((rollout) => ({ ...rollout, status: statuses.get(rollout.metadata.name) ?? {} }));
      return steps;
    },
    turns(count = 5): void {
      for (let turn = 0; turn < count; turn += 1) world.turn();
    },
    /** Turns in which every cell proves what it carries, until nothing is left to do. */
    settle(seconds = 60): void {
      for (let turn = 0; turn < 100; turn += 1) {
        for (const units of cells.values()) for (const live of units.values()) Object.assign(live, { evidence: true, halted: undefined });
        // A halt that its cell lifted waits for a human still.
        if (world.status().phase === 'Halted') world.retry(`settled-${now}`);
        const steps = world.turn();
        now += seconds * 1000;
        if (steps.length === 0 && turn > 1 && rollouts.every((rollout) => isOver(rollout.status?.phase))) return;
      }
      throw new Error('the world did not settle');
    },
    pass: (ms: number) => (now += ms),
    prove(cluster: string): void {
      for (const live of cells.get(cluster)?.values() ?? []) if (live.halted === undefined) live.evidence = true;
    },
    halt(cluster: string, why: string): void {
      for (const live of cells.get(cluster)?.values() ?? []) Object.assign(live, { halted: why, evidence: false });
    },
    away: (cluster: string, why: string | undefined) => void gone.set(cluster, why),
    /** The hub has not seen yet what its cell has. */
    unsynced: (cluster: string, is: boolean) => void (is ? unsynced.add(cluster) : unsynced.delete(cluster)),
    cell(cluster: string): Live {
      const live = liveOf(cluster, mainUnit);
      if (live === undefined) throw new Error(`${cluster} has no ${mainUnit}`);
      return live;
    },
    record: (cluster: string, unit: string) => recorded.get(cluster)?.get(unit),
    status: () => rollouts.at(-1)?.status ?? {},
    phase: (unit: string) => rollouts.at(-1)?.status?.units?.find((each) => each.unit === unit)?.phase,
    applied: () => [...log],
    /** When the last decision is to be made again, ms. */
    again: () => observeAgain,
    pause(paused: boolean, name = rollouts.at(-1)?.metadata.name): void {
      rollouts = rollouts.map((rollout) => (rollout.metadata.name === name ? { ...rollout, spec: { ...rollout.spec, paused } } : rollout));
    },
    retry(value: string): void {
      rollouts = rollouts.map((rollout, index) =>
        index === rollouts.length - 1 ? { ...rollout, spec: { ...rollout.spec, retry: value } } : rollout,
      );
    },
    onApply: (listener: (typeof listeners)[number]) => void listeners.push(listener),
  };
  return world;
}
export type FleetWorld = ReturnType<typeof fleetWorld>;

/** All clusters hold digest `A` of the unit, with evidence. */
export function settledWorld(unit: string, options?: FleetWorldOptions): FleetWorld {
  const world = fleetWorld(options);
  world.commit({ [unit]: 'A' });
  world.settle();
  return world;
}
