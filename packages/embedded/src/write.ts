import type { JsonObject } from '@kubenode/api-machinery/wire';
import { ignoreTimestamps } from './apply/index.ts';
import { equal, listAt, metaOf, numberAt, objectAt, ordered, put, stringsAt, textAt } from './json.ts';
import type { FieldValidation } from './decode.ts';
import type { Served, User } from './kinds/served.ts';
import { recorded as record } from './managed.ts';
import { finalizerWarnings, problemsOf } from './object-check.ts';
import { CostExceeded, withinRequest } from './cel/cost.ts';
import { forbidden, invalid, type FieldProblem } from './field-error.ts';
import { checkEscalation } from './rbac/escalation.ts';
import { restrictKubelet } from './rbac/kubelet.ts';
import { alreadyExists, conflict, forbiddenObject, invalidObject, nameNotGenerated, notFound, OUTDATED, Refusal } from './refusal.ts';
import { keyOf, parsed, type Entry } from './store/entry.ts';
import { factsFor, now, suffix, SYSTEM, uuid, type World } from './world.ts';

/** Who writes, how, and where warnings go. */
export interface Writer {
  readonly user: User;
  /** Name in managedFields. */
  readonly manager: string;
  /** The options of the request, as policies see them; absent for the server's own writes. */
  readonly options?: JsonObject;
  readonly dryRun: boolean;
  readonly fieldValidation: FieldValidation;
  readonly warn: (text: string) => void;
}

export interface Written {
  object: JsonObject;
  created: boolean;
}

const TRIES = 8;
const MANAGED_BY_SERVER = ['uid', 'creationTimestamp', 'deletionTimestamp', 'deletionGracePeriodSeconds', 'selfLink'];

/** Creating in a namespace needs the namespace, and not one that is going away. */
function checkNamespace(world: World, served: Served, namespace: string, name: string): void {
  if (!served.namespaced) return;
  const entry = world.store.table('/namespaces').get(namespace);
  if (entry === undefined) throw notFound({ group: '', plural: 'namespaces' }, namespace);
  const object = parsed(entry);
  if (textAt(object, 'metadata', 'deletionTimestamp') === undefined) return;
  const message = `namespace ${namespace} is being terminated`;
  throw forbiddenObject(served, name, `unable to create new content in namespace ${namespace} because it is being terminated`, [
    { reason: 'NamespaceTerminating', message, field: 'metadata.namespace' },
  ]);
}

function generationOf(served: Served, object: JsonObject, old: JsonObject | undefined): void {
  const metadata = metaOf(object);
  if (served.strategy.generation === 'none') {
    put(metadata, 'generation', old === undefined ? undefined : objectAt(old, 'metadata')['generation']);
    return;
  }
  if (old === undefined) {
    metadata['generation'] = 1;
    return;
  }
  const before = numberAt(old, 'metadata', 'generation') ?? 0;
  const strip = (whole: JsonObject) => {
    const { metadata: _metadata, ...rest } = whole;
    for (const field of served.strategy.statusFields) delete rest[field];
    return rest;
  };
  metadata['generation'] = equal(strip(object), strip(old)) ? before : before + 1;
}

function dedupOwners(object: JsonObject, warn: (text: string) => void): void {
  const owners = listAt(object, 'metadata', 'ownerReferences');
  const kept = owners.filter((owner, index) => !owners.slice(0, index).some((other) => equal(owner, other)));
  if (kept.length === owners.length) return;
  metaOf(object)['ownerReferences'] = kept;
  warn(
    'metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests',
  );
}

function refuseInvalid(served: Served, object: JsonObject, old: JsonObject | undefined, subresource: string, writer: Writer): void {
  const problems = withinCost(() => problemsOf(served, object, old, subresource, writer.warn));
  if (problems.length > 0) throw invalidObject(served.group, served.kind, textAt(object, 'metadata', 'name') ?? '', problems);
}

