import { describe, expect, it } from 'vitest';
import { API_VERSION } from '../api/kind.ts';
import type { NodeRemedierSpec, Rung } from '../api/node-remedier.ts';
import type { Action } from '../api/node-remedier/values.ts';
import type { RemedyOperationJob, RemedyOperationJobStatus } from '../api/remedy-operation-job.ts';
import { compareContenders, nextRung, replacementsBefore, supersedes, type Contender } from './ladder.ts';

const T0 = Date.parse('2026-01-01T00:00:00Z');
const iso = (seconds: number) => new Date(T0 + seconds * 1000).toISOString();
const HUMAN: Rung = { action: 'Human' };
const LADDER: Rung[] = [{ action: 'MigratePods' }, { action: 'Reboot', attempts: 2, cooldownSeconds: 60 }, { action: 'Replace' }, HUMAN];

interface Past {
  action: Action;
  at: number;
  status?: Partial<RemedyOperationJobStatus>;
  spec?: Partial<RemedyOperationJob['spec']>;
}
const past = ({ action, at, status, spec }: Past): RemedyOperationJob => ({
  apiVersion: API_VERSION,
  kind: 'RemedyOperationJob',
  metadata: { name: `${action}-${at}`, creationTimestamp: iso(at) },
  spec: {
    rule: 'hung',
    machine: { name: 'a', uid: 'm-1' },
    node: 'a',
    rung: 0,
    attempt: 1,
    action,
    timeoutSeconds: 600,
    healedWhen: { condition: 'KernelDeadlock', is: 'False', forSeconds: 300 },
    priority: 0,
    matchedSince: iso(at),
    why: '',
    ...spec,
  },
  status: { phase: 'Failed', outcome: 'PermanentFailure', orderedAt: iso(at), finishedAt: iso(at + 10), ...status },
});
const cancelled = { phase: 'Cancelled', outcome: 'Cancelled' } as const;
const before = ({ orderedAt: _orderedAt, ...status }: RemedyOperationJobStatus): RemedyOperationJobStatus => status;

function next(
  jobs: Past[],
  given: { at?: number; since?: number; ladder?: Rung[]; uid?: string; replacements?: number } & Partial<NodeRemedierSpec> = {},
) {
  const { at = 1000, since = 900, ladder = LADDER, uid = 'm-1', replacements = 0, ...spec } = given;
  return nextRung({
    rule: { name: 'hung', spec: { mode: 'Enforce', ladder, ...spec } },
    machineUID: uid,
    jobs: jobs.map(past),
    matchedSinceMs: T0 + since * 1000,
    nowMs: T0 + at * 1000,
    replacements,
  });
}

