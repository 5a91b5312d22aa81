import { describe, expect, test } from 'vitest';
import { API_VERSION } from '../../api/kind.ts';
import type { ComponentEntry, ComponentStatus, Machine, VerifiedContent } from '../../api/machine.ts';
import { contentOf } from '../../api/machine/values.ts';
import type { MachineComponent } from '../../api/machine-component.ts';
import type { MachineComponentSet } from '../../api/machine-component-set.ts';
import type { Stored } from '../../api/wire.ts';
import { revisionOf } from './content.ts';
import { decideSet, type EntryWrite, type ComponentSetFacts } from './decide.ts';
import type { MemberView, SetView } from './observe.ts';

const AT = '2026-11-20T00:00:00Z';
const NOW = Date.parse(AT);
/** The number with which the content of the set began. */
const NUMBER = 5;

const old: ComponentEntry = {
  name: 'kubelet',
  action: 'Install',
  version: '1.0.0',
  setUID: 's',
  setRevision: 4,
  joinedRevision: 1,
  revision: 8,
  attempt: 2,
};
/** What asks for the content of the set. */
const own: ComponentEntry = { ...old, version: '2.0.0', setRevision: NUMBER, revision: 9 };
const report = (entry: ComponentEntry): ComponentStatus => ({
  name: 'kubelet',
  version: entry.version,
  content: contentOf(entry),
  revision: entry.revision,
  running: entry.revision,
  state: entry.action === 'Remove' ? 'Removed' : 'Healthy',
  bootID: 'b',
});
const record = (version: string, revision: number): VerifiedContent => ({
  name: 'kubelet',
  version,
  revision,
  setUID: 's',
  bootID: 'b',
  since: AT,
});

interface Of {
  entry?: ComponentEntry | undefined;
  reported?: ComponentStatus | undefined;
  verified?: VerifiedContent[];
  isNew?: boolean;
  isDeleting?: boolean;
  labels?: Record<string, string>;
  spec?: Machine['spec'];
  agentUnseenMs?: number;
  unseenMs?: number;
}

/** A machine that has the content before this one, unless `change` differs. */
function viewOf(name: string, of: Of = {}): MemberView {
  const { isNew = false, isDeleting = false, labels = {}, spec = {}, agentUnseenMs = 0, unseenMs = agentUnseenMs } = of;
  const entry = 'entry' in of ? of.entry : old;
  const verified = of.verified ?? [record('1.0.0', 8)];
  const machine: Stored<Machine> = {
    apiVersion: API_VERSION,
    kind: 'Machine',
    metadata: {
      namespace: 'web',
      name,
      uid: name,
      resourceVersion: '3',
      creationTimestamp: AT,
      labels,
      ...(isDeleting ? { deletionTimestamp: AT } : {}),
    },
    spec,
    status: {
      ...(isNew ? { phase: 'Installing' as const } : { phase: 'Running' as const, firstReadyAt: AT }),
      agent: { version: '1', apiLevel: 1, bootID: 'b', os: 'linux', arch: 'amd64' },
      verified,
    },
  };
  const reported = 'reported' in of ? of.reported : entry && report(entry);
  return { machine, entry, reported, verified, agentFresh: agentUnseenMs === 0, unseenMs, agentUnseenMs };
}

const waiting = (name: string, of: Of = {}): MemberView => viewOf(name, of);
/** In flight: nothing is proved. */
const given = (name: string, of: Of = {}): MemberView => viewOf(name, { entry: own, reported: report(old), ...of });
const passing = (name: string, of: Of = {}): MemberView => viewOf(name, { entry: own, verified: [record('2.0.0', 9)], ...of });
const failing = (name: string, failed: Partial<NonNullable<ComponentEntry['failed']>> = {}, of: Of = {}): MemberView =>
  viewOf(name, { entry: { ...own, failed: { setRevision: NUMBER, attempt: 2, reason: 'x', ...failed } }, reported: report(old), ...of });
/** New, and given nothing yet. */
const fresh = (name: string, of: Of = {}): MemberView =>
  viewOf(name, { entry: undefined, reported: undefined, verified: [], isNew: true, ...of });

type Spec = Partial<MachineComponentSet['spec']>;
type Status = NonNullable<MachineComponentSet['status']>;

