import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CustomResourceDefinitions } from '../../api/builtin.ts';
import { API_VERSION } from '../../api/kind.ts';
import { HUB_KINDS } from '../../api/kinds.ts';
import { Rollouts, type RolloutUnitStatus } from '../../api/rollout.ts';
import { openCluster, type EmbeddedCluster } from '@kubenode/embedded';
import { systemClock } from '../../kube/clock.ts';
import type { Client } from '../../kube/client.ts';
import { createClient } from '../../kube/http-client.ts';
import type { Output } from '../output.ts';
import { describe as describeRollout, show, steer } from './rollout.ts';

let cluster: EmbeddedCluster;
let hub: Client;
let printed: string[];
const output: Output = {
  print: (text) => void printed.push(text),
  report: (_word, message) => void printed.push(message),
  live: false,
  plain: true,
};

beforeEach(async () => {
  printed = [];
  cluster = await openCluster({ name: 'hub', state: 'memory', clock: systemClock() });
  hub = createClient(cluster.asUser(), { fieldManager: 'test' });
  await Promise.all(HUB_KINDS.map((kind) => hub.create(CustomResourceDefinitions, kind.crd())));
});
afterEach(() => cluster.close());

const UNIT = 'machinecomponentset/exporter';
async function rollout(name: string, phase: string, unit: Partial<RolloutUnitStatus> = {}, paused?: boolean): Promise<void> {
  const made = await hub.create(Rollouts, {
    apiVersion: API_VERSION,
    kind: 'Rollout',
    metadata: { name },
    spec: {
      fleet: 'fleet',
      sequence: 1,
      commit: 'a'.repeat(40),
      stages: [{ name: 'test', clusters: ['test'], soakSeconds: 0, maxClusters: 1 }],
      units: [{ unit: UNIT, clusters: [] }],
      ...(paused === undefined ? {} : { paused }),
    },
  });
  const units = [{ unit: UNIT, phase: 'Progressing' as const, lane: 'Forward' as const, ...unit }];
  await hub.update(Rollouts, { ...made, status: { phase: phase as 'Done', units } }, { subresource: 'status' });
}
const spec = async (name: string) => (await hub.get(Rollouts, { name })).spec;

describe('kubenode rollout', () => {
  it('pauses what goes on and resumes what is paused, and reports it', async () => {
    await rollout('r1', 'Progressing');
    await steer(hub, 'pause', 'r1', false, output);
    expect((await spec('r1')).paused).toBe(true);
    await steer(hub, 'resume', 'r1', false, output);
    expect((await spec('r1')).paused).toBeUndefined();
    expect(printed).toEqual(['rollout/r1 paused', 'rollout/r1 resumed']);
  });

  it('resumes by the rollout that paused it, and changes no other', async () => {
    await rollout('old', 'Progressing', {}, true);
    await rollout('new', 'Progressing', { pausedBy: 'old' });
    await steer(hub, 'resume', 'new', false, output);
    expect([(await spec('old')).paused, printed]).toEqual([undefined, ['rollout/old resumed']]);
  });

  it.each([
    ['pause', 'Done', undefined, 'it is Done'],
    ['pause', 'Superseded', undefined, 'it is Superseded'],
    ['pause', 'Progressing', true, 'it is paused already'],
    ['resume', 'Progressing', undefined, 'it is not paused'],
  ] as const)('refuses to %s one that is %s (paused: %s): %s', async (verb, phase, paused, why) => {
    await rollout('r1', phase, {}, paused);
    const before = await hub.get(Rollouts, { name: 'r1' });
    await expect(steer(hub, verb, 'r1', false, output)).rejects.toMatchObject({
      code: 'NothingToDo',
      message: `there is nothing to ${verb} in rollout "r1": ${why}`,
      next: 'kubenode rollout show r1',
    });
    expect([await hub.get(Rollouts, { name: 'r1' }), printed]).toEqual([before, []]);
  });

  it.each([
    ['Halted', {}],
    ['Done', { revoked: true }],
    [
      'Done',
      { clusters: [{ name: 'test', phase: 'Verified', lane: 'Forward', halted: true, message: 'halted after there was evidence' }] },
    ],
  ] as const)('tries again what is %s with %j', async (phase, unit) => {
    await rollout('r1', phase, { phase, ...unit, clusters: [...('clusters' in unit ? unit.clusters : [])] });
    await steer(hub, 'retry', 'r1', false, output);
    expect(Date.parse((await spec('r1')).retry ?? '')).toBeGreaterThan(0);
  });

  it.each(['Done', 'Superseded'] as const)('refuses to try again what is %s without halts: its cells would do nothing', async (phase) => {
    await rollout('r1', phase, { phase, clusters: [{ name: 'test', phase: 'Verified', lane: 'Forward' }] });
    await expect(steer(hub, 'retry', 'r1', false, output)).rejects.toMatchObject({
      code: 'NothingToDo',
      message: expect.stringContaining(`it is ${phase}, and nothing of it is halted or revoked`) as unknown,
    });
    expect((await spec('r1')).retry).toBeUndefined();
  });

  it('changes nothing in a dry run', async () => {
    await rollout('r1', 'Progressing');
    await steer(hub, 'pause', 'r1', true, output);
    expect([(await spec('r1')).paused, printed]).toEqual([undefined, ['rollout/r1 paused (dry run)']]);
  });

  it('shows which units are revoked', async () => {
    await rollout('r1', 'Halted', { phase: 'Halted', revoked: true });
    await show(hub, 'r1', {}, output);
    expect(printed.join('\n')).toMatch(/machinecomponentset\/exporter +Halted, revoked/);
  });

  it('reports that a removed component set leaves what it installed', () => {
    const shown = (unit: string, digest?: string): string =>
      describeRollout({
        apiVersion: API_VERSION,
        kind: 'Rollout',
        metadata: { name: 'r1' },
        spec: {
          fleet: 'fleet',
          sequence: 1,
          commit: 'a'.repeat(40),
          stages: [],
          units: [{ unit, clusters: [{ name: 'test', ...(digest === undefined ? {} : { digest }) }] }],
        },
        status: { phase: 'Done', units: [{ unit, phase: 'Done', lane: 'Forward' }] },
      });
    const text = 'only the set is removed: what it installed stays on the machines, unless it had removed it before with action Remove';
    expect(shown('MachineComponentSet/exporter')).toContain(text);
    expect(shown('MachineComponentSet/exporter', 'v1:a')).not.toContain(text);
    expect(shown('NodeRemedier/hung')).not.toContain(text);
  });

  it('waits for one rollout only, and names those that there are', async () => {
    await rollout('r1', 'Done');
    await expect(show(hub, undefined, { wait: '1' }, output)).rejects.toMatchObject({ code: 'Usage', next: 'kubenode rollout show' });
    await expect(steer(hub, 'pause', 'r2', false, output)).rejects.toMatchObject({
      code: 'NotFound',
      message: 'there is no rollout "r2"; the newest are r1',
    });
  });
});
