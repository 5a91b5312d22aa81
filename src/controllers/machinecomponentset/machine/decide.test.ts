import { describe, expect, it } from 'vitest';
import { API_VERSION } from '../../../api/kind.ts';
import {
  contentOf,
  type ComponentEntry,
  type ComponentStatus,
  type Machine,
  type Operation,
  type OperationStatus,
} from '../../../api/machine.ts';
import type { Stored } from '../../../api/wire.ts';
import { decideMachine, type Owner } from './decide.ts';

const entry: ComponentEntry = {
  name: 'kubelet',
  action: 'Install',
  version: '2.0.0',
  setUID: 'set',
  setRevision: 2,
  joinedRevision: 0,
  revision: 5,
  attempt: 1,
};
const reported: ComponentStatus = {
  name: 'kubelet',
  version: '1.0.0',
  content: '',
  revision: 5,
  running: 4,
  state: 'Healthy',
  bootID: 'b',
};
const failed = { revision: 5, reason: 'ProbesFailed', message: 'it did not come up', restored: true };
const record = { name: 'kubelet', version: '1.0.0', revision: 4, setUID: 'set', bootID: 'b', since: '2026-11-20T00:00:00Z' };

function decide(
  status: Partial<ComponentStatus>,
  verified = [record],
  own: Partial<ComponentEntry> = {},
  owner?: Owner,
  ended?: { order: Operation; outcome: OperationStatus },
): ReturnType<typeof decideMachine> {
  const machine: Stored<Machine> = {
    apiVersion: API_VERSION,
    kind: 'Machine',
    metadata: { name: 'a', namespace: 'web', uid: 'u', resourceVersion: '1', creationTimestamp: '2026-11-20T00:00:00Z' },
    spec: { components: [{ ...entry, ...own }], ...(ended === undefined ? {} : { operation: ended.order }) },
    status: {
      agent: { version: '1', apiLevel: 1, bootID: 'b', os: 'linux', arch: 'amd64' },
      components: [{ ...reported, ...status }],
      verified,
      ...(ended === undefined ? {} : { operation: ended.outcome }),
    },
  };
  return decideMachine({ machine, now: Date.UTC(2026, 10, 20), agentFresh: true, owner: () => owner });
}

describe('A5: what is written when a machine failed', () => {
  it('waits until the agent has restored what ran before', () => {
    expect(decide({ failed, state: 'Restoring' }).changes).toEqual([]);
    expect(decide({ failed, state: 'Healthy' }).changes).toMatchObject([{ entry: { version: '1.0.0', revision: 6 }, reason: 'Failed' }]);
  });

  it('is also written where restoring did not work: the node must not stay with what failed', () => {
    const [change] = decide({ failed: { ...failed, restored: false }, state: 'Failed' }).changes;
    expect(change?.entry).toMatchObject({ version: '1.0.0', failed: { reason: 'ProbesFailed', message: 'it did not come up' } });
  });

  it('is written once', () => {
    const own = { version: '1.0.0', revision: 6, failed: { setRevision: 2, attempt: 1, reason: 'ProbesFailed' } };
    expect(decide({ failed, revision: 6 }, [record], own).changes).toEqual([]);
    expect(decide({ failed: { ...failed, revision: 6 }, revision: 6 }, [record], own).changes).toEqual([]);
  });

  it('carries the number of the failure where the content stays, so that an operation that waits for it goes on', () => {
    const owner = {
      number: 4,
      rolloutID: undefined,
      unitDigest: undefined,
      soakMs: 0,
      target: { action: 'Install' as const, version: '2.0.0' },
    };
    const [change] = decide({ failed }, [], {}, owner).changes;
    expect(change?.entry).toMatchObject({ revision: 5, setRevision: 4, attempt: 1, failed: { setRevision: 4, attempt: 1 } });
  });

  it('is also written where the agent cannot say how its operation failed', () => {
    const order = {
      id: 'op',
      epoch: 1,
      kind: 'Change' as const,
      components: [{ name: 'kubelet', revision: 5 }],
      notAfter: '2026-11-20T00:00:00Z',
    };
    const outcome = { id: 'op', state: 'Done' as const, outcome: 'PermanentFailure' as const, message: 'killed' };
    const changesOf = (change: object): unknown =>
      decide({ state: 'Unhealthy', ...change }, [record], {}, undefined, { order, outcome }).changes;
    expect(changesOf({})).toMatchObject([{ entry: { version: '1.0.0', failed: { reason: 'OperationFailed', message: 'killed' } } }]);
    expect(changesOf({ running: 5, state: 'Healthy' })).toEqual([]);
    expect(decide({}, [record], {}, undefined, { order, outcome: { ...outcome, id: 'another' } }).changes).toEqual([]);
    expect(decide({}, [record], {}, undefined, { order, outcome: { ...outcome, outcome: 'TransientFailure' } }).changes).toEqual([]);
  });

  it('does not answer a failure of an older entry', () => {
    expect(decide({ failed: { ...failed, revision: 3 } }).changes).toEqual([]);
  });
});

describe('A3: what is written when an agent refuses', () => {
  it.each([
    ['the same revision with other content', { refused: { revision: 5, reason: 'OtherContent' } }, 6],
    ['an older one', { revision: 9, refused: { revision: 5, reason: 'Older' } }, 10],
    ['or simply knows more', { revision: 7 }, 8],
  ])('%s: the content again, above both numbers', (_what, status, revision) => {
    const [change] = decide(status).changes;
    expect(change).toMatchObject({ reason: 'Refused', entry: { version: '2.0.0', revision } });
    expect(contentOf(change?.entry ?? entry)).toBe(contentOf(entry));
  });

  it('nothing for a refusal that was answered', () => {
    expect(decide({ revision: 4, refused: { revision: 4, reason: 'Older' } }).changes).toEqual([]);
  });
});
