/** The policy of a deletion changes while a leader has an older view, or after the agent has left (docs/protocols.md#c14). */
import { describe, expect, test } from 'vitest';
import type { LedgerReservation } from '../../../api/disruption-ledger.ts';
import { ANNOTATIONS } from '../../../api/names.ts';
import type { Seen } from '../../../defender/guarded-write.ts';
import { decide } from '../decide.ts';
import { askOf } from '../reservation/ask.ts';
import { actOf } from '../steps.ts';
import { at, cordoned, facts, machine, node, operation, reservation, view } from '../testing/objects.ts';
import type { MachineView, Step } from '../view.ts';

const AGENT = { version: '1', apiLevel: 1, bootID: 'b', os: 'linux', arch: 'amd64' };
const LEAVING = { agent: { ...AGENT, leaving: true } };
const deletionTimestamp = at(-60);
const orphan = (parts: Parameters<typeof machine>[0] = {}) =>
  machine({
    ...parts,
    metadata: { deletionTimestamp, ...parts.metadata },
    spec: { provider: { name: 'ssh' }, deletionPolicy: 'Orphan', ...parts.spec },
  });
const steps = (change: Partial<MachineView>): string[] => decide(view(change)).steps.map((step) => step.do);
const ledger = (...reservations: LedgerReservation[]) =>
  ({
    apiVersion: 'kubenode.io/v1alpha1',
    kind: 'DisruptionLedger',
    metadata: { name: 'cell' },
    spec: {},
    status: { epoch: 1, reservations },
  }) as never;
const judged = (step: Step, seen: Seen) =>
  actOf(step, { epoch: 1, machine: { namespace: 'web', name: 'a' }, node: 'a', facts: facts(), newID: () => 'x' })?.judge(seen);

describe('the policy is Orphan by now, and the leader still sees Delete', () => {
  const remove = reservation({ id: 'r2', kind: 'Delete' });
  const idle = orphan({ spec: { operation: operation({ id: 'r0', kind: 'Cancelled' }) } });

  test('a Delete order is not written', () => {
    const move = judged({ do: 'Order', reservation: remove, drained: true, why: '' }, { machine: idle, ledger: ledger(remove) });
    expect(move).toHaveProperty('stop');
  });
  test('a Delete reservation does not cordon', () => {
    const move = judged({ do: 'Cordon', reservation: remove, why: '' }, { machine: idle, node: node(), ledger: ledger(remove) });
    expect(move).toHaveProperty('stop');
  });
  test('nor is it where a person has put the machine on hold by now', () => {
    const held = machine({ metadata: { deletionTimestamp }, spec: { hold: true, operation: operation({ id: 'r0', kind: 'Cancelled' }) } });
    const move = judged({ do: 'Order', reservation: remove, drained: true, why: '' }, { machine: held, ledger: ledger(remove) });
    expect(move).toHaveProperty('stop');
  });
  test('a deletion does not take over the reservation of what runs there', () => {
    const running = orphan({ spec: { operation: operation() } });
    const move = judged({ do: 'TakeOver', reservation: reservation(), why: '' }, { machine: running, ledger: ledger(reservation()) });
    expect(move).toHaveProperty('stop');
  });
});

describe('the agent has left, and then the policy becomes Delete', () => {
  const left = machine({
    metadata: { deletionTimestamp },
    spec: { provider: { name: 'ssh' }, deletionPolicy: 'Delete', operation: operation({ id: 'r0', kind: 'Cancelled' }) },
    status: LEAVING,
  });
  const remove = reservation({ id: 'r2', kind: 'Delete' });
  const claim = { state: 'Claimed', node: cordoned('a', 'r2') } as const;

  test('nothing is evicted for an order that no agent can carry out any more', () => {
    const pods = [{ namespace: 'web', name: 'p', uid: 'p', terminating: false }];
    expect(steps({ machine: left, reservation: remove, claim, pods })).not.toContain('Evict');
  });
  test('no Delete order is written, which would keep it from being given back for ever', () => {
    expect(steps({ machine: left, reservation: remove, claim, pods: [] })).not.toContain('Order');
  });
  test('it asks for no reservation, gives back one that it has, and waits with the ways out', () => {
    expect(steps({ machine: left, reservation: remove, claim, pods: [] })).toEqual(['WriteCancelled']);
    const { steps: none, waits } = decide(view({ machine: left, claim: { state: 'Claimed', node: node() } }));
    expect(none).toEqual([]);
    expect(waits?.why).toContain('spec.deletionPolicy: Orphan');
    expect(askOf(left, facts())).toEqual({ state: 'Nothing' });
    const off = { ...left, metadata: { ...left.metadata, annotations: { [ANNOTATIONS.machineIsOff]: 'burned down' } } };
    expect(askOf(off, facts())).toMatchObject({ state: 'Asks' });
  });
});
