/**
 * The same scenarios as Kubernetes' own field manager. `testing/recorded.jsonl` contains scenarios with the answers of
 * k8s.io/apimachinery v0.34.4. With KUBENODE_FIELD_MANAGER naming a build of `testing/oracle` (`go build -o FILE .`), fresh
 * scenarios are asked of it as well, and KUBENODE_RECORD=1 writes the file again.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonObject, StatusCause } from '@kubenode/api-machinery/wire';
import type { Scenario } from './testing/arbitraries.ts';
import { plain, scenario } from './testing/arbitraries.ts';
import type { Answer } from './testing/replay.ts';
import { replay } from './testing/replay.ts';

const file = fileURLToPath(new URL('testing/recorded.jsonl', import.meta.url));
const oracle = process.env['KUBENODE_FIELD_MANAGER'];

interface Recorded {
  scenario: Scenario;
  answers: Answer[];
}

function ask(scenarios: Scenario[]): Recorded[] {
  const run = spawnSync(oracle ?? '', { input: scenarios.map((one) => JSON.stringify(one)).join('\n'), maxBuffer: 1 << 30 });
  if (run.status !== 0) throw new Error(`the field manager failed: ${run.stderr.toString().slice(0, 2000)}`);
  const lines = run.stdout.toString().trim().split('\n');
  return scenarios.map((one, i) => ({ scenario: one, answers: (JSON.parse(lines[i] ?? '') as { steps: Answer[] }).steps }));
}

function recorded(): Recorded[] {
  const lines = readFileSync(file, 'utf8').trim().split('\n');
  return lines.map((line) => JSON.parse(line) as Recorded);
}

const causeText = ({ message, field }: StatusCause) => `${message} ${field}`;

/**
 * Go walks maps in no order, so the order of causes and of a list of errors does not count. The order inside fieldsV1 does,
 * so that is compared as text.
 */
function settled({ object, error }: Answer): unknown {
  if (object !== undefined) {
    const metadata = object['metadata'] as { managedFields?: { fieldsV1: JsonObject }[] };
    return { object, fields: (metadata.managedFields ?? []).map((entry) => JSON.stringify(entry.fieldsV1)) };
  }
  const lines = error?.message.split('\n') ?? [];
  const message = error?.message.includes('errors:\n') === true ? lines.sort() : lines;
  const { details, ...status } = error?.status ?? {};
  const causes = (details?.causes ?? []).map(causeText).sort();
  return { message, status: { ...status, metadata: {} }, causes, reasons: details?.causes?.map(({ reason }) => reason) };
}

interface Difference {
  step: number;
  scenario: Scenario;
  here: unknown;
  there: unknown;
}

/** The first step of each scenario that comes out otherwise here. */
function differences(all: Recorded[]): Difference[] {
  return all.flatMap(({ scenario: one, answers }) => {
    const here = replay(one).map(settled);
    const there = answers.map(settled);
    const step = there.findIndex((answer, i) => !isDeepStrictEqual(answer, here[i]));
    return step < 0 ? [] : [{ step, scenario: one, here: here[step], there: there[step] }];
  });
}

const kinds = [
  { name: 'ordinary objects', noise: plain, sample: 12 },
  { name: 'nulls and duplicate items', noise: { ...plain, nulls: true, duplicates: true }, sample: 10 },
  { name: 'objects that do not fit', noise: { nulls: true, duplicates: true, misfits: true }, sample: 12 },
];

/** Fourteen managers, each of whom adds a label and touches nothing else. */
const crowd: Scenario = {
  schema: { type: 'object' },
  reset: {},
  steps: Array.from({ length: 14 }, (_, i) => ({
    op: 'update',
    manager: `manager-${i}`,
    subresource: i % 3 === 0 ? 'scale' : '',
    force: false,
    owners: 'none',
    now: `2024-01-01T00:00:${String(Math.floor(i / 2)).padStart(2, '0')}Z`,
    object: {
      apiVersion: 'test.kubenode.io/v1',
      kind: 'Thing',
      metadata: { name: 'thing', labels: Object.fromEntries(Array.from({ length: i + 1 }, (__, n) => [`label-${n}`, 'x'])) },
    },
  })),
};

describe('scenarios that the real field manager was asked', () => {
  it.runIf(oracle !== undefined && process.env['KUBENODE_RECORD'] === '1')('are recorded', () => {
    const random = kinds.flatMap(({ noise, sample }) => fc.sample(scenario(noise), { numRuns: sample, seed: 7 }));
    const all = ask([crowd, ...random]);
    writeFileSync(file, all.map((one) => `${JSON.stringify(one)}\n`).join(''));
    expect(recorded()).toHaveLength(all.length);
  });

  it('have the same outcome here, step by step', () => {
    const all = recorded();
    expect(all.length).toBeGreaterThanOrEqual(30);
    expect(differences(all)).toEqual([]);
  });

  it('contain conflicts, refusals, prunes and folded managers', () => {
    const text = readFileSync(file, 'utf8');
    const signs = [
      'FieldManagerConflict',
      'failed to create typed patch object',
      'before-first-apply',
      'ancient-changes',
      'duplicate entries',
    ];
    expect(signs.filter((sign) => !text.includes(sign))).toEqual([]);
  });
});

describe.runIf(oracle !== undefined)('fresh scenarios', () => {
  it.each(kinds)(
    'with $name have the outcome of the real field manager',
    ({ noise }) => {
      expect(differences(ask(fc.sample(scenario(noise), 300))).slice(0, 1)).toEqual([]);
    },
    60_000,
  );
});
