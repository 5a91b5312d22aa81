/** Every rule of the reference fleet passes its check, heals in its recorded histories, and leaves alone what it must. */
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';
import { fleetRules, type FleetRules } from '../src/cli/rules/fleet-rules.ts';
import { runHistories, type HistoryRun } from '../src/cli/rules/histories.ts';
import { DEFAULT_ENTRY, DEFAULT_INCLUDE } from '../src/sync/fleet/entry.ts';
import { childBundle } from '../src/sync/render/testing/child-bundle.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const CATALOGUE = [
  'disk-watermark',
  'hung-kernel-task',
  'kernel-deadlock',
  'kubelet-unhealthy',
  'not-ready',
  'readonly-filesystem',
  'runtime-restarting',
  'runtime-unhealthy',
];

let loaded: FleetRules;
let runs: HistoryRun[];
beforeAll(async () => {
  const folder = { root, entry: DEFAULT_ENTRY, include: DEFAULT_INCLUDE };
  loaded = await fleetRules(folder, await childBundle(), AbortSignal.timeout(60_000));
  runs = await runHistories(root, loaded.rules, []);
}, 60_000);

it('the catalogue is in every cluster, in Shadow, and without validation errors', () => {
  expect(loaded.findings).toEqual([]);
  expect(loaded.rules.map(({ rule, clusters }) => [rule.metadata.name, rule.spec.mode, clusters.join()])).toEqual(
    CATALOGUE.map((name) => [name, 'Shadow', 'pre,prod,test']),
  );
});

it('each history states what happens', () => {
  expect(runs.filter(({ passed }) => !passed)).toEqual([]);
});

describe.each(CATALOGUE)('%s', (name) => {
  const own = () => runs.filter(({ rule }) => rule === name);
  it('heals', () => {
    const heals = own().find(({ file }) => file.endsWith('/heals.json'));
    expect(heals?.report.at(-1)).toMatch(/ → Succeeded at /);
  });
  it('has a history in which it must not fire, and reports why it did not', () => {
    const withoutJob = own().filter(
      (run) => run.name.startsWith('must not fire') && run.report.every((line) => line.startsWith('no job: ')),
    );
    expect(withoutJob.length).toBeGreaterThan(0);
    expect(own().filter((run) => run.name.startsWith('must not fire'))).toEqual(withoutJob);
    for (const { report } of withoutJob) expect(report[0]).not.toContain('not about this machine');
  });
});
