/** Component sets in which everything may happen that may, and what is promised of them. */
import { API_VERSION } from '../../src/api/kind.ts';
import type { Machine } from '../../src/api/machine.ts';
import type { MachineComponentSet, MachineComponentSetSpec } from '../../src/api/machine-component-set.ts';
import { contentOf } from '../../src/api/machine/values.ts';
import type { Stored } from '../../src/api/wire.ts';
import { idOf, targetsOf } from '../../src/controllers/machine-component-set/content.ts';
import { isVerified } from '../../src/controllers/machine-component-set/evidence.ts';
import { selects } from '../../src/controllers/shared/selection.ts';
import { arrive, leaderMoves, NO_MUTATION, withMachine, wording } from './component-set-leader.ts';
import { nodeMoves } from './component-set-nodes.ts';
import { brokenByArrival, entryFor, provedIn } from './component-set-rules.ts';
import {
  AT,
  DOWN,
  keptMachine,
  keptSet,
  keyOf,
  nameOf,
  NOTHING,
  POOL,
  replaced,
  spent,
  type Call,
  type Scenario,
  type Site,
  type Start,
  type Step,
  type World,
} from './component-set-world.ts';
import type { Space } from './search.ts';

const CREATED = '2026-11-01T00:00:00Z';
const AGENT = { version: '1', apiLevel: 1, bootID: 'boot', os: 'linux', arch: 'amd64' };
const COMPONENTS = ['kubelet', 'proxy'] as const;

function machine(index: number, start: Start, names: readonly string[]): Stored<Machine> {
  const metadata = {
    namespace: POOL,
    name: nameOf(index),
    uid: nameOf(index),
    resourceVersion: '',
    creationTimestamp: CREATED,
    labels: { role: start === 'outside' ? 'none' : 'web', ...(start === 'canary' ? { canary: 'yes' } : {}) },
  };
  const bare = { apiVersion: API_VERSION, kind: 'Machine', metadata };
  const nodeRef = { name: nameOf(index), uid: `node-${index}` };
  if (start === 'new') return { ...bare, spec: {}, status: { phase: 'Installing', agent: AGENT } };
  const status = { phase: 'Running' as const, agent: AGENT, nodeRef, firstReadyAt: CREATED };
  if (start === 'outside') return { ...bare, spec: {}, status };
  const content = contentOf({ action: 'Install', version: '1' });
  return {
    ...bare,
    spec: {
      components: names.map((name) => ({
        name,
        action: 'Install' as const,
        version: '1',
        setUID: name,
        setRevision: 1,
        joinedRevision: 1,
        revision: 1,
        attempt: 1,
      })),
    },
    status: {
      ...status,
      components: names.map((name) => ({
        name,
        version: '1',
        content,
        revision: 1,
        running: 1,
        state: 'Healthy' as const,
        bootID: 'boot',
      })),
    },
  };
}

function set(name: string, spec: Partial<MachineComponentSetSpec>): Stored<MachineComponentSet> {
  const metadata = { name, uid: name, resourceVersion: '', creationTimestamp: CREATED, generation: 1 };
  return {
    apiVersion: API_VERSION,
    kind: 'MachineComponentSet',
    metadata,
    spec: {
      componentName: name,
      version: '1',
      unitDigest: 'd1',
      selector: { role: 'web' },
      batches: [1, '100%'],
      soakSeconds: 0,
      offlinePolicy: { afterSeconds: 600, maxOfflineFraction: '100%' },
      ...spec,
    },
  };
}

/** With every set at rest. */
function begin(scenario: Scenario): World {
  const specs = [scenario.spec ?? {}, ...(scenario.second === undefined ? [] : [scenario.second])];
  const names = COMPONENTS.slice(0, specs.length);
  const bare: World = {
    sets: specs.map((spec, at) => ({ version: 1, object: keptSet(set(names[at] ?? '', spec)), writing: [] })),
    machines: scenario.machines.map((start, at) => ({ version: 1, object: keptMachine(machine(at, start, names)) })),
    epoch: 1,
    leaders: [{ ...DOWN, epoch: 1 }, DOWN],
    late: [],
    sites: scenario.machines.map(() => 'alive'),
    reservations: scenario.machines.map(() => undefined),
    frozen: false,
    closed: false,
    commits: 0,
    budget: NOTHING,
    proved: [],
  };
  const calm: Scenario = { ...scenario, budget: {}, mutation: NO_MUTATION };
  let world = bare;
  for (let next: Step | undefined; ; world = next.world) {
    next = leaderMoves(world, 0, calm)[0] ?? nodeMoves(world, calm)[0];
    if (next === undefined) return { ...world, budget: { ...NOTHING, ...scenario.budget }, proved: provedIn(world) };
  }
}

