import type { Json, JsonObject, Status } from '@kubenode/api-machinery/wire';
import { copy, isObject, metaOf, numberAt, objectAt, shown, stringsAt, textAt } from './json.ts';
import type { Served } from './kinds/served.ts';
import { invalid, unsupported } from './field-error.ts';
import { badRequest, conflict, invalidObject, notFound } from './refusal.ts';
import { keyOf } from './store/entry.ts';
import { factsFor, timestamp, type World } from './world.ts';
import { liveObject } from './write.ts';

export interface DeleteOptions {
  readonly dryRun: boolean;
  readonly gracePeriodSeconds?: number;
  readonly propagationPolicy?: 'Background' | 'Foreground' | 'Orphan';
  readonly uid?: string;
  readonly resourceVersion?: string;
  /** Called with what is to go. May throw a Refusal. */
  readonly admit?: (live: JsonObject) => void;
}

const POLICIES = ['Background', 'Foreground', 'Orphan'] as const;

function policyOf(value: Json | undefined): DeleteOptions['propagationPolicy'] {
  if (value === undefined || value === null || value === '') return undefined;
  const found = POLICIES.find((policy) => policy === value);
  if (found !== undefined) return found;
  throw invalidObject('meta.k8s.io', 'DeleteOptions', '', [
    unsupported('propagationPolicy', value, ['Foreground', 'Background', 'Orphan', 'nil']),
  ]);
}

function secondsOf(value: Json | undefined): number | undefined {
  if (value === undefined || value === null || value === '') return undefined;
  const seconds = Number(value);
  if (!Number.isInteger(seconds)) throw badRequest(`gracePeriodSeconds: ${JSON.stringify(value)} is not a whole number`);
  return seconds;
}

/** Only `All` is a dry run; any other value is refused. */
export function dryRunOf(value: Json | undefined, kind: string): boolean {
  const list = Array.isArray(value) ? value : value === undefined || value === null || value === '' ? [] : [value];
  for (const item of list) {
    if (item !== 'All') throw invalidObject('meta.k8s.io', kind, '', [unsupported('dryRun', list, ['All'])]);
  }
  return list.length > 0;
}

/** DeleteOptions from the body or, when there is none, from the query. */
export function deleteOptions(body: JsonObject | undefined, query: Readonly<Record<string, string>>): DeleteOptions {
  const source: JsonObject = body ?? { ...query };
  const given = source['preconditions'];
  const preconditions = isObject(given) ? given : {};
  const orphan = source['orphanDependents'];
  const policy = policyOf(source['propagationPolicy']) ?? (orphan === true || orphan === 'true' ? 'Orphan' : undefined);
  if (orphan !== undefined && orphan !== null && source['propagationPolicy'] !== undefined) {
    throw invalidObject('meta.k8s.io', 'DeleteOptions', '', [
      invalid('propagationPolicy', source['propagationPolicy'], 'orphanDependents and deletionPropagation cannot be both set'),
    ]);
  }
  const seconds = secondsOf(source['gracePeriodSeconds']);
  const uid = textAt(preconditions, 'uid');
  const resourceVersion = textAt(preconditions, 'resourceVersion');
  return {
    dryRun: dryRunOf(source['dryRun'], 'DeleteOptions'),
    ...(seconds === undefined ? {} : { gracePeriodSeconds: seconds < 0 ? 1 : seconds }),
    ...(policy === undefined ? {} : { propagationPolicy: policy }),
    ...(uid === undefined ? {} : { uid }),
    ...(resourceVersion === undefined ? {} : { resourceVersion }),
  };
}

function checkPreconditions(served: Served, name: string, metadata: JsonObject, options: DeleteOptions): void {
  const kind = { group: served.group, plural: served.kind };
  if (options.uid !== undefined && options.uid !== metadata['uid']) {
    throw conflict(
      kind,
      name,
      `the UID in the precondition (${options.uid}) does not match the UID in record (${shown(metadata['uid'])}). The object might have been deleted and then recreated`,
    );
  }
  if (options.resourceVersion !== undefined && options.resourceVersion !== metadata['resourceVersion']) {
    throw conflict(
      kind,
      name,
      `the ResourceVersion in the precondition (${options.resourceVersion}) does not match the ResourceVersion in record (${shown(metadata['resourceVersion'])}). The object might have been modified`,
    );
  }
}

/** Finalizers; the ones of the garbage collector are set as the request wants them. */
function finalizersFor(served: Served, metadata: JsonObject, options: DeleteOptions): string[] {
  const before = stringsAt(metadata, 'finalizers');
  if (served.strategy.uncollected === true) return before;
  const kept = before.filter((name) => name !== 'orphan' && name !== 'foregroundDeletion');
  switch (options.propagationPolicy) {
    case 'Orphan':
      return [...kept, 'orphan'];
    case 'Foreground':
      return [...kept, 'foregroundDeletion'];
    case 'Background':
      return kept;
    case undefined:
      return before;
    default:
      return options.propagationPolicy satisfies never;
  }
}