function setOf(spec: Spec = {}, status: Status = {}): Stored<MachineComponentSet> {
  const set: Stored<MachineComponentSet> = {
    apiVersion: API_VERSION,
    kind: 'MachineComponentSet',
    metadata: { name: 's', uid: 's', resourceVersion: '7', creationTimestamp: AT },
    spec: { componentName: 'kubelet', version: '2.0.0', batches: ['100%'], ...spec },
  };
  const { revision } = revisionOf(set, { floor: NUMBER - 1, hasAdded: false, at: AT });
  return { ...set, status: { revision, ...status } };
}

const component: MachineComponent = {
  apiVersion: API_VERSION,
  kind: 'MachineComponent',
  metadata: { name: 'kubelet' },
  spec: { componentName: 'kubelet', version: '2.0.0', platforms: [{ os: 'any', arch: 'any', artifacts: [] }] },
};

function decided(
  machines: MemberView[],
  set: Stored<MachineComponentSet> = setOf(),
  rest: Partial<SetView> = {},
): {
  writes: EntryWrite[];
  facts: ComponentSetFacts;
  lanes: Record<string, string>;
  entryOf: (name: string) => ComponentEntry | undefined;
} {
  const decision = decideSet({
    set,
    now: NOW,
    machines,
    former: [],
    open: [],
    highestRevision: NUMBER - 1,
    conflicts: [],
    component: () => component,
    wanted: () => undefined,
    ...rest,
  });
  if (decision.step !== 'Write') throw new Error(`a decision to write is expected, not to ${decision.step}`);
  const { writes, facts } = decision;
  return {
    writes,
    facts,
    lanes: Object.fromEntries(writes.map(({ machine, lane }) => [machine.metadata.name, lane])),
    entryOf: (name) => writes.find(({ machine }) => machine.metadata.name === name)?.entry,
  };
}

const many = (count: number, make: (name: string) => MemberView, prefix = 'm'): MemberView[] =>
  Array.from({ length: count }, (_, index) => make(`${prefix}${index}`));
const verified1: Status = { verified: { version: '1.0.0', at: AT } };
const verified2: Status = { verified: { version: '2.0.0', at: AT } };

describe('B3: as many as the batch under way has room for', () => {
  const count = (machines: MemberView[], spec: Spec = {}, status: Status = {}): number =>
    decided(machines, setOf({ batches: [2, '100%'], ...spec }, status)).writes.length;

  test('are given the content, and no more', () => {
    expect(count(many(5, waiting))).toBe(2);
    expect(count([given('a'), ...many(4, waiting)])).toBe(1);
    expect(count([given('a'), given('b'), ...many(4, waiting)])).toBe(0);
    expect(count([passing('a'), given('b'), ...many(4, waiting)])).toBe(0);
    expect(count([passing('a'), passing('b'), ...many(4, waiting)])).toBe(4);
  });

  test('is one at first where the set has no batches', () => {
    const set = setOf();
    delete set.spec.batches;
    expect(decided(many(20, waiting), set).writes).toHaveLength(1);
  });

  test('does not count for new machines where no machine in use waits', () => {
    expect(count(many(5, fresh))).toBe(5);
    expect(count([given('a'), given('b'), ...many(5, fresh)])).toBe(5);
    expect(count([waiting('a'), ...many(5, fresh)])).toBe(1);
  });

  test('counts for each content by itself', () => {
    const canary = { version: '3.0.0', selector: { canary: 'yes' } };
    const machines = [...many(4, waiting), ...many(4, (name) => waiting(name, { labels: { canary: 'yes' } }), 'c')];
    const { writes } = decided(machines, setOf({ batches: [2, '100%'], canary }));
    expect(writes.map(({ entry }) => entry.version).toSorted()).toEqual(['2.0.0', '2.0.0', '3.0.0', '3.0.0']);
  });
});

describe('nothing is given', () => {
  const nothing = { writes: 0, obstacles: [], overCeiling: 0 };

  test('by a set that is paused, which shows no obstacle either', () => {
    const held = waiting('held', { spec: { hold: true } });
    const { writes, facts } = decided([waiting('a'), held], setOf({ paused: true }));
    expect(writes).toEqual([]);
    expect(facts).toMatchObject(nothing);
    expect(decided([waiting('a'), held], setOf({ paused: false })).facts).toMatchObject({
      writes: 1,
      obstacles: [{ machine: 'web/held', reason: 'Held' }],
      overCeiling: 0,
    });
  });

  test('where another set selects one machine too', () => {
    const { writes, facts } = decided([waiting('a')], setOf(), { conflicts: [{ machine: 'web/a', set: 'other' }] });
    expect(writes).toEqual([]);
    expect(facts).toMatchObject(nothing);
  });

  test('A1: before the content is counted', () => {
    const set = setOf();
    const { status: _none, ...uncounted } = set;
    expect(() => decided([waiting('a')], uncounted)).toThrow('not to Count');
  });
});