describe('F5: the next rung', () => {
  it('is the first one on a machine where nothing was tried', () => expect(next([])).toMatchObject({ step: 'Act', rung: 0, attempt: 1 }));

  it('counts attempts per rung, and climbs when they are used up', () => {
    const migrated: Past = { action: 'MigratePods', at: 0, status: { phase: 'Succeeded', outcome: 'Succeeded' } };
    const reboot = (at: number): Past => ({ action: 'Reboot', at });
    expect(next([migrated])).toMatchObject({ action: 'Reboot', attempt: 1 });
    expect(next([migrated, reboot(100)])).toMatchObject({ action: 'Reboot', attempt: 2 });
    expect(next([migrated, reboot(100), reboot(200)])).toMatchObject({ action: 'Replace', attempt: 1 });
    expect(next([migrated, reboot(100), reboot(200), { action: 'Replace', at: 300 }])).toMatchObject({ step: 'AskHuman', rung: 3 });
  });

  it('is the same one where its arguments were left out, or are none', () => {
    const ladder: Rung[] = [{ action: 'Reboot' }, { action: 'Human' }];
    expect(next([{ action: 'Reboot', at: 100, spec: { args: {} } }], { ladder })).toMatchObject({ step: 'AskHuman' });
    expect(next([{ action: 'Reboot', at: 100 }], { ladder: [{ action: 'Reboot', args: {} }, { action: 'Human' }] })).toMatchObject({
      step: 'AskHuman',
    });
  });

  it('names what was tried before it', () => {
    const reboot: Past = { action: 'Reboot', at: 100 };
    expect(next([])).toMatchObject({ why: 'first rung' });
    expect(next([reboot])).toMatchObject({ why: 'after Reboot: PermanentFailure' });
    expect(next([reboot], { ladder: [{ action: 'Reboot' }, { action: 'Human' }] }).why).toBe('nothing helped: Reboot: PermanentFailure');
    expect(next([], { ladder: [{ action: 'Human' }] })).toMatchObject({ why: 'there is nothing else on its ladder' });
  });

  it('is not one that was done well and repairs nothing', () => {
    const ladder: Rung[] = [{ action: 'MigratePods', attempts: 3 }, { action: 'Reboot' }, HUMAN];
    expect(next([{ action: 'MigratePods', at: 0, status: { phase: 'Succeeded' } }], { ladder })).toMatchObject({ action: 'Reboot' });
    expect(next([{ action: 'MigratePods', at: 0 }], { ladder })).toMatchObject({ action: 'MigratePods', attempt: 2 });
  });

  it('waits for the cool-down of the last one', () => {
    const reboot: Past = { action: 'Reboot', at: 100 };
    expect(next([reboot], { at: 169 })).toMatchObject({ step: 'Wait', untilMs: T0 + 170_000 });
    expect(next([reboot], { at: 170 })).toMatchObject({ step: 'Act' });
  });

  it('does not count what had no order', () => {
    const unordered = past({ action: 'MigratePods', at: 0, status: cancelled });
    const jobs = [{ ...unordered, status: before(unordered.status ?? {}) }];
    expect(
      nextRung({
        rule: { name: 'hung', spec: { mode: 'Enforce', ladder: LADDER } },
        machineUID: 'm-1',
        jobs,
        matchedSinceMs: T0,
        nowMs: T0 + 1e6,
        replacements: 0,
      }),
    ).toMatchObject({ rung: 0, attempt: 1 });
  });

  it('counts what had an order, however it ended: an ambiguous end is an attempt', () => {
    expect(next([{ action: 'MigratePods', at: 0, status: cancelled }])).toMatchObject({ action: 'Reboot' });
  });

  it('waits for a job under way, also one that asks a human', () => {
    expect(next([{ action: 'Reboot', at: 0, status: { phase: 'Verifying' } }])).toMatchObject({ step: 'Busy', job: 'Reboot-0' });
    const asked = past({ action: 'Human', at: 0, status: { phase: 'NeedsHuman' } });
    const { finishedAt: _, ...open } = asked.status ?? {};
    const input = {
      rule: { name: 'hung', spec: { mode: 'Enforce' as const, ladder: LADDER } },
      machineUID: 'm-1',
      matchedSinceMs: T0,
      nowMs: T0 + 9e9,
      replacements: 0,
    };
    expect(nextRung({ ...input, jobs: [{ ...asked, status: open }] })).toMatchObject({ step: 'Busy', why: 'a human has been asked' });
  });

  it('is a human again when it comes back after one was asked', () => {
    expect(
      next([
        { action: 'Reboot', at: 0 },
        { action: 'Human', at: 100, status: { phase: 'NeedsHuman' } },
      ]),
    ).toMatchObject({ step: 'AskHuman' });
  });

  it('stays a human though the ladder was made longer meanwhile', () => {
    const ladder: Rung[] = [{ action: 'Reboot' }, { action: 'Replace' }, { action: 'Human', args: { note: 'now with Replace' } }];
    const jobs: Past[] = [
      { action: 'Reboot', at: 0 },
      { action: 'Human', at: 100, status: { phase: 'NeedsHuman' } },
    ];
    expect(next(jobs, { ladder })).toMatchObject({ step: 'AskHuman', rung: 2 });
  });

  it('goes by when jobs were made, in any order of the list', () => {
    const [first, second]: [Past, Past] = [
      { action: 'MigratePods', at: 0 },
      { action: 'Reboot', at: 100, status: { outcome: 'Cancelled' } },
    ];
    const why = 'after MigratePods: PermanentFailure, Reboot: Cancelled';
    for (const jobs of [
      [first, second],
      [second, first],
    ])
      expect(next(jobs, { at: 200 })).toMatchObject({ step: 'Act', action: 'Reboot', attempt: 2, why });
    expect(next([second, first], { at: 169 })).toMatchObject({ step: 'Wait', untilMs: T0 + 170_000 });
  });

  it('goes by their names where two were made at once', () => {
    const at = (at: number): Past[] => [
      { action: 'Reboot', at },
      { action: 'MigratePods', at },
    ];
    const why = 'after MigratePods: PermanentFailure, Reboot: PermanentFailure';
    for (const jobs of [at(0), at(0).toReversed()]) expect(next(jobs)).toMatchObject({ why });
  });

  it('comes at once where its last rung asks for no cool-down', () => {
    expect(next([{ action: 'MigratePods', at: 100 }], { at: 110 })).toMatchObject({ step: 'Act' });
  });

  it('reports in which phase a job under way is, and what came of one without an outcome', () => {
    expect(next([{ action: 'Reboot', at: 0, status: { phase: 'Verifying' } }])).toMatchObject({ why: 'it is Verifying' });
    const { status: _, ...unseen } = past({ action: 'Reboot', at: 0 });
    const rule = { name: 'hung', spec: { mode: 'Enforce' as const, ladder: LADDER } };
    const given = { rule, machineUID: 'm-1', matchedSinceMs: T0, nowMs: T0, replacements: 0 };
    expect(nextRung({ ...given, jobs: [unseen] })).toMatchObject({ why: 'it is Pending' });
    const { outcome: __, ...status } = past({ action: 'MigratePods', at: 0 }).status ?? { phase: 'Failed' };
    expect(nextRung({ ...given, nowMs: T0 + 1e6, jobs: [{ ...past({ action: 'MigratePods', at: 0 }), status }] })).toMatchObject({
      why: 'after MigratePods: Failed',
    });
  });

  it('begins again with a job that came forgetAfterSeconds after the one before', () => {
    const jobs = (second: number): Past[] => [
      { action: 'Reboot', at: 0 },
      { action: 'MigratePods', at: second },
    ];
    expect(next(jobs(611), { at: 700, forgetAfterSeconds: 600 })).toMatchObject({ action: 'Reboot', attempt: 1 });
    expect(next(jobs(610), { at: 700, forgetAfterSeconds: 600 })).toMatchObject({ action: 'Reboot', attempt: 2 });
    const three: Past[] = [
      { action: 'Replace', at: 0 },
      { action: 'MigratePods', at: 500 },
      { action: 'MigratePods', at: 1000 },
    ];
    expect(next(three, { at: 1100, forgetAfterSeconds: 600 })).toMatchObject({ step: 'AskHuman' });
  });

  it('begins again after forgetAfterSeconds without a job', () => {
    const jobs: Past[] = [
      { action: 'Reboot', at: 0 },
      { action: 'Reboot', at: 200 },
    ];
    expect(next(jobs, { at: 811, forgetAfterSeconds: 600 })).toMatchObject({ rung: 0 });
    expect(next(jobs, { at: 810, forgetAfterSeconds: 600 })).toMatchObject({ action: 'Replace' });
  });

  it('is another machine’s business when the machine was replaced under the same name', () => {
    expect(next([{ action: 'Replace', at: 0 }], { uid: 'm-2' })).toMatchObject({ rung: 0 });
    expect(next([{ action: 'Replace', at: 0, spec: { rule: 'other' } }])).toMatchObject({ rung: 0 });
  });

  it('is found by what it does after an edit of the ladder, and never goes down', () => {
    const ladder: Rung[] = [{ action: 'CleanDisk', args: { belowPercent: 80 } }, { action: 'Reboot', attempts: 2 }, HUMAN];
    expect(next([{ action: 'Reboot', at: 0 }], { ladder })).toMatchObject({ action: 'Reboot', rung: 1, attempt: 2 });
    expect(
      next(
        [
          { action: 'Reboot', at: 0 },
          { action: 'Reboot', at: 100 },
        ],
        { ladder },
      ),
    ).toMatchObject({ step: 'AskHuman' });
    expect(next([{ action: 'Replace', at: 0 }], { ladder })).toMatchObject({ action: 'CleanDisk' });
  });
});

