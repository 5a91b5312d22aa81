import { describe, expect, it } from 'vitest';
import type { Node } from '../../api/builtin.ts';
import { API_VERSION } from '../../api/kind.ts';
import type { Machine, MachineSpec, MachineStatus } from '../../api/machine.ts';
import type { Action } from '../../api/node-remedier/values.ts';
import type { RemedyOperationJob, RemedyOperationJobStatus } from '../../api/remedy-operation-job.ts';
import type { Stored } from '../../api/wire.ts';
import { observeHeartbeats } from '../../rules/heartbeats.ts';
import { takeSnapshot } from '../../rules/snapshot.ts';
import { decide } from './decide.ts';
import type { JobView } from './observe.ts';

const NOW = Date.parse('2026-01-01T01:00:00Z');
const iso = (seconds: number): string => new Date(NOW + seconds * 1000).toISOString();
const stored = (name: string, uid: string) => ({
  namespace: 'web',
  name,
  uid,
  resourceVersion: '1',
  creationTimestamp: iso(-600),
  generation: 1,
});

interface Given {
  action?: Action;
  mode?: 'Shadow' | 'Enforce';
  status?: RemedyOperationJobStatus;
  machine?: Partial<MachineStatus> | undefined;
  operation?: MachineSpec['operation'];
  deleting?: boolean;
  reservation?: string;
  why?: string;
  /** Of its condition KernelDeadlock; default True. */
  deadlock?: 'True' | 'False';
  forSeconds?: number;
  view?: Partial<JobView>;
}

const order = (
  id: string,
  kind: 'Repair' | 'Cancelled' | 'Change' | 'Delete' = 'Repair',
  rest: object = {},
): NonNullable<MachineSpec['operation']> => ({
  id,
  epoch: 1,
  kind,
  notAfter: iso(900),
  ...rest,
});

function viewOf(given: Given): JobView {
  const { action = 'Reboot', mode = 'Enforce', status, machine, operation, deleting, reservation, view } = given;
  const { why = 'it was seen', deadlock = 'True', forSeconds = 60 } = given;
  const job: Stored<RemedyOperationJob> = {
    apiVersion: API_VERSION,
    kind: 'RemedyOperationJob',
    metadata: stored('hung-1', 'job'),
    spec: {
      rule: 'hung',
      machine: { name: 'a', uid: 'm' },
      node: 'a',
      mode,
      rung: 0,
      attempt: 1,
      action,
      timeoutSeconds: 600,
      healedWhen: { condition: 'KernelDeadlock', is: 'False', forSeconds },
      priority: 0,
      matchedSince: iso(-60),
      why,
    },
    ...(status === undefined ? {} : { status }),
  };
  const conditions = [{ type: 'KernelDeadlock', status: deadlock, lastHeartbeatTime: iso(-1), lastTransitionTime: iso(-100) }];
  const node: Stored<Node> = {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { ...stored('a', 'n'), annotations: { 'kubenode.io/cordon-owner': 'reservation' } },
    spec: {},
    status: { conditions },
  };
  const found: Stored<Machine> = {
    apiVersion: API_VERSION,
    kind: 'Machine',
    metadata: { ...stored('a', 'm'), ...(deleting === true ? { deletionTimestamp: iso(-1) } : {}) },
    spec: operation === undefined ? {} : { operation },
    status: {
      nodeRef: { name: 'a', uid: 'n' },
      agent: { version: '1', apiLevel: 1, bootID: 'b1', os: 'linux', arch: 'amd64' },
      ...machine,
    },
  };
  const snapshot = takeSnapshot({
    nowMs: NOW,
    machine: found,
    node,
    heartbeats: observeHeartbeats(undefined, 'n', conditions, NOW),
    kubeletFreshUntilMs: NOW + 40_000,
    agentFreshUntilMs: NOW + 60_000,
    peers: {},
    pause: { paused: false, releasedAtMs: undefined },
  });
  return {
    nowMs: NOW,
    job,
    machine: found,
    node,
    reservation:
      reservation === undefined
        ? undefined
        : {
            id: reservation,
            machineUID: 'm',
            machine: 'web/a',
            kind: 'Repair',
            class: 'Repair',
            requesterUID: 'job',
            requester: 'RemedyOperationJob/web/hung-1',
            scopes: [],
            since: iso(0),
            notAfter: iso(900),
          },
    isLedgerBegun: true,
    snapshot,
    rule: 'Enforced',
    matches: 'True',
    superseded: undefined,
    diagnosis: [],
    hasSuccessor: false,
    forgetAfterMs: 86_400_000,
    isLive: true,
    ...view,
  };
}