function commitMoves(world: World, { commits }: Scenario): Step[] {
  const commit = commits[world.commits];
  if (commit === undefined) return [];
  const { of: at = 0, withoutCanary, ...change } = commit;
  const slot = world.sets[at];
  if (slot === undefined) return [];
  const { object } = slot;
  const generation = (object.metadata.generation ?? 0) + 1;
  const { canary, ...others } = object.spec;
  const spec = { ...others, ...(canary === undefined || withoutCanary === true ? {} : { canary }), ...change };
  const next = keptSet({ ...object, metadata: { ...object.metadata, generation }, spec });
  const sets = replaced(world.sets, at, { ...slot, version: slot.version + 1, object: next });
  const isOther = change.version !== undefined || change.canary !== undefined || withoutCanary === true;
  const proved = isOther ? [] : world.proved;
  return [{ label: `commit ${JSON.stringify(commit)}`, world: { ...world, sets, proved, commits: world.commits + 1 }, fault: true }];
}

function peopleMoves(world: World, scenario: Scenario): Step[] {
  const moves = commitMoves(world, scenario);
  const { budget } = world;
  const names = COMPONENTS.slice(0, world.sets.length);
  if (world.frozen) moves.push({ label: 'the Freeze ends', world: { ...world, frozen: false }, fault: false });
  else if (budget.freeze > 0) moves.push({ label: 'a Freeze begins', world: { ...spent(world, 'freeze'), frozen: true }, fault: true });
  if (world.closed) moves.push({ label: 'the window opens', world: { ...world, closed: false }, fault: false });
  else if (budget.window > 0) moves.push({ label: 'the window closes', world: { ...spent(world, 'window'), closed: true }, fault: true });
  if (budget.join > 0) {
    const index = world.machines.length;
    const object = keptMachine(machine(index, 'new', names));
    const joined: World = {
      ...spent(world, 'join'),
      machines: [...world.machines, { version: 1, object }],
      sites: [...world.sites, 'alive'],
      reservations: [...world.reservations, undefined],
    };
    moves.push({ label: `m${index} joins`, world: joined, fault: true });
  }
  world.machines.forEach(({ object }, index) => {
    if (object === undefined) return;
    const site = world.sites[index];
    const at = (next: Site, from = world): World => ({ ...from, sites: replaced(from.sites, index, next) });
    const what = `m${index}`;
    if (object.spec.hold === true) {
      const { hold: _, ...spec } = object.spec;
      moves.push({ label: `${what} is held no more`, world: withMachine(world, index, { ...object, spec }), fault: false });
    } else if (budget.hold > 0)
      moves.push({
        label: `${what} is held`,
        world: withMachine(spent(world, 'hold'), index, { ...object, spec: { ...object.spec, hold: true } }),
        fault: true,
      });
    if (site !== 'alive') moves.push({ label: `${what} reports again`, world: at('alive'), fault: false });
    else {
      if (budget.agentDown > 0)
        moves.push({ label: `${what}'s agent stops to report`, world: at('agentDown', spent(world, 'agentDown')), fault: true });
      if (budget.death > 0) moves.push({ label: `${what} dies`, world: at('dead', spent(world, 'death')), fault: true });
    }
    if (budget.delete > 0) {
      const gone = spent(world, 'delete');
      const machines = replaced(gone.machines, index, { version: (gone.machines[index]?.version ?? 0) + 1, object: undefined });
      moves.push({
        label: `${what} is deleted`,
        world: { ...gone, machines, reservations: replaced(gone.reservations, index, undefined) },
        fault: true,
      });
    }
    if (object.metadata.labels?.['role'] === 'none' && budget.enter > 0) {
      const metadata = { ...object.metadata, labels: { ...object.metadata.labels, role: 'web' } };
      moves.push({ label: `${what} is selected`, world: withMachine(spent(world, 'enter'), index, { ...object, metadata }), fault: true });
    }
    if (object.metadata.labels?.['role'] === 'web' && budget.leave > 0) {
      const metadata = { ...object.metadata, labels: { ...object.metadata.labels, role: 'none' } };
      moves.push({
        label: `${what} is selected no more`,
        world: withMachine(spent(world, 'leave'), index, { ...object, metadata }),
        fault: true,
      });
    }
    if (object.status?.firstReadyAt === undefined && site === 'alive') {
      const status = {
        ...object.status,
        phase: 'Running' as const,
        firstReadyAt: AT,
        nodeRef: { name: nameOf(index), uid: `node-${index}` },
      };
      moves.push({ label: `${what} becomes Ready`, world: withMachine(world, index, { ...object, status }), fault: false });
    }
  });
  return moves;
}

