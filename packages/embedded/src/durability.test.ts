import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '@kubenode/api-machinery/wire';
import { settled } from './testing/clock.ts';
import { Api, names, openRig, pick, text, type Rig } from './testing/rig.ts';
import { configMap, defineWidgets, DEFINITION_PATH, MAPS, WIDGET_PATH as W, widget } from './testing/widgets.ts';

let root: string;
let rigs: Rig[];

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'embedded-state-'));
  rigs = [];
});

afterEach(async () => {
  for (const rig of rigs) await rig.cluster.close();
  rmSync(root, { recursive: true });
});

async function reopen(options = {}): Promise<Rig> {
  for (const rig of rigs) await rig.cluster.close();
  const rig = await openRig({ name: 'durable', state: { dir: root }, ...options });
  rigs.push(rig);
  return rig;
}

/** Lets the writer write until it has acknowledged some writes, then kills it with no warning. */
async function killedAfter(acknowledged: number): Promise<string[]> {
  const writer = fileURLToPath(new URL('testing/writer.ts', import.meta.url));
  const child = spawn(process.execPath, ['--conditions=@kubenode/source', writer, root], { stdio: ['ignore', 'pipe', 'inherit'] });
  let output = '';
  child.stdout.setEncoding('utf8');
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  for await (const chunk of child.stdout) {
    output += String(chunk);
    if (output.split('\n').length > acknowledged) child.kill('SIGKILL');
  }
  await ended;
  return output.split('\n').slice(0, -1);
}

describe('a cluster on disk', () => {
  it('keeps every acknowledged write after kill -9, and no deleted object', async () => {
    for (const count of [40, 250]) {
      const lines = await killedAfter(count);
      expect(lines.length).toBeGreaterThanOrEqual(count);
      const rig = await reopen();
      const list = await rig.api.get(MAPS);
      const items = list.body['items'] as JsonObject[];
      const there = new Map(items.map((item) => [text(pick(item, 'metadata.name')), item]));
      const shown = (name: string) => {
        const item = there.get(name);
        return item === undefined ? 'gone' : `there ${text(pick(item, 'data.n'))} ${text(pick(item, 'metadata.resourceVersion'))}`;
      };
      const written = lines.map((line) => line.split(' '));
      expect(written.map(([, name = '']) => shown(name))).toEqual(
        written.map(([fate, , version]) => (fate === 'gone' ? 'gone' : `there 1 ${version}`)),
      );
      const newest = Math.max(...written.map(([, , , reached]) => Number(reached)));
      expect(Number(rig.cluster.resourceVersion)).toBeGreaterThanOrEqual(newest);
      await rig.cluster.close();
      rigs = [];
      rmSync(root, { recursive: true });
    }
    root = mkdtempSync(join(tmpdir(), 'embedded-state-'));
  });

  it('goes on where it was: objects, versions, tokens, definitions', async () => {
    const before = await reopen();
    await defineWidgets(before.api);
    await before.api.create(W, widget('a'));
    await before.api.create(W, widget('b'));
    await before.api.remove(`${W}/b`);
    const [version, token] = [before.cluster.resourceVersion, before.cluster.adminToken];
    const account = await before.api.create('/api/v1/namespaces/default/serviceaccounts/default/token', { kind: 'TokenRequest', spec: {} });
    const after = await reopen();
    expect([after.cluster.resourceVersion, after.cluster.adminToken]).toEqual([version, token]);
    expect(names((await after.api.get(W)).body)).toEqual(['a']);
    expect(names((await after.api.get(W, { fieldSelector: 'spec.color=red' })).body)).toEqual(['a']);
    const bearer = new Api((request) => after.cluster.handle(request));
    expect((await bearer.get('/api/v1/nodes', {}, { authorization: `Bearer ${text(pick(account.body, 'status.token'))}` })).status).toBe(
      200,
    );
    expect((await after.api.merge(`${W}/a`, { spec: { color: 'blue' } })).status).toBe(200);
  });

  it('lets a watch resume from the last resourceVersion, and sends older ones to list again', async () => {
    const before = await reopen();
    await before.api.create(MAPS, configMap('a'));
    const old = before.cluster.resourceVersion;
    await before.api.create(MAPS, configMap('b'));
    const last = before.cluster.resourceVersion;
    const after = await reopen();
    const resumed = await after.api.watch(MAPS, { resourceVersion: last });
    const expired = await after.api.watch(MAPS, { resourceVersion: old });
    await after.api.create(MAPS, configMap('c'));
    expect(pick((await resumed.next())?.object, 'metadata.name')).toBe('c');
    expect(await expired.rest()).toMatchObject([{ type: 'ERROR', object: { code: 410, reason: 'Expired' } }]);
    expect((await after.api.get(MAPS, { resourceVersion: old, resourceVersionMatch: 'Exact' })).status).toBe(410);
    resumed.stop();
  });

  it('finishes what it was at: a deletion under way, a pod in its grace', async () => {
    const pod = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'p' },
      spec: { nodeName: 'n', containers: [{ name: 'c', image: 'i' }] },
    };
    const PODS = '/api/v1/namespaces/default/pods';
    const before = await reopen();
    await defineWidgets(before.api);
    await before.api.create(W, widget('a', { color: 'red' }, { finalizers: ['x.io/y'] }));
    await before.api.remove(`${DEFINITION_PATH}/widgets.example.io`);
    await before.api.create(PODS, pod);
    await before.api.remove(`${PODS}/p`);
    const after = await reopen();
    await after.api.merge(`${W}/a`, { metadata: { finalizers: null } });
    await settled();
    expect((await after.api.get(`${DEFINITION_PATH}/widgets.example.io`)).status).toBe(404);
    expect((await after.api.get(`${PODS}/p`)).status).toBe(200);
    await after.clock.advance(31_000);
    expect((await after.api.get(`${PODS}/p`)).status).toBe(404);
  });

  it('collects, when it opens, what lost its owner while it was closed', async () => {
    const before = await reopen();
    const { body } = await before.api.create(MAPS, configMap('owner'));
    await before.api.create(
      MAPS,
      configMap(
        'owned',
        {},
        { ownerReferences: [{ apiVersion: 'v1', kind: 'ConfigMap', name: 'owner', uid: text(pick(body, 'metadata.uid')) }] },
      ),
    );
    await before.cluster.close();
    const database = new DatabaseSync(join(root, 'state.db'));
    database.exec("DELETE FROM objects WHERE key = 'default/owner'");
    database.close();
    const after = await reopen();
    await settled();
    expect(names((await after.api.get(MAPS)).body)).toEqual([]);
  });

  it('shows objects as a definition that changed meanwhile wants them', async () => {
    const before = await reopen();
    await defineWidgets(before.api);
    await before.api.create(W, widget('a', { color: 'red', max: 3 }));
    await before.api.json(`${DEFINITION_PATH}/widgets.example.io`, [
      { op: 'remove', path: '/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/max' },
    ]);
    const after = await reopen();
    expect((await after.api.get(`${W}/a`)).body['spec']).toEqual({ color: 'red', replicas: 1 });
  });

  it('that was closed takes no more writes', async () => {
    const rig = await reopen();
    await rig.api.create(MAPS, configMap('a'));
    await rig.cluster.close();
    expect((await rig.api.create(MAPS, configMap('b'))).status).toBe(503);
    expect(names((await (await reopen()).api.get(MAPS)).body)).toEqual(['a']);
  });

  it('refuses a name that cannot stand in a path', async () => {
    await expect(openRig({ name: 'Not/A Name' })).rejects.toMatchObject({ code: 'BadClusterName' });
  });
});