const gone: Partial<JobView> = { machine: undefined, node: undefined, snapshot: undefined, matches: undefined };
const before = { bootID: 'b1', conditions: [] };
const granted: RemedyOperationJobStatus = { phase: 'Granted', operationID: 'reservation', before };
const running: RemedyOperationJobStatus = { ...granted, phase: 'Running', orderedAt: iso(-30) };
const verifying: RemedyOperationJobStatus = { ...running, phase: 'Verifying', actedAt: iso(-20), proof: {} };
const done = (id: string, outcome: 'Succeeded' | 'TransientFailure' | 'Cancelled') => ({
  id,
  state: 'Done' as const,
  outcome,
  message: 'so it is',
});

const table: [string, Given, RemedyOperationJobStatus | 'Read' | 'Wait' | 'Delete'][] = [
  ['a new job asks', {}, { phase: 'Pending' }],
  [
    'one of a rule in Shadow ends at once',
    { mode: 'Shadow' },
    { phase: 'Shadow', finishedAt: iso(0), explanation: 'would Reboot: it was seen' },
  ],
  [
    'one for a human names what is known',
    { action: 'Human', view: { diagnosis: ['nothing helped', 'seen'] } },
    { phase: 'NeedsHuman', explanation: 'nothing helped', diagnosis: ['nothing helped', 'seen'] },
  ],
  ['what waits for permission waits', { status: { phase: 'Pending' } }, 'Wait'],
  ['it goes on waiting while nothing is known of its rule', { status: { phase: 'Pending' }, view: { matches: 'Unknown' } }, 'Wait'],
  [
    'it repeats the verdict of Defender',
    {
      status: { phase: 'Pending' },
      machine: { verdict: { allowed: false, limit: 'cluster/max', used: 3, of: 3, wouldPassWhen: 'one ends' } },
    },
    { answer: 'cluster/max 3/3', explanation: 'waits until one ends' },
  ],
  [
    'a reservation is a grant',
    { status: { phase: 'Pending' }, reservation: 'reservation' },
    { phase: 'Granted', operationID: 'reservation' },
  ],
  ['what the node was like is read again', { status: { phase: 'Pending' }, reservation: 'reservation', view: { isLive: false } }, 'Read'],
  [
    'a reservation that comes when it recovered is not taken',
    { status: { phase: 'Pending' }, reservation: 'reservation', view: { matches: 'False' } },
    { phase: 'Cancelled' },
  ],
  [
    'what is superseded gives way',
    { status: { phase: 'Pending' }, view: { superseded: 'superseded by Replace' } },
    { phase: 'Cancelled', outcome: 'Superseded' },
  ],
  ...(
    [
      ['Gone', 'NodeRemedier hung is gone'],
      ['Refused', 'NodeRemedier hung was edited and is not accepted any more'],
      ['Shadow', 'NodeRemedier hung is in Shadow now'],
    ] as const
  ).map(([rule, explanation]): (typeof table)[number] => [
    `what waits while its rule is ${rule} is over`,
    { status: { phase: 'Pending' }, view: { rule } },
    { phase: 'Cancelled', outcome: 'Cancelled', explanation },
  ]),
  ['a machine that is deleted is not repaired', { status: { phase: 'Pending' }, deleting: true }, { phase: 'Cancelled' }],
  ['that a machine is gone is read again', { status: { phase: 'Pending' }, view: { ...gone, isLive: false } }, 'Read'],
  ['a machine that is gone is not repaired', { status: { phase: 'Pending' }, view: gone }, { phase: 'Cancelled' }],
  [
    'an order begins it',
    { status: granted, reservation: 'reservation', operation: order('reservation') },
    { phase: 'Running', orderedAt: iso(0) },
  ],
  [
    'an order that comes although it should stop begins it',
    { status: { ...granted, cancelling: { outcome: 'Cancelled', why: 'x' } }, reservation: 'reservation', operation: order('reservation') },
    { phase: 'Running' },
  ],
  [
    'what recovered asks to be cancelled',
    { status: granted, reservation: 'reservation', view: { matches: 'False' } },
    { phase: 'Granted' },
  ],
  [
    'a reservation that was cancelled ends it, uncounted',
    { status: granted, reservation: 'reservation', operation: order('reservation', 'Cancelled', { reason: 'frozen' }) },
    { phase: 'Cancelled', outcome: 'Cancelled', explanation: 'its reservation was cancelled: frozen' },
  ],
  [
    'and reports that where it was superseded',
    {
      status: { ...granted, cancelling: { outcome: 'Superseded', why: 'superseded by Replace' } },
      reservation: 'reservation',
      operation: order('reservation', 'Cancelled', { reason: 'x' }),
    },
    { phase: 'Cancelled', outcome: 'Superseded', explanation: 'superseded by Replace' },
  ],
  [
    'a reservation that became another operation ends it',
    { status: granted, reservation: 'reservation', operation: order('reservation', 'Delete') },
    { phase: 'Cancelled', outcome: 'Superseded', explanation: 'its reservation became a Delete operation' },
  ],
  [
    'a drain that did not end is a failed attempt',
    {
      status: granted,
      reservation: 'reservation',
      operation: order('reservation', 'Cancelled', { cause: 'DrainTimeout', reason: 'DrainTimeout: 1 pod' }),
    },
    { phase: 'Failed', outcome: 'TransientFailure', orderedAt: iso(0) },
  ],
  [
    'unless it should stop anyway',
    {
      status: { ...granted, cancelling: { outcome: 'Cancelled', why: 'it recovered' } },
      operation: order('reservation', 'Cancelled', { cause: 'DrainTimeout', reason: 'DrainTimeout: 1 pod' }),
    },
    { phase: 'Cancelled', explanation: 'it recovered' },
  ],
  ['a reservation that is not seen is read for', { status: granted, view: { isLive: false } }, 'Read'],
  ['a reservation that is gone ends it', { status: granted }, { phase: 'Cancelled' }],
  ['nothing is known of it where the ledger is gone, or has no term yet', { status: granted, view: { isLedgerBegun: false } }, 'Wait'],
  ['but a machine that is gone ends it', { status: granted, view: { ...gone, isLedgerBegun: false } }, { phase: 'Cancelled' }],
  [
    'the report of another operation is none',
    { status: running, operation: order('reservation'), machine: { operation: done('other', 'Succeeded') } },
    'Wait',
  ],
  [
    'a report of the end begins the proof',
    { status: running, operation: order('reservation'), machine: { operation: done('reservation', 'Succeeded') } },
    { phase: 'Verifying' },
  ],
  [
    'a cancelled operation is not a success',
    { status: running, operation: order('reservation'), machine: { operation: done('reservation', 'Cancelled') } },
    { phase: 'Failed', outcome: 'Cancelled', explanation: 'so it is' },
  ],
  [
    'what the controller carries out it reports itself',
    {
      status: running,
      operation: order('reservation', 'Repair', { action: 'PowerCycle' }),
      machine: { operation: done('reservation', 'Succeeded') },
    },
    'Wait',
  ],
  [
    'what repairs nothing by itself is done when it is done',
    {
      action: 'MigratePods',
      status: running,
      operation: order('reservation', 'Repair', { action: 'MigratePods' }),
      machine: { repair: done('reservation', 'Succeeded') },
    },
    { phase: 'Succeeded', explanation: 'MigratePods is done' },
  ],
  [
    'from the grant to the end in one decision',
    {
      action: 'MigratePods',
      status: granted,
      reservation: 'reservation',
      operation: order('reservation', 'Repair', { action: 'MigratePods' }),
      machine: { repair: done('reservation', 'Succeeded') },
    },
    { phase: 'Succeeded', orderedAt: iso(0), actedAt: iso(0) },
  ],
  [
    'another operation instead of it ends it',
    { status: running, operation: order('other', 'Delete') },
    { phase: 'Failed', outcome: 'Superseded' },
  ],
  ['which is read for first', { status: running, operation: order('other'), view: { isLive: false } }, 'Read'],
  [
    'a Replace whose machine is on its way out goes on',
    { action: 'Replace', status: running, operation: order('other', 'Delete'), deleting: true },
    'Wait',
  ],
  ['a Replace has succeeded when it is gone', { action: 'Replace', status: running, view: gone }, { phase: 'Succeeded' }],
  ['anything else has not', { status: running, view: gone }, { phase: 'Failed', outcome: 'PermanentFailure' }],
  [
    'an order that is taken back has failed',
    { status: verifying, operation: order('reservation', 'Cancelled') },
    { phase: 'Failed', outcome: 'Cancelled' },
  ],
  [
    'its time is over',
    { status: { ...running, orderedAt: iso(-601) }, operation: order('reservation') },
    { phase: 'Failed', outcome: 'PermanentFailure' },
  ],
  [
    'which is decided on what is there now',
    { status: { ...running, orderedAt: iso(-601) }, operation: order('reservation'), view: { isLive: false } },
    'Read',
  ],
  [
    'a human is asked until it is known not to match',
    { status: { phase: 'NeedsHuman' }, action: 'Human', view: { matches: 'Unknown' } },
    'Wait',
  ],
  [
    'then no more',
    { status: { phase: 'NeedsHuman' }, action: 'Human', view: { matches: 'False' } },
    { phase: 'NeedsHuman', finishedAt: iso(0) },
  ],
  ['nor when the rule is gone', { status: { phase: 'NeedsHuman' }, action: 'Human', view: { rule: 'Gone' } }, { finishedAt: iso(0) }],
  ['what has ended is never touched again', { status: { phase: 'Failed', finishedAt: iso(-60) }, operation: order('reservation') }, 'Wait'],
  ['for 30 days', { status: { phase: 'Failed', finishedAt: iso(-30 * 86_400) } }, 'Delete'],
  [
    'or for as long as the ladder remembers it',
    { status: { phase: 'Failed', finishedAt: iso(-30 * 86_400) }, view: { forgetAfterMs: 90 * 86_400_000 } },
    'Wait',
  ],
  [
    'unless a later one is there',
    { status: { phase: 'Failed', finishedAt: iso(-30 * 86_400) }, view: { forgetAfterMs: 90 * 86_400_000, hasSuccessor: true } },
    'Delete',
  ],
];

