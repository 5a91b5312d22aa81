import { describe, expect, test } from 'vitest';
import { API_VERSION } from '../../api/kind.ts';
import type { ComponentEntry, ComponentStatus, Machine } from '../../api/machine.ts';
import { contentOf } from '../../api/machine/values.ts';
import type { MachineComponentSet } from '../../api/machine-component-set.ts';
import type { Stored } from '../../api/wire.ts';
import { targetsOf, type CountedContent } from './content.ts';
import type { MemberView, SetView } from './observe.ts';
import { hasAdded, isInFlight, offlineCap, standingsOf, type Standing } from './standing.ts';

const AT = '2026-11-20T00:00:00Z';
/** The content began with the fifth number; machines were added with the seventh. */
const revision: CountedContent = { number: 7, since: 5, action: 'Install', version: '2.0.0', startedAt: AT };
const entry: ComponentEntry = {
  name: 'kubelet',
  action: 'Install',
  version: '2.0.0',
  setUID: 's',
  setRevision: 7,
  joinedRevision: 1,
  revision: 9,
  attempt: 1,
};
const healthy: ComponentStatus = {
  name: 'kubelet',
  version: '2.0.0',
  content: contentOf(entry),
  revision: 9,
  running: 9,
  state: 'Healthy',
  bootID: 'b',
};
const verified = { name: 'kubelet', version: '2.0.0', revision: 9, setUID: 's', bootID: 'b', since: AT };

function setOf(spec: Partial<MachineComponentSet['spec']> = {}, status: MachineComponentSet['status'] = {}): Stored<MachineComponentSet> {
  return {
    apiVersion: API_VERSION,
    kind: 'MachineComponentSet',
    metadata: { name: 's', uid: 's', resourceVersion: '1', creationTimestamp: AT },
    spec: { componentName: 'kubelet', version: '2.0.0', ...spec },
    status,
  };
}

type Change = Partial<Omit<MemberView, 'machine'>> & {
  name?: string;
  spec?: Machine['spec'];
  status?: Machine['status'];
  isDeleted?: boolean;
};

/** A machine in use that has the content and proves it. */
function viewOf({ name = 'a', spec = {}, status = {}, isDeleted = false, ...change }: Change = {}): MemberView {
  const machine: Stored<Machine> = {
    apiVersion: API_VERSION,
    kind: 'Machine',
    metadata: {
      namespace: 'web',
      name,
      uid: name,
      resourceVersion: '1',
      creationTimestamp: AT,
      ...(isDeleted ? { deletionTimestamp: AT } : {}),
    },
    spec,
    status: {
      phase: 'Running',
      firstReadyAt: AT,
      agent: { version: '1', apiLevel: 1, bootID: 'b', os: 'linux', arch: 'amd64' },
      ...status,
    },
  };
  return { machine, entry, reported: healthy, verified: [], agentFresh: true, unseenMs: 0, agentUnseenMs: 0, ...change };
}

function standings(set: Stored<MachineComponentSet>, ...machines: MemberView[]): ReturnType<typeof standingsOf> {
  return standingsOf({ set, machines, former: [] } as unknown as SetView, revision, targetsOf(set));
}

function standing(change: Change = {}, set = setOf()): Standing {
  const { members, joiners } = standings(set, viewOf(change));
  return [...members, ...joiners][0] as Standing;
}

const STALE = { agentUnseenMs: 600_001, unseenMs: 600_001, agentFresh: false };

describe('B5: with which machines one goes', () => {
  test.each<[string, Change, number]>([
    ['was there before this content goes first', { entry: { ...entry, joinedRevision: 4 } }, 0],
    ['came with this content goes after those', { entry: { ...entry, joinedRevision: 5 } }, 5],
    ['was added to it later goes after both', { entry: { ...entry, joinedRevision: 6 } }, 6],
    ['was given nothing yet goes with those that are added now', { entry: undefined }, 7],
    ['another set gave its content goes with those that are added now', { entry: { ...entry, setUID: 'other' } }, 7],
    ['was away goes with those that are added now', { entry: { ...entry, left: true } }, 7],
  ])('one that %s', (_what, change, cohort) => {
    expect(standing(change).cohort).toBe(cohort);
  });
});

