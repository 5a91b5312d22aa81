import * as fs from 'node:fs';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import * as git from 'isomorphic-git';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Cluster } from '../../api/cluster.ts';
import { API_VERSION } from '../../api/kind.ts';
import type { Rollout } from '../../api/rollout.ts';
import type { Stored } from '../../api/wire.ts';
import type { RenderedCommit } from '../../sync/fleet/checkout.ts';
import { checkRules } from '../../rules/check.ts';
import { renderTree, type Renderer } from '../../sync/fleet/render-tree.ts';
import { childBundle } from '../../sync/render/testing/child-bundle.ts';
import { judgeObject } from '../object-rules.ts';
import { planLines } from './lines.ts';
import { makePlan, type Made } from './make.ts';
import { planMarkdown } from './markdown.ts';
import { parseSnapshot, snapshotText, type HubSnapshot } from './snapshot.ts';

const SIGNAL = AbortSignal.timeout(120_000);
const STAGES = [
  { name: 'test', clusterSelector: { stage: 'test' }, soakSeconds: 600 },
  { name: 'prod', clusterSelector: { stage: 'prod' } },
];
const fleetText = (version: string, machines: number) => `
import { fleet, MachineComponentSet, MachineSet, release } from 'kubenode/constructs';
fleet.cluster('t', { labels: { stage: 'test' } });
fleet.cluster('p', { labels: { stage: 'prod' } });
const tool = release('tool', '${version}', { 'linux/amd64': { url: 'http://127.0.0.1/tool', sha256: '${'a'.repeat(64)}' } }, {
  units: [{ name: 'tool', exec: ['/bin/true'] }],
  probes: [{ name: 'running', unit: 'tool' }],
  disruption: { patch: 'Restart', minor: 'Drain' },
});
fleet.allClusters((cluster) => {
  const web = cluster.pool('web');
  new MachineSet(web, 'web', { replicas: cluster.label('stage') === 'prod' ? ${machines} : 1, provider: 'local' });
  new MachineComponentSet(cluster, 'tool', { component: tool, batches: [1, '50%', '100%'], soakSeconds: 30 });
});
`;

let root: string;
let renderer: Renderer;
beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), 'kubenode-plan-'));
  renderer = { childPath: await childBundle(), isolation: 'process', checkRules, judgeObject };
  await git.init({ fs, dir: root, defaultBranch: 'main' });
});
afterEach(() => rmSync(root, { recursive: true }));

async function commit(version: string, machines = 4): Promise<string> {
  write(version, machines);
  await git.add({ fs, dir: root, filepath: 'fleet/main.ts' });
  return await git.commit({ fs, dir: root, message: version, author: { name: 'a', email: 'a@example.com' } });
}

function write(version: string, machines = 4): void {
  const path = join(root, 'fleet/main.ts');
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, fleetText(version, machines));
}

/** A hub that has accepted a commit and proved all of it; `also`: digests that were proven before. */
async function hubAt(
  oid: string,
  version: string,
  machines = 4,
  change: (cluster: Cluster) => void = () => undefined,
): Promise<HubSnapshot> {
  const rendered = await renderTree(new Map([['fleet/main.ts', fleetText(version, machines)]]), {}, renderer, SIGNAL);
  const clusters = rendered.clusters.map(({ name, object, units }): Stored<Cluster> => {
    const at = '2026-11-20T00:00:00Z';
    const cluster: Stored<Cluster> = {
      ...object,
      metadata: { ...object.metadata, uid: name, resourceVersion: '1', creationTimestamp: at },
      status: {
        units: units.map(({ key, digest }) => ({
          unit: key,
          fleet: 'main',
          digest,
          commit: oid,
          evidence: digest,
          verified: [{ digest, commit: oid, at, order: 1 }],
        })),
        machines: {
          total: name === 'p' ? machines : 1,
          ready: 1,
          sets: [{ set: 'web/web', replicas: name === 'p' ? machines : 1, wanted: name === 'p' ? machines : 1 }],
        },
        conditions: [{ type: 'Reachable', status: 'True', reason: 'Connected', message: '', lastTransitionTime: at }],
      },
    };
    change(cluster);
    return cluster;
  });
  return {
    takenAt: '2026-11-22T00:00:00Z',
    fleets: [
      {
        apiVersion: API_VERSION,
        kind: 'Fleet',
        metadata: { name: 'main', uid: 'f', resourceVersion: '1', creationTimestamp: '2026-11-20T00:00:00Z' },
        spec: { source: { path: '/elsewhere' }, stages: STAGES },
        status: { commit: oid, clusters: ['p', 't'], rollout: { sequence: 1 } },
      },
    ],
    clusters,
    rollouts: [rolloutOf(oid, rendered)],
  };
}