const agentOf = (bootID: string) => ({ agent: { version: '1', apiLevel: 1, bootID, os: 'linux', arch: 'amd64' } });
/** A repair without a reboot that was proved by one: KernelDeadlock is False in another boot. */
const healthy: Given = {
  action: 'CleanDisk',
  operation: order('reservation'),
  machine: agentOf('b2'),
  deadlock: 'False',
  view: { matches: 'False' },
};
const ongoing = { since: iso(-60), transition: iso(-100), bootID: 'b2' };
table.push(
  [
    'a job for a human about whom nothing is known names what was seen',
    { action: 'Human' },
    { phase: 'NeedsHuman', explanation: 'it was seen' },
  ],
  [
    'a refusal without a number, a limit or a way out is reported as such',
    { status: { phase: 'Pending' }, machine: { verdict: { allowed: false } } },
    { answer: 'refused', explanation: 'refused' },
  ],
  [
    'a refusal by a limit with one number missing names no numbers',
    { status: { phase: 'Pending' }, machine: { verdict: { allowed: false, limit: 'x', used: 3 } } },
    { answer: 'x' },
  ],
  ['what was allowed is no refusal', { status: { phase: 'Pending' }, machine: { verdict: { allowed: true, limit: 'x' } } }, 'Wait'],
  [
    'what recovered asks to be cancelled, and names why',
    { status: granted, reservation: 'reservation', view: { matches: 'False' } },
    {
      cancelling: { outcome: 'Cancelled', why: 'the rule does not match any more: it recovered before the order' },
      explanation: 'shall be cancelled: the rule does not match any more: it recovered before the order',
    },
  ],
  [
    'a reservation that was cancelled without a reason ends it',
    { status: granted, reservation: 'reservation', operation: order('reservation', 'Cancelled') },
    { phase: 'Cancelled', explanation: 'its reservation was cancelled: no reason given' },
  ],
  [
    'the explanation of a reservation that is gone',
    { status: granted },
    { explanation: 'its reservation is gone, and no order was written' },
  ],
  [
    'the explanation of a machine that is gone before the order',
    { status: granted, view: gone },
    { phase: 'Cancelled', explanation: 'the machine is gone, and no order was written' },
  ],
  ['that a machine is gone under way is read again', { status: running, view: { ...gone, isLive: false } }, 'Read'],
  [
    'a failure without words names how it ended',
    {
      status: running,
      operation: order('reservation'),
      machine: { operation: { ...done('reservation', 'TransientFailure'), message: '' } },
    },
    { phase: 'Failed', outcome: 'TransientFailure', explanation: 'the action ended TransientFailure' },
  ],
  [
    'C7: an end without an outcome is a permanent failure',
    { status: running, operation: order('reservation'), machine: { operation: { id: 'reservation', state: 'Done' } } },
    { phase: 'Failed', outcome: 'PermanentFailure', explanation: 'the action ended PermanentFailure' },
  ],
  [
    'the end of the action is read again',
    { status: running, operation: order('reservation'), machine: { operation: done('reservation', 'Succeeded') }, view: { isLive: false } },
    'Read',
  ],
  [
    'a Replace that was reported while its machine goes waits for the proof that it is gone',
    {
      action: 'Replace',
      status: running,
      operation: order('other', 'Delete'),
      deleting: true,
      machine: { repair: done('reservation', 'Succeeded') },
    },
    { phase: 'Verifying', actedAt: iso(0) },
  ],
  [
    'anything else whose machine goes has lost its operation',
    { status: running, operation: order('other', 'Delete'), deleting: true },
    { phase: 'Failed', outcome: 'Superseded' },
  ],
  [
    'an order that is taken back without a reason',
    { status: verifying, operation: order('reservation', 'Cancelled') },
    { explanation: 'its order was taken back: no reason given' },
  ],
  [
    'an order that is taken back with one',
    { status: verifying, operation: order('reservation', 'Cancelled', { reason: 'frozen' }) },
    { explanation: 'its order was taken back: frozen' },
  ],
  [
    'a proof that begins is kept, and reported',
    { ...healthy, status: verifying },
    {
      phase: 'Verifying',
      proof: { since: iso(0), transition: iso(-100), bootID: 'b2' },
      explanation: 'KernelDeadlock is False; it must stay so for 60 s',
    },
  ],
  [
    'a proof that has lasted ends it',
    { ...healthy, status: { ...verifying, proof: ongoing } },
    { phase: 'Succeeded', outcome: 'Succeeded', explanation: 'KernelDeadlock has been False for 60 s', finishedAt: iso(0) },
  ],
  [
    'which is decided on what is there now, too',
    { ...healthy, status: { ...verifying, proof: ongoing }, view: { matches: 'False', isLive: false } },
    'Read',
  ],
  [
    'what is true and was reported is not reported again with other numbers',
    {
      ...healthy,
      forSeconds: 90,
      status: { ...verifying, proof: ongoing, explanation: 'KernelDeadlock is False; it must stay so for 60 s' },
    },
    'Wait',
  ],
  [
    'without what it was like before the order nothing proves a boot',
    { status: { phase: 'Verifying', operationID: 'reservation', orderedAt: iso(-30), actedAt: iso(-20) }, operation: order('reservation') },
    { explanation: 'the boot before the order is not known' },
  ],
  [
    'that a machine is gone for which a human was asked is read again',
    { status: { phase: 'NeedsHuman' }, view: { ...gone, isLive: false } },
    'Read',
  ],
  [
    'no person is asked about a machine that is gone',
    { status: { phase: 'NeedsHuman' }, view: gone },
    { finishedAt: iso(0), explanation: 'the machine is gone' },
  ],
  ['one that does not record when it ended counts from its making', { status: { phase: 'Failed' } }, 'Wait'],
);

