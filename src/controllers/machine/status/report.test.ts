import { describe, expect, test } from 'vitest';
import type { Instance } from '../../../api/provider.ts';
import type { MachineView } from '../view.ts';
import { statusOf } from './report.ts';
import { at, cordoned, machine, node, operation, reservation, view, waiting } from '../testing/objects.ts';

const reported = (change: Partial<MachineView> = {}, refusals: string[] = []) =>
  statusOf({ view: view(change), verdict: undefined, refusals });
const condition = (status: ReturnType<typeof reported>, type: string): string | undefined => {
  const found = status.conditions?.find((each) => each.type === type);
  return found === undefined ? undefined : `${found.status} ${found.reason}`;
};
const fresh = machine({ status: {} });
const unmade = { ...fresh, status: {} };

const present = (): Instance => ({ providerID: 'fake://a', state: 'Running', addresses: [] });
const stopped = (): MachineView['instance'] => ({ state: 'Present', instance: { ...present(), state: 'Stopped' } });

describe('phase sums up the conditions', () => {
  test.each<[string, Partial<MachineView>, string]>([
    ['Pending', { machine: unmade, providerID: undefined, instance: { state: 'Absent' }, claim: { state: 'None' } }, 'NotMade'],
    ['Provisioning', { machine: unmade, claim: { state: 'None' } }, 'Running'],
    [
      'Installing',
      { machine: { ...fresh, status: { agent: machine().status?.agent } } as typeof fresh, claim: { state: 'None' } },
      'Running',
    ],
    ['Running', {}, 'Running'],
    ['Running', { kubeletAnswers: false }, 'Running'],
    [
      'Degraded',
      {
        machine: machine({
          components: [waiting({ state: 'Failed', failed: { revision: 2, reason: 'x', message: '', restored: false } })],
        }),
      },
      'Running',
    ],
    ['NodeLost', { claim: { state: 'Lost', message: 'Node a was deleted by another client' } }, 'Running'],
    ['NodeLost', { instance: { state: 'Absent' } }, 'Gone'],
    ['Deleting', { machine: machine({ metadata: { deletionTimestamp: at(0) } }), instance: { state: 'Absent' } }, 'Gone'],
  ])('%s', (phase, change, infrastructure) => {
    const status = reported(change);
    expect(status.phase).toBe(phase);
    expect(condition(status, 'InfrastructureReady')).toMatch(infrastructure);
    expect(condition(status, 'Ready')?.startsWith('True')).toBe(phase === 'Running' && change.kubeletAnswers !== false);
  });
});

describe('NodeReady', () => {
  test.each<[Partial<MachineView>, string]>([
    [{}, 'True NodeReady'],
    [{ kubeletAnswers: false }, 'Unknown KubeletStale'],
    [{ claim: { state: 'Claimed', node: node('a', { ready: false }) } }, 'False NodeNotReady'],
    [{ claim: { state: 'None' } }, 'False NoNode'],
    [{ claim: { state: 'Foreign', message: 'x' } }, 'False ForeignNode'],
  ])('%#', (change, expected) => {
    expect(condition(reported(change), 'NodeReady')).toBe(expected);
  });
  test('and nothing is Ready under a stale agent (invariant 7)', () => {
    expect(condition(reported({ facts: { ...view().facts, agentAnswers: false } }), 'Ready')).toBe('Unknown AgentStale');
  });
});

describe('Drained is reported while pods are taken away', () => {
  const pod = { namespace: 'web', name: 'p', uid: 'p', terminating: false };
  test('and whose no it is when one may not go', () => {
    expect(condition(reported(), 'Drained')).toBeUndefined();
    expect(condition(reported({ pods: [pod] }), 'Drained')).toBe('False Draining');
    expect(condition(reported({ pods: [] }), 'Drained')).toBe('True Drained');
    const refused = reported({ pods: [pod] }, ['web/p: needs 1 healthy pods']).conditions?.find(({ type }) => type === 'Drained');
    expect([refused?.reason, refused?.message]).toEqual(['EvictionRefused', '1 pod is still on the node; web/p: needs 1 healthy pods']);
  });
});

