import { describe, expect, test } from 'vitest';
import type { Machine, OperationStatus } from '../../../api/machine.ts';
import { ANNOTATIONS, LABELS } from '../../../api/names.ts';
import type { Action } from '../../../api/node-remedier/values.ts';
import type { RemedyOperationJob } from '../../../api/remedy-operation-job.ts';
import type { Stored } from '../../../api/wire.ts';
import { askOf } from '../reservation/ask.ts';
import { mayAsk } from '../order/components.ts';
import { decide, isDraining } from '../decide.ts';
import type { AskFacts } from '../facts.ts';
import {
  at,
  cordoned,
  entry,
  facts,
  granted,
  idle,
  job,
  machine,
  node,
  NOW,
  operation,
  repairOperation,
  repairReservation,
  view,
  waiting,
} from '../testing/objects.ts';
import type { Decision, MachineView } from '../view.ts';

const jobsOf = (...jobs: RemedyOperationJob[]) => ({ jobsOf: (uid: string) => jobs.filter((each) => each.spec.machine.uid === uid) });
const inShadow = (of: RemedyOperationJob): RemedyOperationJob => ({ ...of, spec: { ...of.spec, mode: 'Shadow' } });
const ask = (object: Machine, jobs: RemedyOperationJob[], change: Partial<AskFacts> = {}) => {
  const found = askOf(object, facts({ ...jobsOf(...jobs), ...change }));
  if (found.state === 'Asks') return found.request.requester;
  return found.state === 'Refused' ? found.verdict.limit : found.state;
};

describe('D9: a job asks for its machine', () => {
  test('with its action, its condition and the topology of the machine as scopes', () => {
    const object = idle({ spec: { labels: { [LABELS.zone]: 'h', [LABELS.rack]: 'h7' } } });
    const found = askOf(object, facts(jobsOf(job())));
    expect(found.state === 'Asks' ? found.request : found).toMatchObject({
      kind: 'Repair',
      class: 'Repair',
      action: 'Reboot',
      requesterUID: 'uid-j1',
      requester: 'RemedyOperationJob/web/j1',
      scopes: ['cluster', 'pool/web', 'zone/h', 'rack/h7', 'condition/KernelDeadlock'],
      mustBeginWithinMs: 1_500_000,
    });
  });

  test.each<[string, RemedyOperationJob[], string]>([
    ['while it is Pending', [job()], 'RemedyOperationJob/web/j1'],
    ['before it was reconciled', [job({ status: {} })], 'RemedyOperationJob/web/j1'],
    ['but not where it only reports, in Shadow', [inShadow(job({ status: {} }))], 'Nothing'],
    ['nor where it asks a human', [job({ action: 'Human', status: {} })], 'Nothing'],
    [
      'not when it is cancelling',
      [job({ status: { phase: 'Pending', cancelling: { outcome: 'Cancelled', why: 'the condition cleared' } } })],
      'Nothing',
    ],
    ['not when it is over', [job({ status: { phase: 'Cancelled' } })], 'Nothing'],
    ['not for a human', [job({ action: 'Human' })], 'Nothing'],
    ['not in Shadow', [job({ status: { phase: 'Shadow' } })], 'Nothing'],
    ['not for another machine', [job({ machine: 'b' })], 'Nothing'],
    ['again when the ledger lost its reservation without a trace', [granted()], 'RemedyOperationJob/web/j1'],
    ['F6: of two the one of the higher priority', [job(), job({ name: 'j2', priority: 5 })], 'RemedyOperationJob/web/j2'],
    ['F6: of two equals the stronger', [job({ name: 'j0', action: 'CleanDisk' }), job()], 'RemedyOperationJob/web/j1'],
  ])('%s', (_, jobs, expected) => {
    expect(ask(idle(), jobs)).toBe(expected);
    expect(mayAsk(idle(), jobsOf(...jobs).jobsOf)).toBe(expected !== 'Nothing');
  });

  test('not again for a reservation that was cancelled here', () => {
    expect(ask(idle({ spec: { operation: operation({ kind: 'Cancelled' }) } }), [granted()])).toBe('Nothing');
  });

  test('before a change and after a restore of the same machine', () => {
    expect(ask(machine(), [job()])).toBe('RemedyOperationJob/web/j1');
    const back = machine({ entries: [entry({ version: '1.0.0', lane: 'Restore' })], components: [waiting({ version: '2.0.0' })] });
    expect(ask(back, [job()])).toBe('MachineComponentSet/kubelet');
  });

  test('and what may not begin keeps no change waiting', () => {
    expect(ask(machine(), [job()], { freezes: [{ metadata: { name: 'f' }, spec: { stops: ['Repair'] } }] })).toBe(
      'MachineComponentSet/kubelet',
    );
  });

  test('D11: unless it is held or frozen', () => {
    expect(ask(idle({ spec: { hold: true } }), [job()])).toBe('Machine/hold');
    expect(ask(idle(), [job()], { freezes: [{ metadata: { name: 'f' }, spec: {} }] })).toBe('Freeze/f');
  });

  test.each<[Action, boolean, string]>([
    ['CleanDisk', true, 'Agent/heartbeat'],
    ['RestartComponent', true, 'Agent/heartbeat'],
    ['Reboot', true, 'RemedyOperationJob/web/j1'],
    ['Reboot', false, 'Agent/heartbeat'],
    ['MigratePods', false, 'RemedyOperationJob/web/j1'],
    ['Replace', false, 'RemedyOperationJob/web/j1'],
  ])('invariant 7: %s under a stale agent, power cycles %s: %s', (action, canPowerCycle, expected) => {
    expect(ask(idle(), [job({ action })], { agentAnswers: false, canPowerCycle: () => canPowerCycle })).toBe(expected);
  });

  test('and not for the time after a failure of the repair before it', () => {
    const failed = idle({
      spec: { operation: repairOperation({ id: 'r0', action: 'Reboot' }) },
      status: { operation: { id: 'r0', state: 'Done', outcome: 'TransientFailure' } },
    });
    expect(ask(failed, [job()])).toBe('RemedyOperationJob/web/j1');
  });
});