const wakeOf = (given: Given): number | undefined => {
  const decision = decide(viewOf(given));
  return 'wakeAtMs' in decision ? decision.wakeAtMs : undefined;
};

describe('the next reconciliation of a job', () => {
  it('is when it has been kept for its time', () => {
    expect(wakeOf({ status: { phase: 'Failed', finishedAt: iso(-60) } })).toBe(NOW - 60_000 + 30 * 86_400_000);
    expect(wakeOf({ status: { phase: 'Failed' } })).toBe(NOW - 600_000 + 30 * 86_400_000);
  });

  it('is when its proof is complete, its time is over, or a heartbeat goes stale, whichever comes first', () => {
    expect(wakeOf({ ...healthy, forSeconds: 10, status: verifying })).toBe(NOW + 10_000);
    expect(wakeOf({ ...healthy, status: verifying })).toBe(NOW + 40_001);
    expect(wakeOf({ status: { ...running, orderedAt: iso(-590) }, operation: order('reservation') })).toBe(NOW + 10_000);
    const view = viewOf({ status: running, operation: order('reservation') });
    const { snapshot } = view;
    if (snapshot === undefined) throw new Error('no snapshot');
    expect(decide({ ...view, snapshot: { ...snapshot, staleAtMs: undefined } })).toMatchObject({ wakeAtMs: NOW + 570_000 });
  });

  it('of a human is when a heartbeat goes stale', () => {
    expect(wakeOf({ status: { phase: 'NeedsHuman' } })).toBe(NOW + 40_001);
  });
});