describe('lastDisruption', () => {
  test("is the reservation's, once the node is cordoned for it or has its order, and stays when the reservation goes", () => {
    expect(reported({ reservation: reservation() }).lastDisruption).toBeUndefined();
    expect(reported({ reservation: reservation(), claim: { state: 'Claimed', node: cordoned('a', 'r1') } }).lastDisruption).toBe(
      reservation().since,
    );
    expect(reported({ reservation: reservation(), machine: machine({ spec: { operation: operation() } }) }).lastDisruption).toBe(
      reservation().since,
    );
    expect(
      reported({ reservation: reservation(), machine: machine({ spec: { operation: operation({ kind: 'Cancelled' }) } }) }).lastDisruption,
    ).toBeUndefined();
    expect(reported({ machine: machine({ status: { lastDisruption: at(-99) } }) }).lastDisruption).toBe(at(-99));
  });
});

describe('underWay', () => {
  test('is the operation that has a reservation, and not the order that stays on the Machine when it is over', () => {
    const machineWithOrder = machine({ spec: { operation: operation() } });
    expect(reported({ machine: machineWithOrder, reservation: reservation({ kind: 'Repair' }) }).underWay).toBe('Repair');
    expect(reported({ machine: machineWithOrder })).not.toHaveProperty('underWay');
  });
});

describe('firstReadyAt', () => {
  const neverReady = (claim: MachineView['claim'], phase: 'Installing' | 'Degraded' | 'Running' = 'Installing') =>
    reported({ claim, machine: machine({ status: { phase } }) });
  const unready: MachineView['claim'] = { state: 'Claimed', node: node('a', { ready: false }) };
  const ready: MachineView['claim'] = { state: 'Claimed', node: node('a') };

  test('B3: is when the Node was first seen Ready, and a machine without it is new', () => {
    expect(neverReady({ state: 'None' }).firstReadyAt).toBeUndefined();
    expect(neverReady(unready).firstReadyAt).toBeUndefined();
    expect(
      reported({ claim: ready, kubeletAnswers: false, machine: machine({ status: { phase: 'Installing' } }) }).firstReadyAt,
    ).toBeUndefined();
    expect(neverReady(ready).firstReadyAt).toBe(at(0));
  });

  test('never changes and never goes', () => {
    const before = machine({ status: { firstReadyAt: at(-99) } });
    for (const claim of [ready, unready, { state: 'None' }, { state: 'Lost', message: 'x' }] satisfies MachineView['claim'][])
      expect(reported({ claim, machine: before, nowMs: view().nowMs + 5000 }).firstReadyAt).toBe(at(-99));
  });

  test('a machine that ran before this was recorded is not new', () => {
    expect(neverReady(unready, 'Running').firstReadyAt).toBe(at(0));
  });

  test('one whose first installation failed was never Ready, and is not Running either', () => {
    const status = neverReady(unready, 'Degraded');
    expect([status.firstReadyAt, status.phase]).toEqual([undefined, 'Installing']);
  });
});

test('a second report of the same state is the same', () => {
  const first = reported();
  const again = reported({ nowMs: view().nowMs + 60_000, machine: machine({ status: first }) });
  expect(again).toEqual(first);
});

test('conditions of others are not taken over', () => {
  const agent = { type: 'AgentReady', status: 'True' as const, reason: 'x', message: '', lastTransitionTime: at(0) };
  expect(reported({ machine: machine({ status: { conditions: [agent] } }) }).conditions?.map(({ type }) => type)).not.toContain(
    'AgentReady',
  );
});