const claimed = (object = cordoned('a', 'r1')): MachineView['claim'] => ({ state: 'Claimed', node: object });
const pod = { namespace: 'web', name: 'p', uid: 'p', terminating: false };
const leaving = { ...pod, terminating: true };

interface Case {
  job?: RemedyOperationJob;
  machine?: Stored<Machine>;
  facts?: Partial<AskFacts>;
}
const seen = ({ job: of = granted(), machine: object = idle(), facts: known, ...change }: Case & Omit<Partial<MachineView>, keyof Case>) =>
  view({ reservation: repairReservation(), claim: claimed(), machine: object, ...change, facts: facts({ ...jobsOf(of), ...known }) });
const taken = (change: Parameters<typeof seen>[0]): string[] => decide(seen(change)).steps.map((step) => step.do);
const reason = ({ steps }: Decision): string | undefined => {
  const [step] = steps.filter((each) => each.do !== 'RetirePower');
  if (step?.do === 'WriteCancelled') return step.reason;
  return step?.do === 'EndRepair' ? `${step.outcome}: ${step.message}` : step?.do;
};

describe('C3: each step of a repair is found from the state alone', () => {
  test.each<[string, Parameters<typeof seen>[0], string[]]>([
    ['reserved: cordon', { claim: claimed(node()), job: job() }, ['Cordon']],
    ['that disrupts nothing: no cordon', { claim: claimed(node()), job: granted({ action: 'CleanDisk' }) }, ['Order']],
    ['that restarts: cordon', { claim: claimed(node()), job: granted({ action: 'RestartComponent' }) }, ['Cordon']],
    ['that restarts: no drain', { job: granted({ action: 'RestartComponent' }) }, ['Order']],
    ['a reboot: drain', { pods: [pod] }, ['Evict']],
    ['a reboot, pods going: wait', { pods: [leaving] }, []],
    ['a reboot, drained: order', { pods: [] }, ['Order']],
    ['a migration is itself the drain: order', { job: granted({ action: 'MigratePods' }), pods: [pod] }, ['Order']],
    ['drained before the job has noted its reservation: wait', { pods: [], job: job() }, []],
    [
      'drained before the job knows what the node was like: wait',
      { pods: [], job: job({ status: { phase: 'Granted', operationID: 'r1' } }) },
      [],
    ],
    ['drained for a job that notes another reservation: wait', { pods: [], job: granted({ status: { operationID: 'r0' } }) }, []],
    ['no order to a stale agent without power cycles', { pods: [], facts: { agentAnswers: false, canPowerCycle: () => false } }, []],
    [
      'a replacement that nothing would replace: order at once, to report that',
      { job: granted({ action: 'Replace' }), claim: claimed(node()) },
      ['Order'],
    ],
  ])('%s', (_, change, expected) => {
    expect(taken(change)).toEqual(expected);
  });

  test.each<[Action, boolean]>([
    ['CleanDisk', false],
    ['RestartComponent', false],
    ['MigratePods', false],
    ['Reboot', true],
    ['Replace', true],
  ])('%s drains before its order: %s', (action, drains) => {
    const owned = idle({ metadata: { ownerReferences: [{ apiVersion: 'x', kind: 'MachineSet', name: 's', uid: 's', controller: true }] } });
    expect(isDraining(seen({ machine: owned, job: granted({ action }) }))).toBe(drains);
  });

  test('a node whose kubelet is stale is not waited for to end its pods', () => {
    expect(taken({ kubeletAnswers: false, pods: [leaving, pod] })).toEqual(['Evict']);
    expect(taken({ kubeletAnswers: false, pods: [leaving] })).toEqual(['Order']);
  });
});

