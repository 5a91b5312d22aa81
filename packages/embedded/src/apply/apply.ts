import { CodedError, reworded } from '@kubenode/api-machinery/errors';
import type { JsonObject } from '@kubenode/api-machinery/wire';
import type { Conflicts } from './conflict.ts';
import { describeConflicts } from './conflict.ts';
import type { FieldSet } from './field-set.ts';
import { difference, isEmpty, setOfFields, union } from './field-set.ts';
import { followLastApplied, lastAppliedFields, lastAppliedManager } from './last-applied.ts';
import type { FieldManager, Managers } from './managers.ts';
import {
  at,
  capUpdaters,
  decodeManagers,
  encodeManagers,
  entriesOf,
  identity,
  isReset,
  owning,
  setEntries,
  withManager,
} from './managers.ts';
import { customResetFields } from './reset.ts';
import { ignoreTimestamps } from './timestamps.ts';
import type { ApplyInput, ApplyResult, UpdateInput } from './types.ts';
import type { Merge } from './updater.ts';
import { applyMerge, recordUpdate } from './updater.ts';
import type { SchemaError } from './validate.ts';
import { errorText, validate } from './validate.ts';
import { deepEqual, isObject } from './value.ts';
import { applyError } from './errors.ts';

const maxUpdaters = 10;

/** Never owned: what identifies an object, and what the server writes. */
const stripped = setOfFields([
  'apiVersion',
  'kind',
  'metadata',
  ...['name', 'namespace', 'creationTimestamp', 'selfLink', 'uid', 'clusterName', 'generation', 'managedFields', 'resourceVersion'].map(
    (name) => `metadata.${name}`,
  ),
]);

function mergeOf(input: ApplyInput | UpdateInput): Merge {
  return {
    schema: input.schema.root,
    reset: setOfFields(input.resetFields ?? customResetFields(true, input.subresource)),
  };
}

const text = (object: JsonObject, key: string): string => {
  const value = object[key];
  return typeof value === 'string' ? value : '';
};

function metadataText(object: JsonObject, key: string): string {
  const metadata = object['metadata'];
  return isObject(metadata) ? text(metadata, key) : '';
}

/** What a new object of the kind contains. */
function blank(object: JsonObject, empty: JsonObject): JsonObject {
  return { apiVersion: object['apiVersion'] ?? '', kind: object['kind'] ?? '', ...empty };
}

/** `apps/v1, Kind=Deployment`; the core group stands as an empty name. */
function kindText(object: JsonObject): string {
  const apiVersion = text(object, 'apiVersion');
  return `${apiVersion.includes('/') ? apiVersion : `/${apiVersion}`}, Kind=${text(object, 'kind')}`;
}

function nameText(object: JsonObject): string {
  return `${metadataText(object, 'namespace')}/${metadataText(object, 'name')}; ${kindText(object)}`;
}

/** Records what an update changed under a manager’s name, and folds the oldest updaters away. */
function track(input: ApplyInput | UpdateInput, managers: Managers, live: JsonObject, updated: JsonObject, name: string): Managers {
  const who = {
    name: name === '' ? 'unknown' : name,
    operation: 'Update',
    apiVersion: text(updated, 'apiVersion'),
    subresource: input.subresource ?? '',
  } as const;
  const { managers: left, taken } = recordUpdate(mergeOf(input), managers, live, updated);
  const set = difference(taken, stripped);
  if (isEmpty(set)) return capUpdaters(left, maxUpdaters);
  const id = identity(who);
  const previous = left.get(id);
  const mine: FieldManager =
    previous === undefined ? { ...who, time: input.now, set, entry: undefined } : at(owning(previous, union(set, previous.set)), input.now);
  return capUpdaters(withManager(left, id, mine), maxUpdaters);
}

function readManagers(object: JsonObject | undefined): Managers | undefined {
  try {
    return decodeManagers(entriesOf(object) ?? []);
  } catch (error) {
    if (error instanceof CodedError) return undefined;
    throw error;
  }
}

/**
 * The managedFields that the user sent, or else the stored ones. The fields of a request to a subresource do not count; an answer that
 * cannot be read counts as none.
 */
function managersFor({ live, updated, subresource = '' }: UpdateInput): Managers {
  const noManagers: Managers = new Map();
  if (subresource === '') {
    if (isReset(entriesOf(updated))) return noManagers;
    const given = readManagers(updated);
    if (given !== undefined && given.size > 0) return given;
  }
  return readManagers(live) ?? noManagers;
}

/**
 * `updated` with the managedFields that result from a create, PUT or patch: the manager takes what changed, others lose what
 * changed or vanished. An object that does not fit its schema keeps the ownership it had, as on the server. Never throws.
 */