/** Patterns and rules, within the cost limit of one request; an object that costs more to check is refused. */
function withinCost(check: () => FieldProblem[]): FieldProblem[] {
  try {
    return withinRequest(check);
  } catch (error) {
    if (!(error instanceof CostExceeded)) throw error;
    return [forbidden('', 'validation failed due to running out of cost budget, no further validation rules will be run')];
  }
}

/** What may not be written though it is valid. Throws a Refusal. */
function admit(world: World, served: Served, object: JsonObject, old: JsonObject | undefined, subresource: string, writer: Writer): void {
  const { user, dryRun, options, warn } = writer;
  if (user !== SYSTEM && world.authorizer !== undefined) {
    restrictKubelet(served, user, object);
    checkEscalation(world.authorizer, served, user, object, old);
  }
  world.policies.admit({
    served,
    subresource,
    operation: old === undefined ? 'CREATE' : 'UPDATE',
    namespace: served.namespaced ? (textAt(object, 'metadata', 'namespace') ?? '') : '',
    name: textAt(object, 'metadata', 'name') ?? '',
    user,
    dryRun,
    ...(options === undefined ? {} : { options }),
    object,
    oldObject: old,
    warn,
  });
}

/** Stored objects have the storage version; an answer has the version of the request. */
function commit(world: World, served: Served, object: JsonObject, writer: Writer): JsonObject {
  const stored = ordered(object);
  if (writer.dryRun) return stored;
  const version = stored['apiVersion'] ?? null;
  stored['apiVersion'] = served.storageVersion;
  world.store.put(served.storageKey, stored, factsFor(world.registry.byStorage(served.storageKey) ?? served, stored));
  return version === served.storageVersion ? stored : { ...stored, apiVersion: version };
}

interface NewObject {
  readonly namespace: string;
  readonly object: JsonObject;
  readonly writer: Writer;
  /** The object's managedFields are right already: a server-side apply. */
  readonly recorded: boolean;
  /** Controllers of the server may write where clients may not. */
  readonly system?: boolean;
}

/** Stores a decoded object that must not exist. Throws a Refusal. */
export function insert(world: World, served: Served, given: NewObject): JsonObject {
  const { namespace } = given;
  const metadata = metaOf(given.object);
  const prefix = textAt(metadata, 'generateName') ?? '';
  const generated = (textAt(metadata, 'name') ?? '') === '' && prefix !== '';
  if (served.custom?.terminating === true) {
    throw forbiddenObject(served, textAt(metadata, 'name') ?? '', 'create not allowed while custom resource definition is terminating');
  }
  for (let attempt = 1; ; attempt++) {
    const { object } = given;
    if (generated) metaOf(object)['name'] = `${prefix.slice(0, 58)}${suffix(world.random)}`;
    const name = textAt(object, 'metadata', 'name') ?? '';
    checkNamespace(world, served, namespace, name);
    const existing = world.store.table(served.storageKey).get(keyOf(served.namespaced ? namespace : '', name));
    if (existing !== undefined && name !== '') {
      if (generated && attempt < TRIES) continue;
      const deleting = textAt(parsed(existing), 'metadata', 'deletionTimestamp') !== undefined;
      throw generated ? nameNotGenerated(served, name) : alreadyExists(served, name, deleting);
    }
    return insertOnce(world, served, object, given);
  }
}

/** The same object with a metadata that can be written into: what recorded ownership may share it with the live one. */
const own = (object: JsonObject): JsonObject => ({ ...object, metadata: { ...objectAt(object, 'metadata') } });