describe('D6: a repair without an order is given up', () => {
  test.each<[string, Parameters<typeof seen>[0], RegExp]>([
    ['when its job is over', { job: granted({ status: { phase: 'Cancelled' } }) }, /^RequestGone: RemedyOperationJob\/web\/j1/],
    ['when its job is gone', { job: job({ name: 'another' }) }, /^RequestGone/],
    [
      'when its job is cancelling',
      { job: granted({ status: { cancelling: { outcome: 'Cancelled', why: 'the condition cleared' } } }) },
      /^RequestGone: the condition cleared/,
    ],
    ['when repairs are frozen', { facts: { freezes: [{ metadata: { name: 'f' }, spec: {} }] } }, /^Refused: Freeze\/f/],
    ['when the machine is held', { machine: idle({ spec: { hold: true } }) }, /^Refused: Machine\/hold/],
    [
      'proof 25: when Defender would not grant it any more',
      { revoked: { allowed: false, limit: 'cell/repairs' } },
      /^Refused: cell\/repairs$/,
    ],
    ['when it did not begin in time', { nowMs: NOW + 900_000 }, /^Expired/],
    [
      'DrainTimeout: when its pods stay, with whose no it was',
      {
        nowMs: NOW + 700_000,
        reservation: repairReservation({ notAfter: at(1500) }),
        pods: [pod],
        machine: idle({
          status: {
            conditions: [
              {
                type: 'Drained',
                status: 'False',
                reason: 'BudgetNeverAllows',
                message: 'PodDisruptionBudget web/p',
                lastTransitionTime: at(0),
              },
            ],
          },
        }),
      },
      /^DrainTimeout: .*; PodDisruptionBudget web\/p$/,
    ],
  ])('%s', (_, change, expected) => {
    expect(reason(decide(seen(change)))).toMatch(expected);
  });

  test('and so is a change', () => {
    const change = {
      reservation: repairReservation({ kind: 'Change', requesterUID: 's1', scopes: ['cluster', 'set/s1'] }),
      machine: machine(),
    };
    expect(reason(decide(seen({ ...change, revoked: { allowed: false, limit: 'cell/rate' } })))).toBe('Refused: cell/rate');
  });

  test('but what has its order finishes, also against Defender or a Freeze', () => {
    const object = idle({ spec: { operation: repairOperation({ action: 'Reboot' }) } });
    const known = { freezes: [{ metadata: { name: 'f' }, spec: {} }] };
    expect(taken({ machine: object, revoked: { allowed: false, limit: 'x' }, facts: known })).toEqual([]);
  });
});

