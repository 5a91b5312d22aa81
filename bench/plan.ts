import * as fs from 'node:fs';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import * as git from 'isomorphic-git';
import type { Cluster } from '../src/api/cluster.ts';
import { API_VERSION } from '../src/api/kind.ts';
import type { Rollout } from '../src/api/rollout.ts';
import type { Stored } from '../src/api/wire.ts';
import { bundleFor } from '../src/cli/bundles.ts';
import { judgeObject } from '../src/cli/object-rules.ts';
import { makePlan } from '../src/cli/plan/make.ts';
import type { HubSnapshot } from '../src/cli/plan/snapshot.ts';
import { checkRules } from '../src/rules/check.ts';
import { renderTree, type Renderer } from '../src/sync/fleet/render-tree.ts';
import type { RenderedCommit } from '../src/sync/fleet/checkout.ts';
import type { Benchmark } from './harness.ts';
import { fleetOf } from './render.ts';

const CLUSTERS = [30, 300];
const UNITS = 25;
const SIGNAL = AbortSignal.timeout(300_000);

const benchmark: Benchmark = {
  processes: 3,
  about: `
\`kubenode plan\` of a commit that gives one of ${UNITS} components of so many clusters another version, over a snapshot in which the commit before is proven everywhere. It renders the new
commit twice, as the hub does, the one before once beside it, and plans. The reference is rendering and checking the new commit alone. The command itself takes what a process takes to start on top.`,
  goals: {},
  async run(report) {
    const renderer: Renderer = { childPath: await bundleFor('render'), isolation: 'process', checkRules, judgeObject };
    for (const clusters of CLUSTERS) {
      const folder = mkdtempSync(join(tmpdir(), 'kubenode-bench-'));
      try {
        const before = await commit(folder, fleetOf(clusters));
        const snapshot = proven(before, await renderTree(fleetOf(clusters), {}, renderer, SIGNAL));
        const files = bumped(fleetOf(clusters));
        const after = await commit(folder, files);
        const began = performance.now();
        const made = await makePlan({ folder, revision: after, fleet: undefined }, snapshot, renderer, SIGNAL);
        const value = performance.now() - began;
        if (made.result.state !== 'Planned' || made.result.forecast.units.map((unit) => unit.clusters.length).join() !== String(clusters))
          throw new Error(`the plan is not of one unit in ${clusters} clusters`);
        const rendering = performance.now();
        await renderTree(files, {}, renderer, SIGNAL);
        report({ name: `plan/${clusters}x${UNITS}`, tier: 'W', unit: 'ms', value, reference: performance.now() - rendering });
      } finally {
        rmSync(folder, { recursive: true });
      }
    }
  },
};
export default benchmark;

const bumped = (files: ReadonlyMap<string, string>): Map<string, string> =>
  new Map([...files].map(([path, text]) => [path, text.replace("'1.0.0'", "index === 7 ? '1.0.1' : '1.0.0'")]));

async function commit(dir: string, files: ReadonlyMap<string, string>): Promise<string> {
  await git.init({ fs, dir, defaultBranch: 'main' });
  for (const [path, text] of files) {
    mkdirSync(dirname(join(dir, path)), { recursive: true });
    writeFileSync(join(dir, path), text);
    await git.add({ fs, dir, filepath: path });
  }
  return await git.commit({ fs, dir, message: 'fleet', author: { name: 'bench', email: 'bench@example.com' } });
}

function proven(oid: string, { clusters }: RenderedCommit): HubSnapshot {
  const at = '2026-11-20T00:00:00Z';
  const stored = { resourceVersion: '1', creationTimestamp: at };
  return {
    takenAt: at,
    fleets: [
      {
        apiVersion: API_VERSION,
        kind: 'Fleet',
        metadata: { name: 'main', uid: 'fleet', ...stored },
        spec: {
          source: { path: '/fleet' },
          stages: ['test', 'prod'].map((name) => ({ name, clusterSelector: { stage: name } })),
        },
        status: { commit: oid, clusters: clusters.map(({ name }) => name), rollout: { sequence: 1 } },
      },
    ],
    clusters: clusters.map(({ object, name, units }): Stored<Cluster> => ({
      ...object,
      metadata: { ...object.metadata, uid: name, ...stored },
      status: {
        units: units.map(({ key, digest }) => ({
          unit: key,
          fleet: 'main',
          digest,
          commit: oid,
          evidence: digest,
          verified: [{ digest, commit: oid, at }],
        })),
      },
    })),
    rollouts: [carried(oid, clusters)],
  };
}

/** That brought all of it. */
function carried(commit: string, clusters: RenderedCommit['clusters']): Stored<Rollout> {
  const named = clusters.flatMap(({ name, units }) => units.map(({ key, digest }) => ({ key, name, digest })));
  const units = [...Map.groupBy(named, ({ key }) => key)].map(([unit, its]) => ({
    unit,
    clusters: its.map(({ name, digest }) => ({ name, digest })),
  }));
  return {
    apiVersion: API_VERSION,
    kind: 'Rollout',
    metadata: { name: 'main-1', uid: 'rollout', resourceVersion: '1', creationTimestamp: '2026-11-20T00:00:00Z' },
    spec: { fleet: 'main', commit, sequence: 1, stages: [], units },
  };
}
