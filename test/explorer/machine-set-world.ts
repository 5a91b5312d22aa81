/** The world of one MachineSet: two processes that may lead, a machine controller, with its outcomes alone, and people. */
import { API_VERSION } from '../../src/api/kind.ts';
import type { Machine } from '../../src/api/machine.ts';
import type { MachineSet } from '../../src/api/machine-set.ts';
import { ANNOTATIONS, FINALIZERS } from '../../src/api/names.ts';
import type { Stored } from '../../src/api/wire.ts';
import type { MachineSetView } from '../../src/controllers/machine-set/decide.ts';
import type { Move } from './search.ts';

export const UNMARKED = -1;
/** `retire`: the epoch of its mark. `markedFor`: the number that it is, or was, marked for. `undrained`: its pods never go. */
export interface Kept {
  version: number;
  isThere: boolean;
  retire: number;
  deleting: boolean;
  ready: boolean;
  markedFor?: number | undefined;
  held?: boolean;
  undrained?: boolean;
}

export interface KeptSet {
  version: number;
  generation: number;
  replicas: number | undefined;
  keptReplicas: number | undefined;
  /** Names that are noted for machines, as indexes. */
  making: readonly number[];
}

export interface Store {
  set: KeptSet;
  machines: readonly Kept[];
}

/** What excuses a deletion: the fewest machines asked for since it was decided, and how many people have deleted since. */
export interface Excuse {
  least: number;
  byHand: number;
}

/** `over`: since it was sent a mark of its machine was taken back or made void. `most`: the most machines asked for since it was decided. */
export type Call = (
  | { do: 'note'; version: number; making: readonly number[] }
  | { do: 'create'; index: number; most: number }
  | { do: 'mark'; index: number; version: number; epoch: number; wanted: number; over?: true }
) &
  Excuse;

export interface Flight extends Excuse {
  store: Store;
  stage: 'names' | 'note' | 'check' | 'create' | 'list' | 'set' | 'write';
  creates: number;
  /** Of machines to be made. */
  names: readonly number[];
  /** The most machines asked for since it began. */
  most: number;
  listed?: readonly Kept[];
  calls: readonly Call[];
}

export interface Leader {
  /** 0: it does not think that it leads. */
  epoch: number;
  flight: Flight | undefined;
  /** Stores that have stopped following the server. */
  frozen: Store | undefined;
  /** It has written what its frozen stores do not show: the key waits in the queue until they catch up. */
  awaitsStores: boolean;
  /** By machine, the version that a mark was conditioned on whose answer was lost. */
  unsettled: readonly (readonly [index: number, version: number])[];
}

export interface World extends Store {
  epoch: number;
  leaders: readonly Leader[];
  /** Calls that no process waits for any more, and that may still arrive. */
  late: readonly Call[];
  /** How far each machine's way out has come, by the ledger and its Node. */
  reservations: readonly ('none' | 'granted' | 'drained')[];
  /** Why the mark on it was right when it was decided. */
  excuses: readonly Excuse[];
  /** Deletions that were sent, with the version that they are conditioned on. */
  deletions: readonly { index: number; version: number }[];
  frozen: boolean;
  /** Machines that a call made once more which had come and gone: nothing can stop the one that was on its way. */
  strays: number;
  /** How many of `scales` have happened. */
  scaled: number;
  budget: Budget;
}

export type Budget = Record<'takeover' | 'stale' | 'lostReply' | 'crash' | 'freeze' | 'humanDelete' | 'spare' | 'hold' | 'timeout', number>;
export const NOTHING: Budget = { takeover: 0, stale: 0, lostReply: 0, crash: 0, freeze: 0, humanDelete: 0, spare: 0, hold: 0, timeout: 0 };

/** Ways to leave a rule out. */
export interface Mutation {
  marksUnconditioned?: boolean;
  deletionsUnconditioned?: boolean;
  epochIgnored?: boolean;
  victimsFromStore?: boolean;
  createsUnchecked?: boolean;
  freezeIgnored?: boolean;
  namesNotNoted?: boolean;
  sparesIgnored?: boolean;
  obstaclesIgnored?: boolean;
}

