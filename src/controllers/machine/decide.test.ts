import { describe, expect, test } from 'vitest';
import { ANNOTATIONS } from '../../api/names.ts';
import { decide, isDraining } from './decide.ts';
import type { MachineView } from './view.ts';
import { at, cordoned, entry, facts, machine, node, NOW, operation, reservation, view, waiting } from './testing/objects.ts';

const steps = (change: Partial<MachineView>): string[] => decide(view(change)).steps.map((step) => step.do);
const only = (change: Partial<MachineView>) => {
  const { steps: taken, waits } = decide(view(change));
  return { step: taken[0], count: taken.length, waits };
};
const claimed = (object = node()): MachineView['claim'] => ({ state: 'Claimed', node: object });
const deleted = { metadata: { deletionTimestamp: at(0) } };
const pod = { namespace: 'web', name: 'p', uid: 'p', terminating: false };

describe('C3: each step of a change is found from the state alone', () => {
  const draining = { components: [waiting({ needs: 'Drain' as const })] };
  test.each<[string, Partial<MachineView>, string[]]>([
    ['reserved: cordon', { reservation: reservation() }, ['Cordon']],
    ['cordoned: order', { reservation: reservation(), claim: claimed(cordoned('a', 'r1')) }, ['Order']],
    [
      'cordoned for an earlier reservation: taken over first',
      { reservation: reservation(), claim: claimed(cordoned('a', 'r0')) },
      ['Cordon'],
    ],
    ['cordoned as Degraded: taken over first', { reservation: reservation(), claim: claimed(cordoned('a', 'Degraded')) }, ['Cordon']],
    [
      'made unschedulable by a human: marked before the order',
      { reservation: reservation(), claim: claimed(node('a', { spec: { unschedulable: true } })) },
      ['Cordon'],
    ],
    ['without a Node: order', { reservation: reservation(), claim: { state: 'None' } }, ['Order']],
    [
      'needs a drain, pods left: evict each',
      { reservation: reservation(), machine: machine(draining), claim: claimed(cordoned('a', 'r1')), pods: [pod, { ...pod, uid: 'q' }] },
      ['Evict', 'Evict'],
    ],
    [
      'needs a drain, pods going: wait',
      {
        reservation: reservation(),
        machine: machine(draining),
        claim: claimed(cordoned('a', 'r1')),
        pods: [{ ...pod, terminating: true }],
      },
      [],
    ],
    [
      'needs a drain, none left: order',
      { reservation: reservation(), machine: machine(draining), claim: claimed(cordoned('a', 'r1')), pods: [] },
      ['Order'],
    ],
    [
      'ordered: wait for the agent',
      { reservation: reservation(), machine: machine({ spec: { operation: operation() } }), claim: claimed(cordoned('a', 'r1')) },
      [],
    ],
    [
      'reported: settle the cordon',
      {
        reservation: reservation(),
        machine: machine({ spec: { operation: operation() }, status: { operation: { id: 'r1', state: 'Done', outcome: 'Succeeded' } } }),
        claim: claimed(cordoned('a', 'r1')),
      },
      ['Settle'],
    ],
    [
      'settled: release',
      {
        reservation: reservation(),
        machine: machine({ spec: { operation: operation() }, status: { operation: { id: 'r1', state: 'Done', outcome: 'Succeeded' } } }),
      },
      ['Release'],
    ],
  ])('%s', (_, change, expected) => {
    expect(steps(change)).toEqual(expected);
  });

  test('a class below Drain is never drained', () => {
    expect(isDraining(view({ reservation: reservation(), claim: claimed(cordoned('a', 'r1')) }))).toBe(false);
    expect(
      isDraining(
        view({
          reservation: reservation(),
          claim: claimed(cordoned('a', 'r1')),
          machine: machine({ components: [waiting({ needs: 'Reboot' })] }),
        }),
      ),
    ).toBe(true);
  });

  test("A5: a failed change is released only after its set's answer", () => {
    const failed = waiting({ state: 'Failed', failed: { revision: 2, reason: 'ProbeFailed', message: '', restored: true } });
    const status = { operation: { id: 'r1', state: 'Done' as const, outcome: 'PermanentFailure' as const } };
    const failing = machine({ components: [failed], spec: { operation: operation() }, status });
    expect(only({ reservation: reservation(), machine: failing }).waits?.for).toBe('SetController');
    const answered = { version: '1.0.0', revision: 3, failed: { setRevision: 2, attempt: 1, reason: 'ProbeFailed' } };
    expect(
      steps({
        reservation: reservation(),
        machine: machine({ components: [failed], entries: [entry(answered)], spec: { operation: operation() }, status }),
      }),
    ).toEqual(['Release']);
    // No set is left that would answer.
    expect(steps({ reservation: reservation(), machine: failing, facts: facts({ sets: new Map() }) })).toEqual(['Release']);
  });
});

