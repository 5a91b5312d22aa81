import { messageOf, objectError } from '../../api/errors.ts';
import { plainText } from '../../api/plain-text.ts';
import { keyOf } from '../../api/resource.ts';
import type { Resource } from '../../api/resource.ts';
import type { ApiRequest } from '../../api/transport.ts';
import type { KubeObject, Stored } from '../../api/wire.ts';
import { isRecord, strings } from '../failure.ts';
import { where } from './exchange.ts';

/** Far above what Kubernetes takes (253, and 63 for a namespace). They are copied into keys, records and messages. */
export const MAX_IDENTITY = 512;
const TEXTS = new Set(['name', 'namespace', 'uid', 'resourceVersion', 'creationTimestamp', 'deletionTimestamp']);
const MAPS = new Set(['labels', 'annotations']);
const LISTS = new Set(['managedFields', 'ownerReferences', 'finalizers']);

/** Gives what the server sent its type, or names the object that is wrong. */
export function storedObject<T extends KubeObject>(resource: Resource<T>, value: unknown, request: ApiRequest): Stored<T> {
  const metadata = isRecord(value) && isRecord(value['metadata']) ? value['metadata'] : {};
  try {
    const object = resource.parse(value);
    const bad = badMetadata(object.metadata);
    if (bad !== undefined) throw objectError('InvalidObject', `metadata.${bad}`);
    if (hasIdentity(object)) return object;
    throw objectError('InvalidObject', 'metadata.uid or metadata.resourceVersion is missing');
  } catch (cause) {
    const { namespace, name } = strings(metadata, ['namespace', 'name']);
    const key = keyOf({ namespace, name: name ?? '?' }).slice(0, MAX_IDENTITY);
    throw objectError('InvalidObject', `${where(request)}: ${resource.kind} ${key}: ${plainText(messageOf(cause))}`, { cause });
  }
}

/** What every reader of an object relies on, and no schema of a kind contains. */
function badMetadata(metadata: object): string | undefined {
  for (const [field, value] of Object.entries(metadata) as [string, unknown][]) {
    if (value === null || value === undefined) continue;
    if (TEXTS.has(field)) {
      if (typeof value !== 'string') return `${field} is no text`;
      if (value.length > MAX_IDENTITY) return `${field} is longer than ${MAX_IDENTITY} characters`;
    } else if (MAPS.has(field)) {
      if (!isRecord(value)) return `${field} is no map`;
      if (Object.values(value).some((each) => typeof each !== 'string')) return `${field} has a value that is no text`;
    } else if (LISTS.has(field)) {
      if (!Array.isArray(value)) return `${field} is no list`;
      if (field !== 'finalizers' && !value.every(isRecord)) return `${field} has an entry that is no object`;
    }
  }
  return undefined;
}

function hasIdentity<T extends KubeObject>(object: T): object is Stored<T> {
  return typeof object.metadata.uid === 'string' && typeof object.metadata.resourceVersion === 'string';
}
