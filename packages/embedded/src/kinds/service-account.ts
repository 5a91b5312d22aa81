import { ageOf } from '../age.ts';
import { listAt, textAt } from '../json.ts';
import { checkSubdomain } from '../names.ts';
import { atomicList, fields, flag, listMap, text } from '../schema/schema.ts';
import type { Builtin } from './builtin.ts';
import { AGE, column, NAME } from './columns.ts';
import { objectReference, wholeObject } from './object-meta.ts';

export const serviceAccount: Builtin = {
  group: '',
  version: 'v1',
  kind: 'ServiceAccount',
  plural: 'serviceaccounts',
  namespaced: true,
  shortNames: ['sa'],
  schema: wholeObject('io.k8s.api.core.v1.ServiceAccount', 'An identity for processes. Tokens come from its token subresource.', {
    automountServiceAccountToken: flag(),
    imagePullSecrets: atomicList(fields({ name: text() })),
    secrets: listMap({ ...objectReference }, ['name'], 'Secrets that pods of this account may use.'),
  }),
  subresources: ['token'],
  columns: [NAME, column('Secrets', 'Number of secrets.'), AGE],
  cells: (object, now) => [
    textAt(object, 'metadata', 'name') ?? '',
    listAt(object, 'secrets').length,
    ageOf(textAt(object, 'metadata', 'creationTimestamp'), now),
  ],
  strategy: { validateName: checkSubdomain, returnsDeleted: true },
};
