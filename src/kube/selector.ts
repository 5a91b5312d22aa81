import { CodedError } from '../api/errors.ts';
import type { KubeObject } from '../api/wire.ts';

/** `a=1,b=2`. An empty map is an error: to the server it would mean everything, in KubeNode it means nothing. */
export function selectorText(labels: Record<string, string>): string {
  const entries = Object.entries(labels);
  if (entries.length === 0)
    throw new CodedError('EmptySelector', 'a label selector without labels would select every object; leave it out instead');
  return entries.map(([name, value]) => `${name}=${value}`).join(',');
}

export function matchesLabels(labels: Record<string, string>, object: KubeObject): boolean {
  return Object.entries(labels).every(([name, value]) => object.metadata.labels?.[name] === value);
}

/** Undefined where the selector reads more than name and namespace: then only the server can tell. */
export function matchesFields(fieldSelector: string, object: KubeObject): boolean | undefined {
  let result: boolean | undefined = true;
  for (const term of fieldSelector.split(',')) {
    const [, field, value] = /^metadata\.(name|namespace)==?([^=]*)$/.exec(term) ?? [];
    if (field === undefined) result = undefined;
    else if ((field === 'name' ? object.metadata.name : object.metadata.namespace) !== value) return false;
  }
  return result;
}