export interface Scenario {
  name: string;
  machines: number;
  replicas?: number;
  /** Numbers that people ask for, one after the other, at any moment; undefined: left out. */
  scales: readonly (number | undefined)[];
  budget: Partial<Budget>;
  /** `spec.maxRetiring`; all at once where it is left out. */
  pace?: number;
  mutation?: Mutation;
  large?: boolean;
}

export type Step = Move<World>;
export const DOWN: Leader = { epoch: 0, flight: undefined, frozen: undefined, awaitsStores: false, unsettled: [] };
/** More than any commit asks for: `replicas` is left out, and none is to go. */
export const NONE_TO_GO = 99;

export const replaced = <T>(list: readonly T[], index: number, value: T): T[] => list.map((each, at) => (at === index ? value : each));

const NOW = Date.UTC(2026, 10, 20);
const AT = new Date(NOW).toISOString();
const UNDRAINED = {
  id: 'reservation',
  epoch: 1,
  kind: 'Cancelled' as const,
  notAfter: AT,
  cause: 'DrainTimeout' as const,
  reason: 'DrainTimeout: pods were left',
  retry: { of: ['Delete'], tries: 1, at: AT },
};
const known = new Map<string, Stored<Machine>>();

/** The object that is kept as so little. */
export function machineOf(kept: Kept, index: number): Stored<Machine> {
  const { version, retire, deleting, ready, markedFor, held, undrained } = kept;
  const key = [index, version, retire, deleting, ready, markedFor, held, undrained].join('/');
  const found = known.get(key);
  if (found !== undefined) return found;
  const name = `m${index}`;
  const conditions = [{ type: 'Ready', status: 'True' as const, reason: 'Ready', message: '', lastTransitionTime: AT }];
  const machine: Stored<Machine> = {
    apiVersion: API_VERSION,
    kind: 'Machine',
    metadata: {
      namespace: 'web',
      name,
      uid: name,
      resourceVersion: String(version),
      creationTimestamp: new Date(NOW + index * 1000).toISOString(),
      finalizers: [FINALIZERS.machine],
      ...(deleting ? { deletionTimestamp: AT } : {}),
      ...(markedFor === undefined ? {} : { annotations: { [ANNOTATIONS.retireFor]: String(markedFor) } }),
    },
    spec: {
      ...(retire === UNMARKED ? {} : { retire: { epoch: retire, reason: 'it is one too many' } }),
      ...(held === true ? { hold: true } : {}),
      ...(undrained === true ? { operation: UNDRAINED } : {}),
    },
    status: {
      providerID: `fake://${name}`,
      phase: 'Running',
      nodeRef: { name, uid: `node-${name}` },
      ...(ready ? { firstReadyAt: AT, conditions } : {}),
    },
  };
  known.set(key, machine);
  return machine;
}

/** As a leader sees it; with a mutation, without what it is to leave out. */
export function viewOf({ set, machines }: Store, { pace, mutation = {} }: Pick<Scenario, 'pace' | 'mutation'>): MachineSetView {
  const seen = (kept: Kept): Kept => ({
    ...kept,
    ...(mutation.obstaclesIgnored === true ? { held: false, undrained: false } : {}),
    ...(mutation.sparesIgnored === true && kept.retire === UNMARKED ? { markedFor: undefined } : {}),
  });
  const object: Stored<MachineSet> = {
    apiVersion: API_VERSION,
    kind: 'MachineSet',
    metadata: {
      namespace: 'web',
      name: 'm',
      uid: 'set',
      resourceVersion: String(set.version),
      creationTimestamp: AT,
      generation: set.generation,
    },
    spec: { provider: { name: 'fake' }, maxRetiring: pace ?? '100%', ...(set.replicas === undefined ? {} : { replicas: set.replicas }) },
    status: set.keptReplicas === undefined ? {} : { keptReplicas: set.keptReplicas },
  };
  return { set: object, machines: machines.flatMap((kept, index) => (kept.isThere ? [machineOf(seen(kept), index)] : [])), now: NOW };
}

