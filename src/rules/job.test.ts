import { expect, it } from 'vitest';
import { API_VERSION } from '../api/kind.ts';
import type { Machine } from '../api/machine.ts';
import type { NodeRemedier, NodeRemedierSpec } from '../api/node-remedier.ts';
import type { RemedyOperationJob } from '../api/remedy-operation-job.ts';
import { whyFired } from './explain.ts';
import { compileRule } from './index.ts';
import { diagnosisOf, jobSpecOf, ownerUID } from './job.ts';
import type { LadderStep } from './ladder.ts';
import type { RuleOutcome } from './pass.ts';
import { rule } from './testing.ts';

const T0 = Date.parse('2026-01-01T00:00:00Z');
const iso = (seconds: number) => new Date(T0 + seconds * 1000).toISOString();

const due = (of: NodeRemedier): RuleOutcome => ({
  rule: compileRule(of),
  truth: 'True',
  judged: { kind: 'all', at: 'spec.when', truth: 'True', of: [] },
  due: true,
  sinceMs: T0 - 30_000,
  matchedMs: 30_000,
  waits: undefined,
  peers: [],
  nextAtMs: undefined,
});
const machine = (metadata: Partial<Machine['metadata']> = {}): Machine => ({
  apiVersion: API_VERSION,
  kind: 'Machine',
  metadata: { name: 'a', namespace: 'web', uid: 'm-1', ...metadata },
  spec: {},
  status: { phase: 'Running', nodeRef: { name: 'a-node', uid: 'n-1' } },
});
const ladder: NodeRemedierSpec['ladder'] = [
  { action: 'Reboot', attempts: 2, timeoutSeconds: 120, args: { grace: 5 } },
  { action: 'Human', args: { note: 'call the vendor' } },
];
const again: LadderStep & { step: 'Act' } = { step: 'Act', rung: 0, attempt: 2, action: 'Reboot', why: 'x' };
const askHuman: LadderStep & { step: 'AskHuman' } = { step: 'AskHuman', rung: 1, why: 'nothing helped: Reboot' };

it('a job has all of its rule that its execution needs, and names the rule, its content, and the machine', () => {
  const of = rule('hung', { ladder, priority: 7, unitDigest: 'sha256:d', mode: 'Enforce' });
  const owned = machine({
    ownerReferences: [
      { apiVersion: API_VERSION, kind: 'MachineSet', name: 'w', uid: 'watcher' },
      { apiVersion: API_VERSION, kind: 'Other', name: 'w', uid: 'other', controller: true },
      { apiVersion: API_VERSION, kind: 'MachineSet', name: 's', uid: 'set-1', controller: true },
    ],
  });
  expect(jobSpecOf(due({ ...of, metadata: { name: 'hung', uid: 'rule-1' } }), again, owned, T0, 3)).toMatchObject({
    rule: 'hung',
    ruleUID: 'rule-1',
    unitDigest: 'sha256:d',
    machine: { name: 'a', uid: 'm-1' },
    machineSet: 'set-1',
    replacements: 3,
    node: 'a-node',
    mode: 'Enforce',
    rung: 0,
    attempt: 2,
    action: 'Reboot',
    args: { grace: 5 },
    timeoutSeconds: 120,
    priority: 7,
    matchedSince: iso(-30),
  });
});

it('a job names nothing that its rule and its machine do not have', () => {
  const { metadata: _, ...of } = rule('hung', { ladder });
  const { mode: __, ...spec } = of.spec;
  const made = jobSpecOf(due({ ...of, spec, metadata: { name: 'hung' } }), askHuman, machine(), T0, 0);
  for (const absent of ['ruleUID', 'unitDigest', 'machineSet', 'replacements']) expect(made).not.toHaveProperty(absent);
  const bare = jobSpecOf({ ...due(rule('hung')), sinceMs: undefined }, { ...again, attempt: 1 }, machine(), T0, 0);
  expect(bare).not.toHaveProperty('args');
  expect(bare).toMatchObject({ timeoutSeconds: 600, matchedSince: iso(0) });
  expect(made).toMatchObject({ mode: 'Shadow', action: 'Human', attempt: 1, priority: 0 });
  expect(ownerUID(machine({ ownerReferences: [{ apiVersion: API_VERSION, kind: 'MachineSet', name: 's', uid: 's' }] }))).toBeUndefined();
});

it('a human learns what was tried on this very machine by this rule, its note first, each line cut to what may be stored', () => {
  const of = rule('hung', { ladder });
  const job = (name: string, spec: Partial<RemedyOperationJob['spec']>, ordered = true): RemedyOperationJob => ({
    apiVersion: API_VERSION,
    kind: 'RemedyOperationJob',
    metadata: { name },
    spec: { ...jobSpecOf(due(of), again, machine(), T0, 0), ...spec },
    status: { phase: 'Failed', outcome: 'PermanentFailure', explanation: 'y'.repeat(2000), ...(ordered ? { orderedAt: iso(1) } : {}) },
  });
  const jobs = [
    job('mine', {}),
    job('of-another-rule', { rule: 'other' }),
    job('of-another-machine', { machine: { name: 'a', uid: 'm-0' } }),
    job('never-ordered', {}, false),
  ];
  const lines = diagnosisOf(due(of), askHuman, jobs, 'm-1');
  expect(lines.slice(0, 2)).toEqual(['nothing helped: Reboot', 'call the vendor']);
  expect(lines.filter((line) => line.startsWith('tried '))).toEqual([
    `${`tried Reboot at ${iso(1)} (mine): PermanentFailure: ${'y'.repeat(2000)}`.slice(0, 1023)}…`,
  ]);
  const exact = job('exact', {});
  const prefix = `tried Reboot at ${iso(1)} (exact): PermanentFailure: `;
  const fits = { ...exact, status: { ...exact.status, explanation: 'y'.repeat(1024 - prefix.length) } };
  expect(diagnosisOf(due(of), askHuman, [fits], 'm-1')).toContain(`${prefix}${fits.status.explanation}`);
  const many = Array.from({ length: 12 }, (_, at) => job(`j${at}`, {}));
  expect(diagnosisOf(due(of), askHuman, many, 'm-1').filter((line) => line.startsWith('tried '))).toHaveLength(10);
});

it('what a rule saw fits into its job, cut where it is longer', () => {
  const whole = whyFired(due(rule('hung', { ladder })));
  expect(whyFired(due(rule('hung', { ladder })), whole.length)).toBe(whole);
  const cut = whyFired(due(rule('hung', { ladder })), whole.length - 1);
  expect(cut).toBe(`${whole.slice(0, whole.length - 2)}…`);
});
