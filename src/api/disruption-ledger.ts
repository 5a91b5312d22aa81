import { Type, type Static } from 'typebox';
import { atomic, listMap, time } from './fields.ts';
import { defineKind } from './kind/definition.ts';
import { ACTIONS } from './node-remedier/values.ts';

/** As many as a reservation takes. */
export const MAX_SCOPES = 24;

/** One reserved disruption of one machine (docs/protocols.md#d1). */
export const ledgerReservation = Type.Object({
  id: Type.String({ minLength: 1 }),
  machineUID: Type.String({ minLength: 1 }),
  machine: Type.String({ description: 'namespace/name' }),
  nodeUID: Type.Optional(Type.String()),
  kind: Type.Enum(['Change', 'Repair', 'Delete']),
  class: Type.Enum(['Restore', 'Repair', 'Change'], { description: 'what it was asked as; Delete reservations keep theirs' }),
  requesterUID: Type.String({ description: 'UID of the set, job or machine that asked' }),
  requester: Type.String({ description: 'kind/name, to read' }),
  scopes: atomic(Type.String(), { maxItems: MAX_SCOPES, description: 'cluster, zone/ZONE, rack/RACK, pool/NS, set/UID, condition/TYPE …' }),
  components: Type.Optional(
    atomic(Type.Object({ name: Type.String(), revision: Type.Integer({ minimum: 1 }), class: Type.Enum(['Restore', 'Change']) }), {
      maxItems: 64,
      description: 'Change: exactly what it was granted for; the order contains that and no more',
    }),
  ),
  action: Type.Optional(Type.Enum([...ACTIONS], { description: 'Repair: what it was reserved for' })),
  counted: Type.Optional(
    Type.Object(
      { at: time(), class: Type.String(), scopes: atomic(Type.String(), { maxItems: MAX_SCOPES }) },
      { description: 'where `hours` counts it; given back, in the write that removes the reservation, if it never had an order' },
    ),
  ),
  succeeds: Type.Optional(
    Type.String({
      description:
        'operation whose reservation it took over from an agent that did not respond: it may have begun, and go on when the agent is back (C9)',
    }),
  ),
  since: time(),
  notAfter: time('execution must have begun before; frees no reservation'),
});
export type LedgerReservation = Static<typeof ledgerReservation>;

/** How many disruptions were reserved in a stretch of time, for rates (docs/protocols.md#d1). */
export const startsBucket = Type.Object({
  from: time('by the clock of the leader that opened it; no later one is counted before it'),
  minutes: Type.Integer({ minimum: 1, description: 'how long: 5, or 60 once it is older than an hour' }),
  starts: Type.Unsafe<Record<string, number>>({
    type: 'object',
    additionalProperties: { type: 'integer' },
    description: 'by `<class> <scope>`; only what a rate limits',
  }),
});
export type StartsBucket = Static<typeof startsBucket>;

export const LEDGER_NAME = 'cell';

export const DisruptionLedgers = defineKind({
  kind: 'DisruptionLedger',
  plural: 'disruptionledgers',
  shortNames: ['ledger'],
  namespaced: false,
  description: 'The one object in which every disruption is reserved before it happens.',
  spec: Type.Object({}),
  status: Type.Object({
    epoch: Type.Optional(Type.Integer({ minimum: 0, description: 'raised by each acquisition of leadership; never falls' })),
    reservations: Type.Optional(listMap(ledgerReservation, ['id'], { maxItems: 500 })),
    hours: Type.Optional(atomic(startsBucket, { maxItems: 64, description: 'the last day, oldest first; absent while no rate is set' })),
  }),
  rules: [
    {
      rule: '!has(oldSelf.status) || !has(oldSelf.status.epoch) || (has(self.status) && has(self.status.epoch) && self.status.epoch >= oldSelf.status.epoch)',
      message: 'the epoch never falls',
      fieldPath: '.status',
    },
  ],
  columns: [
    { name: 'Epoch', type: 'integer', jsonPath: '.status.epoch' },
    { name: 'Machines', type: 'string', jsonPath: '.status.reservations[*].machine' },
  ],
});
export type DisruptionLedger = ReturnType<typeof DisruptionLedgers.parse>;
