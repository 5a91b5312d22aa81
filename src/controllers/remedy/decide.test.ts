import { describe, expect, it } from 'vitest';
import { API_VERSION } from '../../api/kind.ts';
import type { Machine } from '../../api/machine.ts';
import type { NodeRemedierSpec } from '../../api/node-remedier.ts';
import type { Action } from '../../api/node-remedier/values.ts';
import type { RemedyOperationJob, RemedyOperationJobStatus } from '../../api/remedy-operation-job.ts';
import type { Stored } from '../../api/wire.ts';
import { compileRule } from '../../rules/index.ts';
import type { RuleOutcome } from '../../rules/pass.ts';
import { bad, rule } from '../../rules/testing.ts';
import { decide, type RemedyView } from './decide.ts';
import { nextJobName } from './names.ts';

const NOW = Date.parse('2026-01-01T01:00:00Z');
const iso = (seconds: number): string => new Date(NOW + seconds * 1000).toISOString();

/** A rule that matches and is due, unless `more` differs. */
function outcome(name: string, spec: Partial<NodeRemedierSpec> = {}, rest: Partial<RuleOutcome> = {}): RuleOutcome {
  const compiled = compileRule(rule(name, { when: { all: [bad('KernelDeadlock')] }, ...spec }));
  return {
    rule: compiled,
    truth: 'True',
    judged: { kind: 'all', at: 'spec.when', truth: 'True', of: [] },
    sinceMs: NOW - 60_000,
    matchedMs: 60_000,
    due: true,
    waits: undefined,
    peers: [],
    nextAtMs: undefined,
    ...rest,
  };
}

function job(
  ruleName: string,
  status: RemedyOperationJobStatus,
  rest: { action?: Action; priority?: number; name?: string; at?: number } = {},
) {
  const { action = 'Reboot', priority = 0, name = `${ruleName}-1`, at = -30 } = rest;
  const made: Stored<RemedyOperationJob> = {
    apiVersion: API_VERSION,
    kind: 'RemedyOperationJob',
    metadata: { namespace: 'web', name, uid: name, resourceVersion: '1', creationTimestamp: iso(at) },
    spec: {
      rule: ruleName,
      machine: { name: 'a', uid: 'm' },
      node: 'a',
      mode: 'Enforce',
      rung: 0,
      attempt: 1,
      action,
      timeoutSeconds: 600,
      healedWhen: { condition: 'KernelDeadlock', is: 'False', forSeconds: 60 },
      priority,
      matchedSince: iso(at - 30),
      why: '',
    },
    status,
  };
  return made;
}

function decided(outcomes: RuleOutcome[], jobs: RemedyView['jobs'] = [], repairRules?: string[]) {
  const machine: Stored<Machine> = {
    apiVersion: API_VERSION,
    kind: 'Machine',
    metadata: { namespace: 'web', name: 'a', uid: 'm', resourceVersion: '1', creationTimestamp: iso(-9999) },
    spec: {},
    status: {
      nodeRef: { name: 'a', uid: 'n' },
      conditions:
        repairRules === undefined
          ? []
          : [{ type: 'RepairNeeded', status: 'True', reason: 'RulesMatch', message: '', lastTransitionTime: iso(-10) }],
      ...(repairRules === undefined ? {} : { repairRules }),
    },
  };
  const decision = decide({ nowMs: NOW, machine, jobs, jobsOfSet: [], outcomes });
  return { ...decision, made: decision.create.map(({ spec }) => `${spec.rule} ${spec.action} ${spec.mode}`) };
}

const failed: RemedyOperationJobStatus = { phase: 'Failed', outcome: 'PermanentFailure', orderedAt: iso(-30), finishedAt: iso(-20) };
const strong = { ladder: [{ action: 'Replace' as const }, { action: 'Human' as const }] };