describe('B4, B6: a set halts', () => {
  const haltOf = (machines: MemberView[], spec: Spec = {}, status: Status = {}) => decided(machines, setOf(spec, status)).facts.halted;

  test('at maxFailed, by default one, and names three of them', () => {
    expect(haltOf([waiting('a')])).toBeUndefined();
    expect(haltOf([failing('a'), waiting('b')])).toEqual({ reason: 'MaxFailed', message: '1 failed, maxFailed is 1: web/a' });
    expect(haltOf([failing('a'), waiting('b')], { maxFailed: 2 })).toBeUndefined();
    expect(haltOf(many(4, failing), { maxFailed: 3 })).toEqual({
      reason: 'MaxFailed',
      message: '4 failed, maxFailed is 3: web/m0, web/m1, web/m2',
    });
  });

  test('where no more failures can be counted, with any maxFailed', () => {
    const full = many(100, failing, 'm');
    expect(haltOf(full, { maxFailed: 200 })).toEqual({
      reason: 'FailuresFull',
      message: '100 failed, more cannot be counted: web/m0, web/m1, web/m10',
    });
    expect(haltOf(full.slice(1), { maxFailed: 200 })).toBeUndefined();
  });

  test('by a machine that it selects no more and that failed', () => {
    const { facts } = decided([waiting('a')], setOf(), { former: [failing('gone')] });
    expect(facts.halted?.message).toBe('1 failed, maxFailed is 1: web/gone');
  });

  test('with more machines offline than may be set aside, where those that a human puts on hold do not count', () => {
    const offline = (name: string): MemberView => passing(name, { agentUnseenMs: 601_000 });
    const held = (name: string): MemberView => passing(name, { spec: { hold: true } });
    const policy: Spec = { offlinePolicy: { maxOfflineFraction: 2 } };
    expect(haltOf([...many(2, offline), ...many(3, passing, 'p')], policy)).toBeUndefined();
    expect(haltOf([...many(3, offline), ...many(3, passing, 'p')], policy)).toEqual({
      reason: 'TooManyOffline',
      message: '3 of 6 machines are offline, at most 2 may be set aside',
    });
    expect(haltOf([...many(2, offline), ...many(3, held, 'h'), passing('p')], policy)).toBeUndefined();
  });

  test('and gives nothing forward then, and nothing more to a new machine that was given something', () => {
    const set = setOf({}, verified1);
    const one = fresh('given', { entry: { ...old, version: '0.9.0' } });
    expect(decided([failing('a'), waiting('b'), fresh('new'), one], set).lanes).toEqual({ new: 'Join' });
    expect(decided([passing('a'), waiting('b'), fresh('new'), one], set).lanes).toEqual({ b: 'Forward', new: 'Join', given: 'Join' });
  });
});

describe('E2: all batches have passed', () => {
  const isComplete = (machines: MemberView[], spec: Spec = {}, rest: Partial<SetView> = {}): boolean =>
    decided(machines, setOf(spec), rest).facts.isComplete;

  test('where each machine has', () => {
    expect(isComplete([passing('a')])).toBe(true);
    expect(isComplete([passing('a'), waiting('b')])).toBe(false);
    expect(isComplete([given('a')])).toBe(false);
  });

  test('in no set that is halted, that has a conflict, or whose entries may still arrive', () => {
    expect(isComplete([passing('a'), failing('b')], { maxFailed: 2 })).toBe(true);
    expect(isComplete([passing('a'), failing('b')])).toBe(false);
    expect(isComplete([passing('a')], {}, { conflicts: [{ machine: 'web/a', set: 'other' }] })).toBe(false);
    expect(isComplete([passing('a')], {}, { open: [passing('a').machine] })).toBe(false);
  });

  test('without machines once it has soaked, by default a minute', () => {
    const after = (seconds: number, spec: Spec = {}): boolean => isComplete([], spec, { now: NOW + seconds * 1000 });
    expect([after(59.999), after(60)]).toEqual([false, true]);
    expect([after(29.999, { soakSeconds: 30 }), after(30, { soakSeconds: 30 })]).toEqual([false, true]);
  });
});