const ordered = (
  action: string,
  status: Partial<Machine['status']> = {},
  parts: { args?: Record<string, unknown>; owned?: boolean } = {},
) =>
  idle({
    spec: { operation: repairOperation({ action, ...(parts.args === undefined ? {} : { args: parts.args }) }) },
    status,
    ...(parts.owned === true
      ? { metadata: { ownerReferences: [{ apiVersion: 'x', kind: 'MachineSet', name: 's', uid: 's', controller: true }] } }
      : {}),
  });
const done = (outcome: NonNullable<OperationStatus['outcome']> = 'Succeeded'): OperationStatus => ({ id: 'r1', state: 'Done', outcome });
const running = job({ status: { phase: 'Running', operationID: 'r1' } });
const over = job({ status: { phase: 'Succeeded', operationID: 'r1' } });

describe('D5: a Repair reservation goes', () => {
  test('proof 19: not before its job has recorded what came of it: until then the node counts as unavailable', () => {
    expect(taken({ machine: ordered('Reboot', { operation: done() }), job: running })).toEqual([]);
    expect(
      taken({ machine: ordered('Reboot', { operation: done() }), job: job({ status: { phase: 'Verifying', operationID: 'r1' } }) }),
    ).toEqual([]);
  });
  test('then settled, then released', () => {
    expect(taken({ machine: ordered('Reboot', { operation: done() }), job: over })).toEqual(['Settle']);
    expect(taken({ machine: ordered('Reboot', { operation: done() }), job: over, claim: claimed(node()) })).toEqual(['Release']);
    expect(taken({ machine: ordered('Reboot', { operation: done() }), job: job({ name: 'another' }), claim: claimed(node()) })).toEqual([
      'Release',
    ]);
  });
  test('by the report of the one that carries it out, and of no other', () => {
    expect(taken({ machine: ordered('Reboot', { repair: done() }), job: over })).toEqual([]);
    expect(taken({ machine: ordered('MigratePods', { operation: done() }), job: over })).toEqual(['BeginRepair']);
    expect(taken({ machine: ordered('MigratePods', { repair: done() }), job: over })).toEqual(['Settle']);
  });
  test('proof 21: not by the report of an operation before it', () => {
    expect(taken({ machine: ordered('Reboot', { operation: { ...done(), id: 'r0' } }), job: over })).toEqual([]);
  });
  test('not by the clock', () => {
    const stale = { agentAnswers: false, nowMs: NOW + 86_400_000 };
    expect(taken({ machine: ordered('Reboot'), job: over, nowMs: NOW + 86_400_000, facts: stale })).toEqual([]);
  });
});

