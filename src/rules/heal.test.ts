import { describe, expect, it } from 'vitest';
import { API_VERSION } from '../api/kind.ts';
import type { HealedWhen } from '../api/node-remedier.ts';
import type { JobProof } from '../api/remedy-operation-job.ts';
import { observeHeartbeats } from './heartbeats.ts';
import { beforeOf, proofFrom, verify, type VerifyInput } from './heal.ts';
import { takeSnapshot, type Snapshot } from './snapshot.ts';

const T0 = Date.parse('2026-01-01T00:00:00Z');
const iso = (ms: number) => new Date(ms).toISOString();

interface Seen {
  at: number;
  /** Status, and the detector's transition in seconds. */
  conditions: Record<string, ['True' | 'False' | 'Unknown', number]>;
  beat?: number;
  boot?: string;
  agent?: 'Fresh' | 'Stale';
  /** Conditions of the Machine. */
  onMachine?: Record<string, 'True' | 'False' | 'Unknown'>;
}
function seen({ at, conditions, beat = at, boot = 'boot-1', agent = 'Fresh', onMachine = {} }: Seen): Snapshot {
  const nowMs = T0 + at * 1000;
  const list = Object.entries(conditions).map(([type, [status, transition]]) => ({
    type,
    status,
    reason: 'R',
    lastTransitionTime: iso(T0 + transition * 1000),
    lastHeartbeatTime: iso(T0 + beat * 1000),
  }));
  return takeSnapshot({
    nowMs,
    machine: {
      apiVersion: API_VERSION,
      kind: 'Machine',
      metadata: { name: 'a', uid: 'm' },
      spec: {},
      status: {
        nodeRef: { name: 'a', uid: 'n' },
        agent: { version: '1', apiLevel: 1, bootID: boot, os: 'linux', arch: 'amd64' },
        conditions: Object.entries(onMachine).map(([type, status]) => ({
          type,
          status,
          reason: 'R',
          message: '',
          lastTransitionTime: iso(T0),
        })),
      },
    },
    node: { apiVersion: 'v1', kind: 'Node', metadata: { name: 'a', uid: 'n' }, status: { conditions: list } },
    heartbeats: observeHeartbeats(undefined, 'n', list, nowMs),
    kubeletFreshUntilMs: nowMs + 1,
    agentFreshUntilMs: agent === 'Fresh' ? nowMs + 1 : nowMs - 1,
    peers: {},
    pause: { paused: true, releasedAtMs: undefined },
  });
}

const PROBED: HealedWhen = { condition: 'KubeletUnhealthy', is: 'False', forSeconds: 300 };
const restart = { action: 'RestartComponent', healedWhen: PROBED, timeoutSeconds: 600 } as const;
const LATCHED: HealedWhen = { condition: 'KernelDeadlock', is: 'False', forSeconds: 300 };
const reboot = { action: 'Reboot', healedWhen: LATCHED, timeoutSeconds: 600 } as const;

/** A repair ordered at 0 and done at 10, then observed again and again; returns the result of the last observation. */
function course(spec: VerifyInput['spec'], ill: Seen['conditions'], ...observations: (Seen & { matches?: VerifyInput['matches'] })[]) {
  const start = seen({ at: 0, conditions: ill });
  let proof: JobProof = proofFrom(seen({ at: 10, conditions: ill, beat: 0 }), spec);
  let found: ReturnType<typeof verify> | undefined;
  for (const { matches = 'False', ...observation } of observations) {
    const snapshot = seen(observation);
    found = verify({ spec, orderedAtMs: T0, actedAtMs: T0 + 10_000, before: beforeOf(start), proof, snapshot, matches, gone: false });
    // As the job keeps it: written, and read again by the next process.
    proof = JSON.parse(JSON.stringify(found.proof)) as JobProof;
  }
  return found;
}

const ILL = { KubeletUnhealthy: ['True', -60], Ready: ['True', -900] } satisfies Seen['conditions'];
const WELL = { KubeletUnhealthy: ['False', 20], Ready: ['True', -900] } satisfies Seen['conditions'];

