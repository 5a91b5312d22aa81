import { ageOf } from '../age.ts';
import { forbiddenObject } from '../refusal.ts';
import { isObject, metaOf, objectAt, textAt } from '../json.ts';
import { checkLabelName } from '../names.ts';
import { atomicList, fields, text } from '../schema/schema.ts';
import type { Builtin } from './builtin.ts';
import { AGE, column, NAME } from './columns.ts';
import { conditions, wholeObject } from './object-meta.ts';

/** Namespaces that a cluster is made with and cannot lose. */
const IMMORTAL = ['default', 'kube-system', 'kube-public'];

/** The namespaces made when a cluster starts. */
export const INITIAL_NAMESPACES = [...IMMORTAL, 'kube-node-lease'];

export const namespace: Builtin = {
  group: '',
  version: 'v1',
  kind: 'Namespace',
  plural: 'namespaces',
  namespaced: false,
  shortNames: ['ns'],
  schema: wholeObject('io.k8s.api.core.v1.Namespace', 'A scope for names.', {
    spec: fields({ finalizers: atomicList(text(), 'Must be empty before the namespace is removed.') }, 'Behaviour of the namespace.'),
    status: fields({ conditions: conditions(), phase: text('Active or Terminating.') }, 'State of the namespace.'),
  }),
  empty: { spec: {}, status: {} },
  subresources: ['status', 'finalize'],
  columns: [NAME, column('Status', 'The status of the namespace'), AGE],
  cells: (object, now) => [
    textAt(object, 'metadata', 'name') ?? '',
    textAt(object, 'status', 'phase') ?? '',
    ageOf(textAt(object, 'metadata', 'creationTimestamp'), now),
  ],
  strategy: {
    statusFields: ['status'],
    validateName: checkLabelName,
    defaults(object) {
      const meta = metaOf(object);
      const name = textAt(meta, 'name');
      const labels = isObject(meta['labels']) ? meta['labels'] : {};
      if (name !== undefined && name !== '') meta['labels'] = { ...labels, 'kubernetes.io/metadata.name': name };
    },
    prepareCreate(object) {
      object['spec'] = { finalizers: ['kubernetes'] };
      object['status'] = { phase: 'Active' };
    },
    prepareUpdate(object, old, subresource) {
      if (subresource !== 'finalize') object['spec'] = old['spec'] ?? {};
    },
    selectableNames: ['status.phase', 'name'],
    selectable: (object) => ({
      'status.phase': textAt(object, 'status', 'phase') ?? '',
      name: textAt(object, 'metadata', 'name') ?? '',
    }),
    startDeletion(object, now) {
      const meta = metaOf(object);
      if (meta['deletionTimestamp'] !== undefined) return false;
      meta['deletionTimestamp'] = now;
      object['status'] = { ...objectAt(object, 'status'), phase: 'Terminating' };
      return true;
    },
    beforeDelete(object) {
      const name = textAt(objectAt(object, 'metadata'), 'name') ?? '';
      if (IMMORTAL.includes(name)) throw forbiddenObject({ group: '', plural: 'namespaces' }, name, 'this namespace may not be deleted');
    },
  },
};
