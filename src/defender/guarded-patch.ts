/**
 * Conditioned writes of Nodes and Machines as JSON patches. A node writes its own Node, and an agent its Machine's status, as often as it likes: a write
 * that is conditioned on the resourceVersion could be kept away for ever. So each is conditioned on what its decision depends on, which neither may write.
 * Pure.
 */
import type { Node } from '../api/builtin.ts';
import { canonical } from '../api/digest.ts';
import type { Machine } from '../api/machine.ts';
import { ANNOTATIONS, MANAGERS } from '../api/names.ts';
import type { KubeObject, Stored } from '../api/wire.ts';
import type { JsonPatchOperation } from '../kube/client.ts';

export type Path = readonly string[];

const NODE_ANNOTATIONS = [
  ANNOTATIONS.nodeWrite,
  ANNOTATIONS.cordonOwner,
  ANNOTATIONS.cordonKept,
  ANNOTATIONS.cordonDegraded,
  ANNOTATIONS.cordonFence,
] as const;

/** What of our own was written to the Node last. No two of our writes leave the same, and each is conditioned on it: so of two that were decided on one state one loses. */
export const nodeMark = (node: Node): string => node.metadata.annotations?.[ANNOTATIONS.nodeWrite] ?? 'none';

/** For a copy that lacks managers of others, or may be old: on condition that it is the newest. */
export interface ReadFrom {
  known: boolean;
}

/**
 * Conditions: the UID, our last write, the cordon with all that we note of it, and what the write changes, as read. One that lifts a cordon is conditioned on
 * `unschedulable` being ours still: a human may have lifted and set it since (docs/protocols.md#c4).
 */
export function nodePatch(read: Stored<Node>, wanted: Stored<Node>, { known }: ReadFrom): JsonPatchOperation[] {
  const conditions = [
    testing(read, ['metadata', 'uid']),
    ...(known ? [testing(read, ['metadata', 'resourceVersion'])] : ownership(read, wanted)),
    testing(read, ['spec', 'unschedulable']),
    ...NODE_ANNOTATIONS.map((name) => testing(read, ['metadata', 'annotations', name])),
  ];
  const annotations = { ...wanted.metadata.annotations, [ANNOTATIONS.nodeWrite]: read.metadata.resourceVersion };
  const marked = { ...wanted, metadata: { ...wanted.metadata, annotations } };
  const changes = [
    ...entries(read, marked, ['metadata', 'annotations']),
    ...entries(read, marked, ['metadata', 'labels']),
    ...difference(read, marked, ['spec', 'unschedulable']),
    ...difference(read, marked, ['spec', 'taints']).flatMap((change) => withoutEmpty(change, read.spec?.taints)),
  ];
  return patchOf(read, conditions, changes);
}

/**
 * `read` with the server's records of `live`, where no other field differs that this write is conditioned on, and `unschedulable` is ours still; undefined otherwise. The
 * records are a list, and a node changes their positions by its own writes.
 */
export function withRecordMoved(read: Stored<Node>, wanted: Stored<Node>, live: Stored<Node>): Stored<Node> | undefined {
  if (ownership(read, wanted).length === 0) return undefined;
  const { managedFields } = live.metadata;
  const moved: Stored<Node> = { ...read, metadata: { ...read.metadata, ...(managedFields === undefined ? {} : { managedFields }) } };
  return ownership(moved, wanted).length > 0 && isMet(nodePatch(moved, wanted, { known: false }), live) ? moved : undefined;
}

/** What else a decision about a Machine depends on; by default our fence against orders. */
export interface DependsOn {
  on?: readonly Path[] | undefined;
}

const ORDERS: readonly Path[] = [['metadata', 'annotations', ANNOTATIONS.orderFence]];

/** Conditions: the UID, the spec and whether it is being deleted, by its generation, what else the decision depends on, and what the write changes of the rest, as read. */
export function machinePatch(
  read: Stored<Machine>,
  wanted: Stored<Machine>,
  { known, on = ORDERS }: ReadFrom & DependsOn,
  status?: true,
): JsonPatchOperation[] {
  const byVersion = known || read.metadata.generation === undefined;
  const conditions = [
    testing(read, ['metadata', 'uid']),
    ...(byVersion ? [testing(read, ['metadata', 'resourceVersion'])] : []),
    testing(read, ['metadata', 'generation']),
    testing(read, ['metadata', 'deletionTimestamp']),
    ...on.map((path) => testing(read, path)),
  ];
  const changes =
    status === true
      ? entries(read, wanted, ['status']).flatMap((change) =>
          change.path[1] === 'conditions' ? conditionChanges(read, wanted, change) : [change],
        )
      : [
          ...entries(read, wanted, ['metadata', 'annotations']),
          ...difference(read, wanted, ['metadata', 'finalizers']),
          ...entries(read, wanted, ['spec']),
        ];
  return patchOf(read, conditions, changes);
}

