import { describe, expect, test } from 'vitest';
import { API_VERSION } from '../../api/kind.ts';
import type { NodeRemedier } from '../../api/node-remedier.ts';
import type { RemedyOperationJob } from '../../api/remedy-operation-job.ts';
import type { Stored } from '../../api/wire.ts';
import { validationError } from '../../rules/validation-error.ts';
import { rule as ruleNamed } from '../../rules/testing.ts';
import { eventOfRule, ruleStatus, type RuleStatus } from './report.ts';

const NOW = Date.parse('2026-01-01T01:00:00.700Z');
const iso = (seconds: number): string => new Date(NOW + seconds * 1000).toISOString();

function rule(status?: RuleStatus, generation = 2, unitDigest?: string): Stored<NodeRemedier> {
  const { metadata, spec, ...rest } = ruleNamed('hung');
  return {
    ...rest,
    metadata: { ...metadata, uid: 'rule', resourceVersion: '1', creationTimestamp: iso(-9999), generation },
    spec: { ...spec, ...(unitDigest === undefined ? {} : { unitDigest }) },
    ...(status === undefined ? {} : { status }),
  };
}

function job(name: string, at: string, phase: string, rest: { mode?: 'Shadow' | 'Enforce'; ruleUID?: string } = {}) {
  const { mode = 'Enforce', ruleUID = 'rule' } = rest;
  return {
    apiVersion: API_VERSION,
    kind: 'RemedyOperationJob',
    metadata: { name, uid: name, resourceVersion: '1', creationTimestamp: at },
    spec: { rule: 'hung', ruleUID, node: `node-of-${name}`, mode },
    status: { phase },
  } as unknown as Stored<RemedyOperationJob>;
}

