import type { JsonObject } from '@kubenode/api-machinery/wire';
import { INITIAL_NAMESPACES } from '../kinds/namespace.ts';
import { apiVersion, type Served } from '../kinds/served.ts';
import { listAt, objectAt, stringsAt, textAt } from '../json.ts';
import { qualified, Refusal } from '../refusal.ts';
import { parsed, type Entry, type EntryEvent } from '../store/entry.ts';
import { now, type World } from '../world.ts';
import { insert } from '../write.ts';
import { builtin, change, discard, systemWriter, type Context, type EmbeddedController } from './controller.ts';

const NAMESPACES = '/namespaces';
const ACCOUNTS = '/serviceaccounts';

interface Remaining {
  readonly resources: Map<string, number>;
  readonly finalizers: Map<string, number>;
}

function count(map: Map<string, number>, key: string): void {
  map.set(key, (map.get(key) ?? 0) + 1);
}

function counted(map: ReadonlyMap<string, number>, word: string): string {
  return Array.from(map, ([name, n]) => `${name} ${word} ${n} resource instances`)
    .sort()
    .join(', ');
}

function remainingConditions({ resources, finalizers }: Remaining, at: string): JsonObject[] {
  const line = (type: string, reason: string, message: string): JsonObject => ({
    type,
    status: 'True',
    reason,
    message,
    lastTransitionTime: at,
  });
  const out = [line('NamespaceContentRemaining', 'SomeResourcesRemain', `Some resources are remaining: ${counted(resources, 'has')}`)];
  if (finalizers.size > 0) {
    out.push(
      line(
        'NamespaceFinalizersRemaining',
        'SomeFinalizersRemain',
        `Some content in the namespace has finalizers remaining: ${counted(finalizers, 'in')}`,
      ),
    );
  }
  return out;
}

/** Makes an object unless it exists already, or its namespace is under deletion. */
function make(world: World, served: Served, namespace: string, name: string): void {
  const object: JsonObject = { apiVersion: apiVersion(served), kind: served.kind, metadata: { name } };
  served.strategy.defaults?.(object);
  try {
    insert(world, served, { namespace, object, writer: systemWriter('kube-controller-manager'), recorded: false });
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
  }
}

/** Deletes all objects of a namespace. Returns what remains because of finalizers. */
function clear(world: World, namespace: string): Remaining {
  const { registry, store } = world;
  const remaining: Remaining = { resources: new Map(), finalizers: new Map() };
  for (const served of registry.stored()) {
    if (!served.namespaced) continue;
    const content = () => [...(store.table(served.storageKey).at(store.rv)?.range(`${namespace}/`, '') ?? [])];
    for (const entry of content()) discard(world, served, entry, { propagationPolicy: 'Background' });
    for (const entry of content()) {
      count(remaining.resources, qualified(served));
      for (const finalizer of stringsAt(parsed(entry), 'metadata', 'finalizers')) count(remaining.finalizers, finalizer);
    }
  }
  return remaining;
}

/** Empties a namespace under deletion; it is finalized when nothing remains. */
function terminate(world: World, namespaces: Served, entry: Entry): void {
  const remaining = clear(world, entry.name);
  const current = world.store.table(NAMESPACES).get(entry.name);
  if (current?.uid !== entry.uid) return;
  if (remaining.resources.size === 0) {
    change(world, namespaces, current, 'finalize', (object) => ({
      ...object,
      spec: { ...objectAt(object, 'spec'), finalizers: stringsAt(object, 'spec', 'finalizers').filter((name) => name !== 'kubernetes') },
    }));
    return;
  }
  const at = now(world);
  change(world, namespaces, current, 'status', (object) => {
    const before = listAt(object, 'status', 'conditions');
    const conditions = remainingConditions(remaining, at).map((item) => {
      const same = before.find((old) => {
        const [type, message] = [textAt(old, 'type'), textAt(old, 'message')];
        return type === item['type'] && message === item['message'];
      });
      return same ?? item;
    });
    object['status'] = { ...objectAt(object, 'status'), conditions };
    return object;
  });
}

/** Makes the first namespaces, keeps a `default` ServiceAccount in each, and empties those that are deleted. */
export function namespacesController({ world, tasks }: Context): EmbeddedController {
  const { store } = world;
  const namespaces = builtin(world, NAMESPACES);
  const accounts = builtin(world, ACCOUNTS);

  const account = (namespace: string) =>
    tasks.add(`account ${namespace}`, () => {
      const home = store.table(NAMESPACES).get(namespace);
      if (home === undefined || store.table(ACCOUNTS).get(`${namespace}/default`) !== undefined) return;
      if (textAt(parsed(home), 'metadata', 'deletionTimestamp') === undefined) make(world, accounts, namespace, 'default');
    });

  const reconcile = (name: string) =>
    tasks.add(`namespace ${name}`, () => {
      const entry = store.table(NAMESPACES).get(name);
      if (entry !== undefined && textAt(parsed(entry), 'metadata', 'deletionTimestamp') !== undefined) terminate(world, namespaces, entry);
    });

  function onEvent({ resource, type, entry, previous }: EntryEvent): void {
    if (resource === NAMESPACES) {
      if (type === 'ADDED') account(entry.name);
      else if (type === 'MODIFIED' && previous !== undefined) reconcile(entry.name);
    } else if (type === 'DELETED' && entry.namespace !== '') {
      reconcile(entry.namespace);
      if (resource === ACCOUNTS && entry.name === 'default') account(entry.namespace);
    }
  }

  return {
    onEvent,
    start() {
      for (const name of INITIAL_NAMESPACES) if (store.table(NAMESPACES).get(name) === undefined) make(world, namespaces, '', name);
      for (const entry of store.table(NAMESPACES).entries()) {
        account(entry.name);
        reconcile(entry.name);
      }
    },
  };
}
