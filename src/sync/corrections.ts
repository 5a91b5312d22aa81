/** What a user changed in a cell that Git declares otherwise, for people. Pure. */
import { canonical } from '../api/digest.ts';
import { MANAGERS } from '../api/names.ts';
import { plainText } from '../api/plain-text.ts';
import type { JsonObject, KubeObject, Stored } from '../api/wire.ts';
import { ownerIndex } from '../kube/owner-index.ts';
import { extraFields } from './extra-fields.ts';

const MAX_FIELDS = 3;
const MAX_VALUE = 60;

interface Difference {
  path: string;
  /** As records in managedFields have it. */
  members: readonly string[];
  found: unknown;
  wanted: unknown;
}

/** `spec.replicas from 5 to 3, set by kubectl`: what is written over `stored`, of what sync itself did not set last; empty where that is nothing. */
export function correctionsOf(stored: Stored<KubeObject>, desired: KubeObject): string[] {
  const records = stored.metadata.managedFields ?? [];
  const own = records.filter(({ manager }) => manager === MANAGERS.sync);
  const ownOf = ownerIndex(own);
  // What an apply of sync has on record was taken over before, and is about to go.
  const appliedOf = ownerIndex(own.filter(({ operation }) => operation === 'Apply'));
  const otherOf = ownerIndex(records.filter(({ manager }) => manager !== MANAGERS.sync));
  // What is in one must not be read in an Event.
  const valuesText =
    stored.kind === 'Secret' ? () => '' : (was: unknown, wanted: unknown) => ` from ${valueText(was)} to ${valueText(wanted)}`;
  // A field that is still sync's own differs because the commit, or the lane, does.
  const changed = differences(valueOf(stored), valueOf(desired), []).filter(({ members }) => ownOf(members) === undefined);
  const extra = extraFields(stored, desired)
    .filter(({ members }) => appliedOf(members) === undefined || otherOf(members) !== undefined)
    .map(({ byDefault, ...field }) => ({ ...field, wanted: byDefault }));
  const found = [...extra, ...changed];
  const texts = found.slice(0, MAX_FIELDS).map(({ path, members, found: was, wanted }) => {
    const by = otherOf(members);
    // What no manager had may never have been there.
    if (was === undefined && by === undefined) return `${path}${valuesText(was, wanted)}`;
    return `${path}${valuesText(was, wanted)}, ${was === undefined ? 'removed' : 'set'} by ${by?.manager ?? 'an unknown manager'}`;
  });
  const more = found.length > MAX_FIELDS ? [`${found.length - MAX_FIELDS} more`] : [];
  return [...texts, ...more].map((text) => plainText(text));
}

/** Status is not put back, and of the metadata only what sync declares. */
function valueOf(object: KubeObject): JsonObject {
  const { status: _status, apiVersion: _apiVersion, kind: _kind, metadata, ...rest } = object as KubeObject & JsonObject;
  const { labels = {}, annotations = {} } = metadata;
  return { metadata: { labels, annotations }, ...rest };
}

function differences(stored: unknown, desired: unknown, path: string[]): Difference[] {
  if (isMap(desired) && (isMap(stored) || (stored === undefined && path.length === 0)))
    return Object.entries(desired).flatMap(([key, wanted]) =>
      differences(isMap(stored) && Object.hasOwn(stored, key) ? stored[key] : undefined, wanted, [...path, key]),
    );
  if (canonical(stored ?? null) === canonical(desired ?? null)) return [];
  return [{ path: path.join('.'), members: path.map((field) => `f:${field}`), found: stored, wanted: desired }];
}

const isMap = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value);

function valueText(value: unknown): string {
  if (value === undefined || value === null) return 'nothing';
  const text = typeof value === 'string' ? `"${value}"` : JSON.stringify(value);
  return text.length > MAX_VALUE ? `${text.slice(0, MAX_VALUE)}…` : text;
}