describe('the status of a rule', () => {
  test('one that is sound runs, and its jobs are counted from when it was written as it is', () => {
    const first = ruleStatus({ nowMs: NOW, rule: rule(), errors: [], jobs: [] });
    expect(first).toMatchObject({
      observedGeneration: 2,
      counters: { since: iso(0), wouldBeJobs: 0, jobs: 0, succeeded: 0, failed: 0, needsHuman: 0 },
      conditions: [{ type: 'Accepted', status: 'True', reason: 'Accepted', message: '', observedGeneration: 2 }],
    });
    expect(first).not.toHaveProperty('validationErrors');
    expect(first).not.toHaveProperty('lastJob');
    expect(first).not.toHaveProperty('acceptedDigest');
    // Servers write whole seconds.
    const jobs = [
      job('same-second', '2026-01-01T01:00:00Z', 'Succeeded'),
      job('shadow', iso(60), 'Shadow', { mode: 'Shadow' }),
      job('failed', iso(70), 'Failed'),
      job('asked', iso(90), 'NeedsHuman'),
      job('open', iso(80), 'Running'),
      job('before', '2026-01-01T00:59:59Z', 'Succeeded'),
      job('of-another', iso(95), 'Succeeded', { ruleUID: 'another' }),
    ];
    const later = ruleStatus({ nowMs: NOW + 100_000, rule: rule(first), errors: [], jobs });
    expect(later.counters).toEqual({ since: iso(0), wouldBeJobs: 1, jobs: 4, succeeded: 1, failed: 1, needsHuman: 1 });
    expect(later.lastJob).toEqual({ name: 'asked', node: 'node-of-asked', at: iso(90) });
    expect(later.conditions?.slice(0, 1)).toEqual(first.conditions);
    // Written again: counted again.
    const edited = ruleStatus({ nowMs: NOW + 85_000, rule: rule(later, 3), errors: [], jobs });
    expect(edited.counters).toMatchObject({ since: iso(85), jobs: 1, needsHuman: 1 });
    // What is kept of jobs is over.
    expect(ruleStatus({ nowMs: NOW, rule: rule(later), errors: [], jobs: [] }).lastJob).toEqual(later.lastJob);
    expect(ruleStatus({ nowMs: NOW, rule: rule(undefined, 2, 'digest'), errors: [], jobs: [] }).acceptedDigest).toBe('digest');
  });

  test('one that is not sound names why, within bounds, and counts nothing', () => {
    const one = [validationError('spec.when', 'is wrong', 'write another')];
    expect(ruleStatus({ nowMs: NOW, rule: rule(), errors: one, jobs: [] })).toMatchObject({
      validationErrors: [{ path: 'spec.when', message: 'is wrong', hint: 'write another' }],
      conditions: [{ status: 'False', reason: 'Refused', message: 'spec.when: is wrong; hint: write another' }],
    });
    const many = Array.from({ length: 40 }, (_, index) => validationError(`spec.${index}`, 'x'.repeat(100), 'write another'));
    const refused = ruleStatus({ nowMs: NOW, rule: rule(), errors: many, jobs: [] });
    expect(refused.validationErrors).toHaveLength(20);
    expect(refused.conditions?.[0]?.message).toHaveLength(1024);
    expect(refused.conditions?.[0]?.message.endsWith('…')).toBe(true);
    expect(refused).not.toHaveProperty('counters');
    // As long as it may be.
    const whole = validationError('p', 'y'.repeat(1024 - 'p: ; hint: m'.length), 'm');
    const exact = ruleStatus({ nowMs: NOW, rule: rule(), errors: [whole], jobs: [] }).conditions?.[0]?.message;
    expect([exact?.length, exact?.endsWith('; hint: m')]).toEqual([1024, true]);
  });

  test('names which nodes wait for a person, until none does', () => {
    const needsHuman = (view: RuleStatus) => view.conditions?.find(({ type }) => type === 'NeedsHuman');
    const asks = (name: string, rest = {}) => job(name, iso(-60), 'NeedsHuman', rest);
    const before = ruleStatus({ nowMs: NOW, rule: rule(), errors: [], jobs: [job('a', iso(-60), 'Failed')] });
    expect(needsHuman(before)).toBeUndefined();
    const jobs = [asks('b'), asks('a'), asks('of-another', { ruleUID: 'another' }), job('c', iso(-60), 'Failed')];
    const open = ruleStatus({ nowMs: NOW, rule: rule(before), errors: [], jobs });
    expect(needsHuman(open)).toEqual({
      type: 'NeedsHuman',
      status: 'True',
      reason: 'LadderOver',
      message: 'a person is asked for node-of-a (job a), node-of-b (job b), node-of-of-another (job of-another)',
      observedGeneration: 2,
      lastTransitionTime: expect.any(String) as string,
    });
    const many = Array.from({ length: 9 }, (_, index) => asks(`n${index}`));
    expect(needsHuman(ruleStatus({ nowMs: NOW, rule: rule(open), errors: [], jobs: many }))?.message).toMatch(
      /node-of-n4 \(job n4\) and 4 more$/,
    );
    const ended = asks('a');
    Object.assign(ended.status ?? {}, { finishedAt: iso(0) });
    expect(needsHuman(ruleStatus({ nowMs: NOW, rule: rule(open), errors: [], jobs: [ended] }))).toMatchObject({
      status: 'False',
      message: '',
    });
  });

  test('its author gets an Event of what changed, and of nothing else', () => {
    const sound = ruleStatus({ nowMs: NOW, rule: rule(), errors: [], jobs: [] });
    const refusedFor = (why: string) => ruleStatus({ nowMs: NOW, rule: rule(), errors: [validationError('spec', why, 'm')], jobs: [] });
    expect(eventOfRule(undefined, sound)).toEqual({ type: 'Normal', reason: 'RuleAccepted', message: 'the rule runs' });
    expect(eventOfRule(sound, sound)).toBeUndefined();
    expect(eventOfRule(sound, refusedFor('a'))).toEqual({ type: 'Warning', reason: 'RuleRefused', message: 'spec: a; hint: m' });
    expect(eventOfRule(refusedFor('a'), refusedFor('b'))).toMatchObject({ message: 'spec: b; hint: m' });
    expect(eventOfRule(refusedFor('a'), refusedFor('a'))).toBeUndefined();
    expect(eventOfRule(refusedFor('a'), sound)).toMatchObject({ reason: 'RuleAccepted' });
  });
});
