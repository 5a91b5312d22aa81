/** What a process that leads component sets may do next: the steps of `reconcileSet` and `reconcileMachine`, one call at a time. */
import { jsonPatch } from '@kubenode/embedded/testing';
import { canonical } from '../../src/api/digest.ts';
import { API_VERSION } from '../../src/api/kind.ts';
import type { Machine } from '../../src/api/machine.ts';
import type { MachineComponent } from '../../src/api/machine-component.ts';
import { agentLeaseName } from '../../src/api/names.ts';
import type { ObjectKey } from '../../src/api/resource.ts';
import type { Json, Stored } from '../../src/api/wire.ts';
import { statusPatch as setStatusPatch } from '../../src/controllers/machine-component-set/act.ts';
import { decideMachine } from '../../src/controllers/machine-component-set/machine/decide.ts';
import { stateOf, statusPatch } from '../../src/controllers/machine-component-set/machine/reconcile.ts';
import { observeSet, type SetView, type Stores } from '../../src/controllers/machine-component-set/observe.ts';
import { isSame, planOf, stampedWith, type BatchPlan } from '../../src/controllers/machine-component-set/plan.ts';
import { isDeleting } from '../../src/controllers/shared/selection.ts';
import { entriesPatch } from '../../src/controllers/machine-component-set/writing.ts';
import { isMet } from '../../src/defender/guarded-patch.ts';
import type { JsonPatchOperation } from '../../src/kube/client.ts';
import { mergePatch } from '../../src/kube/testing/merge-patch.ts';
import { brokenByArrival } from './component-set-rules.ts';
import {
  DOWN,
  indexOf,
  kept,
  keptEntry,
  keptMachine,
  keptPatch,
  keptSet,
  machineAt,
  NOW,
  numberOf,
  POOL,
  remember,
  replaced,
  setAt,
  spent,
  withLeader,
  type Announced,
  type Call,
  type Flight,
  type HeldMachine,
  type SetSlot,
  type Leader,
  type Mutation,
  type Scenario,
  type Site,
  type Step,
  type Store,
  type World,
} from './component-set-world.ts';

const LIVE = { known: false };
const UNSEEN: HeldMachine = { version: 0, object: undefined };
const DAY = 86_400_000;

export function leaderMoves(world: World, index: number, scenario: Scenario): Step[] {
  const leader = world.leaders[index];
  if (leader === undefined) return [];
  const who = `leader ${index}`;
  if (leader.epoch === 0) {
    const isLed = world.leaders.some(({ epoch }) => epoch === world.epoch);
    if (isLed && world.budget.takeover === 0) return [];
    const epoch = world.epoch + 1;
    const led = withLeader({ ...(isLed ? spent(world, 'takeover') : world), epoch }, index, { ...DOWN, epoch });
    return [{ label: `${who} takes over`, world: led, fault: isLed }];
  }
  return [
    ...mishaps(world, index, leader),
    ...(leader.flight === undefined || leader.flight.stage === 'again'
      ? world.sets.flatMap((_, set) => reconcile(world, index, leader, set, scenario))
      : goOn(world, index, leader, leader.flight, scenario)),
    ...answers(world, index, leader, scenario),
  ];
}

function mishaps(world: World, index: number, leader: Leader): Step[] {
  const who = `leader ${index}`;
  const moves: Step[] = [];
  if (leader.epoch < world.epoch)
    moves.push({ label: `${who} learns that it is deposed`, world: withLeader(world, index, DOWN), fault: false });
  if (leader.frozen !== undefined)
    moves.push({
      label: `${who}'s stores catch up`,
      world: withLeader(world, index, { frozen: undefined, awaitsStores: false }),
      fault: false,
    });
  else if (world.budget.stale > 0) {
    const frozen: Store = { sets: world.sets, machines: world.machines };
    moves.push({ label: `${who}'s stores stop following`, world: withLeader(spent(world, 'stale'), index, { frozen }), fault: true });
  }
  if (world.budget.crash > 0) {
    const gone = withLeader(spent(world, 'crash'), index, DOWN);
    moves.push({ label: `${who} dies`, world: gone, fault: true });
    const calls = leader.flight?.stage === 'write' ? leader.flight.calls : [];
    if (calls.length > 0)
      moves.push({ label: `${who} dies with its calls under way`, world: { ...gone, late: [...gone.late, ...calls] }, fault: true });
  }
  return moves;
}

const cacheOf = (world: World, leader: Leader): Store => leader.frozen ?? { sets: world.sets, machines: world.machines };

