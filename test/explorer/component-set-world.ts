/** The world of MachineComponentSets: their objects as the server stores them, two processes that may lead, nodes with their agents, and people. */
import { canonical } from '../../src/api/digest.ts';
import type { LedgerReservation } from '../../src/api/disruption-ledger.ts';
import type { ComponentEntry, Machine } from '../../src/api/machine.ts';
import type { MachineComponentSet, MachineComponentSetSpec } from '../../src/api/machine-component-set.ts';
import type { JsonPatchOperation } from '../../src/kube/client.ts';
import type { Stored } from '../../src/api/wire.ts';
import type { Lane } from '../../src/controllers/machine-component-set/lane.ts';
import type { BatchPlan } from '../../src/controllers/machine-component-set/plan.ts';
import type { SetView } from '../../src/controllers/machine-component-set/observe.ts';
import type { Move } from './search.ts';

export const POOL = 'web';
export const NOW = Date.UTC(2026, 10, 20, 12);
export const AT = new Date(NOW).toISOString();

/** Equal contents are one object; objects carry no resourceVersion. */
export interface HeldMachine {
  /** The generation, which counts what an entry is conditioned on: the spec, deletion and settlements. */
  version: number;
  /** undefined: it is gone. */
  object: Stored<Machine> | undefined;
}

/** A machine that is announced in `status.writing`, with the generation that its entry is conditioned on. */
export type Announced = readonly [index: number, version: number];

export interface SetSlot {
  version: number;
  /** Without `status.writing`. */
  object: Stored<MachineComponentSet>;
  writing: readonly Announced[];
}

export interface Store {
  sets: readonly SetSlot[];
  machines: readonly HeldMachine[];
}

/** A request of a leader to the server, on condition of the version. `patch` carries no versions. */
export type Call =
  | { do: 'entry'; set: number; index: number; version: number; patch: JsonPatchOperation[]; entry: ComponentEntry; lane: Lane }
  | { do: 'settle'; set: number; index: number; version: number; patch: JsonPatchOperation[] }
  | { do: 'answer'; index: number; version: number; patch: JsonPatchOperation[]; status: boolean }
  | { do: 'status'; set: number; version: number; patch: object; writing: readonly Announced[] | undefined };

/** A pass over one set that has written its status. */
export interface Flight {
  set: number;
  /** What it goes on from. */
  seen: SetSlot;
  /** `again`: it decides once more before its stores show what it wrote. */
  stage: 'list' | 'check' | 'write' | 'again';
  calls: readonly Call[];
}

export interface Leader {
  /** 0: it does not think that it leads. */
  epoch: number;
  flight: Flight | undefined;
  /** Stores that have stopped following the server, with what the process knows better. */
  frozen: Store | undefined;
  /** It has written what its frozen stores do not show: the keys of the sets wait in the queue until they catch up. */
  awaitsStores: boolean;
  /** Sets that bear its epoch, and whose machines it has read since. */
  begun: readonly number[];
}

/** `agentDown`: only the agent's Lease is not renewed. `dead`: nor is the kubelet's. */
export type Site = 'alive' | 'agentDown' | 'dead';

export type Event =
  | 'takeover'
  | 'crash'
  | 'stale'
  | 'lostReply'
  | 'fail'
  | 'hold'
  | 'agentDown'
  | 'death'
  | 'delete'
  | 'join'
  | 'enter'
  | 'leave'
  | 'freeze'
  | 'window';
export type Budget = Record<Event, number>;
export const NOTHING: Budget = {
  takeover: 0,
  crash: 0,
  stale: 0,
  lostReply: 0,
  fail: 0,
  hold: 0,
  agentDown: 0,
  death: 0,
  delete: 0,
  join: 0,
  enter: 0,
  leave: 0,
  freeze: 0,
  window: 0,
};