it('the explanation of a job fits into its status', () => {
  const explanation = (why: string) => {
    const decision = decide(viewOf({ mode: 'Shadow', why }));
    return decision.step === 'Write' ? (decision.status.explanation ?? '') : '';
  };
  const prefix = 'would Reboot: ';
  expect(explanation('y'.repeat(2048 - prefix.length))).toBe(`${prefix}${'y'.repeat(2048 - prefix.length)}`);
  expect(explanation('y'.repeat(2049 - prefix.length))).toBe(`${prefix}${'y'.repeat(2047 - prefix.length)}…`);
});

it('what does not fit is reported once', () => {
  const type = `K${'x'.repeat(2100)}`;
  const given: Given = { ...healthy, status: { ...verifying, proof: ongoing } };
  const view = viewOf(given);
  const { job } = view;
  const spec = { ...job.spec, healedWhen: { condition: type, is: 'False' as const, forSeconds: 60 } };
  const decision = decide({ ...view, job: { ...job, spec } });
  if (decision.step !== 'Write') throw new Error(decision.step);
  expect(decision.status.explanation).toHaveLength(2048);
  expect(decide({ ...view, job: { ...job, spec, status: decision.status } })).toMatchObject({ step: 'Wait' });
});

describe('the steps of a job', () => {
  const stepsOf = (given: Given): string[] => {
    const decision = decide(viewOf(given));
    const steps = decision.step === 'Write' ? (decision.status.steps ?? []) : [];
    return steps.map(({ name, outcome }) => `${name} ${outcome ?? 'under way'}`);
  };

  it('before its action have succeeded when the order is there', () => {
    expect(stepsOf({ status: granted, reservation: 'reservation', operation: order('reservation') })).toEqual([
      'Ask Succeeded',
      'Cordon Succeeded',
      'Drain Succeeded',
      'Order Succeeded',
      'Act under way',
    ]);
  });

  it('are the verification after its action, where its action is proved', () => {
    const acted = { status: running, operation: order('reservation'), machine: { operation: done('reservation', 'Succeeded') } };
    expect(stepsOf(acted)).toEqual(['Act Succeeded', 'Verify under way']);
    const replaced = {
      ...acted,
      operation: order('reservation', 'Repair', { action: 'Replace' }),
      machine: { repair: done('reservation', 'Succeeded') },
    };
    expect(stepsOf({ ...replaced, action: 'Replace' })).toEqual(['Act Succeeded']);
  });

  it('of what disturbs nothing are neither a cordon nor a drain', () => {
    expect(stepsOf({ action: 'CleanDisk', status: granted, reservation: 'reservation' })).toEqual(['Order under way']);
  });

  it('are left as they are while it waits to be cancelled', () => {
    const cancelling = { outcome: 'Superseded', why: 'superseded by Replace' } as const;
    const decision = decide(viewOf({ status: { ...granted, cancelling }, reservation: 'reservation', view: { matches: 'False' } }));
    expect(decision).toMatchObject({ step: 'Write', status: { cancelling } });
  });
});