describe('F4: a repair is proved', () => {
  it('by a healthy condition that stays so for as long as the rule demands', () => {
    expect(course(restart, ILL, { at: 30, conditions: WELL })).toMatchObject({ state: 'Confirming', nextAtMs: T0 + 330_000 });
    expect(course(restart, ILL, { at: 30, conditions: WELL }, { at: 329, conditions: WELL })?.state).toBe('Confirming');
    expect(course(restart, ILL, { at: 30, conditions: WELL }, { at: 330, conditions: WELL })?.state).toBe('Healed');
  });

  it('only by a heartbeat that came after the action', () => {
    expect(course(restart, ILL, { at: 30, beat: 0, conditions: WELL })).toMatchObject({ state: 'Waiting' });
    expect(course(restart, ILL, { at: 30, beat: 0, conditions: WELL })?.why).toContain('from before the action');
  });

  it('again after a relapse, also one that was not observed', () => {
    const relapse = { KubeletUnhealthy: ['True', 100], Ready: ['True', -900] } satisfies Seen['conditions'];
    const again = { KubeletUnhealthy: ['False', 120], Ready: ['True', -900] } satisfies Seen['conditions'];
    const well = { at: 30, conditions: WELL };
    expect(
      course(restart, ILL, well, { at: 100, conditions: relapse }, { at: 120, conditions: again }, { at: 330, conditions: again })?.state,
    ).toBe('Confirming');
    expect(course(restart, ILL, well, { at: 330, conditions: again })).toMatchObject({ state: 'Confirming', nextAtMs: T0 + 630_000 });
  });

  it('not while its rule still matches, or that is unknown', () => {
    expect(course(restart, ILL, { at: 30, conditions: WELL, matches: 'True' })?.why).toBe('its rule still matches');
    expect(course(restart, ILL, { at: 30, conditions: WELL, matches: 'Unknown' })?.state).toBe('Waiting');
    expect(course(restart, ILL, { at: 30, conditions: WELL, matches: undefined })?.state).toBe('Confirming');
  });

  it('not without a report: a stale or absent condition is no proof', () => {
    const stale = { at: 599, beat: -90, conditions: WELL };
    expect(course(restart, ILL, stale)).toMatchObject({ state: 'Waiting' });
    expect(course(restart, ILL, { at: 30, conditions: { Ready: ['True', 0] } })?.why).toBe('the Node has no condition KubeletUnhealthy');
    expect(course(restart, ILL, { at: 600, conditions: ILL })).toMatchObject({ state: 'Failed', nextAtMs: undefined });
    expect(course(restart, ILL, { at: 600, conditions: WELL })?.state).toBe('Failed');
  });

  it('not by a condition that is still bad, or one that its detector does not know', () => {
    expect(course(restart, ILL, { at: 30, conditions: ILL })).toMatchObject({ state: 'Waiting', why: 'KubeletUnhealthy is True, R' });
    const unsure = { ...WELL, KubeletUnhealthy: ['Unknown', 20] } satisfies Seen['conditions'];
    expect(course(restart, ILL, { at: 30, conditions: unsure })?.why).toBe('KubeletUnhealthy is Unknown: its detector does not know');
    expect(course(restart, ILL, { at: 1000, beat: -900, conditions: WELL })?.why).toContain('KubeletUnhealthy is Unknown: its heartbeat');
  });

  it('not before the action was done', () => {
    const snapshot = seen({ at: 30, conditions: WELL });
    const input = {
      spec: restart,
      orderedAtMs: T0,
      actedAtMs: undefined,
      before: beforeOf(snapshot),
      proof: {},
      snapshot,
      matches: 'False',
      gone: false,
    } as const;
    expect(verify(input)).toMatchObject({ state: 'Waiting', why: 'RestartComponent is not reported as done yet' });
    expect(verify({ ...input, snapshot: seen({ at: 600, conditions: WELL }) }).state).toBe('Failed');
  });
});