function livenessOf(sites: readonly Site[]): Stores['liveness'] {
  const at = ({ name }: ObjectKey): Site => sites[Number(name.replace(agentLeaseName(''), '').slice(1))] ?? 'dead';
  const isAlive = (key: ObjectKey): boolean => at(key) === 'alive' || (at(key) === 'agentDown' && key.namespace !== POOL);
  return { isAlive, unseenMs: (key) => (isAlive(key) ? 0 : DAY), unansweredMs: () => 0 };
}

const PLATFORM: MachineComponent['spec']['platforms'][number] = { os: 'any', arch: 'any', artifacts: [] };

const machinesOf = ({ machines }: Store): Stored<Machine>[] =>
  machines.flatMap(({ object, version }) => (object === undefined ? [] : [machineAt(object, version)]));

function viewOf(store: Store, set: SetSlot, sites: readonly Site[]): SetView {
  const stores: Stores = {
    sets: { list: () => store.sets.map(setAt) },
    components: {
      get: ({ name }) => {
        const metadata = { name, uid: name, resourceVersion: '1', creationTimestamp: '' };
        const spec = { componentName: name, version: name, platforms: [PLATFORM] };
        return { apiVersion: API_VERSION, kind: 'MachineComponent', metadata, spec };
      },
    },
    liveness: livenessOf(sites),
  };
  return observeSet(setAt(set), machinesOf(store), stores, NOW);
}

const plans = remember<{ plan: BatchPlan; patch: object | undefined }>();
const storeKey = ({ sets, machines }: Store): string =>
  `${sets.map((each) => `${numberOf(each.object)}.${each.version}.${each.writing.join('+')}`).join()}|${machines.map((each) => `${numberOf(each.object)}.${each.version}`).join()}`;

function planFor(
  store: Store,
  set: number,
  { sites, epoch }: { sites: readonly Site[]; epoch: number },
  mutation: Mutation,
): { plan: BatchPlan; patch: object | undefined } {
  const slot = store.sets[set];
  if (slot === undefined) throw new Error('no such set');
  return plans(mutation, `${set} ${epoch} ${storeKey(store)} ${sites.join()}`, () => {
    const seen = viewOf(store, slot, sites);
    const view = mutation.see?.(seen) ?? seen;
    const plan = mutation.plan?.(planOf(view, epoch), view) ?? planOf(view, epoch);
    return { plan, patch: setStatusPatch(seen.set, plan.status) };
  });
}

/** A patch without its condition on the generation, which the call carries: versions count up for ever. */
const COUNTED = new Set(['/metadata/generation', '/metadata/resourceVersion']);
const jsonBodies = remember<JsonPatchOperation[]>();
const jsonBody = (patch: JsonPatchOperation[]): JsonPatchOperation[] =>
  jsonBodies(patch, '', () => keptPatch(patch.filter(({ op, path }) => op !== 'test' || !COUNTED.has(path))));

const versionOf = (machine: Stored<Machine>): number => Number(machine.metadata.resourceVersion);
const whichOf = ({ metadata }: Stored<Machine>): number => indexOf(`${POOL}/${metadata.name}`);

const bodies = remember<object>();
/** A patch without its condition, which the call carries. */
const body = (patch: object): object => bodies(patch, '', () => bodyOf(patch));

function bodyOf(patch: object): object {
  const { metadata, ...rest }: { metadata?: object } = patch;
  const { resourceVersion: _, ...others }: { resourceVersion?: unknown } = metadata ?? {};
  return kept(Object.keys(others).length === 0 ? rest : { ...rest, metadata: others });
}

const calls = remember<readonly Call[]>();
const callsOf = (plan: BatchPlan, set: number, store: Store): readonly Call[] =>
  calls(plan, String(set), () => planned(plan, set, machinesOf(store)));

function planned(plan: BatchPlan, set: number, machines: readonly Stored<Machine>[]): Call[] {
  // A mutant that sees a status as it is not would be refused for that alone.
  const seen = (machine: Stored<Machine>, patch: JsonPatchOperation[]): JsonPatchOperation[] =>
    machines.includes(machine) ? patch : patch.filter(({ op, path }) => op !== 'test' || !path.startsWith('/status'));
  if (plan.step === 'Count') return [];
  const settles = plan.settle.map((machine): Call => ({
    do: 'settle',
    set,
    index: whichOf(machine),
    version: versionOf(machine),
    patch: keptPatch([]),
  }));
  const entries = plan.writes.map(({ machine, entry, lane }): Call => ({
    do: 'entry',
    set,
    index: whichOf(machine),
    version: versionOf(machine),
    patch: jsonBody(seen(machine, entriesPatch(machine, [entry], LIVE))),
    entry: keptEntry(entry),
    lane,
  }));
  return [...entries, ...settles];
}

