/**
 * Labels of one Machine on its Node, under two leaders; either may stop for any time between two requests, and go on. What is read, decided and written is the
 * code of the machine controller; the API server is two objects. One label stands for all labels and taints. Judged is docs/protocols.md#c11.
 */
import { jsonPatch } from '@kubenode/embedded/testing';
import type { Node } from '../../src/api/builtin.ts';
import { API_VERSION } from '../../src/api/kind.ts';
import type { Machine } from '../../src/api/machine.ts';
import { ANNOTATIONS } from '../../src/api/names.ts';
import type { Json, KubeObject, Stored } from '../../src/api/wire.ts';
import { planNode } from '../../src/controllers/machine/node-sync/node-sync.ts';
import { isMet, machinePatch, nodePatch } from '../../src/defender/guarded-patch.ts';
import type { JsonPatchOperation } from '../../src/kube/client.ts';
import { search, type Limits, type Move, type Search } from './search.ts';

type Patch = JsonPatchOperation[];

/** What a leader does next: it has read nothing, the Node, or both and has these writes to send. */
interface Leader {
  node?: Stored<Node>;
  record?: Patch;
  write?: Patch;
}

interface World {
  node: Stored<Node>;
  machine: Stored<Machine>;
  leaders: readonly Leader[];
  version: number;
  /** How often the Machine may still want something else, a leader may die, and others may put another value there. */
  changes: number;
  deaths: number;
  others: number;
}

/** Ways to leave a part of the rule out. */
export interface NodeKeysMutation {
  /** Of what is sent for the Node. */
  write?: (patch: Patch) => Patch;
  /** The Machine does not name what is put on the Node before. */
  unnamed?: true;
}

export interface NodeKeysScenario {
  changes: number;
  deaths: number;
  others: number;
}

const KEY = 'tier';
const OURS = 'web';
const THEIRS = 'theirs';
const FACTS = { kubeletAnswers: true, mayTakePods: true };
const MARK = `/metadata/annotations/${ANNOTATIONS.nodeWrite.replace('/', '~1')}`;

const identity = (name: string) => ({ name, uid: name, resourceVersion: 'v1', generation: 1, creationTimestamp: '2026-11-20T00:00:00Z' });

function start(scenario: NodeKeysScenario): World {
  return {
    node: { apiVersion: 'v1', kind: 'Node', metadata: { ...identity('node'), labels: {}, annotations: {} }, spec: {} },
    machine: { apiVersion: API_VERSION, kind: 'Machine', metadata: identity('machine'), spec: { labels: { [KEY]: OURS } }, status: {} },
    leaders: [{}, {}],
    version: 1,
    ...scenario,
  };
}

/** The object after a conditioned write; undefined: it lost. A write that changes nothing is no write. */
function after<T extends KubeObject>(object: Stored<T>, patch: Patch, version: number): Stored<T> | undefined {
  if (!isMet(patch, object)) return undefined;
  const next = jsonPatch(structuredClone(object) as object as Json, patch as object as Json) as object as Stored<T>;
  if (JSON.stringify(next) === JSON.stringify(object)) return object;
  next.metadata.resourceVersion = `v${version}`;
  return next;
}

function decided(read: Stored<Node>, machine: Stored<Machine>, { write, unnamed }: NodeKeysMutation): Leader {
  const { record, node } = planNode(machine, read, FACTS);
  const noted = record === undefined ? undefined : { ...machine, status: { ...machine.status, nodeKeys: record } };
  const patch = node === undefined ? undefined : nodePatch(read, node, { known: false });
  return {
    ...(noted === undefined || unnamed === true ? {} : { record: machinePatch(machine, noted, { known: false }, true) }),
    ...(patch === undefined ? {} : { write: write?.(patch) ?? patch }),
  };
}

function turn(world: World, index: number, mutation: NodeKeysMutation): Move<World> {
  const leader = world.leaders[index] ?? {};
  const version = world.version + 1;
  const to = (label: string, next: Leader, change: Partial<World> = {}): Move<World> => ({
    label: `leader ${index} ${label}`,
    world: { ...world, ...change, leaders: world.leaders.map((each, at) => (at === index ? next : each)) },
    fault: false,
  });
  if (leader.record !== undefined) {
    const machine = after(world.machine, leader.record, version);
    if (machine === undefined) return to('could not name it', {});
    return to('names it', leader.write === undefined ? {} : { write: leader.write }, { machine, version });
  }
  if (leader.write !== undefined) {
    const node = after(world.node, leader.write, version);
    return node === undefined ? to('could not write the Node', {}) : to('writes the Node', {}, { node, version });
  }
  if (leader.node !== undefined) return to('reads the Machine, and decides', decided(leader.node, world.machine, mutation));
  return to('reads the Node', { node: world.node });
}