describe('D5: no release by clock', () => {
  const longAfter = { nowMs: NOW + 86_400_000, facts: facts({ nowMs: NOW + 86_400_000, agentAnswers: false }) };
  test('an order whose time has passed, under a stale agent, keeps its reservation', () => {
    const { step, waits } = only({
      reservation: reservation(),
      machine: machine({ spec: { operation: operation() } }),
      claim: claimed(cordoned('a', 'r1')),
      ...longAfter,
    });
    expect(step).toBeUndefined();
    expect(waits?.for).toBe('Agent');
  });
  test('and so does a Delete reservation, at any time', () => {
    expect(
      steps({ reservation: reservation({ kind: 'Delete' }), machine: machine(deleted), claim: { state: 'None' }, ...longAfter }),
    ).toEqual(['Order']);
  });
});

describe('D6: a reservation without an order is cancelled', () => {
  test.each<[string, Partial<MachineView>, RegExp]>([
    ['when its request is gone', { machine: machine({ components: [waiting({ state: 'Healthy' })] }) }, /^RequestGone/],
    ['when its pool is frozen', { facts: facts({ freezes: [{ metadata: { name: 'night' }, spec: {} }] }) }, /^Refused: Freeze\/night/],
    [
      'when its set is halted',
      { facts: facts({ sets: new Map([['s1', { name: 'kubelet', stopped: 'Halted' as const }]]) }) },
      /^Refused: MachineComponentSet\/kubelet/,
    ],
    ['when the machine is held', { machine: machine({ spec: { hold: true } }) }, /^Refused: Machine\/hold/],
    ['when it did not begin in time', { nowMs: NOW + 900_000 }, /^Expired/],
  ])('%s', (_, change, reason) => {
    const { step } = only({ reservation: reservation(), claim: claimed(cordoned('a', 'r1')), ...change });
    expect(step?.do === 'WriteCancelled' ? step.reason : step?.do).toMatch(reason);
  });

  test('on the Machine, then on the Node, then in the ledger', () => {
    const spec = { operation: operation({ kind: 'Cancelled' }) };
    expect(steps({ reservation: reservation(), machine: machine({ spec }), claim: claimed(cordoned('a', 'r1')) })).toEqual(['Fence']);
    // Also where no cordon of it is: one may be on its way.
    expect(steps({ reservation: reservation(), machine: machine({ spec }) })).toEqual(['Fence']);
    expect(
      steps({
        reservation: reservation(),
        machine: machine({ spec }),
        claim: claimed(node('a', { annotations: { [ANNOTATIONS.cordonFence]: 'r1' } })),
      }),
    ).toEqual(['FreeCancelled']);
    expect(steps({ reservation: reservation(), machine: machine({ spec }), claim: { state: 'None' } })).toEqual(['FreeCancelled']);
  });

  test('but what has an order finishes, also when its set halts', () => {
    const stopped = facts({
      sets: new Map([['s1', { name: 'kubelet', stopped: 'Halted' as const }]]),
      freezes: [{ metadata: { name: 'f' }, spec: {} }],
    });
    expect(
      steps({
        reservation: reservation(),
        machine: machine({ spec: { operation: operation() } }),
        claim: claimed(cordoned('a', 'r1')),
        facts: stopped,
      }),
    ).toEqual([]);
  });

  test('and no order is given to a stale agent before the time is over', () => {
    const { step, waits } = only({
      reservation: reservation(),
      claim: claimed(cordoned('a', 'r1')),
      facts: facts({ agentAnswers: false }),
    });
    expect(step).toBeUndefined();
    expect(waits).toMatchObject({ for: 'Agent', untilMs: Date.parse(reservation().notAfter) });
  });
});

describe('a drain that does not end', () => {
  const late = {
    nowMs: NOW + 700_000,
    reservation: reservation({ notAfter: at(1500) }),
    pods: [pod],
    machine: machine({ components: [waiting({ needs: 'Drain' })] }),
  };
  test('is given up where the node could end its pods: a budget protects them', () => {
    const { step } = only({ ...late, claim: claimed(cordoned('a', 'r1')) });
    expect(step?.do === 'WriteCancelled' ? step.reason : '').toMatch(/^DrainTimeout/);
  });
  test('and goes on where the node is not ready, which only the operation may repair', () => {
    const { step } = only({ ...late, kubeletAnswers: false, claim: claimed(cordoned('a', 'r1')) });
    expect(step?.do).toBe('Order');
  });
});