describe('a proof by a condition of the Machine', () => {
  const onMachine = (condition: string): VerifyInput['spec'] => ({
    ...restart,
    healedWhen: { condition, of: 'Machine', is: 'False', forSeconds: 300 },
  });
  const given = { conditions: { Ready: ['True', -900] } satisfies Seen['conditions'] };

  it('is by that one alone, not by the Node’s condition of the same name', () => {
    const spec = onMachine('KubeletUnhealthy');
    const well = { at: 30, conditions: ILL, onMachine: { KubeletUnhealthy: 'False' } } as const;
    expect(course(spec, ILL, well)?.state).toBe('Confirming');
    expect(course(spec, ILL, well, { ...well, at: 330 })?.state).toBe('Healed');
    expect(course(spec, ILL, { ...well, conditions: WELL, onMachine: { KubeletUnhealthy: 'True' } })?.why).toBe(
      'KubeletUnhealthy is True, R',
    );
    expect(course(spec, ILL, { ...given, at: 30 })?.why).toBe('the Machine has no condition KubeletUnhealthy');
  });

  it('needs neither a boot nor a heartbeat, and no detector of the Node clears it by a restart', () => {
    const spec = onMachine('KernelDeadlock');
    const ill = { KernelDeadlock: ['True', -60], ReadonlyFilesystem: ['False', -900] } satisfies Seen['conditions'];
    const reset = { KernelDeadlock: ['False', 20], ReadonlyFilesystem: ['False', 20] } satisfies Seen['conditions'];
    const found = course(spec, ill, { at: 30, conditions: reset, onMachine: { KernelDeadlock: 'False' } });
    expect(found?.state).toBe('Confirming');
    expect(found?.proof).not.toHaveProperty('reset');
    expect(proofFrom(seen({ at: 10, conditions: ill }), spec)).toEqual({});
  });

  it('that came back in a new boot is no relapse, which only a condition that latches has', () => {
    const bad = { KubeletUnhealthy: ['True', 40] } satisfies Seen['conditions'];
    const proofs = [
      course(onMachine('KernelDeadlock'), ILL, { at: 40, conditions: {}, onMachine: { KernelDeadlock: 'True' }, boot: 'boot-2' }),
      course(restart, ILL, { at: 40, conditions: bad, boot: 'boot-2' }),
      course(reboot, ILL, { at: 40, conditions: { KernelDeadlock: ['True', 40] } }),
    ].map((found) => found?.proof);
    for (const proof of proofs) expect(proof).not.toHaveProperty('relapsed');
  });
});

it('what is kept of a node for its order is all of its conditions, or none while it has no Node', () => {
  const snapshot = seen({ at: 0, conditions: ILL });
  expect(beforeOf(snapshot)).toEqual({
    bootID: 'boot-1',
    conditions: [
      { type: 'KubeletUnhealthy', status: 'True', transition: iso(T0 - 60_000), heartbeat: iso(T0) },
      { type: 'Ready', status: 'True', transition: iso(T0 - 900_000), heartbeat: iso(T0) },
    ],
  });
  expect(beforeOf({ ...snapshot, node: undefined })).toEqual({ bootID: 'boot-1', conditions: [] });
});

