import { objectError } from './errors.ts';
import { isPathSegment } from './object-name.ts';
import type { KubeObject } from './wire.ts';

/** Where a kind lives in the API, and the type of its objects. */
export interface Resource<T extends KubeObject = KubeObject> {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly plural: string;
  readonly namespaced: boolean;
  /**
   * Narrows what a server sent; throws a CodedError when it is not an object of this kind.
   * This is the only code where JSON from outside gets its type.
   */
  readonly parse: (value: unknown) => T;
}

export function apiVersionOf(resource: { group: string; version: string }): string {
  return resource.group === '' ? resource.version : `${resource.group}/${resource.version}`;
}

/** Name of an object inside its kind. `namespace` is absent for cluster-scoped kinds. */
export interface ObjectKey {
  namespace?: string | undefined;
  name: string;
}

/** `namespace/name`, or `name` alone. Names and namespaces never contain a slash. */
export function keyOf(key: ObjectKey): string {
  return key.namespace === undefined || key.namespace === '' ? key.name : `${key.namespace}/${key.name}`;
}

export function parseKey(key: string): ObjectKey {
  const slash = key.indexOf('/');
  return slash < 0 ? { name: key } : { namespace: key.slice(0, slash), name: key.slice(slash + 1) };
}

/** A name as a part of a path. Errors: `InvalidName`: no object has it, and the path would be another's. */
function segment(name: string): string {
  if (isPathSegment(name)) return encodeURIComponent(name);
  throw objectError('InvalidName', `${JSON.stringify(name.slice(0, 253))} is the name of no object`);
}

/** Path of a collection, or of one object when `name` is given. Errors: `InvalidName`. */
export function pathOf(resource: Resource, namespace?: string, name?: string, subresource?: string): string {
  const root = resource.group === '' ? `/api/${resource.version}` : `/apis/${resource.group}/${resource.version}`;
  const scope = resource.namespaced && namespace !== undefined && namespace !== '' ? `/namespaces/${segment(namespace)}` : '';
  const object = name === undefined ? '' : `/${segment(name)}`;
  const sub = subresource === undefined ? '' : `/${subresource}`;
  return `${root}${scope}/${resource.plural}${object}${sub}`;
}