describe('C4: cordons of ours without a reservation', () => {
  test.each<[string, Partial<MachineView>, string[]]>([
    [
      'of an operation whose end was not reported, though its reservation is gone: kept',
      { machine: machine({ spec: { operation: operation({ id: 'r0' }) } }), claim: claimed(cordoned('a', 'r0')) },
      [],
    ],
    ['of a reservation that is gone: lifted', { claim: claimed(cordoned('a', 'r0')) }, ['LiftCordon']],
    ['of another client: left', { claim: claimed(node('a', { spec: { unschedulable: true } })) }, []],
    [
      'of a failure that nothing has ended: stays',
      {
        claim: claimed(cordoned('a', 'Degraded')),
        machine: machine({
          components: [waiting({ state: 'Failed', failed: { revision: 2, reason: 'x', message: '', restored: false } })],
        }),
      },
      [],
    ],
    [
      'of a failure that is over: lifted',
      { claim: claimed(cordoned('a', 'Degraded')), machine: machine({ components: [waiting({ state: 'Healthy', running: 2 })] }) },
      ['LiftDegraded'],
    ],
    [
      'missing on a node where nothing runs: put there',
      {
        machine: machine({
          components: [waiting({ state: 'Failed', failed: { revision: 2, reason: 'x', message: '', restored: false } })],
        }),
      },
      ['MarkDegraded'],
    ],
  ])('%s', (_, change, expected) => {
    expect(steps(change)).toEqual(expected);
  });
});

describe('C13: a Node that registers again', () => {
  const again = (object = node()) => claimed({ ...object, metadata: { ...object.metadata, uid: 'another' } });
  const spec = { operation: operation() };
  const done = { operation: { id: 'r1', state: 'Done' as const, outcome: 'Succeeded' as const } };
  const fenced = node('a', { annotations: { [ANNOTATIONS.cordonFence]: 'r1' } });
  const draining = machine({ components: [waiting({ needs: 'Drain' })] });
  const { nodeUID: _, ...unnamed } = reservation();
  const components = [waiting({ state: 'Healthy', running: 2 })];
  const due = { type: 'RepairNeeded', status: 'True' as const, reason: 'x', message: '', lastTransitionTime: at(0) };
  const unhealed = machine({
    components,
    spec: { operation: operation({ kind: 'Repair', action: 'Reboot' }) },
    status: { conditions: [due], operation: { id: 'r1', state: 'Done', outcome: 'PermanentFailure' } },
  });
  const recovered = machine({
    components,
    spec: unhealed.spec,
    status: { operation: { id: 'r1', state: 'Done', outcome: 'PermanentFailure' } },
  });
  test.each<[string, Partial<MachineView>, string[]]>([
    [
      'with a reservation that waits: is cordoned, and drained from the start',
      { reservation: reservation(), machine: draining, claim: again() },
      ['Cordon'],
    ],
    [
      'while an operation goes on: is cordoned again',
      { reservation: reservation(), machine: machine({ spec }), claim: again() },
      ['Cordon'],
    ],
    ['and then waited for', { reservation: reservation(), machine: machine({ spec }), claim: again(cordoned('a', 'r1')) }, []],
    [
      'where a human lifted that cordon: is left so',
      {
        reservation: reservation(),
        machine: machine({ spec }),
        claim: again(node('a', { annotations: { [ANNOTATIONS.cordonOwner]: 'r1' } })),
      },
      [],
    ],
    [
      'where the reservation was made for no Node: is not cordoned for it',
      { reservation: unnamed, machine: machine({ spec }), claim: again() },
      [],
    ],
    [
      'at the end: the cordon is settled',
      { reservation: reservation(), machine: machine({ spec, status: done }), claim: again(cordoned('a', 'r1')) },
      ['Settle'],
    ],
    ['then fenced', { reservation: reservation(), machine: machine({ spec, status: done }), claim: again() }, ['Fence']],
    [
      'then the reservation is released',
      { reservation: reservation(), machine: machine({ spec, status: done }), claim: again(fenced) },
      ['Release'],
    ],
    ['after a repair that has not healed it: is Degraded', { machine: unhealed, claim: again() }, ['MarkDegraded']],
    ['which the same Node is not, where a person uncordoned it', { machine: unhealed }, []],
    ['and where its rule is not due any more: is not', { machine: recovered, claim: again() }, []],
  ])('%s', (_, change, expected) => {
    expect(steps(change)).toEqual(expected);
  });
});