function insertOnce(world: World, served: Served, object: JsonObject, { namespace, writer, recorded }: NewObject): JsonObject {
  const metadata = metaOf(object);
  for (const field of MANAGED_BY_SERVER) delete metadata[field];
  if (served.namespaced) metadata['namespace'] = namespace;
  else delete metadata['namespace'];
  delete metadata['resourceVersion'];
  metadata['uid'] = uuid(world.random);
  metadata['creationTimestamp'] = now(world);
  dedupOwners(object, writer.warn);
  if (served.strategy.keepsStatusOnCreate !== true) for (const field of served.strategy.statusFields) delete object[field];
  // Ownership is recorded for what the client sent; what the kind adds has no owner.
  const complete = own(recorded ? object : record(world, served, undefined, object, '', writer.manager));
  served.strategy.prepareCreate?.(complete, writer.user, now(world));
  served.settle?.(complete);
  generationOf(served, complete, undefined);
  refuseInvalid(served, complete, undefined, '', writer);
  admit(world, served, complete, undefined, '', writer);
  if (served.custom !== undefined) for (const line of finalizerWarnings(complete, undefined)) writer.warn(line);
  return commit(world, served, complete, writer);
}

interface Change {
  readonly namespace: string;
  readonly name: string;
  readonly subresource: string;
  readonly writer: Writer;
  /** Creates when absent. */
  readonly allowCreate: boolean;
  /** The object with its changes, decoded; called once. `live` must not be changed. May throw a Refusal. */
  readonly change: (live: JsonObject | undefined) => JsonObject;
  /** The change records managedFields itself. */
  readonly recorded: boolean;
  /** A UID in the object is a precondition (PUT), not only a field that cannot change. */
  readonly preconditioned?: boolean;
  /** Overwrites any version, even of a kind that demands one. */
  readonly unconditional?: boolean;
}

/** The version of an entry that a request for `served` sees. */
export function liveObject(served: Served, entry: Entry): JsonObject {
  const object = parsed(entry);
  if (object['apiVersion'] !== served.storageVersion || served.storageVersion === versionOf(served)) return object;
  return served.custom === undefined ? object : { ...object, apiVersion: versionOf(served) };
}

const versionOf = (served: Served) => (served.group === '' ? served.version : `${served.group}/${served.version}`);

/** Where etcd keeps the object on a real server; some messages name it. */
function storagePath(served: Served, namespace: string, name: string): string {
  const plural = served.group === '' && served.plural === 'nodes' ? 'minions' : served.plural;
  const group = served.custom === undefined && served.group !== 'apiextensions.k8s.io' ? [] : [served.group];
  return ['/registry', ...group, plural, ...(namespace === '' ? [] : [namespace]), name].join('/');
}

function checkVersion(served: Served, object: JsonObject, live: JsonObject, { name, unconditional, preconditioned }: Change): void {
  const given = textAt(object, 'metadata', 'resourceVersion') ?? '';
  const uid = textAt(object, 'metadata', 'uid') ?? '';
  const liveUid = textAt(live, 'metadata', 'uid') ?? '';
  if (preconditioned === true && uid !== '' && uid !== liveUid) {
    const key = storagePath(served, textAt(live, 'metadata', 'namespace') ?? '', name);
    const why = `Precondition failed: UID in precondition: ${uid}, UID in object meta: ${liveUid}`;
    throw conflict(served, name, `StorageError: invalid object, Code: 4, Key: ${key}, ResourceVersion: 0, AdditionalErrorMsg: ${why}`);
  }
  if (given === '' || given === '0') {
    if (unconditional === true || served.strategy.unconditionalUpdate) return;
    // Upstream names the resource here where it names the kind elsewhere.
    throw invalidObject(served.group, served.plural, name, [invalid('metadata.resourceVersion', 0, 'must be specified for an update')]);
  }
  if (!/^\d+$/.test(given)) throw new Refusal(500, undefined, `strconv.ParseUint: parsing ${JSON.stringify(given)}: invalid syntax`);
  if (given !== textAt(live, 'metadata', 'resourceVersion')) throw conflict(served, name, OUTDATED);
}