describe('E4: the ceiling', () => {
  const ceiling = (nodes: number, unitDigest = 'A'): Spec => ({ unitDigest: 'A', ceiling: { unitDigest, nodes } });
  const under = (nodes: number, machines: MemberView[], { status = {}, former = [] as MemberView[], maxFailed = 9 } = {}) => {
    const { writes, facts } = decided(machines, setOf({ ...ceiling(nodes), maxFailed }, status), { former });
    return [writes.filter(({ lane }) => lane !== 'Leave').length, facts.overCeiling];
  };

  test('bounds how many are given the content, and counts those that it delays', () => {
    expect(under(2, many(5, waiting))).toEqual([2, 3]);
    expect(under(0, many(2, waiting))).toEqual([0, 2]);
    expect(decided(many(5, waiting)).writes).toHaveLength(5);
  });

  test('of another digest is 0', () => {
    const { writes, facts } = decided(many(2, waiting), setOf(ceiling(5, 'B')));
    expect([writes.length, facts.overCeiling]).toEqual([0, 2]);
  });

  test('counts those that have the content or failed at it', () => {
    expect(under(3, [passing('a'), ...many(5, waiting)])).toEqual([2, 3]);
    expect(under(3, [given('a'), ...many(5, waiting)])).toEqual([2, 3]);
    expect(under(3, [failing('a'), ...many(5, waiting)])).toEqual([2, 3]);
  });

  test.each<[string, MemberView, number]>([
    ['has the content in flight', given('f'), 1],
    ['failed at it', failing('f'), 1],
    ['proved it', passing('f'), 2],
    ['has other content in flight', waiting('f', { verified: [] }), 2],
    ['is being deleted', given('f', { isDeleting: true }), 2],
    ['failed at it, and is being deleted', failing('f', {}, { isDeleting: true }), 2],
  ])('counts of those that are selected no more one that %s', (_what, former, room) => {
    expect(under(2, many(4, waiting), { former: [former] })).toEqual([room, 4 - room]);
  });

  test('counts new machines only where what they get is not verified here', () => {
    expect(under(1, many(3, fresh))).toEqual([1, 2]);
    expect(under(1, many(3, fresh), { status: verified1 })).toEqual([1, 2]);
    expect(under(1, many(3, fresh), { status: verified2 })).toEqual([3, 0]);
    const busy = (name: string): MemberView => given(name, { isNew: true });
    expect(under(1, [...many(3, busy), ...many(2, waiting, 'w')], { status: verified2 })).toEqual([1, 1]);
    expect(under(4, [...many(3, busy), ...many(2, waiting, 'w')], { status: verified1 })).toEqual([1, 1]);
  });

  test('keeps the slots of those that get what is not verified from those that get what is', () => {
    const canary = { version: '3.0.0', selector: { canary: 'yes' } };
    const machines = [...many(8, fresh), fresh('c', { labels: { canary: 'yes' } })];
    const { writes, facts } = decided(machines, setOf({ ...ceiling(1), canary }, verified2));
    expect([writes.length, facts.overCeiling]).toEqual([9, 0]);
  });

  test('counts machines in use also where what they get is verified', () => {
    expect(under(1, many(3, waiting), { status: verified2 })).toEqual([1, 2]);
  });

  test('counts a removal as nothing that was ever verified', () => {
    const set = setOf({ ...ceiling(1), action: 'Remove' }, verified2);
    expect(
      decided(
        many(3, (name) => viewOf(name, { entry: own, isNew: true })),
        set,
      ).facts.overCeiling,
    ).toBe(2);
  });
});

describe('B5: what a machine that came later is given', () => {
  const joins = (of: Of, status: Status = verified1, spec: Spec = {}): string => {
    const { lanes, entryOf } = decided([passing('a'), fresh('new', of)], setOf(spec, status));
    return `${lanes['new'] ?? 'nothing'} ${entryOf('new')?.version ?? ''}`.trim();
  };

  test('is what the set has verified, until its last batch has passed', () => {
    expect(joins({})).toBe('Join 1.0.0');
    expect(joins({ entry: { ...old, version: '0.9.0' } })).toBe('Join 1.0.0');
    expect(joins({}, verified2)).toBe('Join 2.0.0');
    expect(joins({}, { verified: { version: '2.0.0', values: { a: 1 }, at: AT } })).toBe('Join 2.0.0');
  });

  test('is not taken from one that has the target', () => {
    expect(joins({ entry: own })).toBe('nothing');
    expect(joins({ entry: { ...own, version: '1.0.0' } })).toBe('nothing');
  });

  test('has the values with which it was verified', () => {
    const status: Status = { verified: { version: '1.0.0', values: { a: 1 }, at: AT } };
    expect(decided([passing('a'), fresh('new')], setOf({}, status)).entryOf('new')?.values).toEqual({ a: 1 });
  });

  test('is the content of a canary once the content of the others is verified, and in its batches', () => {
    const canary = { version: '3.0.0', selector: { canary: 'yes' } };
    expect(joins({ labels: { canary: 'yes' } }, verified2, { canary })).toBe('Forward 3.0.0');
    expect(joins({ labels: { canary: 'yes' } }, verified1, { canary })).toBe('Join 1.0.0');
  });

  test('is tried on it where no other is there', () => {
    expect(decided([fresh('new')], setOf({}, verified1)).lanes).toEqual({ new: 'Forward' });
  });
});