describe('in Shadow', () => {
  const shadow: Past = { action: 'MigratePods', at: 900, status: { phase: 'Shadow' } };
  it('reports once what it would do while a match lasts', () => {
    expect(next([], { mode: 'Shadow' })).toMatchObject({ step: 'Act', rung: 0 });
    expect(next([shadow], { mode: 'Shadow', since: 800 })).toMatchObject({ step: 'Done' });
  });
  it('reports it once also where its server cut the time of its making to the second', () => {
    const cut: Past = { ...shadow, spec: { matchedSince: iso(900.5) } };
    expect(next([cut], { mode: 'Shadow', since: 900.5 })).toMatchObject({ step: 'Done' });
    expect(next([cut], { mode: 'Shadow', since: 900.501 })).toMatchObject({ step: 'Wait' });
  });
  it('a match that flaps does not report it again while a real job could be under way', () => {
    expect(next([shadow], { mode: 'Shadow', since: 950 })).toMatchObject({ step: 'Wait', untilMs: T0 + 1_500_000 });
    expect(next([shadow], { mode: 'Shadow', since: 950, at: 1500 })).toMatchObject({ step: 'Act', rung: 0 });
  });
  it('is the default, and what it reported does not count when it is enforced', () => {
    expect(next([shadow], { since: 800 })).toMatchObject({ step: 'Act', rung: 0, attempt: 1 });
  });
});