describe('C8: a deletion', () => {
  const deleting = { reservation: reservation({ id: 'r2', kind: 'Delete' as const }), machine: machine(deleted) };
  test.each<[string, Partial<MachineView>, string[]]>([
    [
      'takes over the reservation of a change at once, also while its order runs',
      { reservation: reservation(), machine: machine({ ...deleted, spec: { operation: operation() } }) },
      ['TakeOver'],
    ],
    ['waits for a reservation where it has none', { machine: machine(deleted) }, []],
    ['cordons', deleting, ['Cordon']],
    ['takes over the cordon of the change', { ...deleting, claim: claimed(cordoned('a', 'r1')) }, ['Cordon']],
    ['drains', { ...deleting, claim: claimed(cordoned('a', 'r2')), pods: [pod] }, ['Evict']],
    [
      'drains nothing from a node that is not ready',
      { ...deleting, claim: claimed(cordoned('a', 'r2')), kubeletAnswers: false },
      ['Order'],
    ],
    ['drains no longer than it may', { ...deleting, claim: claimed(cordoned('a', 'r2')), nowMs: NOW + 600_000, pods: [pod] }, ['Order']],
    ['orders the cleanup', { ...deleting, claim: claimed(cordoned('a', 'r2')), pods: [] }, ['Order']],
    [
      'orders it also of a stale agent: only what has its order cannot be taken back any more',
      { ...deleting, claim: claimed(cordoned('a', 'r2')), pods: [], facts: facts({ agentAnswers: false }) },
      ['Order'],
    ],
    [
      'finalizes only after the provider was asked once more',
      { ...deleting, instance: { state: 'Absent' } },
      ['DeleteInstance', 'Finalize'],
    ],
    [
      'does nothing while the provider cannot be asked',
      { ...deleting, instance: { state: 'Unknown', reason: 'Unavailable', message: 'down' } },
      [],
    ],
    ['of a machine without a provider ends at once', { ...deleting, instance: { state: 'NoProvider' } }, ['Finalize']],
    ['leaves a machine without our finalizer alone', { machine: machine({ metadata: { deletionTimestamp: at(0), finalizers: [] } }) }, []],
  ])('%s', (_, change, expected) => {
    expect(steps(change)).toEqual(expected);
  });

  test('waits for the cleanup, until it is reported, its time is over or the agent is stale', () => {
    const cleaning = {
      ...deleting,
      claim: claimed(cordoned('a', 'r2')),
      machine: machine({ ...deleted, spec: { operation: operation({ id: 'r2', kind: 'Delete' }) } }),
    };
    expect(steps(cleaning)).toEqual([]);
    expect(steps({ ...cleaning, nowMs: NOW + 900_000 })).toEqual(['DeleteInstance']);
    expect(steps({ ...cleaning, facts: facts({ agentAnswers: false }) })).toEqual(['DeleteInstance']);
    const reported = machine({
      ...deleted,
      spec: { operation: operation({ id: 'r2', kind: 'Delete' }) },
      status: { operation: { id: 'r2', state: 'Done', outcome: 'Succeeded' } },
    });
    expect(steps({ ...cleaning, machine: reported })).toEqual(['DeleteInstance']);
  });
});

describe('around the operation', () => {
  test('nothing is made before the finalizer is there', () => {
    expect(steps({ machine: machine({ metadata: { finalizers: [] } }), instance: { state: 'Absent' } })).toEqual(['AddFinalizer']);
  });
  test('an instance is made once: one that is gone is not replaced', () => {
    const fresh = machine({ status: {} });
    expect(steps({ machine: { ...fresh, status: {} }, instance: { state: 'Absent' }, claim: { state: 'None' } })).toEqual([
      'EnsureInstance',
    ]);
    expect(steps({ machine: fresh, instance: { state: 'Absent' }, claim: { state: 'None' } })).toEqual([]);
  });
  test('the Node is synced beside the operation', () => {
    expect(steps({ reservation: reservation(), nodeDrift: true })).toEqual(['SyncNode', 'Cordon']);
  });
  test('an owner annotation without a cordon is cleared as well', () => {
    expect(steps({ claim: claimed(node('a', { annotations: { [ANNOTATIONS.cordonOwner]: 'r0' } })) })).toEqual(['LiftCordon']);
  });
});