describe('A6: an entry that asks for the content already', () => {
  const adopted = (of: Of, spec: Spec = {}) => {
    const { lanes, entryOf } = decided([given('a', of)], setOf(spec));
    const entry = entryOf('a');
    return lanes['a'] === undefined ? undefined : { ...entry, by: lanes['a'] };
  };
  const restore: Spec = { unitDigest: 'A', lane: { unitDigest: 'A', lane: 'Restore' } };
  const recorded = [record('1.0.0', 8), record('2.0.0', 7)];

  test('stays as it is', () => {
    expect(adopted({})).toBeUndefined();
    expect(adopted({ reported: report(own) })).toBeUndefined();
  });

  test('becomes the own one under the same revision, where another set wrote it', () => {
    const theirs = { ...own, setUID: 'other', setRevision: 30, joinedRevision: 30 };
    expect(adopted({ entry: theirs })).toEqual({ ...own, joinedRevision: NUMBER, attempt: 1, by: 'Adopt' });
    expect(adopted({ entry: theirs, reported: report(own), verified: [record('2.0.0', 9)] })).toMatchObject({ by: 'Adopt', setUID: 's' });
  });

  test('becomes the standing of a machine that is added, where it comes back', () => {
    const away = { ...own, left: true as const };
    expect(adopted({ entry: away })).toEqual({ ...own, joinedRevision: NUMBER, attempt: 1, by: 'Adopt' });
    expect(adopted({ entry: away, verified: [record('2.0.0', 9)] })).toMatchObject({ by: 'Adopt', revision: 9 });
  });

  test('B7: is marked as a restore while that is declared, until it is proved', () => {
    expect(adopted({ verified: recorded }, restore)).toEqual({ ...own, attempt: 1, lane: 'Restore', by: 'Adopt' });
    expect(adopted({ entry: { ...own, lane: 'Restore' }, verified: recorded }, restore)).toBeUndefined();
    expect(adopted({ entry: { ...own, lane: 'Restore' }, verified: recorded })).toEqual({ ...own, attempt: 1, by: 'Adopt' });
    expect(adopted({ entry: { ...own, lane: 'Restore' }, verified: [record('2.0.0', 9)] })).toBeUndefined();
    expect(adopted({ verified: [record('2.0.0', 9)] }, restore)).toBeUndefined();
  });
});

describe('A5: a machine that failed', () => {
  const spec: Spec = { maxFailed: 9 };
  const retried = (setRevision: number, of: Of = {}, change: Spec = {}) => {
    const { lanes, entryOf } = decided([failing('a', { setRevision }, of)], setOf({ ...spec, ...change }));
    return { by: lanes['a'], revision: entryOf('a')?.revision, attempt: entryOf('a')?.attempt, failed: entryOf('a')?.failed };
  };

  test('is given nothing while that is in effect', () => {
    expect(retried(NUMBER).by).toBeUndefined();
    expect(retried(NUMBER, { reported: report(own) }).by).toBeUndefined();
  });

  test('is tried again, as another attempt, under another rolloutID', () => {
    const again = { rolloutID: 'again' };
    expect(retried(NUMBER, {}, again)).toEqual({ by: 'Forward', revision: 10, attempt: 3, failed: undefined });
    expect(retried(NUMBER - 1)).toEqual({ by: 'Forward', revision: 10, attempt: 1, failed: undefined });
  });

  test('and works now only loses the record of it', () => {
    expect(retried(NUMBER - 1, { reported: report(own) })).toEqual({ by: 'Settle', revision: 9, attempt: 1, failed: undefined });
    expect(retried(NUMBER, { reported: report(own) }, { rolloutID: 'again' })).toMatchObject({ by: 'Settle', revision: 9, attempt: 3 });
  });

  test('under another set counts no attempts of its own', () => {
    const theirs = { ...own, setUID: 'other', failed: { setRevision: NUMBER, attempt: 4, reason: 'x' } };
    const { lanes, entryOf } = decided([viewOf('a', { entry: theirs, reported: report(old) })], setOf(spec));
    expect([lanes['a'], entryOf('a')?.attempt, entryOf('a')?.joinedRevision]).toEqual(['Forward', 1, NUMBER]);
  });
});