export function update(input: UpdateInput): JsonObject {
  const { live, updated, schema } = input;
  const before = live ?? blank(updated, schema.empty);
  const managers = managersFor(input);
  if (managers.size === 0 && live !== undefined && metadataText(live, 'uid') !== '') return setEntries(updated, undefined);
  if (validate(schema.root, updated, true).length > 0 || validate(schema.root, before, true).length > 0) {
    return setEntries(updated, entriesOf(live));
  }
  const next = setEntries(updated, encodeManagers(track(input, managers, before, updated, input.manager)));
  return live === undefined ? next : ignoreTimestamps(live, next);
}

/**
 * Merges what a manager applies. An object that stays as it is comes back as `live` itself.
 *
 * Throws a CodedError: `BadRequest` (400) for managedFields in the configuration or another kind than the live object's;
 * `InvalidApply` (500 without a reason, as the server answers) when either object does not fit the schema or the
 * configuration contains an item twice; `InvalidManagedFields` (500) when the live ones cannot be read.
 */
export function apply(input: ApplyInput): ApplyResult {
  const { applied, schema } = input;
  const stored = input.live ?? blank(applied, schema.empty);
  if (kindText(stored) !== kindText(applied)) throw applyError('BadRequest', `invalid object type: ${kindText(applied)}`);

  let managers = liveManagers(stored);
  const errors = validate(schema.root, stored, true);
  if (managers.size === 0) {
    check('failed to create manager for existing fields: failed to convert new object', stored, errors);
    managers = track(input, managers, blank(applied, schema.empty), setEntries(stored, undefined), 'before-first-apply');
  }
  if (entriesOf(applied) !== undefined) throw applyError('BadRequest', 'metadata.managedFields must be nil');
  check('failed to create typed patch object', applied, validate(schema.root, applied, false));
  check('failed to create typed live object', stored, errors);

  const result = mergeWithLastApplied(input, managers, stored);
  if (!result.ok) return { ok: false, conflicts: describeConflicts(result.conflicts) };

  const object = input.manager === lastAppliedManager ? followLastApplied(result.object, applied) : result.object;
  const next = setEntries(object, encodeManagers(result.managers));
  return { ok: true, object: input.live === undefined ? next : ignoreTimestamps(input.live, next) };
}

function check(what: string, object: JsonObject, errors: SchemaError[]): void {
  if (errors.length === 0) return;
  const words = what.endsWith('new object') ? ' to smd typed' : '';
  throw applyError('InvalidApply', `${what} (${nameText(object)})${words}: ${errorText(errors)}`, {
    next: 'correct the fields named: in the configuration, or in the stored object by an update',
  });
}

function liveManagers(live: JsonObject): Managers {
  try {
    return decodeManagers(entriesOf(live) ?? []);
  } catch (error) {
    if (!(error instanceof CodedError)) throw error;
    throw reworded(error, `failed to decode managed fields: ${error.message}`, { cause: error });
  }
}

type Merged = { ok: true; object: JsonObject; managers: Managers } | { ok: false; conflicts: Conflicts };

function mergeOnce(input: ApplyInput, managers: Managers, live: JsonObject, force: boolean): Merged {
  const who = {
    name: input.manager === '' ? 'unknown' : input.manager,
    operation: 'Apply',
    apiVersion: text(input.applied, 'apiVersion'),
    subresource: input.subresource ?? '',
  } as const;
  const id = identity(who);
  const result = applyMerge(mergeOf(input), managers, live, input.applied, id, force);
  if (!result.ok) return result;
  const object = isObject(result.object) && !deepEqual(result.object, live) ? result.object : live;
  const set = difference(result.set, stripped);
  const last = managers.get(id);
  const mine = last?.apiVersion === who.apiVersion ? owning(last, set) : { ...who, time: last?.time, set, entry: undefined };
  // An apply that leaves the object as it is keeps its time, and a new applier gets none.
  return { ok: true, object, managers: withManager(result.others, id, object === live ? mine : at(mine, input.now)) };
}

function mergeWithLastApplied(input: ApplyInput, managers: Managers, live: JsonObject): Merged {
  const result = mergeOnce(input, managers, live, input.force);
  if (result.ok || input.manager !== lastAppliedManager) return result;
  const allowed = lastAppliedFields(input.schema.root, live);
  if (allowed === undefined) return result;
  const left: Map<string, { manager: FieldManager; set: FieldSet }> = new Map();
  for (const [id, { manager, set }] of result.conflicts) {
    const rest = difference(set, allowed);
    if (!isEmpty(rest)) left.set(id, { manager, set: rest });
  }
  return left.size > 0 ? { ok: false, conflicts: left } : mergeOnce(input, managers, live, true);
}
