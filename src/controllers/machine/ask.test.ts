import { describe, expect, test } from 'vitest';
import type { Machine } from '../../api/machine.ts';
import { LABELS } from '../../api/names.ts';
import { askOf, scopesOf } from './ask.ts';
import { DRAIN_TIMEOUT } from './drain.ts';
import type { AskFacts, SetFacts } from './facts.ts';
import { at, entry, facts, KUBELET_SET, machine, NOW, operation, VERIFIED_OLD, waiting } from './testing/objects.ts';

const sets = (...named: [string, Partial<SetFacts>][]): ReadonlyMap<string, SetFacts> =>
  new Map(named.map(([uid, set]) => [uid, { name: uid, stopped: undefined, ...set }]));
const refusal = (object: Machine, change: Partial<AskFacts> = {}): string | undefined => {
  const ask = askOf(object, facts(change));
  return ask.state === 'Refused' ? ask.verdict.limit : ask.state;
};
const asked = (object: Machine, change: Partial<AskFacts> = {}) => {
  const ask = askOf(object, facts(change));
  if (ask.state !== 'Asks') throw new Error(`it says ${ask.state}`);
  return ask;
};

describe('A4: a machine asks', () => {
  test('for what its agent announces at the revision of the entry', () => {
    expect(asked(machine()).request).toMatchObject({
      machineUID: 'uid-a',
      machine: 'web/a',
      nodeUID: 'node-a',
      kind: 'Change',
      class: 'Change',
      requesterUID: 's1',
      requester: 'MachineComponentSet/kubelet',
      scopes: ['cluster', 'pool/web', 'set/s1'],
      mustBeginWithinMs: 900_000,
    });
    expect(refusal(machine({ components: [waiting({ revision: 1 })] }))).toBe('Nothing');
    expect(refusal(machine({ components: [waiting({ state: 'Fetching' })] }))).toBe('Nothing');
    expect(refusal(machine({ components: [waiting({ needs: 'Reload' })] }))).toBe('Nothing');
  });

  test('with time for a drain where one is needed', () => {
    expect(asked(machine({ components: [waiting({ needs: 'Drain' })] })).request.mustBeginWithinMs).toBe(1_500_000);
  });

  test('once for the entries of several sets, which ride one operation', () => {
    const both = machine({
      entries: [entry(), entry({ name: 'containerd', setUID: 's2', revision: 7 })],
      components: [waiting(), waiting({ name: 'containerd', revision: 7 })],
    });
    const { request, components } = asked(both, { sets: sets(['s1', {}], ['s2', {}]) });
    expect(components.map((component) => component.name)).toEqual(['containerd', 'kubelet']);
    expect(request.scopes).toEqual(['cluster', 'pool/web', 'set/s2', 'set/s1']);
  });

  test('in the scope of its MachineSet as well', () => {
    expect(asked(machine({ metadata: { labels: { [LABELS.machineSet]: 'web-a' } } })).request.scopes).toContain('machineset/web/web-a');
  });

  test('for the repair of drift, which is a Change, also of content verified here', () => {
    const drift = machine({ entries: [entry({ version: '1.0.0' })], components: [waiting({ needsFor: 'Drift' })] });
    expect(asked(drift).request.class).toBe('Change');
  });

  test('not again for a revision whose operation ended and cannot say how (C7)', () => {
    const spent = machine({
      spec: { operation: operation() },
      status: { operation: { id: 'r1', state: 'Done', outcome: 'PermanentFailure' } },
    });
    expect(refusal(spent)).toBe('Nothing');
    const again = machine({
      entries: [entry({ revision: 3 })],
      components: [waiting({ revision: 3 })],
      spec: { operation: operation() },
      status: { operation: { id: 'r1', state: 'Done', outcome: 'PermanentFailure' } },
    });
    expect(asked(again).request.kind).toBe('Change');
  });
});

describe('B7: content among the two last verified here', () => {
  const back = (verified: Machine['status'] = {}) =>
    machine({ entries: [entry({ version: '1.0.0' })], components: [waiting({ version: '2.0.0' })], status: { ...verified } });
  test('is a Restore', () => {
    expect(asked(back()).request.class).toBe('Restore');
    const older = [{ ...VERIFIED_OLD, version: '1.5.0' }, VERIFIED_OLD];
    expect(asked(back({ verified: older })).request.class).toBe('Restore');
  });
  test('is none when it is the third, or has other values', () => {
    const third = [{ ...VERIFIED_OLD, version: '1.6.0' }, { ...VERIFIED_OLD, version: '1.5.0' }, VERIFIED_OLD];
    expect(asked(back({ verified: third })).request.class).toBe('Change');
    expect(asked(back({ verified: [{ ...VERIFIED_OLD, values: { maxPods: 1 } }] })).request.class).toBe('Change');
  });
  test('passes a halt, a pause and a Freeze that does not name it', () => {
    const stopped = { sets: sets(['s1', { stopped: 'Halted' }]), freezes: [{ metadata: { name: 'f' }, spec: {} }] };
    expect(asked(back(), stopped).request.class).toBe('Restore');
    expect(refusal(back(), { freezes: [{ metadata: { name: 'f' }, spec: { stops: ['Restore'] } }] })).toBe('Freeze/f');
  });
});