describe('C9: the reservation of an agent that is stale', () => {
  const successor = (action: Action) => job({ name: 'j2', action });
  const late = { agentAnswers: false, nowMs: NOW + 900_000 };
  const rated = (maxPerHour: number) => [
    { metadata: { name: 'p' }, spec: { limits: [{ name: 'few', scope: 'Cluster' as const, classes: ['Repair' as const], maxPerHour }] } },
  ];
  const begun = (repairs: number, atMs = NOW + 900_000) => [
    { from: new Date(atMs - 60_000).toISOString(), minutes: 5, starts: { 'Repair cluster': repairs } },
  ];
  test.each<[string, Parameters<typeof seen>[0], string[]]>([
    ['is taken over by a power cycle', { job: successor('Reboot'), facts: late }, ['TakeOverForRepair']],
    ['is taken over by a replacement', { job: successor('Replace'), facts: late }, ['TakeOverForRepair']],
    [
      'also when it is a change',
      {
        job: successor('Reboot'),
        facts: late,
        reservation: repairReservation({ kind: 'Change' }),
        machine: machine({ spec: { operation: operation() } }),
      },
      ['TakeOverForRepair'],
    ],
    ['not by what an agent would have to do', { job: successor('RestartComponent'), facts: late }, []],
    ['not by a migration, which repairs nothing', { job: successor('MigratePods'), facts: late }, []],
    ['not before its time is over', { job: successor('Reboot'), facts: { agentAnswers: false } }, []],
    ['not while the agent answers', { job: successor('Reboot'), facts: { nowMs: NOW + 900_000 } }, []],
    ['not where its provider cannot cycle the power', { job: successor('Reboot'), facts: { ...late, canPowerCycle: () => false } }, []],
    [
      'not while repairs are frozen',
      { job: successor('Reboot'), facts: { ...late, freezes: [{ metadata: { name: 'f' }, spec: {} }] } },
      [],
    ],
    ['not over the rate of a policy', { job: successor('Reboot'), facts: { ...late, policies: rated(1) }, hours: begun(1) }, []],
    ['within the rate', { job: successor('Reboot'), facts: { ...late, policies: rated(2) }, hours: begun(1) }, ['TakeOverForRepair']],
    ['not after it has reported', { job: successor('Reboot'), facts: late, machine: ordered('Reboot', { operation: done() }) }, ['Settle']],
    ['not from a deletion', { job: successor('Reboot'), facts: late, reservation: repairReservation({ kind: 'Delete' }) }, []],
  ])('%s', (_, change, expected) => {
    expect(taken({ machine: ordered('Reboot'), ...change })).toEqual(expected);
  });

  describe('once taken over, while what was ordered before may go on', () => {
    const taken2 = (change: Parameters<typeof seen>[0] = {}) =>
      taken({
        reservation: repairReservation({ id: 'r2', succeeds: 'r1', requesterUID: 'uid-j2' }),
        machine: ordered('RestartComponent'),
        job: granted({ name: 'j2', status: { operationID: 'r2' } }),
        claim: claimed(cordoned('a', 'r2')),
        pods: [],
        facts: late,
        ...change,
      });
    const fenced = (id: string, machine = ordered('RestartComponent')): Stored<Machine> => ({
      ...machine,
      metadata: { ...machine.metadata, annotations: { [ANNOTATIONS.orderFence]: id } },
    });
    const frozen = { ...late, freezes: [{ metadata: { name: 'f' }, spec: {} }] };
    const closed = { allowed: false, limit: 'p/window' };
    const cancelling = granted({
      name: 'j2',
      status: { operationID: 'r2', cancelling: { outcome: 'Cancelled', why: 'the condition cleared' } },
    });
    const later = NOW + 86_400_000;
    test('D5: it is ordered, and never given up', () => {
      expect(taken2()).toEqual(['Order']);
      expect(taken2({ facts: { ...late, nowMs: later }, nowMs: later })).toEqual(['Order']);
      expect(taken2({ facts: frozen })).toEqual([]);
      expect(taken2({ revoked: closed })).toEqual([]);
      expect(taken2({ job: cancelling })).toEqual([]);
      expect(taken2({ job: job({ name: 'j9', status: { phase: 'Shadow' } }) })).toEqual([]);
    });
    test('D5: nor is the agent given another order before it has reported the end of the one it had', () => {
      expect(taken2({ facts: { nowMs: NOW + 900_000 } })).toEqual([]);
    });
    test('pods are asked to go until they have gone', () => {
      expect(taken2({ pods: [pod], facts: { ...late, nowMs: later }, nowMs: later })).toEqual(['Evict']);
    });
    test('another repair may take over once it has had its time', () => {
      const other = { job: job({ name: 'j3' }), facts: { ...late, nowMs: later }, nowMs: later };
      expect(taken2({ ...other, machine: fenced('r2') })).toEqual(['TakeOverForRepair']);
      expect(taken2({ ...other, facts: { ...other.facts, policies: rated(1) }, hours: begun(1, later) })).toEqual([]);
    });
    test('first its own order must not come any more', () => {
      const other = { job: job({ name: 'j3' }), facts: { ...late, nowMs: later }, nowMs: later };
      expect(taken2(other)).toEqual(['FenceOrder']);
      expect(taken2({ ...other, machine: fenced('r0') })).toEqual(['FenceOrder']);
    });
    test('then it is not ordered, nor given up before what it took over has ended', () => {
      expect(taken2({ machine: fenced('r2') })).toEqual([]);
      expect(taken2({ machine: fenced('r0') })).toEqual(['Order']);
      const ended = ordered('RestartComponent', { operation: done() });
      expect(taken2({ machine: fenced('r2', ended) })).toEqual(['WriteCancelled']);
    });
    test.each<[string, Stored<Machine>]>([
      ['has reported its end', ordered('RestartComponent', { operation: done() })],
      ['was taken back by an operator', idle({ spec: { operation: operation({ kind: 'Cancelled' }) } })],
    ])('it is given up like any other when that %s', (_, machine) => {
      expect(taken2({ machine, facts: frozen })).toEqual(['WriteCancelled']);
      expect(taken2({ machine, job: cancelling })).toEqual(['WriteCancelled']);
    });
  });
});

