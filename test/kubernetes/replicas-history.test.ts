/** What watches over the replicas sees what it is there to see. */
import { expect, it } from 'vitest';
import type { Node } from '../../src/api/builtin.ts';
import type { DisruptionLedger } from '../../src/api/disruption-ledger.ts';
import { API_VERSION } from '../../src/api/kind.ts';
import type { Machine, Operation } from '../../src/api/machine.ts';
import { wrongs, type Version } from './replicas-history.ts';

const AT = '2026-01-01T00:00:00Z';
const reservation = (id: string, machine: string) => ({
  id,
  machineUID: machine,
  machine: `pool/${machine}`,
  kind: 'Change' as const,
  class: 'Change' as const,
  requesterUID: 's',
  requester: 's',
  scopes: [],
  since: AT,
  notAfter: AT,
});
const ledger = (epoch: number, ...reservations: ReturnType<typeof reservation>[]): { of: 'ledger'; object: DisruptionLedger } => ({
  of: 'ledger',
  object: { apiVersion: API_VERSION, kind: 'DisruptionLedger', metadata: { name: 'cell' }, spec: {}, status: { epoch, reservations } },
});
const machine = (name: string, order?: Pick<Operation, 'id' | 'epoch'>): { of: 'machine'; object: Machine } => ({
  of: 'machine',
  object: {
    apiVersion: API_VERSION,
    kind: 'Machine',
    metadata: { namespace: 'pool', name, uid: name },
    spec: order === undefined ? {} : { operation: { ...order, kind: 'Change', notAfter: AT } },
    status: { nodeRef: { name, uid: name } },
  },
});
const node = (name: string, unschedulable = false): { of: 'node'; object: Node } => ({
  of: 'node',
  object: {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name },
    spec: { unschedulable },
    status: { conditions: [{ type: 'Ready', status: 'True' }] },
  },
});
const pool = ['a', 'b', 'c'].flatMap((name) => [node(name), machine(name)]);
const history = (...then: (ReturnType<typeof ledger> | ReturnType<typeof machine> | ReturnType<typeof node>)[]): Version[] =>
  [...pool, ...then].map((each, index) => ({ ...each, version: index, gone: false }));

it('finds nothing wrong where nothing is', () => {
  const seen = [ledger(1, reservation('1', 'a')), node('a', true), machine('a', { id: '1', epoch: 1 }), node('a'), ledger(1), ledger(2)];
  expect(wrongs(history(...seen), 1)).toEqual([]);
});

it.each([
  ['an epoch that falls', [ledger(2), ledger(1)], 'the epoch fell from 2 to 1'],
  ['two reservations of one machine', [ledger(1, reservation('1', 'a'), reservation('2', 'a'))], 'a machine has two reservations'],
  ['too many reserved', [ledger(1, reservation('1', 'a'), reservation('2', 'b'))], 'a, b are unavailable or reserved at once'],
  ['one reserved while another is out', [node('b', true), ledger(1, reservation('1', 'a'))], 'a, b are unavailable or reserved at once'],
  ['an order without a reservation', [ledger(1), machine('a', { id: '1', epoch: 1 })], 'which the ledger does not have for it'],
  [
    'an order with the reservation of another',
    [ledger(1, reservation('1', 'b')), machine('a', { id: '1', epoch: 1 })],
    'which the ledger does not have',
  ],
  ['an order of a term to come', [ledger(1, reservation('1', 'a')), machine('a', { id: '1', epoch: 2 })], 'which no term has begun'],
  [
    'an order of a term that is over',
    [
      ledger(2, reservation('2', 'a')),
      machine('a', { id: '2', epoch: 2 }),
      ledger(2, reservation('3', 'a')),
      machine('a', { id: '3', epoch: 1 }),
    ],
    'of epoch 1 after one of 2',
  ],
  [
    'an order that is written twice',
    [ledger(2, reservation('1', 'a')), machine('a', { id: '1', epoch: 1 }), machine('a', { id: '1', epoch: 2 })],
    'the order 1 twice',
  ],
])('sees %s', (_, seen, what) => {
  expect(wrongs(history(...seen), 1).join('\n')).toContain(what);
});