export interface World extends Store {
  epoch: number;
  leaders: readonly Leader[];
  /** Requests that no process waits for any more, and that may still arrive. */
  late: readonly Call[];
  sites: readonly Site[];
  /** One slot a machine. */
  reservations: readonly (LedgerReservation | undefined)[];
  frozen: boolean;
  closed: boolean;
  /** How many of the commits have arrived. */
  commits: number;
  budget: Budget;
  /** Contents that some machine has had with evidence since the commit that asked for them. */
  proved: readonly string[];
}

export type Step = Move<World>;

/** What a machine is at the beginning. `outside`: in use, and the set does not select it. */
export type Start = 'in use' | 'canary' | 'outside' | 'new';

/** Ways to leave a rule out. */
export interface Mutation {
  see?: (view: SetView) => SetView;
  plan?: (plan: BatchPlan, view: SetView) => BatchPlan;
  unconditioned?: 'machine' | 'set';
  /** `unread`: Machines are not read once the set bears the epoch. */
  epochs?: 'ignored' | 'unread';
  /** What the machine controller reads of sets. */
  limits?: 'ignored';
  freezes?: 'ignored';
}

export interface Scenario {
  name: string;
  machines: readonly Start[];
  /** Of the first component; see `specOf`. */
  spec?: Partial<MachineComponentSetSpec>;
  /** A second component on the same machines, with a set of its own. */
  second?: Partial<MachineComponentSetSpec>;
  /** One after the other, at any moment. `of`: the second set. */
  commits: readonly (Partial<MachineComponentSetSpec> & { of?: 1; withoutCanary?: true })[];
  /** Versions that may fail, as often as the budget has it. */
  risky?: readonly string[];
  /** Versions that fail wherever they are tried. */
  bad?: readonly string[];
  /** A new version has to restart the machine: its agent waits for an operation. */
  restarts?: boolean;
  budget: Partial<Budget>;
  mutation?: Mutation;
  large?: boolean;
}

export const DOWN: Leader = { epoch: 0, flight: undefined, frozen: undefined, awaitsStores: false, begun: [] };

export const replaced = <T>(list: readonly T[], index: number, value: T): T[] => list.map((each, at) => (at === index ? value : each));
export const spent = (world: World, of: Event): World => ({ ...world, budget: { ...world.budget, [of]: world.budget[of] - 1 } });
export const withLeader = (world: World, index: number, change: Partial<Leader>): World => ({
  ...world,
  leaders: world.leaders.map((each, at) => (at === index ? { ...each, ...change } : each)),
});

/** Gives one object for each content. */
function interner<T extends object>(): (value: T) => T {
  const known = new Map<string, T>();
  return (value) => {
    const text = canonical(value);
    const found = known.get(text);
    if (found === undefined) known.set(text, value);
    return found ?? value;
  };
}

export const keptMachine = interner<Stored<Machine>>();
export const keptSet = interner<Stored<MachineComponentSet>>();
export const kept = interner<object>();
export const keptPatch = interner<JsonPatchOperation[]>();
export const keptReservation = interner<LedgerReservation>();
export const keptEntry = interner<ComponentEntry>();

const numbers = new WeakMap<object, number>();
let count = 0;

/** Equal for the same object; there is one object for each content. */
export function numberOf(object: object | undefined): number {
  if (object === undefined) return 0;
  let number = numbers.get(object);
  if (number === undefined) numbers.set(object, (number = ++count));
  return number;
}

/** Computes once for each object and key. */
export function remember<T>(): (object: object, key: string, make: () => T) => T {
  const tables = new WeakMap<object, Map<string, { value: T }>>();
  return (object, key, make) => {
    let table = tables.get(object);
    if (table === undefined) tables.set(object, (table = new Map<string, { value: T }>()));
    let found = table.get(key);
    if (found === undefined) table.set(key, (found = { value: make() }));
    return found.value;
  };
}

const shownMachines = remember<Stored<Machine>>();
const shownSets = remember<Stored<MachineComponentSet>>();

/** As a client reads it. */
export const machineAt = (object: Stored<Machine>, version: number): Stored<Machine> =>
  shownMachines(object, String(version), () => ({
    ...object,
    metadata: { ...object.metadata, resourceVersion: String(version), generation: version },
  }));