describe('MigratePods', () => {
  const begun: OperationStatus = { id: 'r1', state: 'Running', bootID: 'b', startedAt: at(-10) };
  const cutting = () => ordered('MigratePods', { repair: { ...begun, cutsPower: true } });
  const migrating = (parts: { args?: Record<string, unknown> } = {}) => ordered('MigratePods', { repair: begun }, parts);
  const hung = { kubeletAnswers: false, facts: { agentAnswers: false } };
  const off = { state: 'Present' as const, instance: { providerID: 'fake://a', state: 'Stopped' as const, addresses: [] } };
  const nextOf = (change: Parameters<typeof seen>[0]) => reason(decide(seen({ job: running, machine: migrating(), ...change })));

  test('is begun on paper before anything is done', () => {
    expect(taken({ machine: ordered('MigratePods'), job: running, pods: [pod] })).toEqual(['BeginRepair']);
  });
  test('evicts with the grace of its rule, and ends when all are gone', () => {
    const [step] = decide(seen({ job: running, machine: migrating({ args: { graceSeconds: 5 } }), pods: [pod] })).steps;
    expect(step).toMatchObject({ do: 'Evict', graceSeconds: 5 });
    expect(nextOf({ pods: [leaving] })).toBeUndefined();
    expect(nextOf({ pods: [] })).toMatch(/^Succeeded/);
    expect(nextOf({ claim: { state: 'Lost', message: '' } })).toMatch(/^Succeeded/);
  });
  test('ends as a failure that may pass at its deadline, and when another client lifts its cordon', () => {
    expect(nextOf({ pods: [pod], nowMs: NOW + 600_000 })).toMatch(/^TransientFailure: 1 pod/);
    expect(nextOf({ claim: claimed(node()) })).toMatch(/^TransientFailure: another client lifted the cordon/);
  });
  test('takes no pod by force from a node that is not proven to be off', () => {
    expect(nextOf({ ...hung, pods: [pod] })).toBe('Evict');
    expect(nextOf({ ...hung, pods: [leaving] })).toBe('NoteCut');
    expect(nextOf({ ...hung, pods: [leaving], machine: cutting() })).toBe('StopInstance');
    expect(nextOf({ ...hung, pods: [leaving], canStop: false })).toMatch(/^TransientFailure: .*cannot cut the power/);
    expect(nextOf({ ...hung, pods: [leaving], instance: { state: 'NoProvider' } })).toMatch(/^TransientFailure: .*no provider/);
    expect(nextOf({ ...hung, pods: [leaving], instance: { state: 'Unknown', reason: 'x', message: 'y' } })).toBeUndefined();
    expect(nextOf({ kubeletAnswers: false, pods: [leaving] })).toMatch(/^TransientFailure: .*its agent answers/);
  });
  test('is retired before it ends where its power may have been cut, and where it is taken back', () => {
    const ends = (object: Stored<Machine>, change: Parameters<typeof seen>[0] = { pods: [] }) =>
      taken({ job: running, machine: object, ...change });
    expect(ends(migrating())).toEqual(['EndRepair']);
    expect(ends(cutting())).toEqual(['RetirePower', 'EndRepair']);
    const released = cutting();
    released.spec.operation = repairOperation({ kind: 'Cancelled', action: 'MigratePods', reason: 'an operator' });
    const fenced = node('a', { annotations: { 'kubenode.io/cordon-fence': 'r1' } });
    expect(ends(released, { claim: claimed(fenced) })).toEqual(['RetirePower', 'FreeCancelled']);
  });
  test('marks a node that is off or gone out of service, then takes the pods that were on their way', () => {
    const marked = cordoned('a', 'r1');
    marked.spec = { ...marked.spec, taints: [{ key: 'node.kubernetes.io/out-of-service', effect: 'NoExecute' }] };
    const mark = 'node.kubernetes.io/out-of-service=nodeshutdown:NoExecute';
    const noted = migrating();
    noted.status = { ...noted.status, nodeKeys: { nodeUID: 'node-a', nodeVersion: '', labels: [], taints: [mark] } };
    for (const instance of [off, { state: 'Absent' as const }]) {
      expect(nextOf({ ...hung, pods: [leaving], instance })).toBe('NoteOutOfService');
      expect(nextOf({ ...hung, machine: noted, pods: [leaving], instance })).toBe('MarkOutOfService');
      expect(nextOf({ ...hung, pods: [leaving], instance, claim: claimed(marked) })).toBe('ForceDelete');
      expect(nextOf({ ...hung, pods: [leaving, pod], instance, claim: claimed(marked) })).toBe('Evict');
    }
  });
});