/** That brought all of it. */
function rolloutOf(commit: string, { clusters }: RenderedCommit): Stored<Rollout> {
  const named = clusters.flatMap(({ name, units }) => units.map(({ key, digest }) => ({ key, name, digest })));
  return {
    apiVersion: API_VERSION,
    kind: 'Rollout',
    metadata: { name: 'main-1', uid: 'r', resourceVersion: '1', creationTimestamp: '2026-11-20T00:00:00Z' },
    spec: {
      fleet: 'main',
      commit,
      sequence: 1,
      stages: [],
      units: [...Map.groupBy(named, ({ key }) => key)].map(([unit, its]) => ({
        unit,
        clusters: its.map(({ name, digest }) => ({ name, digest })),
      })),
    },
  };
}

const planOf = async (snapshot: HubSnapshot, revision?: string, fleet?: string): Promise<Made> =>
  await makePlan({ folder: root, revision, fleet }, snapshot, renderer, SIGNAL);
const text = (made: Made): string => planLines(made).join('\n');

describe('a plan', { timeout: 120_000 }, () => {
  it('of what the hub has is that nothing changes', async () => {
    const first = await commit('1.0.0');
    expect(text(await planOf(await hubAt(first, '1.0.0')))).toBe(
      `Fleet main: the files here, over ${first.slice(0, 10)}, which the hub accepted\n\nNothing changes.`,
    );
  });

  it('of a new version reports stages, machines, disruption, batches, soaks and what taking it back costs', async () => {
    const hub = await hubAt(await commit('1.0.0'), '1.0.0');
    const second = await commit('1.0.1');
    const made = await planOf(hub, second.slice(0, 8));
    expect(text(made)).toBe(
      `Fleet main: ${second.slice(0, 10)}, over ${hub.fleets[0]?.status?.commit?.slice(0, 10)}, which the hub accepted

1 unit in 2 clusters. The soaks of batches and stages alone take 12 m.

MachineComponentSet/tool  fleet/main.ts:13:3
  spec.version: 1.0.0 → 1.0.1
  stage test, changed in t, restart of 1 machine
  stage prod, changed in p, restart of 4 machines, 3 batches a cluster, the first of 1 machine
  git revert: goes back at once; restart`,
    );
    expect(made.warnings).toEqual([]);
    expect(planMarkdown(made)).toContain('12 m.\n\nMachineComponentSet/tool  fleet/main.ts:13:3\n');
    // The same by a file that a job of CI keeps.
    const kept = parseSnapshot(snapshotText(hub), 'snapshot.json');
    expect(await planOf(kept, 'main')).toEqual({ ...made, commit: second });
  });

  it('of a minor version reports that nodes are drained, and that machines which the fleet does not have may be drained too', async () => {
    const hub = await hubAt(await commit('1.0.0'), '1.0.0', 4, ({ status }) => {
      if (status?.machines !== undefined) status.machines.total += 3;
    });
    write('1.1.0');
    expect(text(await planOf(hub))).toContain(
      'stage prod, changed in p, drain of 4 machines, and perhaps of 3 that no MachineSet of the fleet has',
    );
  });

  it('of a revert reports that it goes back at once; where that was revoked, through the stages', async () => {
    const first = await commit('1.0.0');
    const before = await hubAt(first, '1.0.0');
    const proven = (name: string) => before.clusters.find(({ metadata }) => metadata.name === name)?.status?.units ?? [];
    const second = await commit('1.0.1');
    const withHistory = (revoked: boolean) =>
      hubAt(second, '1.0.1', 4, (cluster) => {
        for (const unit of cluster.status?.units ?? []) {
          const was = proven(cluster.metadata.name).find((each) => each.unit === unit.unit)?.digest ?? '';
          if (was === unit.digest) continue;
          unit.verified?.push({ digest: was, commit: first, at: '2026-11-19T00:00:00Z', order: 0 + 1 });
          if (revoked && cluster.metadata.name === 't') unit.revoked = [was];
        }
      });
    write('1.0.0');
    expect(text(await planOf(await withHistory(false)))).toContain(
      'stage prod, changed in p, restart of 4 machines, 3 batches a cluster, the first of 1 machine, at once, in all stages: it was proven there before',
    );
    expect(text(await planOf(await withHistory(true)))).not.toContain('at once, in all stages');
  });

  it('reports which machines are made or released, and which deletions the limits block', async () => {
    const hub = await hubAt(await commit('1.0.0', 40), '1.0.0', 40);
    write('1.0.0', 43);
    expect(text(await planOf(hub))).toContain('spec.replicas: 40 → 43\n  stage prod, changed in p, makes 3 machines');
    write('1.0.0', 38);
    expect(text(await planOf(hub))).toContain('stage prod, changed in p, lets 2 machines go');
    write('1.0.0', 4);
    const printed = text(await planOf(hub));
    expect(printed).toContain(
      'Nothing changes until what is held back may.\nHeld back: it would let too many machines go: cluster "p" of stage "prod": 36 of its 40 machines would go',
    );
    expect(printed).toContain('next: let them go: set prune:');
  });

  it('reports what the hub would refuse, with its position, and that a cluster cannot begin', async () => {
    const hub = await hubAt(await commit('1.0.0'), '1.0.0', 4, (cluster) => {
      const [condition] = cluster.status?.conditions ?? [];
      if (cluster.metadata.name === 't' && condition !== undefined) Object.assign(condition, { status: 'False', message: 'no route' });
      if (cluster.metadata.name === 'p') cluster.spec.paused = true;
    });
    write('1.0.1');
    const blocked = text(await planOf(hub));
    expect(blocked).toContain('Nothing can begin now in t: it is not reached: no route');
    expect(blocked).toContain('Nothing can begin now in p: the Cluster is paused');
    writeFileSync(join(root, 'fleet/main.ts'), fleetText('1.0.0', 4).replace("batches: [1, '50%', '100%']", 'batches: [0]'));
    const made = await planOf(hub);
    expect(made.result).toMatchObject({ state: 'Refused', message: expect.stringContaining('fleet/main.ts:13:3') as unknown });
    expect(planMarkdown(made)).toContain('**The hub would refuse it**');
  });

  it('warns where the commit lacks what the hub accepted, and where this clone does', async () => {
    const first = await commit('1.0.0');
    await git.branch({ fs, dir: root, ref: 'side', checkout: true });
    const side = await commit('1.0.1', 5);
    await git.checkout({ fs, dir: root, ref: 'main' });
    const second = await commit('1.0.2');
    const hub = await hubAt(second, '1.0.2');
    expect((await planOf(hub, side)).warnings).toEqual([expect.stringContaining('does not contain the commit that the hub accepted')]);
    expect((await planOf(hub, first)).warnings).toEqual([expect.stringContaining('is older than what the hub accepted')]);
    const foreign = await hubAt('b'.repeat(40), '1.0.2');
    const made = await planOf(foreign, second);
    expect(made.warnings).toEqual([
      expect.stringContaining('is not in this clone'),
      expect.stringContaining('its changes show without their fields'),
    ]);
  });

  it('fails for a Fleet, a revision or a snapshot that is not there', async () => {
    const hub = await hubAt(await commit('1.0.0'), '1.0.0');
    await expect(planOf(hub, undefined, 'other')).rejects.toMatchObject({
      code: 'NoSuchFleet',
      message: 'there is no Fleet "other"; there are: main',
    });
    await expect(planOf(hub, 'nowhere')).rejects.toMatchObject({ code: 'NoSuchRevision' });
    for (const [found, message] of [
      ['no JSON', /no snapshot of a hub/],
      ['{}', /`kind` must be FleetSnapshot/],
      [snapshotText(hub).replace('"stages"', '"stagez"'), /`fleets\[0\]\.spec/],
      [snapshotText(hub).replace('"2026-11-22T00:00:00.000Z"', '"x"').replace(hub.takenAt, 'x'), /`takenAt` must be a time/],
    ] as const)
      expect(() => parseSnapshot(found, 'f')).toThrow(message);
  });

  it('has nothing in its snapshot by which a repository or a cell is reached', async () => {
    const hub = await hubAt(await commit('1.0.0'), '1.0.0');
    const kept = snapshotText(hub);
    expect(kept).not.toContain('/elsewhere');
    expect(kept).not.toContain('inventory');
  });
});