describe('a machine is refused before any limit is looked at', () => {
  test.each<[string, Machine, Partial<AskFacts>, string]>([
    [
      'B4: when its set is halted',
      machine(),
      { sets: sets(['s1', { name: 'kubelet', stopped: 'Halted' }]) },
      'MachineComponentSet/kubelet',
    ],
    ['when its set is paused', machine(), { sets: sets(['s1', { name: 'kubelet', stopped: 'Paused' }]) }, 'MachineComponentSet/kubelet'],
    ['A6: when its set is gone', machine(), { sets: new Map() }, 'MachineComponentSet'],
    ['D11: when its pool is frozen', machine(), { freezes: [{ metadata: { name: 'f' }, spec: { pools: ['web'] } }] }, 'Freeze/f'],
    ['D11: when it is held', machine({ spec: { hold: true } }), {}, 'Machine/hold'],
    [
      'D11: when its node is held',
      machine({ status: { agent: { version: '1', apiLevel: 1, bootID: 'b', os: 'linux', arch: 'amd64', hold: true } } }),
      {},
      'Node/hold',
    ],
    ['invariant 7: when its agent is silent', machine(), { agentAnswers: false }, 'Agent/heartbeat'],
    [
      'after a drain that did not end, until its time is over',
      machine({ spec: { operation: operation({ kind: 'Cancelled', reason: `${DRAIN_TIMEOUT}: pods were left` }) } }),
      {},
      'Machine/retry',
    ],
    [
      'after a failure that may pass, until its time is over',
      machine({ spec: { operation: operation() }, status: { operation: { id: 'r1', state: 'Done', outcome: 'TransientFailure' } } }),
      {},
      'Machine/retry',
    ],
    ['when it is deleted while held', machine({ spec: { hold: true }, metadata: { deletionTimestamp: at(0) } }), {}, 'Machine/hold'],
    [
      'when it is deleted while frozen',
      machine({ metadata: { deletionTimestamp: at(0) } }),
      { freezes: [{ metadata: { name: 'f' }, spec: {} }] },
      'Freeze/f',
    ],
  ])('%s', (_, object, change, limit) => {
    expect(refusal(object, change)).toBe(limit);
  });

  test('and asks again once that time is over', () => {
    const blocked = machine({ spec: { operation: operation({ kind: 'Cancelled', reason: DRAIN_TIMEOUT }) } });
    expect(asked(blocked, { nowMs: NOW + 900_000 }).request.kind).toBe('Change');
  });

  test('but drift is repaired under a halted set: nothing in it is forward', () => {
    const drift = machine({ components: [waiting({ needsFor: 'Drift' })] });
    expect(asked(drift, { sets: sets(['s1', { stopped: 'Halted' }]) }).request.kind).toBe('Change');
  });
});

describe('a deleted machine asks', () => {
  test('for a Delete row, of cluster, pool and MachineSet alone, and also when its agent is silent', () => {
    const { request } = asked(machine({ metadata: { deletionTimestamp: at(0) } }), { agentAnswers: false });
    expect(request).toMatchObject({ kind: 'Delete', class: 'Change', requester: 'Machine/web/a', scopes: ['cluster', 'pool/web'] });
  });
  test('never while it is paused, nor without our finalizer', () => {
    expect(refusal(machine({ spec: { paused: true }, metadata: { deletionTimestamp: at(0) } }))).toBe('Nothing');
    expect(refusal(machine({ metadata: { deletionTimestamp: at(0), finalizers: [] } }))).toBe('Nothing');
  });
});

test('B8: a machine counts in every set that selects it or has written to it', () => {
  const labelled = machine({ metadata: { labels: { tier: 'web' } } });
  const all = sets(
    ['s1', { pools: ['elsewhere'] }],
    ['everywhere', {}],
    ['pool', { pools: ['web'] }],
    ['other-pool', { pools: ['db'] }],
    ['labels', { selector: { tier: 'web' } }],
    ['other-labels', { selector: { tier: 'db' } }],
    ['nothing', { selector: {} }],
  );
  expect(scopesOf(labelled, all)).toEqual(['cluster', 'pool/web', 'set/s1', 'set/everywhere', 'set/pool', 'set/labels']);
  expect(scopesOf(labelled, new Map([['s1', KUBELET_SET]]))).toEqual(['cluster', 'pool/web', 'set/s1']);
});