describe('jobs that are made', () => {
  it('none of what does not match for long enough', () =>
    expect(decided([outcome('hung', {}, { due: false, waits: 'Time' })]).made).toEqual([]));
  it('one, of the rule that comes first', () =>
    expect(decided([outcome('hung'), outcome('urgent', { priority: 9 })]).made).toEqual(['urgent Reboot Enforce']));
  it('of equal priority the stronger action', () =>
    expect(decided([outcome('hung'), outcome('other', strong)]).made).toEqual(['other Replace Enforce']));
  it('none while another rule has the machine', () => {
    expect(decided([outcome('hung')], [job('other', { phase: 'Running', orderedAt: iso(-1) })]).made).toEqual([]);
    expect(decided([outcome('hung')], [job('other', { phase: 'Pending' })]).made).toEqual([]);
  });
  it('but a question to a human takes no machine', () => {
    const asked = job('other', { phase: 'NeedsHuman' }, { action: 'Human' });
    expect(decided([outcome('hung')], [asked]).made).toEqual(['hung Reboot Enforce']);
    expect(decided([outcome('hung')], [job('hung', failed), job('other', { phase: 'Running', orderedAt: iso(-1) })]).made).toEqual([
      'hung Human Enforce',
    ]);
  });
  it('nor does what is only reported in Shadow', () =>
    expect(decided([outcome('hung', { mode: 'Shadow' }), outcome('other')]).made).toEqual(['other Reboot Enforce', 'hung Reboot Shadow']));
  it('waits for the cool-down of the last one', () => {
    const cooling = outcome('hung', { ladder: [{ action: 'Reboot', attempts: 2, cooldownSeconds: 60 }, { action: 'Human' }] });
    const { made, waits } = decided([cooling], [job('hung', failed)]);
    expect(made).toEqual([]);
    expect(waits.get('hung')).toBe(NOW + 40_000);
  });
  it('record what they are for: the rung, the priority and since when it matches', () => {
    const [made] = decided([outcome('hung', { priority: 3 })]).create;
    expect(made?.spec).toMatchObject({ rung: 0, attempt: 1, priority: 3, matchedSince: iso(-60), machine: { name: 'a', uid: 'm' } });
    expect(decided([outcome('hung', {}, { sinceMs: undefined })]).create[0]?.spec.matchedSince).toBe(iso(0));
    expect(decided([outcome('hung')]).create[0]?.spec.priority).toBe(0);
  });
  it('have the same name for every leader that knows the same jobs, and the next another', () => {
    const first = decided([outcome('hung')]).create[0]?.name ?? '';
    expect(decided([outcome('hung')]).create[0]?.name).toBe(first);
    expect(first).toMatch(/^hung-[0-9a-f]{10}$/);
    const cancelled = job('hung', { phase: 'Cancelled', finishedAt: iso(-5) }, { name: first });
    const second = decided([outcome('hung')], [cancelled]).create[0]?.name ?? '';
    expect(second).not.toBe(first);
    expect(nextJobName('hung', 'm', ['b', 'a'])).toBe(nextJobName('hung', 'm', ['a', 'b']));
    expect(nextJobName('hung', 'other machine', [])).not.toBe(first);
  });
});

describe('a job under way', () => {
  it('gives way to a higher priority before its order', () => {
    const pending = job('hung', { phase: 'Pending' });
    expect(decided([outcome('hung'), outcome('urgent', { priority: 9 })], [pending]).superseded).toMatchObject({
      job: { metadata: { name: 'hung-1' } },
    });
    expect(decided([outcome('hung'), outcome('other', strong)], [pending]).superseded?.why).toContain('Replace of NodeRemedier other');
  });
  it('and not after it', () => {
    const running = job('hung', { phase: 'Running', orderedAt: iso(-1) });
    expect(decided([outcome('hung'), outcome('urgent', { priority: 9 })], [running]).superseded).toBeUndefined();
  });
  it('nor to its equal, or to a human', () => {
    const pending = job('hung', { phase: 'Pending' });
    expect(decided([outcome('hung'), outcome('again')], [pending]).superseded).toBeUndefined();
    expect(decided([outcome('urgent', { priority: 9 })], [pending, job('urgent', failed)]).superseded).toBeUndefined();
  });
  it('of two that two leaders made, the lesser gives way, never one that has its order', () => {
    const [hung, urgent] = [job('hung', { phase: 'Pending' }), job('urgent', { phase: 'Pending' }, { priority: 9 })];
    expect(decided([], [hung, urgent]).superseded?.job).toBe(hung);
    const running = job('hung', { phase: 'Running', orderedAt: iso(-1) });
    expect(decided([], [running, urgent]).superseded?.job).toBe(urgent);
    expect(decided([], [urgent, running]).superseded?.job).toBe(urgent);
    expect(decided([], [running, { ...urgent, spec: { ...urgent.spec, action: 'Human' } }]).superseded).toBeUndefined();
    expect(decided([], [running, { ...urgent, spec: { ...urgent.spec, mode: 'Shadow' } }]).superseded).toBeUndefined();
    expect(decided([], [running, { ...urgent, status: { phase: 'Failed' } }]).superseded).toBeUndefined();
    expect(decided([], [running, { ...urgent, status: { phase: 'Running', orderedAt: iso(-1) } }]).superseded).toBeUndefined();
  });
  it('of two that are alike every leader lets the same one give way, however they are listed', () => {
    const alike = ['b', 'a', 'c'].map((name) => job('hung', { phase: 'Pending' }, { name }));
    for (const listed of [alike, alike.toReversed()]) expect(decided([], listed).superseded?.job.metadata.name).toBe('b');
  });
});