describe('PowerCycle', () => {
  const begun = (bootID = 'b'): OperationStatus => ({ id: 'r1', state: 'Running', bootID, startedAt: at(-10) });
  const agent = (bootID: string) => ({ version: '1', apiLevel: 1, bootID, os: 'linux', arch: 'amd64' });
  const nextOf = (change: Parameters<typeof seen>[0], status: Partial<Machine['status']> = { repair: begun() }) =>
    reason(decide(seen({ job: running, machine: ordered('PowerCycle', status), facts: { agentAnswers: false }, ...change })));

  test('notes the boot before it asks the provider, once as far as it knows', () => {
    const [step] = decide(seen({ job: running, machine: ordered('PowerCycle'), facts: { agentAnswers: false } })).steps;
    expect(step).toMatchObject({ do: 'BeginRepair', bootID: 'b' });
    expect(nextOf({})).toBe('PowerCycle');
    expect(nextOf({ powerCycled: true })).toBeUndefined();
  });
  test('is retired before it ends', () => {
    const ended = { job: running, machine: ordered('PowerCycle', { repair: begun(), agent: agent('c') }), facts: {} };
    expect(taken(ended)).toEqual(['RetirePower', 'EndRepair']);
  });
  test('proof 20: ends with another boot and nothing else', () => {
    expect(nextOf({ facts: {} }, { repair: begun(), agent: agent('c') })).toMatch(/^Succeeded: the node runs in boot c/);
    expect(nextOf({ facts: {} }, { repair: begun(), agent: agent('b') })).toBe('PowerCycle');
    expect(nextOf({}, { repair: begun(), agent: agent('c') })).toBe('PowerCycle');
  });
  test('fails when its time is over, when there is nothing to cycle, and when nothing would prove it', () => {
    expect(nextOf({ nowMs: NOW + 900_000 })).toMatch(/^TransientFailure/);
    expect(nextOf({ instance: { state: 'Absent' } })).toMatch(/^PermanentFailure/);
    expect(nextOf({ nowMs: NOW + 900_000 }, { repair: begun('') })).toMatch(/^PermanentFailure: .*not known/);
  });
});

describe('Replace', () => {
  const begun: OperationStatus = { id: 'r1', state: 'Running', bootID: 'b', startedAt: at(-10) };
  test('deletes a machine that its MachineSet makes again, and no other', () => {
    expect(taken({ job: running, machine: ordered('Replace', { repair: begun }, { owned: true }) })).toEqual(['DeleteMachine']);
    expect(reason(decide(seen({ job: running, machine: ordered('Replace', { repair: begun }) })))).toMatch(
      /^PermanentFailure: no MachineSet/,
    );
  });
});

describe('C4: a Degraded cordon', () => {
  const due = (status: 'True' | 'False') =>
    idle({ status: { conditions: [{ type: 'RepairNeeded', status, reason: 'hung', message: '', lastTransitionTime: at(0) }] } });
  const without = (object: Stored<Machine>) =>
    taken({ reservation: undefined, machine: object, claim: claimed(cordoned('a', 'Degraded')) });
  test('stays while a repair is due, and goes when it is not', () => {
    expect(without(due('True'))).toEqual([]);
    expect(without(due('False'))).toEqual(['LiftDegraded']);
    expect(without(idle())).toEqual(['LiftDegraded']);
  });
  test('is not put there by a rule that merely matches', () => {
    expect(taken({ reservation: undefined, machine: due('True'), claim: claimed(node()) })).toEqual([]);
  });
});