describe('B7: a restore', () => {
  const declared: Spec = { unitDigest: 'A', lane: { unitDigest: 'A', lane: 'Restore' }, maxFailed: 9 };
  const restored = (verified: VerifiedContent[], spec: Spec = declared, of: Of = {}) => {
    const { lanes, entryOf } = decided([waiting('a', { verified, ...of })], setOf(spec));
    return [lanes['a'], entryOf('a')?.lane];
  };
  const target = record('2.0.0', 7);

  test('is of what is among the two last contents that were verified there, in a set that declares it', () => {
    expect(restored([record('1.0.0', 8), target])).toEqual(['Restore', 'Restore']);
    expect(restored([target, record('1.0.0', 8)])).toEqual(['Restore', 'Restore']);
    expect(restored([record('1.0.0', 8), record('1.5.0', 7), target])).toEqual(['Forward', undefined]);
    expect(restored([record('1.0.0', 8)])).toEqual(['Forward', undefined]);
    expect(restored([target], { maxFailed: 9 })).toEqual(['Forward', undefined]);
    expect(restored([target], { ...declared, action: 'Remove' })).toEqual(['Forward', undefined]);
  });

  test('needs no room of a batch or a ceiling, and is not stopped by a halt', () => {
    const machines = [failing('f'), ...many(4, (name) => waiting(name, { verified: [target] }))];
    const set = setOf({ ...declared, maxFailed: 1, batches: [1, '100%'], ceiling: { unitDigest: 'A', nodes: 0 } });
    const { lanes, facts } = decided(machines, set);
    expect(facts.halted?.reason).toBe('MaxFailed');
    expect(lanes).toEqual({ m0: 'Restore', m1: 'Restore', m2: 'Restore', m3: 'Restore' });
  });

  test('is written also to a machine that is set aside', () => {
    expect(restored([target], declared, { agentUnseenMs: 601_000 })).toEqual(['Restore', 'Restore']);
    expect(restored([record('1.0.0', 8)], declared, { agentUnseenMs: 601_000 })).toEqual([undefined, undefined]);
  });

  test('of what another set failed at is no settlement of it', () => {
    const theirs = { ...own, setUID: 'other', failed: { setRevision: 1, attempt: 1, reason: 'x' } };
    expect(restored([target], declared, { entry: theirs, reported: report(old) })).toEqual(['Restore', 'Restore']);
  });
});

describe('A3, B5: what is written', () => {
  test('is a next revision of the number under which the content goes, for a machine that was there before', () => {
    const { entryOf } = decided([waiting('a', { reported: { ...report(old), revision: 20 } })]);
    expect(entryOf('a')).toEqual({ ...own, revision: 21, attempt: 1 });
  });

  test('is the first one of a machine that was given nothing', () => {
    expect(decided([fresh('a')]).entryOf('a')).toEqual({ ...own, joinedRevision: NUMBER, revision: 1, attempt: 1 });
  });

  test('joins with the present number where the entry is not the own one', () => {
    const theirs = { ...old, setUID: 'other' };
    expect(decided([passing('b'), viewOf('a', { entry: theirs, isNew: true })]).entryOf('a')).toMatchObject({ joinedRevision: NUMBER });
    const away = { ...old, left: true as const };
    expect(decided([passing('b'), viewOf('a', { entry: away, isNew: true })]).entryOf('a')).toMatchObject({ joinedRevision: NUMBER });
  });

  test('B5: is a mark that it left, on each machine that the set selects no more', () => {
    const other = viewOf('other', { entry: undefined, reported: undefined });
    const former = [
      waiting('gone'),
      waiting('noted', { entry: { ...old, left: true } }),
      waiting('deleted', { isDeleting: true }),
      waiting('taken', { entry: { ...old, setUID: 'other' } }),
      other,
    ];
    const { lanes, entryOf } = decided([passing('a')], setOf(), { former });
    expect(lanes).toEqual({ gone: 'Leave' });
    expect(entryOf('gone')).toEqual({ ...old, left: true });
  });
});
