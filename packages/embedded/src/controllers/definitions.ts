import type { JsonObject } from '@kubenode/api-machinery/wire';
import { CLEANUP, established } from '../crd/definition.ts';
import { servedVersions } from '../crd/served.ts';
import { convert } from '../decode.ts';
import type { Served } from '../kinds/served.ts';
import { equal, listAt, metaOf, objectAt, stringsAt, textAt } from '../json.ts';
import { parsed, type Entry, type EntryEvent } from '../store/entry.ts';
import { factsFor, now, type World } from '../world.ts';
import { builtin, change, discard, type Context, type EmbeddedController } from './controller.ts';

export const DEFINITIONS = 'apiextensions.k8s.io/customresourcedefinitions';

const condition = (type: string, status: string, reason: string, message: string, at: string): JsonObject => ({
  type,
  status,
  reason,
  message,
  lastTransitionTime: at,
});

/** The name of a definition that another established one of its group has: of several the last, as the real server reports it. */
function conflictOf(context: Context, crd: JsonObject): { reason: string; message: string } | undefined {
  const table = context.world.store.table(DEFINITIONS);
  const names = objectAt(crd, 'spec', 'names');
  const resources = new Set<string | undefined>();
  const kinds = new Set<string | undefined>();
  for (const entry of table.entries()) {
    const other = parsed(entry);
    const theirs = objectAt(other, 'spec', 'names');
    if (
      entry.uid === textAt(crd, 'metadata', 'uid') ||
      textAt(other, 'spec', 'group') !== textAt(crd, 'spec', 'group') ||
      !established(other)
    )
      continue;
    for (const name of [textAt(theirs, 'plural'), textAt(theirs, 'singular'), ...stringsAt(theirs, 'shortNames')]) resources.add(name);
    for (const name of [textAt(theirs, 'kind'), textAt(theirs, 'listKind')]) kinds.add(name);
  }
  const claims: [string, string | undefined, Set<string | undefined>][] = [
    ['PluralConflict', textAt(names, 'plural'), resources],
    ['SingularConflict', textAt(names, 'singular'), resources],
    ...stringsAt(names, 'shortNames').map((name): [string, string, Set<string | undefined>] => ['ShortNamesConflict', name, resources]),
    ['KindConflict', textAt(names, 'kind'), kinds],
    ['ListKindConflict', textAt(names, 'listKind'), kinds],
  ];
  const clash = claims.findLast(([, name, taken]) => name !== undefined && taken.has(name));
  return clash === undefined ? undefined : { reason: clash[0], message: `${JSON.stringify(clash[1])} is already in use` };
}

/** Makes the resource of a definition known. Returns the version its objects are stored in, if any is served. */
export function define({ world }: Context, crd: JsonObject): Served | undefined {
  const versions = servedVersions(crd);
  world.registry.setCustom(textAt(crd, 'metadata', 'name') ?? '', versions);
  const [any] = versions;
  return any === undefined ? undefined : world.registry.byStorage(any.storageKey);
}

/** Defines, and shows the objects that are there as the definition now wants them. */
export function serve(context: Context, crd: JsonObject): void {
  const stored = define(context, crd);
  if (stored === undefined) return;
  context.world.store.renew(
    stored.storageKey,
    (object) => {
      convert(stored, object);
      object['apiVersion'] = stored.storageVersion;
    },
    (_, object) => factsFor(stored, object),
  );
}