const statusCalls = remember<Call>();
const statusCall = (set: number, slot: SetSlot, patch: object): Call =>
  statusCalls(patch, `${set} ${slot.version}`, () => statusCallOf(set, slot, patch));

function statusCallOf(set: number, slot: SetSlot, patch: object): Call {
  const { status = {} } = body(patch) as { status?: { writing?: { machine: string; generation?: number }[] | null } };
  const { writing, ...rest } = status;
  const announced = writing?.map((each): Announced => [indexOf(each.machine), each.generation ?? 0]) ?? [];
  return {
    do: 'status',
    set,
    version: slot.version,
    patch: kept({ status: rest }),
    writing: writing === undefined ? undefined : announced,
  };
}

/** It decides, and writes the status of the set, where there is something to report. */
function reconcile(world: World, index: number, leader: Leader, set: number, { mutation = NO_MUTATION }: Scenario): Step[] {
  const again = leader.flight?.stage === 'again';
  if (again ? leader.flight?.set !== set : leader.awaitsStores) return [];
  const store = cacheOf(world, leader);
  const slot = store.sets[set];
  if (slot === undefined) return [];
  // It throws `Deposed`: what it writes no more, another leader does.
  const isDeposed = (setAt(slot).status?.epoch ?? 0) > leader.epoch && mutation.epochs !== 'ignored';
  if (isDeposed)
    return again
      ? [{ label: `leader ${index} meets a later term`, world: withLeader(world, index, { flight: undefined }), fault: false }]
      : [];
  if (!leader.begun.includes(set) && mutation.epochs !== 'ignored') return stamp(world, index, leader, set, slot, mutation);
  const epoch = mutation.epochs === 'ignored' ? world.epoch : leader.epoch;
  const { plan, patch } = planFor(store, set, { sites: world.sites, epoch }, mutation);
  const todo = callsOf(plan, set, store);
  const who = `leader ${index}`;
  if (patch === undefined) {
    if (todo.length === 0)
      return again ? [{ label: `${who} has nothing to do`, world: withLeader(world, index, { flight: undefined }), fault: false }] : [];
    const flight: Flight = { set, seen: slot, stage: 'check', calls: todo };
    return [{ label: `${who} goes on with set ${set}`, world: withLeader(world, index, { flight }), fault: false }];
  }
  const call = statusCall(set, slot, patch);
  const landed = arrive(world, call, mutation);
  const moves: Step[] = [];
  if (landed === world) {
    const known = knowing(leader, world, { set });
    moves.push({ label: `${who} loses set ${set}`, world: withLeader(world, index, { ...known, flight: undefined }), fault: false });
  } else {
    const seen = landed.sets[set] ?? slot;
    const stage = plan.step === 'Count' ? 'again' : 'check';
    const goesOn = todo.length > 0 || (stage === 'again' && leader.frozen !== undefined);
    const flight: Flight | undefined = goesOn ? { set, seen, stage, calls: todo } : undefined;
    const next = withLeader(landed, index, { ...knowing(leader, landed, { set }, true), flight });
    const rule = brokenByArrival(world, landed, call, { isFresh: leader.frozen === undefined, calls: todo });
    const label = `${who} ${plan.step === 'Count' ? 'counts' : 'reports and plans'} ${todo.map((each) => (each.do === 'status' ? '' : `m${each.index}`)).join(' ')} of set ${set}`;
    moves.push({ label, world: next, fault: false, ...(rule === undefined ? {} : { broken: rule }) });
  }
  if (world.budget.lostReply > 0) {
    const lost = withLeader(spent(world, 'lostReply'), index, { flight: undefined, frozen: undefined, awaitsStores: false });
    moves.push({ label: `${who} waits in vain for an answer on set ${set}`, world: withLate(lost, call), fault: true });
  }
  return moves;
}

