import { ageOf } from '../age.ts';
import { invalid, type FieldProblem } from '../field-error.ts';
import { numberAt, textAt } from '../json.ts';
import { checkSubdomain } from '../names.ts';
import { fields, microTime, text, whole } from '../schema/schema.ts';
import type { Builtin } from './builtin.ts';
import { AGE, column, NAME } from './columns.ts';
import { wholeObject } from './object-meta.ts';

export const lease: Builtin = {
  group: 'coordination.k8s.io',
  version: 'v1',
  kind: 'Lease',
  plural: 'leases',
  namespaced: true,
  schema: wholeObject('io.k8s.api.coordination.v1.Lease', 'A lease: a lock or a heartbeat.', {
    spec: fields(
      {
        acquireTime: microTime('When the holder took it; microseconds.'),
        holderIdentity: text('Who has it.'),
        leaseDurationSeconds: whole('Seconds after renewTime at which others may take it.', 'int32'),
        leaseTransitions: whole('How often it changed hands.', 'int32'),
        preferredHolder: text(),
        renewTime: microTime('When the holder last renewed it; microseconds.'),
        strategy: text(),
      },
      'The lease.',
    ),
  }),
  empty: { spec: {} },
  columns: [NAME, column('Holder', 'Who has the lease.'), AGE],
  cells: (object, now) => [
    textAt(object, 'metadata', 'name') ?? '',
    textAt(object, 'spec', 'holderIdentity') ?? '',
    ageOf(textAt(object, 'metadata', 'creationTimestamp'), now),
  ],
  strategy: {
    createOnUpdate: true,
    unconditionalUpdate: false,
    validateName: checkSubdomain,
    validate(object) {
      const out: FieldProblem[] = [];
      const duration = numberAt(object, 'spec', 'leaseDurationSeconds');
      if (duration !== undefined && duration <= 0) out.push(invalid('spec.leaseDurationSeconds', duration, 'must be greater than 0'));
      const transitions = numberAt(object, 'spec', 'leaseTransitions');
      if (transitions !== undefined && transitions < 0) {
        out.push(invalid('spec.leaseTransitions', transitions, 'must be greater than or equal to 0'));
      }
      return out;
    },
  },
};
