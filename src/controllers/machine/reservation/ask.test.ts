import { describe, expect, test } from 'vitest';
import type { ComponentEntry, ComponentStatus, Machine } from '../../../api/machine.ts';
import { LABELS } from '../../../api/names.ts';
import { askOf, scopesOf } from './ask.ts';
import type { AskFacts, SetFacts } from '../facts.ts';
import { tryOf } from './backoff.ts';
import { at, entry, facts, KUBELET_SET, machine, NOW, operation, reservation, VERIFIED_OLD, waiting } from '../testing/objects.ts';

const sets = (...named: [string, Partial<SetFacts>][]): ReadonlyMap<string, SetFacts> =>
  new Map(named.map(([uid, set]) => [uid, { name: uid, stopped: undefined, ...set }]));
const refusal = (object: Machine, change: Partial<AskFacts> = {}): string | undefined => {
  const ask = askOf(object, facts(change));
  return ask.state === 'Refused' ? ask.verdict.limit : ask.state;
};
const asked = (object: Machine, change: Partial<AskFacts> = {}) => {
  const ask = askOf(object, facts(change));
  if (ask.state !== 'Asks') throw new Error(`its state is ${ask.state}`);
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

  test('not again for a revision whose operation ended with an unknown result (C7)', () => {
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

describe('B7: the way back, declared by the entry and known to the cell', () => {
  const back = (status: Machine['status'] = {}, change: Partial<ComponentEntry> = {}, reported: Partial<ComponentStatus> = {}) =>
    machine({
      entries: [entry({ version: '1.0.0', lane: 'Restore', ...change })],
      components: [waiting({ version: '2.0.0', ...reported })],
      status,
    });
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
  test('safety 15: a reverted version that goes out again is none, and a Freeze stops it, though it was verified here', () => {
    const again = back({}, { lane: 'Forward' });
    expect(asked(again).request.class).toBe('Change');
    expect(asked(machine({ entries: [entry({ version: '1.0.0' })] })).request.class).toBe('Change');
    expect(refusal(again, { freezes: [{ metadata: { name: 'f' }, spec: {} }] })).toBe('Freeze/f');
  });
  test('safety 14: is none for content that the cell never saw work here, also where the entry declares it', () => {
    expect(asked(back({ verified: [] })).request.class).toBe('Change');
  });

  const frozen = { freezes: [{ metadata: { name: 'f' }, spec: {} }] };
  test('safety 14: a lying agent does not make one of content that the cell has seen running, nor of drift', () => {
    const runs = back({ verified: [{ ...VERIFIED_OLD, revision: 2 }] });
    expect(asked(runs).request.class).toBe('Change');
    expect(refusal(runs, frozen)).toBe('Freeze/f');
    expect(asked(back({}, {}, { needsFor: 'Drift' })).request.class).toBe('Change');
  });
});

describe('safety 5, D9: one Restore and one Change of a machine', () => {
  const mixed = machine({
    entries: [entry(), entry({ name: 'cni', version: '1.0.0', lane: 'Restore', revision: 7, setUID: 's2' })],
    components: [waiting(), waiting({ name: 'cni', revision: 7 })],
    status: { verified: [VERIFIED_OLD, { ...VERIFIED_OLD, name: 'cni' }] },
  });
  const both = { sets: sets(['s1', {}], ['s2', {}]) };
  test('are two requests: what goes forward does not ride the way back', () => {
    expect(asked(mixed, both).request).toMatchObject({
      class: 'Restore',
      scopes: ['cluster', 'pool/web', 'set/s2'],
      components: [{ name: 'cni', revision: 7, class: 'Restore' }],
    });
  });
  test('and where the way back is frozen the other asks', () => {
    const { request } = asked(mixed, { ...both, freezes: [{ metadata: { name: 'f' }, spec: { stops: ['Restore'] } }] });
    expect(request).toMatchObject({ class: 'Change', components: [{ name: 'kubelet', revision: 2, class: 'Change' }] });
  });
});

describe('a machine is refused before any limit is checked', () => {
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
    ['invariant 7: when its agent is stale', machine(), { agentAnswers: false }, 'Agent/heartbeat'],
    [
      'after a drain that did not end, until its time is over',
      machine({
        components: [waiting({ needs: 'Drain' })],
        spec: { operation: operation({ kind: 'Cancelled', cause: 'DrainTimeout', reason: 'DrainTimeout: pods were left' }) },
      }),
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
    const blocked = machine({ spec: { operation: operation({ kind: 'Cancelled', cause: 'DrainTimeout', reason: 'DrainTimeout' }) } });
    expect(asked(blocked, { nowMs: NOW + 900_000 }).request.kind).toBe('Change');
  });

  test('but drift is repaired under a halted set: nothing in it is forward', () => {
    const verified = [{ ...VERIFIED_OLD, version: '2.0.0', revision: 2 }];
    const drift = machine({ components: [waiting({ needsFor: 'Drift' })], status: { verified } });
    expect(asked(drift, { sets: sets(['s1', { stopped: 'Halted' }]) }).request.kind).toBe('Change');
  });

  test('and a lying agent does not pass a halt by calling new content drift', () => {
    const lie = machine({ components: [waiting({ needsFor: 'Drift' })] });
    expect(refusal(lie, { sets: sets(['s1', { name: 'kubelet', stopped: 'Halted' }]) })).toBe('MachineComponentSet/kubelet');
  });
});

describe('D9: a deletion whose drain did not end', () => {
  const deletion = reservation({ id: 'del', kind: 'Delete' });
  const given = (parts: Parameters<typeof machine>[0] = {}): Machine => {
    const before = machine(parts);
    const cancelled = operation({
      id: 'del',
      kind: 'Cancelled',
      cause: 'DrainTimeout',
      reason: 'DrainTimeout',
      ...tryOf(deletion, before, NOW),
    });
    return { ...before, spec: { ...before.spec, operation: cancelled } };
  };
  const marked = { spec: { retire: { epoch: 1 } } };
  const back = { entries: [entry({ version: '1.0.0', lane: 'Restore' })] };
  test.each(['Restart', 'Drain'] as const)('blocks no way back that needs a %s, also of a marked machine', (needs) => {
    expect(asked(given({ ...back, components: [waiting({ needs })] }), { epoch: 1 }).request.class).toBe('Restore');
    expect(asked(given({ ...marked, ...back, components: [waiting({ needs })] }), { epoch: 1 }).request.class).toBe('Restore');
  });
  test('blocks no change, and a marked machine changes while its deletion is refused', () => {
    expect(asked(given(), { epoch: 1 }).request.kind).toBe('Change');
    expect(asked(given(marked), { epoch: 1 }).request.kind).toBe('Change');
  });
  test('is asked for again once its time is over', () => {
    expect(refusal(given({ ...marked, components: [] }), { epoch: 1 })).toBe('Machine/retry');
    expect(asked(given(marked), { epoch: 1, nowMs: NOW + 1_000_000 }).request.kind).toBe('Delete');
  });
  test('is not blocked by the drain of a change', () => {
    const change = operation({ kind: 'Cancelled', cause: 'DrainTimeout', reason: 'DrainTimeout', ...tryOf(reservation(), machine(), NOW) });
    expect(asked(machine({ spec: { ...marked.spec, operation: change } }), { epoch: 1 }).request.kind).toBe('Delete');
  });
});

describe('a deleted machine asks', () => {
  test('for a Delete reservation, of cluster, pool and MachineSet alone, and also when its agent is stale', () => {
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