/** The set is made to bear the epoch of its term, and then Machines are read. */
function stamp(world: World, index: number, leader: Leader, set: number, slot: SetSlot, mutation: Mutation): Step[] {
  const who = `leader ${index}`;
  const patch = setStatusPatch(setAt(slot), stampedWith(setAt(slot), leader.epoch));
  const flight: Flight = { set, seen: slot, stage: 'list', calls: [] };
  if (patch === undefined) return [{ label: `${who} takes up set ${set}`, world: withLeader(world, index, { flight }), fault: false }];
  const call = statusCall(set, slot, patch);
  const landed = arrive(world, call, mutation);
  const known = knowing(leader, landed, { set }, landed !== world);
  const next = landed === world ? { ...known, flight: undefined } : { ...known, flight };
  const steps: Step[] = [
    { label: `${who} takes up set ${set}${landed === world ? ' and loses' : ''}`, world: withLeader(landed, index, next), fault: false },
  ];
  if (world.budget.lostReply > 0) {
    const lost = withLeader(spent(world, 'lostReply'), index, { flight: undefined, frozen: undefined, awaitsStores: false });
    steps.push({ label: `${who} takes up set ${set} and gets no answer`, world: withLate(lost, call), fault: true });
  }
  return steps;
}

export const NO_MUTATION: Mutation = {};
const withLate = (world: World, call: Call): World => ({ ...world, late: [...world.late, call] });

/** What the process knows of an object whose answer or live read it has had, though its stores do not show it. */
function knowing(leader: Leader, world: World, of: { set: number } | { index: number }, wrote = false): Partial<Leader> {
  const { frozen } = leader;
  if (frozen === undefined) return {};
  const set = 'set' in of ? world.sets[of.set] : undefined;
  const machine = 'index' in of ? world.machines[of.index] : undefined;
  const awaitsStores = leader.awaitsStores || wrote;
  if ('set' in of && set !== undefined) return { frozen: { ...frozen, sets: replaced(frozen.sets, of.set, set) }, awaitsStores };
  if ('index' in of && machine !== undefined) {
    const machines = world.machines.slice(0, Math.max(frozen.machines.length, of.index + 1)).map((_, at) => frozen.machines[at] ?? UNSEEN);
    return { frozen: { ...frozen, machines: replaced(machines, of.index, machine) }, awaitsStores };
  }
  return { awaitsStores };
}

function goOn(world: World, index: number, leader: Leader, flight: Flight, { mutation = NO_MUTATION }: Scenario): Step[] {
  const who = `leader ${index}`;
  if (flight.stage === 'list') {
    const { frozen } = leader;
    const read = frozen === undefined || mutation.epochs === 'unread' ? {} : { frozen: { ...frozen, machines: world.machines } };
    const next: Partial<Leader> = {
      ...read,
      begun: [...leader.begun, flight.set].toSorted((a, b) => a - b),
      flight: { ...flight, stage: 'again' },
    };
    return [{ label: `${who} lists the machines`, world: withLeader(world, index, next), fault: false }];
  }
  if (flight.stage === 'check') {
    const live = world.sets[flight.set];
    const isCurrent = live !== undefined && isSame(setAt(live), setAt(flight.seen));
    const next: Partial<Leader> = isCurrent
      ? { flight: { ...flight, stage: 'write' } }
      : { ...knowing(leader, world, { set: flight.set }), flight: undefined };
    return [
      {
        label: `${who} reads set ${flight.set}${isCurrent ? '' : ', which has changed'}`,
        world: withLeader(world, index, next),
        fault: false,
      },
    ];
  }
  const [call, ...calls] = flight.calls;
  const rest = calls.length === 0 ? undefined : { ...flight, calls };
  if (call === undefined || call.do === 'status') return [];
  const landed = arrive(world, call, mutation);
  const wrote = landed !== world;
  const rule = wrote ? brokenByArrival(world, landed, call) : undefined;
  const known = knowing(leader, landed, { index: call.index }, wrote);
  const moves: Step[] = [
    {
      label: `${who} ${wording(call)}${wrote ? '' : ' and loses'}`,
      world: withLeader(landed, index, { ...known, flight: rest }),
      fault: false,
      ...(rule === undefined ? {} : { broken: rule }),
    },
  ];
  if (world.budget.lostReply > 0) {
    const lost = withLeader(spent(world, 'lostReply'), index, { flight: rest, frozen: undefined, awaitsStores: false });
    moves.push({ label: `${who} ${wording(call)} and gets no answer`, world: withLate(lost, call), fault: true });
  }
  return moves;
}

export function wording(call: Call): string {
  switch (call.do) {
    case 'entry':
      return `writes m${call.index} ${call.entry.name} ${call.entry.version} (${call.lane})`;
    case 'settle':
      return `settles m${call.index}`;
    case 'answer':
      return `answers m${call.index}`;
    case 'status':
      return `writes the status of set ${call.set}`;
    default:
      return call satisfies never;
  }
}