test.each<[string, Partial<MachineView>, string]>([
  ['NodeReady', { claim: { state: 'Lost', message: 'it was deleted' } }, 'False NodeLost'],
  ['InfrastructureReady', { instance: { state: 'NoProvider' } }, 'Unknown NoProvider'],
  ['InfrastructureReady', { instance: { state: 'Unknown', reason: 'RateLimited', message: 'later' } }, 'Unknown RateLimited'],
  ['InfrastructureReady', { instance: { state: 'Absent' } }, 'False Gone'],
  ['Ready', { instance: stopped() }, 'False InstanceNotRunning'],
  ['Ready', { claim: { state: 'Claimed', node: node('a', { ready: false }) } }, 'False NodeNotReady'],
  ['Ready', { claim: { state: 'Lost', message: 'it was deleted' } }, 'False NodeLost'],
  ['Ready', {}, 'True Ready'],
  ['Degraded', {}, 'False NotDegraded'],
])('condition %s of %j is %j', (type, change, expected) => {
  expect(condition(reported(change), type)).toBe(expected);
});

test('a drain reports why it takes its time: budgets that never end come before refusals', () => {
  const pods = [{ namespace: 'web', name: 'p', uid: 'p', terminating: false }];
  const drained = (refusals: string[], unending: string[]) =>
    statusOf({ view: view({ pods }), verdict: undefined, refusals, unending }).conditions?.find(({ type }) => type === 'Drained');
  expect(drained([], [])).toMatchObject({ status: 'False', reason: 'Draining' });
  expect(drained(['web/p: no'], [])).toMatchObject({ reason: 'EvictionRefused', message: expect.stringContaining('web/p: no') });
  expect(drained(['web/p: no'], ['PodDisruptionBudget x never'])).toMatchObject({
    reason: 'BudgetNeverAllows',
    message: expect.stringMatching(/^(?!.*web\/p: no).*PodDisruptionBudget x never$/),
  });
  expect(drained(['1st', '2nd', '3rd', '4th'], [])?.message).not.toContain('4th');
});

test('C11: what the Node has not is reported, as long as it has it not, the worst first', () => {
  const nodeSynced = (...notOnNode: MachineView['notOnNode'][number][]) =>
    reported({ notOnNode }).conditions?.find(({ type }) => type === 'NodeSynced');
  expect(nodeSynced()).toBeUndefined();
  const foreign = { reason: 'SetByAnother', message: 'label a=b (the Node has "c")' } as const;
  expect(nodeSynced(foreign)).toMatchObject({ status: 'False', reason: 'SetByAnother', message: expect.stringContaining(foreign.message) });
  expect(nodeSynced(foreign, { reason: 'NodeRefused', message: 'a is invalid' })).toMatchObject({
    reason: 'NodeRefused',
    message: 'the API server refuses the Node: a is invalid; set otherwise by another client, and left so: label a=b (the Node has "c")',
  });
  expect(nodeSynced(...Array.from({ length: 9 }, () => foreign))?.message).toMatch(/ and 4 more$/);
  // What a webhook answers may be anything.
  for (const odd of ['', 'x']) {
    const { message } = nodeSynced({ reason: 'NodeRefused', message: `${odd}no\n${'🙂'.repeat(999)}` }) ?? { message: '' };
    expect([message.isWellFormed(), message.includes('\n'), message.length <= 1024]).toEqual([true, false, true]);
  }
});

test('addresses are those of the instance, and stay while nothing better is known', () => {
  const old = [{ type: 'InternalIP', address: '10.0.0.1' }];
  const known = machine({ status: { addresses: old } });
  const now = [{ type: 'InternalIP', address: '10.0.0.2' }];
  const instance = (addresses: typeof now) => ({ state: 'Present' as const, instance: { ...present(), addresses } });
  expect(reported({ machine: known, instance: instance(now) }).addresses).toEqual(now);
  expect(reported({ machine: known, instance: instance([]) }).addresses).toEqual(old);
  expect(reported({ machine: known, instance: { state: 'Absent' } }).addresses).toEqual(old);
  expect(reported()).not.toHaveProperty('addresses');
});
