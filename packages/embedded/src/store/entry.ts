import type { JsonObject } from '@kubenode/api-machinery/wire';
import { listAt, stringMapAt, textAt } from '../json.ts';
import type { Labels } from '../selector.ts';

/** What the server must know of an object without parsing it. */
export interface EntryFacts {
  readonly labels: Labels;
  /** Values of the kind's selectable fields. */
  readonly fields: Labels;
  /** UIDs of its owners. */
  readonly owners: readonly string[];
}

/**
 * One version of one object. The JSON text is the truth: reads and watches send it as it is, and a shared string is a
 * third of the memory of a parsed object.
 */
export interface Entry extends EntryFacts {
  /** `namespace/name`, or `name` of a cluster-scoped object. */
  readonly key: string;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly rv: number;
  readonly json: string;
}

export interface EntryEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly resource: string;
  readonly rv: number;
  /** The new state; of a DELETED event the last state under the resourceVersion of its deletion. */
  readonly entry: Entry;
  readonly previous: Entry | undefined;
}

export const keyOf = (namespace: string, name: string): string => (namespace === '' ? name : `${namespace}/${name}`);

export function parsed(entry: Entry): JsonObject {
  return JSON.parse(entry.json) as JsonObject;
}

/** The same object under another resourceVersion. */
export function restamped(entry: Entry, rv: number): Entry {
  return entryOf(parsed(entry), rv, entry);
}

/** Stamps the resourceVersion into `object` and describes it. */
export function entryOf(object: JsonObject, rv: number, facts: EntryFacts): Entry {
  const metadata = object['metadata'] as JsonObject;
  metadata['resourceVersion'] = String(rv);
  const namespace = textAt(metadata, 'namespace') ?? '';
  const name = textAt(metadata, 'name') ?? '';
  return {
    key: keyOf(namespace, name),
    namespace,
    name,
    uid: textAt(metadata, 'uid') ?? '',
    rv,
    json: JSON.stringify(object),
    labels: facts.labels,
    fields: facts.fields,
    owners: facts.owners,
  };
}

const NONE: Labels = {};

export function factsOf(object: JsonObject, selectable: ((object: JsonObject) => Record<string, string>) | undefined): EntryFacts {
  return {
    labels: stringMapAt(object, 'metadata', 'labels'),
    fields: selectable === undefined ? NONE : selectable(object),
    owners: listAt(object, 'metadata', 'ownerReferences').flatMap((owner) => textAt(owner, 'uid') ?? []),
  };
}