export const setAt = ({ object, version, writing }: SetSlot): Stored<MachineComponentSet> =>
  shownSets(object, `${version} ${writing.join(' ')}`, () => ({
    ...object,
    metadata: { ...object.metadata, resourceVersion: String(version) },
    ...(object.status === undefined ? {} : { status: { ...object.status, ...writingOf(writing) } }),
  }));

const writingOf = (writing: readonly Announced[]) =>
  writing.length === 0
    ? {}
    : {
        writing: writing.map(([index, version]) => ({
          machine: keyOfMachine(index),
          resourceVersion: String(version),
          generation: version,
        })),
      };

export const nameOf = (index: number): string => `m${index}`;
export const keyOfMachine = (index: number): string => `${POOL}/m${index}`;
export const indexOf = (key: string): number => Number(key.slice(POOL.length + 2));

/** One text for worlds that differ in nothing that could matter. Of versions only order and equality do. */
export function keyOf(world: World): string {
  const stores: Store[] = [world, ...world.leaders.flatMap(({ frozen }) => frozen ?? [])];
  const calls = [...world.late, ...world.leaders.flatMap(({ flight }) => flight?.calls ?? [])];
  const announced = [
    ...stores.flatMap(({ sets }) => sets.flatMap(({ writing }) => writing)),
    ...calls.flatMap((call) => (call.do === 'status' ? (call.writing ?? []) : [])),
  ];
  const ranks = world.machines.map((_, index) => {
    const versions = new Set(stores.map(({ machines }) => machines[index]?.version ?? 0));
    for (const [at, version] of announced) if (at === index) versions.add(version);
    for (const call of calls) if (call.do !== 'status' && call.index === index) versions.add(call.version);
    return [...versions].toSorted((a, b) => a - b);
  });
  const setRanks = world.sets.map((_, set) => {
    const versions = new Set(stores.map(({ sets }) => sets[set]?.version ?? 0));
    for (const { flight } of world.leaders) if (flight?.set === set) versions.add(flight.seen.version);
    for (const call of calls) if (call.do === 'status' && call.set === set) versions.add(call.version);
    return [...versions].toSorted((a, b) => a - b);
  });
  const rank = (index: number, version: number): number => ranks[index]?.indexOf(version) ?? -1;
  const setRank = (set: number, version: number): number => setRanks[set]?.indexOf(version) ?? -1;
  const writing = (list: readonly Announced[]): string => list.map(([index, version]) => `${index}:${rank(index, version)}`).join('+');
  const call = (each: Call): string =>
    each.do === 'status'
      ? `s${each.set}:${setRank(each.set, each.version)}:${numberOf(each.patch)}:${each.writing === undefined ? '' : `w${writing(each.writing)}`}`
      : `${each.do}${each.index}:${rank(each.index, each.version)}:${numberOf(each.patch)}`;
  const store = ({ sets, machines }: Store): string =>
    [
      ...sets.map((each, set) => `${setRank(set, each.version)}.${numberOf(each.object)}.${writing(each.writing)}`),
      ...machines.map((each, index) => `${rank(index, each.version)}.${numberOf(each.object)}`),
    ].join('|');
  const parts: (string | number)[] = [world.epoch, store(world), world.late.map(call).toSorted().join(';')];
  for (const { epoch, flight, frozen, awaitsStores, begun } of world.leaders) {
    parts.push(epoch, frozen === undefined ? '' : store(frozen), awaitsStores ? 1 : 0, begun.join('.'));
    if (flight !== undefined)
      parts.push(`${flight.set}${flight.stage}${setRank(flight.set, flight.seen.version)}`, flight.calls.map(call).join(';'));
  }
  parts.push(world.sites.join('.'), world.reservations.map(numberOf).join('.'), world.frozen ? 1 : 0, world.closed ? 1 : 0, world.commits);
  parts.push(Object.values(world.budget).join('.'), world.proved.join('.'));
  return parts.join(',');
}
