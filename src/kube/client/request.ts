import { kubeError } from '../errors.ts';
import { pathOf } from '../../api/resource.ts';
import type { ObjectKey, Resource } from '../../api/resource.ts';

export function namespaceOf(resource: Resource, key: { namespace?: string | undefined }): string | undefined {
  if (!resource.namespaced) return undefined;
  if (key.namespace !== undefined && key.namespace !== '') return key.namespace;
  throw kubeError('NamespaceMissing', `a ${resource.kind} is named by namespace and name; the namespace is missing`);
}

export function objectPath(resource: Resource, key: ObjectKey, subresource?: string): string {
  // An empty name would be the path of the whole collection.
  if (key.name === '') throw kubeError('NameMissing', `a ${resource.kind} without a name was asked for`);
  return pathOf(resource, namespaceOf(resource, key), key.name, subresource);
}

export function signalOf(options: { signal?: AbortSignal }): { signal?: AbortSignal } {
  return options.signal === undefined ? {} : { signal: options.signal };
}

export function queryOf<Options extends object>(options: Options, names: (keyof Options & string)[]): Record<string, string> {
  return Object.fromEntries(names.flatMap((name) => (options[name] === undefined ? [] : [[name, String(options[name])]])));
}