describe('a detector that restarted proves nothing', () => {
  const ill = { KernelDeadlock: ['True', -60], ReadonlyFilesystem: ['False', -900], Ready: ['True', -900] } satisfies Seen['conditions'];
  const reset = { KernelDeadlock: ['False', 20], ReadonlyFilesystem: ['False', 20], Ready: ['True', -900] } satisfies Seen['conditions'];

  it('about a condition that only it, or a boot, can clear', () => {
    const spec = { ...reboot, action: 'RestartComponent' } as const;
    expect(course(spec, ill, { at: 30, conditions: reset }, { at: 400, conditions: reset })).toMatchObject({ state: 'Waiting' });
    expect(course(spec, ill, { at: 600, conditions: reset })?.state).toBe('Failed');
  });

  it('about a condition that this build does not know', () => {
    const spec = { ...restart, healedWhen: { ...PROBED, condition: 'Ours' } };
    const bad = { ...ill, Ours: ['True', -60] } satisfies Seen['conditions'];
    const cleared = { ...reset, Ours: ['False', 20] } satisfies Seen['conditions'];
    expect(course(spec, bad, { at: 30, conditions: cleared }, { at: 400, conditions: cleared })?.why).toContain('its detector restarted');
    expect(
      course(spec, bad, { at: 30, conditions: { ...ill, Ours: ['False', 20] } }, { at: 400, conditions: { ...ill, Ours: ['False', 20] } })
        ?.state,
    ).toBe('Healed');
  });

  it('and another problem that only changed its reason is no restart', () => {
    const bad = { ...ILL, ReadonlyFilesystem: ['True', -60] } satisfies Seen['conditions'];
    const healed = { ...WELL, ReadonlyFilesystem: ['True', 20] } satisfies Seen['conditions'];
    expect(course(restart, bad, { at: 30, conditions: healed }, { at: 330, beat: 30, conditions: healed })?.state).toBe('Healed');
  });

  it('about what it does not watch: the kubelet itself reports that a node is Ready', () => {
    const spec = { ...restart, healedWhen: { condition: 'Ready', is: 'True', forSeconds: 60 } } as const;
    const found = course(spec, { ...ill, Ready: ['False', -60] }, { at: 30, conditions: { ...reset, Ready: ['True', 25] } });
    expect(found).toMatchObject({ state: 'Confirming', nextAtMs: T0 + 90_000 });
  });

  it('but what it reported after a boot stays valid while the agent is stale', () => {
    const bad = { ...ill, KubeletUnhealthy: ['True', -60] } satisfies Seen['conditions'];
    const cleared = { ...reset, KubeletUnhealthy: ['False', 20] } satisfies Seen['conditions'];
    const boot = 'boot-2';
    const observations = [
      { at: 30, conditions: cleared },
      { at: 60, conditions: cleared, boot },
      { at: 90, conditions: cleared, boot, agent: 'Stale' as const },
    ];
    expect(course(restart, bad, ...observations)).toMatchObject({ state: 'Confirming', nextAtMs: T0 + 360_000 });
  });

  it('about a probed one before its next heartbeat, from which it has to stay healthy', () => {
    const bad = { ...ill, KubeletUnhealthy: ['True', -60] } satisfies Seen['conditions'];
    const cleared = { ...reset, KubeletUnhealthy: ['False', 20] } satisfies Seen['conditions'];
    const first = { at: 30, conditions: cleared };
    expect(course(restart, bad, first, { at: 400, beat: 30, conditions: cleared })?.why).toContain('next heartbeat');
    expect(course(restart, bad, first, { at: 330, conditions: cleared })).toMatchObject({ state: 'Confirming', nextAtMs: T0 + 630_000 });
    expect(course(restart, bad, first, { at: 330, conditions: cleared }, { at: 630, conditions: cleared })?.state).toBe('Healed');
  });
});