describe('the next status of a job', () => {
  it.each(table)('%s', (_name, given, expected) => {
    const decision = decide(viewOf(given));
    if (typeof expected === 'string') expect(decision).toMatchObject({ step: expected });
    else expect(decision).toMatchObject({ step: 'Write', status: expected });
  });

  it('takes over the verdict about another request only where it cannot be distinguished from its own', () => {
    const verdict = { allowed: false, limit: 'x', requester: 'MachineComponentSet/kubelet' };
    expect(decide(viewOf({ status: { phase: 'Pending' }, machine: { verdict } }))).toMatchObject({ step: 'Wait' });
    const own = { allowed: false, limit: 'x', requester: 'RemedyOperationJob/web/hung-1' };
    expect(decide(viewOf({ status: { phase: 'Pending' }, machine: { verdict: own } }))).toMatchObject({ step: 'Write' });
  });

  it('records for which generation it was decided, where there is one', () => {
    const view = viewOf({});
    expect(decide(view)).toMatchObject({ status: { observedGeneration: 1 } });
    const { generation: _, ...metadata } = view.job.metadata;
    const decision = decide({ ...view, job: { ...view.job, metadata } });
    expect(decision.step === 'Write' && 'observedGeneration' in decision.status).toBe(false);
  });

  it('names a step as done once it is seen to be: the cordon in the name of its reservation, the drain by the machine controller', () => {
    const stepsOf = (unschedulable: boolean, owner: string, machine: Partial<MachineStatus> = {}): string[] => {
      const view = viewOf({ status: granted, reservation: 'reservation', machine });
      const node: Stored<Node> = {
        apiVersion: 'v1',
        kind: 'Node',
        metadata: { ...stored('a', 'n'), annotations: { 'kubenode.io/cordon-owner': owner } },
        spec: unschedulable ? { unschedulable } : {},
      };
      const decision = decide({ ...view, node });
      const steps = decision.step === 'Write' ? (decision.status.steps ?? []) : [];
      return steps.map(({ name, outcome, message }) => [name, outcome ?? 'under way', message].filter(Boolean).join(' '));
    };
    const drained = (status: 'True' | 'False') => ({
      conditions: [{ type: 'Drained', status, reason: 'x', message: '3 pods left', lastTransitionTime: iso(-5) }],
    });
    for (const [unschedulable, owner] of [
      [false, 'reservation'],
      [true, 'another'],
      [true, 'Degraded'],
    ] as const)
      expect(stepsOf(unschedulable, owner, drained('True'))).toEqual(['Cordon under way']);
    expect(stepsOf(true, 'reservation')).toEqual(['Cordon Succeeded', 'Drain under way']);
    expect(stepsOf(true, 'reservation', drained('False'))).toEqual(['Cordon Succeeded', 'Drain under way 3 pods left']);
    expect(stepsOf(true, 'reservation', drained('True'))).toEqual(['Cordon Succeeded', 'Drain Succeeded', 'Order under way']);
  });

  it('is the same when it is decided twice', () => {
    for (const [, given] of table) {
      const view = viewOf(given);
      const decision = decide(view);
      if (decision.step !== 'Write') continue;
      const again = decide({ ...view, job: { ...view.job, status: decision.status } });
      expect(again.step).toBe('Wait');
    }
  });
});
