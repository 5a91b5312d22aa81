import { ageOf } from '../age.ts';
import { invalid } from '../field-error.ts';
import { objectAt, textAt } from '../json.ts';
import { checkSubdomain } from '../names.ts';
import { bytes, flag, mapOf, text } from '../schema/schema.ts';
import type { Builtin } from './builtin.ts';
import { AGE, column, NAME } from './columns.ts';
import { wholeObject } from './object-meta.ts';
import { checkImmutable, checkKeys } from './secret.ts';

export const configMap: Builtin = {
  group: '',
  version: 'v1',
  kind: 'ConfigMap',
  plural: 'configmaps',
  namespaced: true,
  shortNames: ['cm'],
  schema: wholeObject('io.k8s.api.core.v1.ConfigMap', 'Configuration data for pods and others.', {
    binaryData: mapOf(bytes(), 'Data that is not text; values are base64.'),
    data: mapOf(text(), 'Data that is text.'),
    immutable: flag('If true, the data can no longer be changed.'),
  }),
  columns: [NAME, column('Data', 'Number of entries.'), AGE],
  cells: (object, now) => [
    textAt(object, 'metadata', 'name') ?? '',
    Object.keys(objectAt(object, 'data')).length + Object.keys(objectAt(object, 'binaryData')).length,
    ageOf(textAt(object, 'metadata', 'creationTimestamp'), now),
  ],
  strategy: {
    validateName: checkSubdomain,
    validate: (object, old) => [
      ...Object.keys(objectAt(object, 'data'))
        .filter((key) => objectAt(object, 'binaryData')[key] !== undefined)
        .map((key) => invalid(`data[${key}]`, key, 'duplicate of key present in binaryData')),
      ...checkKeys(object, 'data', 'binaryData'),
      ...checkImmutable(object, old, 'data', 'binaryData'),
    ],
  },
};
