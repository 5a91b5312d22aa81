import type { JsonObject } from '@kubenode/api-machinery/wire';
import { ageOf } from '../age.ts';
import { forbidden, invalid, type FieldProblem } from '../field-error.ts';
import { at, equal, isObject, objectAt, textAt } from '../json.ts';
import { checkConfigKey, checkSubdomain } from '../names.ts';
import { bytes, flag, mapOf, text } from '../schema/schema.ts';
import type { Builtin } from './builtin.ts';
import { AGE, column, NAME } from './columns.ts';
import { wholeObject } from './object-meta.ts';

const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** Problems of the keys of `data` and its like, shared with ConfigMap. */
export function checkKeys(object: JsonObject, ...names: string[]): FieldProblem[] {
  return names.flatMap((name) =>
    Object.keys(objectAt(object, name)).flatMap((key) => checkConfigKey(key).map((line) => invalid(`${name}[${key}]`, key, line))),
  );
}

/** What `immutable: true` fixes. */
export function checkImmutable(object: JsonObject, old: JsonObject | undefined, ...names: string[]): FieldProblem[] {
  if (old === undefined || old['immutable'] !== true) return [];
  const word = 'field is immutable when `immutable` is set';
  const out: FieldProblem[] = [];
  if (object['immutable'] !== true) out.push(forbidden('immutable', word));
  for (const name of names) if (!equal(object[name] ?? {}, old[name] ?? {})) out.push(forbidden(name, word));
  return out;
}

export const secret: Builtin = {
  group: '',
  version: 'v1',
  kind: 'Secret',
  plural: 'secrets',
  namespaced: true,
  schema: wholeObject('io.k8s.api.core.v1.Secret', 'Secret data, base64-encoded.', {
    data: mapOf(bytes(), 'The data; values are base64.'),
    immutable: flag('If true, the data can no longer be changed.'),
    stringData: mapOf(text(), 'Data as plain text; written into data, never read back.'),
    type: text('What the data is for.'),
  }),
  columns: [NAME, column('Type', 'Used to facilitate programmatic handling of secret data.'), column('Data', 'Number of entries.'), AGE],
  cells: (object, now) => [
    textAt(object, 'metadata', 'name') ?? '',
    textAt(object, 'type') ?? '',
    Object.keys(objectAt(object, 'data')).length,
    ageOf(textAt(object, 'metadata', 'creationTimestamp'), now),
  ],
  strategy: {
    validateName: checkSubdomain,
    defaults(object) {
      object['type'] ??= 'Opaque';
      const plain = object['stringData'];
      delete object['stringData'];
      if (!isObject(plain)) return;
      const data = isObject(object['data']) ? { ...object['data'] } : {};
      for (const [key, value] of Object.entries(plain))
        if (typeof value === 'string') data[key] = Buffer.from(value, 'utf8').toString('base64');
      object['data'] = data;
    },
    validate(object, old) {
      const out = checkKeys(object, 'data');
      for (const [key, value] of Object.entries(objectAt(object, 'data'))) {
        if (typeof value !== 'string' || !BASE64.test(value)) out.push(invalid(`data[${key}]`, '<hidden>', 'must be base64-encoded'));
      }
      if (old !== undefined && !equal(at(object, 'type'), at(old, 'type'))) {
        out.push(invalid('type', at(object, 'type'), 'field is immutable'));
      }
      return [...out, ...checkImmutable(object, old, 'data')];
    },
    selectableNames: ['type'],
    selectable: (object) => ({ type: textAt(object, 'type') ?? '' }),
  },
};
