import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openCluster, type EmbeddedCluster } from '@kubenode/embedded';
import { isObject, Api, type Answer, systemClock } from '@kubenode/embedded/testing';
import { realServer, type RealServer } from '../kubernetes/real-server.ts';
import { history, SHARES, type RandomWrite } from './random-writes.ts';
import { readRecordings, writeRecordings } from './recording.ts';
import { Scene, type Json, type JsonObject } from './scene.ts';
import { expectSame } from './suite.ts';
import { define } from './widgets.ts';

/** These are recorded, for where there is no real server; with one, others are tried besides. `npm run test:long -- writes` tries fresh ones. */
const RECORDED = { seed: 20_261_120, numRuns: 40 };
const TRIED = { numRuns: Number(process.env['KUBENODE_WRITES'] ?? 150) };
const PATH = 'random.io/v1/shares';

async function take(scene: Scene, { how, manager, body, pointer, value }: RandomWrite): Promise<Answer> {
  const path = scene.in(PATH, 'a', ...(how.startsWith('status') ? ['status'] : []));
  const object = {
    apiVersion: 'random.io/v1',
    kind: 'Share',
    ...body,
    metadata: { ...(isObject(body['metadata']) ? body['metadata'] : {}), name: 'a' },
  };
  const fieldManager = { fieldManager: manager };
  switch (how) {
    case 'apply':
    case 'status apply':
      return scene.api.apply(path, object, manager);
    case 'force':
    case 'status force':
      return scene.api.apply(path, object, manager, { force: 'true' });
    case 'merge':
    case 'status merge':
      return scene.api.merge(path, body, fieldManager);
    case 'json':
      return scene.api.json(path, [value === null ? { op: 'remove', path: pointer } : { op: 'add', path: pointer, value }], fieldManager);
    case 'put':
    case 'status put': {
      const live = await scene.unrecorded.get(scene.in(PATH, 'a'));
      if (live.status === 404) return scene.api.create(scene.in(PATH), object, fieldManager);
      const { metadata } = live.body;
      const { metadata: _, ...rest } = object;
      const written: JsonObject = {
        ...rest,
        metadata: { ...(isObject(metadata) ? metadata : {}), ...(isObject(body['metadata']) ? body['metadata'] : {}) },
      };
      return scene.api.put(path, written, fieldManager);
    }
    default:
      return how satisfies never;
  }
}

describe('random writes by several managers', () => {
  let embedded: EmbeddedCluster;
  let real: RealServer | undefined;
  let count = 0;

  beforeAll(async () => {
    embedded = await openCluster({ name: 'embedded', state: 'memory', clock: systemClock });
    real = realServer();
    await define(new Api(embedded.asUser()), SHARES);
    if (real !== undefined) await define(new Api(real.transport), SHARES);
  }, 60_000);

  afterAll(async () => {
    await embedded.close();
    await real?.transport.close();
  });

  async function run(server: 'embedded' | 'real', ns: string, writes: readonly RandomWrite[]): Promise<Json[]> {
    const transport = server === 'real' ? real?.transport : embedded.asUser();
    if (transport === undefined) throw new Error('no real server');
    const scene = new Scene(server, transport, ns);
    await scene.unrecorded.create('/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: ns } });
    for (const write of writes) await take(scene, write);
    return scene.steps;
  }

  it('leave the same object, owners and conflicts on both servers', async () => {
    const samples = fc.sample(history, RECORDED);
    const recorded = readRecordings('random-writes');
    const seen = new Map<string, Json[]>();
    for (const [n, writes] of samples.entries()) {
      const name = String(n);
      const ns = `random-${n}`;
      const [ours, theirs] = await Promise.all([
        run('embedded', ns, writes),
        real === undefined ? recorded.get(name) : run('real', ns, writes),
      ]);
      if (theirs === undefined) throw new Error('not recorded: npm run test:kubernetes -- --record');
      seen.set(name, theirs);
      if (real !== undefined && !real.recording)
        expect(theirs, 'the real server answers otherwise than it was recorded').toEqual(recorded.get(name));
      expectSame(`random-writes: ${n}`, ours, theirs, real === undefined ? 'recorded' : 'real');
    }
    if (real?.recording === true) writeRecordings('random-writes', seen);
  }, 120_000);

  it('do so for histories that were not recorded', async ({ skip }) => {
    if (real === undefined) skip('there is no real server');
    await fc.assert(
      fc.asyncProperty(history, async (writes) => {
        const ns = `tried-${count++}`;
        const [ours, theirs] = await Promise.all([run('embedded', ns, writes), run('real', ns, writes)]);
        expectSame('random-writes', ours, theirs, 'real');
      }),
      { ...TRIED, includeErrorInReport: true },
    );
  }, 3_600_000);
});