describe('a reboot', () => {
  const ill = { KernelDeadlock: ['True', -60], Ready: ['Unknown', -60] } satisfies Seen['conditions'];
  const well = { KernelDeadlock: ['False', 60], Ready: ['True', 60] } satisfies Seen['conditions'];

  it('is proved only in another boot than the boot of the order', () => {
    expect(course(reboot, ill, { at: 90, conditions: well })?.why).toBe('it is still boot boot-1');
    expect(course(reboot, ill, { at: 90, conditions: well, boot: 'boot-2' }, { at: 390, conditions: well, boot: 'boot-2' })?.state).toBe(
      'Healed',
    );
    expect(course(reboot, ill, { at: 90, conditions: well, boot: 'boot-2', agent: 'Stale' })?.why).toBe('the agent has not reported since');
  });

  it('is what a proof may ask for beside any action', () => {
    const spec = { ...restart, healedWhen: { ...PROBED, onNewBoot: true } };
    expect(course(spec, ILL, { at: 30, conditions: WELL })?.why).toBe('it is still boot boot-1');
    expect(course(spec, ILL, { at: 30, conditions: WELL, boot: 'boot-2' })?.state).toBe('Confirming');
  });

  it('has to stay so again when it boots again', () => {
    const observations = [
      { at: 90, conditions: well, boot: 'boot-2' },
      { at: 390, conditions: well, boot: 'boot-3' },
    ];
    expect(course(reboot, ill, ...observations)).toMatchObject({ state: 'Confirming', nextAtMs: T0 + 690_000 });
  });

  it('is not proved while the node is not Ready', () => {
    const early = { ...well, Ready: ['False', 60] } satisfies Seen['conditions'];
    expect(course(reboot, ill, { at: 90, conditions: early, boot: 'boot-2' })?.why).toBe('the node is not Ready again');
  });

  it('of a node whose boot was not known cannot be proved', () => {
    const snapshot = seen({ at: 90, conditions: well, boot: 'boot-2' });
    const found = verify({
      spec: reboot,
      orderedAtMs: T0,
      actedAtMs: T0,
      before: { bootID: '', conditions: [] },
      proof: {},
      snapshot,
      matches: 'False',
      gone: false,
    });
    expect(found.why).toBe('the boot before the order is not known');
  });
});

it('an action that repairs nothing is done when it is carried out, and a replaced machine when it is gone', () => {
  const snapshot = seen({ at: 30, conditions: ILL });
  const input = { orderedAtMs: T0, actedAtMs: T0, before: beforeOf(snapshot), proof: {}, snapshot, matches: 'True', gone: false } as const;
  expect(verify({ ...input, spec: { ...restart, action: 'MigratePods' } }).state).toBe('Healed');
  expect(verify({ ...input, matches: 'False', spec: { ...restart, action: 'Human' } })).toMatchObject({
    state: 'Waiting',
    why: 'a human ends it',
  });
  expect(verify({ ...input, spec: { ...restart, action: 'Replace' } }).state).toBe('Waiting');
  expect(verify({ ...input, spec: { ...restart, action: 'Replace' }, gone: true }).state).toBe('Healed');
});

describe('a condition that latches and came back after the reboot', () => {
  const ill = (at: number) => ({ KernelDeadlock: ['True', at], Ready: ['True', 20] }) satisfies Seen['conditions'];
  const well = (at: number) => ({ KernelDeadlock: ['False', at], Ready: ['True', 20] }) satisfies Seen['conditions'];
  const boot = 'boot-2';
  const relapse = { at: 100, conditions: ill(100), boot };

  it('is not healed by a restart of its detector in that boot', () => {
    const found = course(reboot, ill(-60), { at: 30, conditions: well(30), boot }, relapse, { at: 120, conditions: well(120), boot });
    expect(found).toMatchObject({ state: 'Waiting', proof: { relapsed: boot } });
    expect(found?.why).toContain('only a restart of its detector does that');
  });

  it('is by another boot', () => {
    const next = 'boot-3';
    const observations = [relapse, { at: 200, conditions: well(200), boot: next }, { at: 500, conditions: well(200), boot: next }];
    expect(course(reboot, ill(-60), ...observations)?.state).toBe('Healed');
  });

  it('has not come back while no report confirms it, or that is unknown', () => {
    const unreported = { at: 30, conditions: { Ready: ['True', 20] } satisfies Seen['conditions'], boot };
    const unsure = { at: 40, conditions: { ...well(30), KernelDeadlock: ['Unknown', 40] } satisfies Seen['conditions'], boot };
    const observations = [unreported, unsure, { at: 50, conditions: well(50), boot }, { at: 350, conditions: well(50), boot }];
    expect(course(reboot, ill(-60), ...observations)?.state).toBe('Healed');
  });

  it('has not come back by what its detector reported before it', () => {
    const old = { at: 20, beat: 0, conditions: ill(-60), boot };
    const observations = [old, { at: 30, conditions: well(30), boot }, { at: 330, conditions: well(30), boot }];
    expect(course(reboot, ill(-60), ...observations)?.state).toBe('Healed');
  });
});
