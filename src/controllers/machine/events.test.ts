import { expect, test } from 'vitest';
import { eventOfChange } from './events.ts';
import { eventOf } from './steps.ts';
import { machine, node, operation, reservation, view } from './testing/objects.ts';
import type { Step } from './view.ts';

const on = { reservation: reservation(), why: 'because' };
const pod = { namespace: 'web', name: 'p', uid: 'p', terminating: false };
const providerID = 'fake://a';

test.each<[Step, string | undefined]>([
  [{ do: 'AddFinalizer', why: 'because' }, undefined],
  [{ do: 'EnsureInstance', why: 'because' }, 'Normal InstanceMade: its provider was asked for an instance, and has one'],
  [{ do: 'SyncNode', why: 'because' }, undefined],
  [{ do: 'Cordon', ...on }, 'Normal Cordoned: because'],
  [{ do: 'Evict', ...on, pod }, 'Normal PodEvicted: because'],
  [{ do: 'Order', ...on, drained: true }, 'Normal OperationOrdered: because'],
  [{ do: 'WriteCancelled', ...on, cause: 'Expired', reason: 'Late: it is late' }, 'Normal OperationCancelled: Late: it is late'],
  [{ do: 'Release', ...on }, 'Normal Released: because'],
  [{ do: 'FreeCancelled', ...on }, 'Normal Released: because'],
  [{ do: 'LiftCordon', owner: 'r1', why: 'because' }, 'Warning StrayCordonLifted: because'],
  [{ do: 'MarkDegraded', why: 'because' }, 'Warning Degraded: because'],
  [{ do: 'LiftDegraded', why: 'because' }, 'Normal DegradedLifted: because'],
  [{ do: 'EndRepair', ...on, outcome: 'Succeeded', message: '' }, 'Normal RepairDone: because'],
  [{ do: 'EndRepair', ...on, outcome: 'PermanentFailure', message: '' }, 'Warning RepairFailed: because'],
  [{ do: 'PowerCycle', ...on, providerID }, 'Warning PowerCycled: because'],
  [{ do: 'StopInstance', ...on, providerID }, 'Warning PowerCut: because'],
  [{ do: 'NoteOutOfService', ...on }, undefined],
  [{ do: 'MarkOutOfService', ...on }, 'Warning OutOfService: because'],
  [{ do: 'ForceDelete', ...on, pods: [pod], providerID }, 'Warning PodTakenByForce: because'],
  [{ do: 'DeleteMachine', ...on }, 'Warning Replaced: because'],
  [{ do: 'Retire', ...on }, 'Normal Retired: because'],
  [{ do: 'TakeOver', ...on }, 'Normal OperationTakenOver: because'],
  [{ do: 'FenceOrder', ...on, job: 'j' }, undefined],
  [{ do: 'TakeOverForRepair', ...on, job: 'j' }, 'Normal OperationTakenOver: because'],
  [{ do: 'DeleteInstance', ...on, providerID }, 'Normal DeletingInstance: because'],
  [{ do: 'GiveBack', why: 'because' }, 'Normal GivenBack: because'],
  [{ do: 'Finalize', ...on }, undefined],
])('a person who describes a Machine reads of $do what happened', (step, expected) => {
  const event = eventOf(step, view(), undefined);
  expect(event && `${event.type} ${event.reason}: ${event.message}`).toBe(expected);
});

test.each(['Evict', 'PowerCycle', 'ForceDelete'] as const)('of %s they read what the other side answered', (what) => {
  const step = { do: what, ...on, pod, pods: [pod], providerID } as unknown as Step;
  expect(eventOf(step, view(), 'it answered this')?.message).toBe('it answered this');
});

test('an operation that did not succeed ends with a warning', () => {
  const ended = (outcome: 'Succeeded' | 'Cancelled') =>
    view({ machine: machine({ spec: { operation: operation() }, status: { operation: { id: 'r1', state: 'Done', outcome } } }) });
  expect(eventOf({ do: 'Settle', ...on }, ended('Succeeded'), undefined)).toMatchObject({ type: 'Normal', reason: 'OperationSucceeded' });
  expect(eventOf({ do: 'Settle', ...on }, ended('Cancelled'), undefined)).toMatchObject({ type: 'Warning', reason: 'OperationEnded' });
});

test('a Node that is claimed, and one that is lost, are reported once', () => {
  const { nodeRef: _, ...status } = machine().status ?? {};
  expect(eventOfChange(undefined, view({ machine: { ...machine(), status } }))).toMatchObject({ reason: 'NodeClaimed' });
  expect(eventOfChange(undefined, view({ claim: { state: 'Claimed', node: node() } }))).toBeUndefined();
  const again = { ...node(), metadata: { ...node().metadata, uid: 'another' } };
  expect(eventOfChange('NodeLost', view({ claim: { state: 'Claimed', node: again } }))).toMatchObject({
    reason: 'NodeClaimed',
    message: "Node a registered again, and is this machine's",
  });
  const lost = view({ claim: { state: 'Lost', message: 'it is gone' } as never });
  expect(eventOfChange('Running', lost)).toMatchObject({ type: 'Warning', reason: 'NodeLost', message: 'it is gone' });
  expect(eventOfChange('NodeLost', lost)).toBeUndefined();
});