/** Sets the conditions of a definition, by whether its names are free. */
function establish(context: Context, definition: Served, entry: Entry): void {
  const { world } = context;
  const crd = parsed(entry);
  const names = objectAt(crd, 'spec', 'names');
  const clash = conflictOf(context, crd);
  const accepted = equal(objectAt(crd, 'status', 'acceptedNames'), names);
  if (clash === undefined && accepted && established(crd)) return;
  const at = now(world);
  const conditions =
    clash === undefined
      ? [
          condition('NamesAccepted', 'True', 'NoConflicts', 'no conflicts found', at),
          condition('Established', 'True', 'InitialNamesAccepted', 'the initial names have been accepted', at),
        ]
      : [
          condition('NamesAccepted', 'False', clash.reason, clash.message, at),
          condition('Established', 'False', 'NotAccepted', 'not all names are accepted', at),
        ];
  const edit = (object: JsonObject): JsonObject => {
    const status = objectAt(object, 'status');
    const rest = listAt(status, 'conditions').filter((item) => !['NamesAccepted', 'Established'].includes(textAt(item, 'type') ?? ''));
    object['status'] = { ...status, conditions: [...conditions, ...rest], ...(clash === undefined ? { acceptedNames: names } : {}) };
    return object;
  };
  change(world, definition, entry, 'status', edit, 'kube-apiserver');
}

/** Deletes the objects of a definition under deletion; the definition is finalized when none remains. */
function empty(world: World, definition: Served, entry: Entry): void {
  const crd = parsed(entry);
  const resource = resourceOf(crd);
  const served = world.registry.byStorage(resource);
  const table = world.store.table(resource);
  if (served !== undefined)
    for (const item of Array.from(table.entries())) discard(world, served, item, { propagationPolicy: 'Background' });
  if (table.size > 0 || !stringsAt(crd, 'metadata', 'finalizers').includes(CLEANUP)) return;
  const edit = (object: JsonObject): JsonObject => {
    metaOf(object)['finalizers'] = stringsAt(object, 'metadata', 'finalizers').filter((name) => name !== CLEANUP);
    return object;
  };
  change(world, definition, entry, '', edit, 'kube-apiserver');
}

const resourceOf = (crd: JsonObject): string => `${textAt(crd, 'spec', 'group') ?? ''}/${textAt(crd, 'spec', 'names', 'plural') ?? ''}`;

/** Serves a definition as it is now, and ends the watches of objects whose form has changed. */
function follow(context: Context, { entry, previous, type }: EntryEvent): void {
  const { registry, store } = context.world;
  const crd = parsed(entry);
  if (type === 'DELETED') {
    registry.setCustom(entry.name, []);
    store.hub.end(resourceOf(crd));
    return;
  }
  const before = previous === undefined ? undefined : parsed(previous);
  const same = before !== undefined && equal(crd['spec'], before['spec']) && established(crd) === established(before);
  const deleting = textAt(crd, 'metadata', 'deletionTimestamp') !== undefined;
  if (!established(crd) || (same && !deleting)) return;
  serve(context, crd);
  if (before !== undefined && !equal(crd['spec'], before['spec'])) store.hub.end(resourceOf(crd));
}

/** Accepts names, establishes, serves, and empties definitions under deletion. */
export function definitionsController(context: Context): EmbeddedController {
  const { world, tasks } = context;
  const definition = builtin(world, DEFINITIONS);
  const table = () => world.store.table(DEFINITIONS);
  const queue = (name: string, run: (current: Entry) => void) =>
    tasks.add(`definition ${name}`, () => {
      const current = table().get(name);
      if (current !== undefined) run(current);
    });
  const reconcile = (entry: Entry): void => {
    if (textAt(parsed(entry), 'metadata', 'deletionTimestamp') === undefined) establish(context, definition, entry);
    else empty(world, definition, entry);
  };

  return {
    onEvent(event) {
      if (event.resource === DEFINITIONS) {
        follow(context, event);
        if (event.type !== 'DELETED') queue(event.entry.name, reconcile);
      } else if (event.type === 'DELETED') {
        const crd = world.registry.byStorage(event.resource)?.custom;
        if (crd?.terminating === true) queue(crd.crd, (current) => empty(world, definition, current));
      }
    },
    start() {
      for (const { name } of Array.from(table().entries())) queue(name, reconcile);
    },
  };
}