export const indexOf = (machine: Machine): number => Number(machine.metadata.name.slice(1));

export const isAliveHere = (kept: Kept | undefined): boolean => kept?.isThere === true && !kept.deleting;

/** One text for worlds that differ in nothing that could matter. Of versions only order and equality do. */
export function keyOf(world: World): string {
  const stores = [world, ...world.leaders.flatMap(({ frozen, flight }) => [frozen, flight?.store].filter((each) => each !== undefined))];
  const calls = [...world.late, ...world.leaders.flatMap(({ flight }) => flight?.calls ?? [])];
  const ranks = world.machines.map((_, index) => {
    const versions = new Set<number>();
    for (const { machines } of stores) versions.add(machines[index]?.version ?? 0);
    for (const { flight, unsettled } of world.leaders) {
      versions.add(flight?.listed?.[index]?.version ?? 0);
      for (const [at, version] of unsettled) if (at === index) versions.add(version);
    }
    for (const call of calls) if (call.do === 'mark' && call.index === index) versions.add(call.version);
    for (const each of world.deletions) if (each.index === index) versions.add(each.version);
    return [...versions].toSorted((a, b) => a - b);
  });
  const noted = calls.flatMap((call) => (call.do === 'note' ? [call.version] : []));
  const setVersions = [...new Set([...stores.map(({ set }) => set.version), ...noted])].toSorted((a, b) => a - b);
  const generations = [...new Set(stores.map(({ set }) => set.generation))].toSorted((a, b) => a - b);
  const rank = (index: number, version: number): number => ranks[index]?.indexOf(version) ?? -1;
  const kept = (list: readonly Kept[] | undefined): string =>
    (list ?? [])
      .map((each, index) =>
        each.isThere
          ? `${rank(index, each.version)}.${each.retire}${each.deleting ? 'd' : ''}${each.ready ? 'r' : ''}${each.held === true ? 'h' : ''}${each.undrained === true ? 'u' : ''}${each.markedFor ?? ''}`
          : '-',
      )
      .join('.');
  const set = (each: KeptSet): string =>
    [setVersions.indexOf(each.version), generations.indexOf(each.generation), each.replicas, each.keptReplicas, each.making.join('+')].join(
      '.',
    );
  const store = (each: Store | undefined): string => (each === undefined ? '' : `${set(each.set)}|${kept(each.machines)}`);
  const call = (each: Call): string => {
    switch (each.do) {
      case 'note':
        return `n${setVersions.indexOf(each.version)}:${each.making.join('+')}`;
      case 'create':
        return `c${each.index}:${each.most}`;
      case 'mark':
        return [
          each.index,
          rank(each.index, each.version),
          each.epoch,
          each.wanted,
          each.least,
          each.byHand,
          each.over === true ? 'o' : '',
        ].join(':');
      default:
        return each satisfies never;
    }
  };
  const parts: (string | number)[] = [
    world.epoch,
    store(world),
    world.reservations.join('.'),
    world.frozen ? 1 : 0,
    world.strays,
    world.scaled,
  ];
  parts.push(world.excuses.map(({ least, byHand }) => `${least}.${byHand}`).join(':'));
  parts.push(
    world.late.map(call).toSorted().join(';'),
    world.deletions.map((each) => `${each.index}:${rank(each.index, each.version)}`).join(';'),
  );
  for (const { epoch, flight, frozen, awaitsStores, unsettled } of world.leaders) {
    parts.push(
      epoch,
      store(frozen),
      awaitsStores ? 1 : 0,
      unsettled.map(([index, version]) => `${index}:${rank(index, version)}`).join(';'),
    );
    if (flight === undefined) continue;
    parts.push(
      flight.stage,
      store(flight.store),
      flight.creates,
      flight.names.join('+'),
      flight.most,
      flight.least,
      flight.byHand,
      kept(flight.listed),
    );
    parts.push(flight.calls.map(call).join(';'));
  }
  parts.push(Object.values(world.budget).join('.'));
  return parts.join(',');
}