function faults(world: World): Move<World>[] {
  const moves: Move<World>[] = [];
  const { machine, node, changes, deaths, others } = world;
  const version = world.version + 1;
  const fault = (label: string, change: Partial<World>): void => void moves.push({ label, world: { ...world, ...change }, fault: true });
  if (changes > 0) {
    const { labels: _, ...spec } = machine.spec;
    const labels = machine.spec.labels === undefined ? { labels: { [KEY]: OURS } } : {};
    const generation = (machine.metadata.generation ?? 0) + 1;
    const metadata = { ...machine.metadata, generation, resourceVersion: `v${version}` };
    fault('the Machine wants something else', {
      machine: { ...machine, metadata, spec: { ...spec, ...labels } },
      version,
      changes: changes - 1,
    });
  }
  if (deaths > 0)
    world.leaders.forEach((leader, index) => {
      if (Object.keys(leader).length === 0) return;
      const leaders = world.leaders.map((each, at) => (at === index ? {} : each));
      fault(`leader ${index} dies`, { leaders, deaths: deaths - 1 });
    });
  if (others > 0) {
    const metadata = { ...node.metadata, labels: { [KEY]: THEIRS }, resourceVersion: `v${version}` };
    fault('others put another value there', { node: { ...node, metadata }, version, others: others - 1 });
  }
  return moves;
}

const isIdle = (leader: Leader): boolean => Object.keys(leader).length === 0;

/** No process has anything to do, and nothing is on its way. */
function isAtRest({ leaders, machine, node }: World): boolean {
  const { record, node: next } = planNode(machine, node, FACTS);
  return leaders.every(isIdle) && record === undefined && next === undefined;
}

const labelOf = ({ node }: World): string | undefined => node.metadata.labels?.[KEY];
const isAsWanted = (world: World): boolean =>
  labelOf(world) === THEIRS || labelOf(world) === (world.machine.spec.labels === undefined ? undefined : OURS);

/** Versions are only ever compared for equality. */
function keyOf(world: World): string {
  const seen = new Map<string, number>();
  const { version: _, ...rest } = world;
  return JSON.stringify(rest).replaceAll(/"v\d+"|"generation":\d+|"value":\d+/g, (found) => {
    const text = found.replace(/^"(generation|value)":/, 'g');
    const known = seen.get(text) ?? seen.size;
    seen.set(text, known);
    return `#${known}`;
  });
}

export function exploreNodeKeys(scenario: NodeKeysScenario, mutation: NodeKeysMutation = {}, limits: Limits = {}): Search {
  return search<World>(
    {
      start: start(scenario),
      key: keyOf,
      moves: (world) => [...world.leaders.map((_, index) => turn(world, index, mutation)), ...faults(world)],
      broken(before, world) {
        if (labelOf(before) === THEIRS && labelOf(world) !== THEIRS) return ['C11: what others put there is gone'];
        return isAtRest(world) && !isAsWanted(world) ? ['C11: a label of ours that is not wanted stays on the Node'] : [];
      },
      isConverged: (world) => isAtRest(world) && isAsWanted(world),
    },
    limits,
  );
}

/** Without `ops` on the mark of our last write. */
const withoutMark =
  (...ops: JsonPatchOperation['op'][]) =>
  (patch: Patch): Patch =>
    patch.filter(({ op, path }) => path !== MARK || !ops.includes(op));

export const NODE_KEYS_MUTANTS: readonly { rule: string; mutation: NodeKeysMutation; caughtBy: RegExp | 'trap' }[] = [
  {
    rule: 'C11: a write of the Node is conditioned on the last one of ours',
    mutation: { write: withoutMark('test') },
    caughtBy: /is not wanted/,
  },
  { rule: 'C4a: each write of the Node leaves a mark of its own', mutation: { write: withoutMark('test', 'add') }, caughtBy: 'trap' },
  { rule: 'C11: the Machine names what is put on the Node before', mutation: { unnamed: true }, caughtBy: /is not wanted/ },
];