describe('RepairNeeded', () => {
  const matching = outcome('hung', {}, { due: false });
  const unknown = outcome('hung', {}, { due: false, truth: 'Unknown' });
  const healthy = outcome('hung', {}, { due: false, truth: 'False' });
  const named = ['hung'];
  it.each([
    ['is absent where nothing ever was due', decided([matching]), undefined],
    [
      'is True while a rule is due',
      decided([outcome('hung'), outcome('b')]),
      { condition: { status: 'True', reason: 'RulesMatch' }, rules: ['b', 'hung'] },
    ],
    [
      'reports how many want it in words',
      decided([outcome('hung')]),
      { condition: { message: 'rule hung wants this machine repaired' }, rules: ['hung'] },
    ],
    [
      'names all of them, sorted',
      decided([outcome('hung'), outcome('b')]),
      { condition: { message: 'rules b, hung want this machine repaired' } },
    ],
    ['is never made by a rule in Shadow', decided([outcome('hung', { mode: 'Shadow' })]), undefined],
    [
      'is True while a rule that acted still matches',
      decided([matching], [job('hung', failed)]),
      { condition: { status: 'True', reason: 'RulesMatch' }, rules: ['hung'] },
    ],
    [
      'stays True while it is unknown',
      decided([unknown], [], named),
      { condition: { status: 'True', reason: 'RulesMatch' }, rules: ['hung'] },
    ],
    [
      'stays True while an operation makes it wait',
      decided([matching], [], named),
      { condition: { status: 'True', reason: 'RulesMatch' }, rules: ['hung'] },
    ],
    [
      'is False once it is known not to match',
      decided([healthy], [job('hung', failed)], named),
      { condition: { status: 'False' }, rules: [] },
    ],
    ['is not made True by what acted and is not known', decided([unknown], [job('hung', failed)]), undefined],
  ])('%s', (_name, { repairNeeded }, expected) => {
    if (expected === undefined) expect(repairNeeded).toBeUndefined();
    else expect(repairNeeded).toMatchObject(expected);
  });
});

describe('F5: a loop of replacements', () => {
  /** A fault that every new machine of the set has: what the rule does with each, until nothing is replaced any more. */
  function loop(attempts: number): string[] {
    const jobsOfSet: RemedyOperationJob[] = [];
    const done: string[] = [];
    const owner = { apiVersion: API_VERSION, kind: 'MachineSet', name: 'web-a', uid: 'set-1', controller: true };
    for (let number = 0; number < 6; number++) {
      const madeMs = NOW + number * 600_000;
      const nowMs = madeMs + 300_000;
      const machine: Stored<Machine> = {
        apiVersion: API_VERSION,
        kind: 'Machine',
        metadata: {
          namespace: 'web',
          name: `a${number}`,
          uid: `m${number}`,
          resourceVersion: '1',
          creationTimestamp: new Date(madeMs).toISOString(),
          ownerReferences: [owner],
        },
        spec: {},
      };
      const ladder = [{ action: 'Replace' as const, attempts }, { action: 'Human' as const }];
      const due = outcome('hung', { ladder }, { sinceMs: nowMs - 60_000 });
      const [made] = decide({ nowMs, machine, jobs: [], jobsOfSet, outcomes: [due] }).create;
      if (made === undefined) break;
      done.push(`${made.spec.action} ${made.spec.attempt}`);
      if (made.spec.action === 'Human') break;
      const at = new Date(nowMs).toISOString();
      const status = { phase: 'Succeeded', outcome: 'Succeeded', orderedAt: at, finishedAt: at } as const;
      jobsOfSet.push({ ...job('hung', status), metadata: { name: made.name, creationTimestamp: at }, spec: made.spec });
    }
    return done;
  }

  it('reaches a human, since attempts are counted over the machines that replace one another', () => {
    expect(loop(1)).toEqual(['Replace 1', 'Human 1']);
    expect(loop(3)).toEqual(['Replace 1', 'Replace 2', 'Replace 3', 'Human 1']);
  });
});
