import type { KubeObject } from '../api/wire.ts';

/** Undefined where the selector reads more than name and namespace: then only the server knows. */
export function matchesFields(fieldSelector: string, object: KubeObject): boolean | undefined {
  let result: boolean | undefined = true;
  for (const term of fieldSelector.split(',')) {
    const [, field, value] = /^metadata\.(name|namespace)==?([^=]*)$/.exec(term) ?? [];
    if (field === undefined) result = undefined;
    else if ((field === 'name' ? object.metadata.name : object.metadata.namespace) !== value) return false;
  }
  return result;
}