describe('B5: machines in use that are added', () => {
  const added = (change: Change): boolean => hasAdded({ set: setOf(), machines: [viewOf(change)] } as unknown as SetView);

  test.each<[string, Change, boolean]>([
    ['has nothing yet', { entry: undefined }, true],
    ['has its content from another set', { entry: { ...entry, setUID: 'other' } }, true],
    ['comes back with other content', { entry: { ...entry, version: '1.0.0', left: true } }, true],
    ['comes back with what the set gives', { entry: { ...entry, left: true } }, false],
    ['waits for its batch', { entry: { ...entry, version: '1.0.0' } }, false],
    ['is new', { entry: undefined, status: { firstReadyAt: undefined, phase: 'Installing' } as never }, false],
    ['may be new', { entry: undefined, status: { firstReadyAt: undefined, phase: undefined } as never }, false],
    ['is offline', { entry: undefined, ...STALE }, false],
    ['reports that it is held', { entry: undefined, status: { agent: { hold: true } } as never }, false],
    ['is held', { entry: undefined, spec: { hold: true } }, false],
    ['is paused', { entry: undefined, spec: { paused: true } }, false],
  ])('one that %s: %s', (_what, change, isAdded) => {
    expect(added(change)).toBe(isAdded);
  });
});

describe('B6: a machine that is set aside', () => {
  const aside = (change: Change, afterSeconds?: number): [boolean, boolean] => {
    const { isAside, isHeld } = standing(change, setOf(afterSeconds === undefined ? {} : { offlinePolicy: { afterSeconds } }));
    return [isAside, isHeld];
  };
  const stale = (seconds: number): Change => ({ unseenMs: seconds * 1000, agentUnseenMs: seconds * 1000 });

  test('is one whose agent is stale beyond the policy, by default ten minutes', () => {
    expect([aside(stale(600)), aside(stale(601))]).toEqual([
      [false, false],
      [true, false],
    ]);
    expect([aside(stale(300), 300), aside(stale(301), 300)]).toEqual([
      [false, false],
      [true, false],
    ]);
  });

  test('is one whose node reports that it is held, or that a human puts on hold or pauses', () => {
    expect(aside({ status: { agent: { hold: true } } as never })).toEqual([true, false]);
    expect(aside({ spec: { hold: true } })).toEqual([true, true]);
    expect(aside({ spec: { paused: true } })).toEqual([true, true]);
    expect(aside({ spec: { hold: false, paused: false }, status: { agent: { hold: false } } as never })).toEqual([false, false]);
  });

  test('is none that failed: it counts as failed', () => {
    const failed = { ...entry, failed: { setRevision: 7, attempt: 1, reason: 'x' } };
    expect(aside({ entry: failed, spec: { hold: true } })).toEqual([false, false]);
    expect(aside({ entry: failed, ...STALE })).toEqual([false, false]);
  });

  test('may be a fifth, or what the policy declares', () => {
    expect([offlineCap(setOf(), 10), offlineCap(setOf({ offlinePolicy: { maxOfflineFraction: '50%' } }), 10)]).toEqual([2, 5]);
    expect(offlineCap(setOf({ offlinePolicy: { maxOfflineFraction: 3 } }), 10)).toBe(3);
  });
});

describe('B6: an agent that stops under new content while its kubelet lives', () => {
  const alone: Change = { agentUnseenMs: 600_001, unseenMs: 600_000, agentFresh: false };

  test('has failed at it', () => {
    expect(standing(alone)).toMatchObject({ hasFailed: true, isGiven: false, isAside: false, failure: { reason: 'AgentStale' } });
  });

  test.each<[string, Change]>([
    ['the whole node is stale', { ...alone, unseenMs: 600_001 }],
    ['it is not stale for so long', { ...alone, agentUnseenMs: 600_000 }],
    ['the content was verified there', { ...alone, status: { verified: [verified] } }],
    ['it went back to what ran before', { ...alone, entry: { ...entry, lane: 'Restore' } }],
    ['it was not given the content yet', { ...alone, entry: { ...entry, version: '1.0.0', setRevision: 4 } }],
    ['another set gave it', { ...alone, entry: { ...entry, setUID: 'other' } }],
  ])('has not where %s', (_what, change) => {
    expect(standing(change)).toMatchObject({ hasFailed: false, failure: undefined });
  });
});