describe('F6: two rules on one machine', () => {
  const of = (rule: string, priority: number, action: Action): Contender => ({ rule, priority, action });
  it('go by priority, then by strength, then by name', () => {
    const all = [of('d', 0, 'Human'), of('c', 0, 'Reboot'), of('b', 0, 'Reboot'), of('a', 0, 'CleanDisk'), of('e', 5, 'CleanDisk')];
    expect(
      all
        .toReversed()
        .sort(compareContenders)
        .map(({ rule }) => rule),
    ).toEqual(['e', 'b', 'c', 'a', 'd']);
    expect(all.sort(compareContenders).map(({ rule }) => rule)).toEqual(['e', 'b', 'c', 'a', 'd']);
    expect(compareContenders(of('a', 0, 'Reboot'), of('a', 0, 'Reboot'))).toBe(0);
  });
  it('a stronger action supersedes a weaker one before its order, not after', () => {
    const weak = of('weak', 0, 'RestartComponent');
    expect(supersedes(of('strong', 0, 'Reboot'), { ...weak, ordered: false })).toBe(true);
    expect(supersedes(of('strong', 0, 'Reboot'), { ...weak, ordered: true })).toBe(false);
    expect(supersedes(of('strong', 0, 'Reboot'), { ...weak, priority: 1, ordered: false })).toBe(false);
    expect(supersedes(of('equal', 0, 'RestartComponent'), { ...weak, ordered: false })).toBe(false);
    expect(supersedes(weak, { ...of('strong', 0, 'Reboot'), ordered: false })).toBe(false);
    expect(supersedes(of('low', 1, 'CleanDisk'), { ...weak, ordered: false })).toBe(true);
    expect(supersedes(of('weak', 9, 'Reboot'), { ...weak, ordered: false })).toBe(false);
    expect(supersedes(of('page', 9, 'Human'), { ...weak, ordered: false })).toBe(false);
  });
});

describe('F5: a machine that replaces one which was replaced', () => {
  const rule = { name: 'hung', spec: { forgetAfterSeconds: 1000 } };
  const replaced = (at: number, more: Partial<RemedyOperationJob['spec']> = {}) =>
    past({ action: 'Replace', at, spec: { machine: { name: 'old', uid: 'm-0' }, machineSet: 'set-1', ...more } });
  const count = (jobsOfSet: RemedyOperationJob[], { made = 100, since = 200 } = {}) =>
    replacementsBefore({
      rule,
      machine: { metadata: { name: 'a', uid: 'm-1', creationTimestamp: iso(made) } },
      jobsOfSet,
      matchedSinceMs: T0 + since * 1000,
    });

  it('counts as one more attempt, however long the chain is', () => {
    expect(count([])).toBe(0);
    expect(count([replaced(90)])).toBe(1);
    expect(count([replaced(90, { replacements: 2 })])).toBe(3);
    expect(count([replaced(80), replaced(90)])).toBe(1);
  });

  it('is none where it was there before, another rule asked, nothing was ordered, or it was healthy for long', () => {
    expect(count([replaced(102)])).toBe(0);
    expect(count([replaced(90, { rule: 'other' })])).toBe(0);
    expect(count([{ ...replaced(90), status: before(replaced(90).status ?? {}) }])).toBe(0);
    expect(count([replaced(90)], { since: 1101 })).toBe(0);
    expect(count([replaced(90)], { made: 1091, since: 1100 })).toBe(0);
    expect(count([replaced(90, { machine: { name: 'a', uid: 'm-1' } })])).toBe(0);
    expect(count([past({ action: 'Reboot', at: 90, spec: { machine: { name: 'old', uid: 'm-0' } } })])).toBe(0);
  });

  it('goes by times that are cut to the second, and by forgetAfterSeconds to the end', () => {
    expect([count([replaced(100.999)]), count([replaced(101)])]).toEqual([1, 0]);
    expect([count([replaced(90)], { made: 1090, since: 1100 }), count([replaced(90)], { since: 1100 })]).toEqual([1, 1]);
    const daily = (made: number) =>
      replacementsBefore({
        rule: { name: 'hung', spec: {} },
        machine: { metadata: { name: 'a', uid: 'm-1', creationTimestamp: iso(made) } },
        jobsOfSet: [replaced(90)],
        matchedSinceMs: T0 + made * 1000,
      });
    expect([daily(86_490), daily(86_491)]).toEqual([1, 0]);
    expect(next([], { ladder: [{ action: 'Replace' }, HUMAN], replacements: 1 }).why).toBe(
      'nothing helped: Replace of 1 machine before this one',
    );
  });

  it('reaches a human instead of the next replacement', () => {
    const ladder: Rung[] = [{ action: 'Replace', attempts: 2 }, HUMAN];
    expect(next([], { ladder })).toMatchObject({ action: 'Replace', attempt: 1 });
    expect(next([], { ladder, replacements: 1 })).toMatchObject({ action: 'Replace', attempt: 2 });
    expect(next([], { ladder, replacements: 2 })).toMatchObject({
      step: 'AskHuman',
      why: 'nothing helped: Replace of 2 machines before this one',
    });
    expect(next([], { replacements: 1 })).toMatchObject({ action: 'MigratePods' });
  });
});