interface Removed {
  /** The object as it is now, or was when it went. */
  readonly object: JsonObject;
  /** It is gone. */
  readonly gone: boolean;
}

/** Sets the time of deletion; true when that changed anything. */
function markGraceful(served: Served, object: JsonObject, options: DeleteOptions, nowMs: number): 'none' | 'pending' | 'marked' {
  const seconds = served.strategy.gracePeriod?.(object, options.gracePeriodSeconds);
  if (seconds === undefined) return 'none';
  const metadata = metaOf(object);
  const deleted = textAt(metadata, 'deletionTimestamp');
  if (deleted === undefined) {
    metadata['deletionTimestamp'] = timestamp(nowMs + seconds * 1000);
    metadata['deletionGracePeriodSeconds'] = seconds;
    const generation = numberAt(metadata, 'generation') ?? 0;
    if (generation > 0) metadata['generation'] = generation + 1;
    return 'marked';
  }
  const pending = numberAt(metadata, 'deletionGracePeriodSeconds') ?? 0;
  if (pending === 0) return 'none';
  // A later request can only shorten the grace.
  if (options.gracePeriodSeconds === undefined || options.gracePeriodSeconds >= pending) return 'pending';
  let period = options.gracePeriodSeconds;
  let at = Date.parse(deleted) - pending * 1000 + period * 1000;
  if (at < nowMs) {
    at = nowMs;
    if (period !== 0) period = 1;
  }
  metadata['deletionTimestamp'] = timestamp(at);
  metadata['deletionGracePeriodSeconds'] = period;
  return 'marked';
}

function markNow(object: JsonObject, nowMs: number): void {
  const metadata = metaOf(object);
  const deleted = textAt(metadata, 'deletionTimestamp');
  const generation = numberAt(metadata, 'generation') ?? 0;
  if (deleted === undefined && generation > 0) metadata['generation'] = generation + 1;
  if (deleted === undefined || Date.parse(deleted) > nowMs) metadata['deletionTimestamp'] = timestamp(nowMs);
  metadata['deletionGracePeriodSeconds'] = 0;
}

function store(world: World, served: Served, object: JsonObject): void {
  const stored = copy(object);
  stored['apiVersion'] = served.storageVersion;
  world.store.put(served.storageKey, stored, factsFor(world.registry.byStorage(served.storageKey) ?? served, stored));
  metaOf(object)['resourceVersion'] = objectAt(stored, 'metadata')['resourceVersion'] ?? null;
}

/**
 * Deletes one object: at once, or by marking it when finalizers or a grace period prevent that. Throws a Refusal.
 */
export function remove(world: World, served: Served, namespace: string, name: string, options: DeleteOptions): Removed {
  const table = world.store.table(served.storageKey);
  const entry = table.get(keyOf(served.namespaced ? namespace : '', name));
  if (entry === undefined) throw notFound(served, name);
  const live = liveObject(served, entry);
  checkPreconditions(served, name, objectAt(live, 'metadata'), options);
  served.strategy.beforeDelete?.(live);
  options.admit?.(live);
  const object = copy(live);
  const nowMs = world.clock.now();
  const save = () => {
    if (!options.dryRun) store(world, served, object);
    return { object, gone: false };
  };
  if (served.strategy.startDeletion?.(object, timestamp(nowMs)) === true) return save();
  if (served.storageKey === '/namespaces' && stringsAt(object, 'spec', 'finalizers').length > 0) return { object: live, gone: false };
  const graceful = markGraceful(served, object, options, nowMs);
  if (graceful === 'pending') return { object: live, gone: false };
  const metadata = metaOf(object);
  const before = stringsAt(metadata, 'finalizers');
  const finalizers = finalizersFor(served, metadata, options);
  const changed = finalizers.length !== before.length || finalizers.some((item, index) => item !== before[index]);
  if (finalizers.length > 0) metadata['finalizers'] = finalizers;
  else delete metadata['finalizers'];
  if (finalizers.length > 0) {
    if (graceful !== 'marked') {
      const marked = metadata['deletionTimestamp'] !== undefined && numberAt(metadata, 'deletionGracePeriodSeconds') === 0;
      if (marked && !changed && Date.parse(textAt(metadata, 'deletionTimestamp') ?? '') <= nowMs) return { object: live, gone: false };
      markNow(object, nowMs);
    }
    return save();
  }
  if (graceful === 'marked' && (numberAt(metadata, 'deletionGracePeriodSeconds') ?? 0) > 0) return save();
  if (!options.dryRun) world.store.remove(served.storageKey, entry.namespace, entry.name);
  return { object, gone: true };
}

/** The answer to a deletion that took effect at once. */
export function deletedStatus(served: Served, object: JsonObject): Status {
  const uid = textAt(object, 'metadata', 'uid');
  return {
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Success',
    details: {
      name: textAt(object, 'metadata', 'name') ?? '',
      ...(served.group === '' ? {} : { group: served.group }),
      kind: served.plural,
      ...(uid === undefined ? {} : { uid }),
    },
  };
}