const decisions = remember<{ patch: JsonPatchOperation[]; status: boolean } | undefined>();

/** The loop of a machine: one write. */
function answers(world: World, index: number, leader: Leader, { mutation = NO_MUTATION }: Scenario): Step[] {
  const store = cacheOf(world, leader);
  return store.machines.flatMap(({ object, version }, at): Step[] => {
    if (object === undefined || isDeleting(object) || object.spec.paused === true) return [];
    const key = `${store.sets.map((each) => numberOf(each.object)).join()} ${world.sites[at] ?? ''}`;
    const found = decisions(object, key, () => {
      // Without the generation, which its condition would bear.
      const machine = { ...object, metadata: { ...object.metadata, resourceVersion: String(version) } };
      const sets = { list: () => store.sets.map(setAt) };
      const decision = decideMachine(stateOf({ sets, liveness: livenessOf(world.sites), clock: { now: () => NOW } }, machine));
      const entries = decision.changes.map(({ entry }) => entry);
      if (entries.length > 0) return { patch: jsonBody(entriesPatch(machine, entries, LIVE)), status: false };
      return decision.status === undefined ? undefined : { patch: jsonBody(statusPatch(machine, decision.status, LIVE)), status: true };
    });
    if (found === undefined) return [];
    const call: Call = { do: 'answer', index: at, version, ...found };
    const landed = arrive(world, call, mutation);
    const wrote = landed !== world;
    const who = `leader ${index}`;
    const moves: Step[] = [
      {
        label: `${who} ${found.status ? 'judges' : 'answers'} m${at}${wrote ? '' : ' and loses'}`,
        world: withLeader(landed, index, { ...knowing(leader, landed, { index: at }), awaitsStores: leader.awaitsStores }),
        fault: false,
      },
    ];
    if (world.budget.lostReply > 0) {
      const lost = withLeader(
        spent(world, 'lostReply'),
        index,
        leader.frozen === undefined ? {} : { frozen: undefined, awaitsStores: false },
      );
      moves.push({ label: `${who} answers m${at} and gets no answer`, world: withLate(lost, call), fault: true });
    }
    return moves;
  });
}

const mergedSets = remember<SetSlot['object']>();
const mergedMachines = remember<Stored<Machine> | typeof REFUSED>();
const REFUSED = Symbol('refused');

/** The same world: it is refused. */
export function arrive(world: World, call: Call, { unconditioned }: Mutation): World {
  if (call.do === 'status') {
    const slot = world.sets[call.set];
    if (slot === undefined || (slot.version !== call.version && unconditioned !== 'set')) return world;
    const object = mergedSets(slot.object, String(numberOf(call.patch)), () =>
      keptSet(mergePatch(slot.object, call.patch) as typeof slot.object),
    );
    return {
      ...world,
      sets: replaced(world.sets, call.set, { version: slot.version + 1, object, writing: call.writing ?? slot.writing }),
    };
  }
  const slot = world.machines[call.index];
  if (slot?.object === undefined || (slot.version !== call.version && unconditioned !== 'machine')) return world;
  const { object, version } = slot;
  const merged = mergedMachines(object, `${numberOf(call.patch)} ${unconditioned === 'machine'}`, () => {
    if (unconditioned !== 'machine' && !isMet(call.patch, object)) return REFUSED;
    const writes = call.patch.filter(({ op }) => op !== 'test');
    return keptMachine(jsonPatch(structuredClone(object) as object as Json, writes as object as Json) as object as Stored<Machine>);
  });
  if (merged === REFUSED) return world;
  // The agent's status, and what is recorded of it, count no generation.
  const isStatus = call.do === 'answer' && call.status;
  return { ...world, machines: replaced(world.machines, call.index, { version: version + (isStatus ? 0 : 1), object: merged }) };
}

/** Each write of its spec makes a new generation, and its deletion does; what is written of its status or labels does not. */
export function withMachine(world: World, index: number, machine: Stored<Machine>): World {
  const before = world.machines[index];
  const isOther =
    before?.object === undefined ||
    canonical([before.object.spec, before.object.metadata.deletionTimestamp ?? '']) !==
      canonical([machine.spec, machine.metadata.deletionTimestamp ?? '']);
  const version = (before?.version ?? 0) + (isOther ? 1 : 0);
  return { ...world, machines: replaced(world.machines, index, { version, object: keptMachine(machine) }) };
}
