import { afterEach, beforeEach, expect, it } from 'vitest';
import { DefenderPolicies, type DefenderPolicySpec } from '../../api/defender-policy.ts';
import { API_VERSION } from '../../api/kind.ts';
import type { Condition } from '../../api/wire.ts';
import { waitFor } from '../../kube/testing/wait-for.ts';
import { openCell, type TestCell } from '../machine-component-set/testing/cell.ts';
import { runDefenderPolicyController } from './controller.ts';

const LATE = { deadlineMs: 10_000 };
let cell: TestCell;
let running: Promise<void>[];
beforeEach(async () => {
  cell = await openCell();
  running = [runDefenderPolicyController(cell.ports)];
});
afterEach(() => cell.close(running));

const make = (spec: DefenderPolicySpec) =>
  cell.client.create(DefenderPolicies, { apiVersion: API_VERSION, kind: 'DefenderPolicy', metadata: { name: 'p' }, spec });
const accepted = async (): Promise<Condition | undefined> =>
  (await cell.client.get(DefenderPolicies, { name: 'p' })).status?.conditions?.find(({ type }) => type === 'Accepted');
const nights = { name: 'nights', timeZone: 'Europe/Berlin', schedule: '0 1 * * *', durationMinutes: 240 };

it('reports every validation error that the schema lets through, where it is and how to correct it', async () => {
  await make({
    limits: [{ name: 'nothing', scope: 'Pool' }],
    windows: [{ ...nights, timeZone: 'Mars/Olympus' }],
    freezes: [{ name: 'f', timeZone: 'UTC', from: '2026-11-31T00:00', until: '2026-12-01T00:00', reason: 'r' }],
    actions: [{ selector: {}, allowed: [] }],
  });
  await waitFor(async () => (await accepted())?.status === 'False', LATE);
  const condition = await accepted();
  expect(condition?.reason).toBe('Invalid');
  expect(condition?.message.split('; `spec.').map((each) => each.replace('`spec.', '').split('`')[0])).toEqual([
    'limits[0]',
    'windows[0].timeZone',
    'freezes[0].from',
    'actions[0].selector',
  ]);
  expect(condition?.message).toContain('until this is corrected nothing but Restore is reserved');
});

it('accepts it once it is corrected, and then writes nothing more', async () => {
  await make({ limits: [], windows: [{ ...nights, schedule: 'at night' }] });
  await waitFor(async () => (await accepted())?.status === 'False', LATE);
  await cell.client.patch(DefenderPolicies, { name: 'p' }, { merge: { spec: { windows: [nights] } } });
  await waitFor(async () => (await accepted())?.status === 'True', LATE);
  const policy = await cell.client.get(DefenderPolicies, { name: 'p' });
  expect(policy.status?.observedGeneration).toBe(policy.metadata.generation);
  expect((await accepted())?.message).toBe('');
  await cell.client.patch(DefenderPolicies, { name: 'p' }, { merge: { metadata: { labels: { seen: 'yes' } } } });
  const { resourceVersion } = (await cell.client.get(DefenderPolicies, { name: 'p' })).metadata;
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect((await cell.client.get(DefenderPolicies, { name: 'p' })).metadata.resourceVersion).toBe(resourceVersion);
});

it('reports pools without machines by the field that names them', async () => {
  await make({ limits: [{ name: 'one', scope: 'Pool', maxConcurrent: 1, pools: ['wep'] }], windows: [{ ...nights, pools: ['db'] }] });
  const found = async () =>
    (await cell.client.get(DefenderPolicies, { name: 'p' })).status?.conditions?.find(({ type }) => type === 'PoolsFound');
  await waitFor(async () => (await found())?.status === 'False', LATE);
  expect((await found())?.message).toContain('`spec.limits[0].pools` names wep; `spec.windows[0].pools` names db:');
  expect((await accepted())?.status).toBe('True');
});