function lateMoves(world: World, { mutation = NO_MUTATION }: Scenario): Step[] {
  return world.late.flatMap((call, position): Step[] => {
    const rest = { ...world, late: world.late.filter((_, at) => at !== position) };
    const landed = arrive(rest, call, mutation);
    const lost: Step = { label: `a call is lost: ${wording(call)}`, world: rest, fault: false };
    if (landed === rest) return [lost];
    const broken = brokenByArrival(rest, landed, call);
    return [{ label: `late: ${wording(call)}`, world: landed, fault: false, ...(broken === undefined ? {} : { broken }) }, lost];
  });
}

const isHalted = ({ status }: MachineComponentSet): boolean =>
  status?.conditions?.some(({ type, status: is }) => type === 'Halted' && is === 'True') === true;

/** Every set has what it wants, or has halted and reports that, and nothing is left that would change it. */
function isConverged(world: World, scenario: Scenario): boolean {
  const isSettled =
    world.late.length === 0 &&
    !world.frozen &&
    !world.closed &&
    world.reservations.every((reservation) => reservation === undefined) &&
    world.sites.every((site) => site === 'alive') &&
    world.leaders.every(
      ({ flight, frozen, epoch }) => flight === undefined && frozen === undefined && (epoch === 0 || epoch === world.epoch),
    ) &&
    world.leaders.some(({ epoch }) => epoch === world.epoch) &&
    world.sets.every(({ writing }) => writing.length === 0) &&
    world.machines.every(({ object }) => object?.spec.hold !== true);
  if (!isSettled) return false;
  const acts = [...world.leaders.flatMap((_, index) => leaderMoves(world, index, scenario)), ...nodeMoves(world, scenario)];
  if (acts.some(({ fault }) => !fault)) return false;
  return world.sets.every(
    ({ object: each }) =>
      each.spec.paused === true ||
      isHalted(each) ||
      world.machines.every(({ object }) => {
        if (object === undefined || !selects(each, object)) return true;
        const entry = entryFor(each, object);
        if (entry === undefined) return false;
        return entry.failed !== undefined || (idOf(entry) === idOf(targetsOf(each).of(object)) && isVerified(object, entry));
      }),
  );
}

/** Calls that would be refused in any case are as good as lost. */
function tidied(world: World, { mutation = NO_MUTATION }: Scenario): World {
  const proved = provedIn(world);
  const canLand = (call: Call): boolean => arrive(world, call, mutation) !== world;
  const late = world.late.every(canLand) ? world.late : world.late.filter(canLand);
  return proved === world.proved && late === world.late ? world : { ...world, proved, late };
}

export function componentSetSpace(scenario: Scenario): Space<World> {
  return {
    start: begin(scenario),
    key: keyOf,
    moves: (world) =>
      [
        ...world.leaders.flatMap((_, index) => leaderMoves(world, index, scenario)),
        ...lateMoves(world, scenario),
        ...nodeMoves(world, scenario),
        ...peopleMoves(world, scenario),
      ].map((step) => ({ ...step, world: tidied(step.world, scenario) })),
    broken: () => [],
    isConverged: (world) => isConverged(world, scenario),
  };
}