describe('B3: what is in flight on a machine that the set gives nothing any more', () => {
  test('is what it was given and may still fail at', () => {
    expect(isInFlight(standing())).toBe(true);
    expect(isInFlight(standing({ status: { verified: [{ ...verified, revision: 8 }] } }))).toBe(true);
  });

  test.each<[string, Change]>([
    ['was given nothing', { entry: undefined }],
    ['was given it by another set', { entry: { ...entry, setUID: 'other' } }],
    ['is set aside', STALE],
    ['is deleted', { isDeleted: true }],
    ['is new', { status: { firstReadyAt: undefined, phase: 'Installing' } as never }],
    ['failed, as its entry records', { entry: { ...entry, failed: { setRevision: 7, attempt: 1, reason: 'x' } } }],
    ['failed at content before this', { entry: { ...entry, failed: { setRevision: 4, attempt: 1, reason: 'x' } } }],
    ['failed, as its agent reports', { reported: { ...healthy, failed: { revision: 9, reason: 'x', message: '', restored: true } } }],
    ['has proved it', { status: { verified: [verified] } }],
  ])('is nothing where it %s', (_what, change) => {
    expect(isInFlight(standing(change))).toBe(false);
  });
});

describe('B5: joiners', () => {
  const isNew = { firstReadyAt: undefined, phase: 'Installing' } as never;
  const once = setOf({}, { verified: { version: '1.0.0', at: AT } });
  const names = (all: Standing[]): string[] => all.map(({ machine }) => machine.metadata.name);
  const both = [viewOf({ name: 'new', status: isNew, entry: undefined }), viewOf({ name: 'used' })];

  test('are new machines, where something verified waits for them and another machine tries the content', () => {
    const { members, joiners } = standings(once, ...both);
    expect([names(members), names(joiners)]).toEqual([['used'], ['new']]);
  });

  test.each<[string, Stored<MachineComponentSet>, MemberView[]]>([
    ['nothing is verified', setOf(), both],
    ['the component goes', setOf({ action: 'Remove' }, { verified: { version: '1.0.0', at: AT } }), both],
    ['no other is there', once, both.slice(0, 1)],
  ])('are members where %s', (_what, set, machines) => {
    const { members, joiners } = standings(set, ...machines);
    expect([members.length, joiners, members.some((each) => each.isJoiner)]).toEqual([machines.length, [], false]);
  });
});

describe('A5: what a machine has, proves and has failed at', () => {
  const is = (change: Change, set = setOf()) => {
    const { isGiven, proves, passes, hasFailed } = standing(change, set);
    return Object.entries({ isGiven, proves, passes, hasFailed }).flatMap(([name, value]) => (value ? [name] : []));
  };
  const failed = (setRevision: number, rolloutID?: string): Change => ({
    entry: { ...entry, failed: { setRevision, attempt: 1, reason: 'x', ...(rolloutID === undefined ? {} : { rolloutID }) } },
  });

  test('it has what it was asked for, proves it by its report, and passes once it was verified', () => {
    expect(is({ reported: undefined })).toEqual(['isGiven']);
    expect(is({})).toEqual(['isGiven', 'proves']);
    expect(is({ status: { verified: [verified] } })).toEqual(['isGiven', 'proves', 'passes']);
    expect(is({ status: { verified: [verified] }, agentFresh: false })).toEqual(['isGiven']);
    expect(is({ entry: { ...entry, version: '1.0.0' } })).toEqual([]);
    expect(is({ entry: { ...entry, setUID: 'other' } })).toEqual([]);
    expect(is({ entry: undefined })).toEqual([]);
  });

  test('it has failed until the content or rolloutID changes', () => {
    expect(is(failed(5))).toEqual(['hasFailed']);
    expect(is(failed(4))).toEqual([]);
    expect(is(failed(5), setOf({ rolloutID: 'again' }))).toEqual([]);
    expect(is(failed(5, 'again'), setOf({ rolloutID: 'again' }))).toEqual(['hasFailed']);
  });

  test('what its agent reports counts where the entry is of this content, and not where it is of one before', () => {
    const report = { reported: { ...healthy, failed: { revision: 9, reason: 'x', message: '', restored: true } } };
    expect(is(report)).toEqual(['hasFailed']);
    expect(is({ ...report, entry: { ...entry, version: '1.0.0', setRevision: 5 } })).toEqual(['hasFailed']);
    expect(is({ ...report, entry: { ...entry, version: '1.0.0', setRevision: 4 } })).toEqual([]);
    expect(is({ ...report, entry: { ...entry, setUID: 'other' } })).toEqual([]);
  });

  test('A3: it has failed in each set where no revision is left, for any content', () => {
    const spent = { reported: { ...healthy, revision: 2_147_483_647 } };
    expect(is({ ...spent, entry: { ...entry, version: '1.0.0', setRevision: 4 } })).toEqual(['hasFailed']);
    expect(is({ ...spent, entry: undefined })).toEqual(['hasFailed']);
  });
});
