import type { Schema } from '../schema/schema.ts';

/**
 * The `fieldPath` of a rule, such as `.spec.replicas` or `.labels['a.b']`, as the ending of a problem's path: `.spec.replicas`,
 * `.labels[a.b]`. Undefined when no value of the schema has such a field; items of lists cannot be named.
 */
export function parseFieldPath(path: string, schema: Schema): string | undefined {
  let here: Schema | undefined = schema;
  let rest = path;
  let out = '';
  while (rest !== '') {
    const match = /^(?:\.([A-Za-z_][\w-]*)|\['((?:[^'\\]|\\.)+)'\])/.exec(rest);
    const name = match?.[1] ?? match?.[2]?.replaceAll(/\\(.)/g, '$1');
    if (match === null || name === undefined) return undefined;
    const entries: Schema | undefined = typeof here.additionalProperties === 'object' ? here.additionalProperties : undefined;
    const next: Schema | undefined = here.properties?.[name] ?? entries;
    if (next === undefined) return undefined;
    out += here.properties?.[name] === undefined ? `[${name}]` : `.${name}`;
    here = next;
    rest = rest.slice(match[0].length);
  }
  return out;
}