/** Whether the object meets every condition of the patch. */
export function isMet(patch: readonly JsonPatchOperation[], object: KubeObject): boolean {
  return patch.every(({ op, path, value }) => {
    if (op !== 'test') return true;
    const parts = partsOf(path);
    const isThere = parts.length === 1 || at(object, parts.slice(0, -1)) !== undefined;
    return isThere && canonicalOf(at(object, parts)) === canonicalOf(value);
  });
}

/** No taints are none, whether absent or empty. */
function withoutEmpty(change: Change, before: readonly unknown[] = []): Change[] {
  if (!Array.isArray(change.value) || change.value.length > 0) return [change];
  return before.length > 0 ? [{ ...change, value: undefined }] : [];
}

interface Change {
  path: Path;
  /** undefined: none. */
  value: unknown;
  /** At a position in a list: `path` is where it was read. */
  inList?: 'replace' | 'append';
}

/** One by one, since an agent writes one of them, too. They keep their positions: a list of them is merged by type. */
function conditionChanges(read: Stored<Machine>, wanted: Stored<Machine>, whole: Change): Change[] {
  const before = read.status?.conditions ?? [];
  const after = wanted.status?.conditions ?? [];
  const isMerge = before.length > 0 && before.every(({ type }) => after.some((each) => each.type === type));
  if (!isMerge) return [whole];
  return after.flatMap((condition): Change[] => {
    const index = before.findIndex(({ type }) => type === condition.type);
    if (index < 0) return [{ path: ['status', 'conditions', '-'], value: condition, inList: 'append' }];
    const path = ['status', 'conditions', String(index)];
    return canonicalOf(before[index]) === canonicalOf(condition) ? [] : [{ path, value: condition, inList: 'replace' }];
  });
}

/** The differences between two objects at one path. */
function difference(read: KubeObject, wanted: KubeObject, path: Path): Change[] {
  const value = at(wanted, path);
  return canonicalOf(at(read, path)) === canonicalOf(value) ? [] : [{ path, value }];
}

/** As `difference`, of each entry of a map. */
function entries(read: KubeObject, wanted: KubeObject, path: Path): Change[] {
  const names = new Set([read, wanted].flatMap((object) => Object.keys(at(object, path) ?? {})));
  return [...names].flatMap((name) => difference(read, wanted, [...path, name]));
}

function patchOf(read: KubeObject, conditions: JsonPatchOperation[], changes: readonly Change[]): JsonPatchOperation[] {
  const tests = new Map(conditions.map((condition) => [condition.path, condition]));
  const made = new Set<string>();
  const writes: JsonPatchOperation[] = [];
  for (const { path, value, inList } of changes) {
    if (inList === 'append') {
      writes.push({ op: 'add', path: pathOf(path), value });
      continue;
    }
    const test = testing(read, path);
    // The generation shows it for all of a Machine's spec.
    if (path[0] !== 'spec' || !tests.has(GENERATION)) tests.set(test.path, test);
    const parent = pathOf(path.slice(0, -1));
    if (at(read, path.slice(0, -1)) === undefined && !made.has(parent)) {
      made.add(parent);
      writes.push({ op: 'add', path: parent, value: {} });
    }
    if (inList === 'replace') writes.push({ op: 'replace', path: pathOf(path), value });
    else writes.push(value === undefined ? { op: 'remove', path: pathOf(path) } : { op: 'add', path: pathOf(path), value });
  }
  return [...tests.values(), ...writes];
}

/** The server takes a test for null as a test for absence, if the parent exists: so the highest absent field is tested. */
function testing(object: KubeObject, path: Path): JsonPatchOperation {
  for (let depth = 1; depth <= path.length; depth++) {
    const upTo = path.slice(0, depth);
    if (at(object, upTo) === undefined) return { op: 'test', path: pathOf(upTo), value: null };
  }
  return { op: 'test', path: pathOf(path), value: at(object, path) };
}

/** That `unschedulable` was not written since us, where the write takes it away and the server has noted that it is ours. */
function ownership(read: Stored<Node>, wanted: Stored<Node>): JsonPatchOperation[] {
  if (wanted.spec?.unschedulable === true || read.spec?.unschedulable !== true) return [];
  const field = ['fieldsV1', 'f:spec', 'f:unschedulable'];
  const index = (read.metadata.managedFields ?? []).findIndex(
    (entry) => entry.manager === MANAGERS.machine && at(entry, field) !== undefined,
  );
  if (index < 0) return [];
  const entry = ['metadata', 'managedFields', String(index)];
  return [testing(read, [...entry, 'manager']), testing(read, [...entry, ...field])];
}

const pathOf = (path: Path): string => path.map((part) => `/${part.replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
const partsOf = (path: string): string[] =>
  path
    .slice(1)
    .split('/')
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
const GENERATION = pathOf(['metadata', 'generation']);

function at(object: object, path: Path): unknown {
  let here: unknown = object;
  for (const part of path) {
    if (typeof here !== 'object' || here === null) return undefined;
    here = Object.entries(here).find(([key]) => key === part)?.[1];
  }
  return here;
}

const canonicalOf = (value: unknown): string => (value === undefined || value === null ? '' : canonical(value));