/** Restores what the subresource in hand may not write. */
function restrict(served: Served, object: JsonObject, live: JsonObject, subresource: string): JsonObject {
  const { statusFields } = served.strategy;
  if (subresource === '') {
    for (const field of statusFields) put(object, field, live[field]);
    return object;
  }
  if (subresource !== 'status' && subresource !== 'approval') return object;
  const out = own(live);
  for (const field of statusFields) put(out, field, object[field]);
  const metadata = metaOf(object);
  put(metaOf(out), 'managedFields', metadata['managedFields']);
  // Built-in kinds let a status write carry labels and annotations; custom ones do not.
  if (served.custom === undefined) {
    for (const field of ['labels', 'annotations', 'finalizers', 'ownerReferences']) put(metaOf(out), field, metadata[field]);
  }
  return out;
}

/** Changes one object. Throws a Refusal. A change that changes nothing leaves its resourceVersion as it is. */
export function modify(world: World, served: Served, given: Change): Written {
  const { namespace, name, subresource, writer } = given;
  const entry = world.store.table(served.storageKey).get(keyOf(served.namespaced ? namespace : '', name));
  if (entry === undefined) {
    if (!given.allowCreate || subresource !== '') throw notFound(served, name);
    const object = given.change(undefined);
    const uid = textAt(object, 'metadata', 'uid') ?? '';
    if (uid !== '')
      throw conflict(served, name, `uid mismatch: the provided object specified uid ${uid}, and no existing object was found`);
    return { object: insert(world, served, { namespace, object, writer, recorded: given.recorded }), created: true };
  }
  const live = liveObject(served, entry);
  const candidate = given.change(live);
  checkVersion(served, candidate, live, given);
  const liveMeta = objectAt(live, 'metadata');
  const object = restrict(served, candidate, live, subresource);
  const metadata = metaOf(object);
  metadata['resourceVersion'] = liveMeta['resourceVersion'] ?? null;
  metadata['uid'] ??= liveMeta['uid'] ?? null;
  put(metadata, 'creationTimestamp', liveMeta['creationTimestamp']);
  if (liveMeta['deletionTimestamp'] !== undefined) metadata['deletionTimestamp'] = liveMeta['deletionTimestamp'];
  else delete metadata['deletionTimestamp'];
  put(metadata, 'deletionGracePeriodSeconds', liveMeta['deletionGracePeriodSeconds']);
  if (served.namespaced) metadata['namespace'] ??= namespace;
  dedupOwners(object, writer.warn);
  const complete = own(object);
  // Ownership is recorded for what was sent, also where it is then dropped.
  if (!given.recorded) {
    put(
      metaOf(complete),
      'managedFields',
      objectAt(record(world, served, live, candidate, subresource, writer.manager), 'metadata')['managedFields'],
    );
  }
  served.strategy.prepareUpdate?.(complete, live, subresource, now(world));
  generationOf(served, complete, live);
  refuseInvalid(served, complete, live, subresource, writer);
  admit(world, served, complete, live, subresource, writer);
  if (served.custom !== undefined && subresource === '') for (const line of finalizerWarnings(complete, live)) writer.warn(line);
  if (finishesDeletion(served, complete, live)) {
    if (!writer.dryRun) world.store.remove(served.storageKey, entry.namespace, entry.name);
    return { object: complete, created: false };
  }
  if (ignoreTimestamps(live, complete) === live || equal(complete, live)) return { object: live, created: false };
  return { object: commit(world, served, complete, writer), created: false };
}

/** The last finalizer of an object under deletion is gone, and so is its grace. */
function finishesDeletion(served: Served, object: JsonObject, live: JsonObject): boolean {
  if (textAt(live, 'metadata', 'deletionTimestamp') === undefined) return false;
  if (stringsAt(object, 'metadata', 'finalizers').length > 0) return false;
  if (served.storageKey === '/namespaces' && stringsAt(object, 'spec', 'finalizers').length > 0) return false;
  return (numberAt(live, 'metadata', 'deletionGracePeriodSeconds') ?? 0) === 0;
}
