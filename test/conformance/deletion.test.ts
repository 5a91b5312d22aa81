/* oxlint-disable vitest/no-standalone-expect -- every sentence is a test */
import { expect } from 'vitest';
import { pick, text } from '@kubenode/embedded/testing';
import { at, version, type JsonObject, type Scene } from './scene.ts';
import { conformance } from './suite.ts';
import { configMap, defineWidgets, WIDGET, widget } from './widgets.ts';

const pod = (name: string, spec: JsonObject = {}, metadata: JsonObject = {}): JsonObject => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, ...metadata },
  spec: { serviceAccountName: 'default', containers: [{ name: 'c', image: 'i:1' }], ...spec },
});

const owner = (uid: string, name: string, more: JsonObject = {}): JsonObject => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  name,
  uid,
  ...more,
});

async function owned(scene: Scene, more: JsonObject = {}): Promise<void> {
  const made = await scene.unrecorded.create(scene.in('configmaps'), configMap('owner'));
  const reference = owner(text(at(made, 'metadata.uid')), 'owner', more);
  await scene.unrecorded.create(scene.in('configmaps'), configMap('child', {}, { ownerReferences: [reference] }));
  const child = await scene.unrecorded.get(scene.in('configmaps', 'child'));
  expect(child.status).toBe(200);
}

conformance('deletion', { prepare: defineWidgets }, (it) => {
  it('a deletion without finalizers is at once, and answered with a Status', async (scene) => {
    await scene.unrecorded.create(scene.in(WIDGET), widget('a'));
    await scene.unrecorded.create(scene.in('configmaps'), configMap('a'));
    expect((await scene.api.remove(scene.in(WIDGET, 'a'))).status).toBe(200);
    await scene.api.remove(scene.in('configmaps', 'a'));
    expect((await scene.api.get(scene.in(WIDGET, 'a'))).status).toBe(404);
  });

  it('finalizers keep an object: it is marked, then gone with the last of them', async (scene) => {
    const made = await scene.unrecorded.create(scene.in(WIDGET), widget('a', { color: 'red' }, { finalizers: ['x.io/a', 'x.io/b'] }));
    const watch = await scene.watch(scene.in(WIDGET), { resourceVersion: version(made) });
    const marked = await scene.api.remove(scene.in(WIDGET, 'a'));
    expect([at(marked, 'metadata.deletionGracePeriodSeconds'), at(marked, 'metadata.generation')]).toEqual([0, 2]);
    await scene.api.remove(scene.in(WIDGET, 'a'));
    await scene.api.merge(scene.in(WIDGET, 'a'), { metadata: { finalizers: ['x.io/a', 'x.io/b', 'x.io/c'] } });
    await scene.api.merge(scene.in(WIDGET, 'a'), { metadata: { deletionTimestamp: null } });
    await scene.api.merge(scene.in(WIDGET, 'a'), { metadata: { finalizers: ['x.io/b'] } });
    await scene.api.merge(scene.in(WIDGET, 'a'), { spec: { color: 'blue' } });
    const last = await scene.api.merge(scene.in(WIDGET, 'a'), { metadata: { finalizers: null } });
    expect(last.status).toBe(200);
    await scene.api.get(scene.in(WIDGET, 'a'));
    const lines = await scene.take(watch, 4);
    expect(lines.map(({ type }) => type)).toEqual(['MODIFIED', 'MODIFIED', 'MODIFIED', 'DELETED']);
  });

  it('preconditions of a deletion are kept, or it is a Conflict', async (scene) => {
    const made = await scene.unrecorded.create(scene.in(WIDGET), widget('a'));
    const remove = (preconditions: JsonObject) =>
      scene.api.remove(scene.in(WIDGET, 'a'), { kind: 'DeleteOptions', apiVersion: 'v1', preconditions });
    expect((await remove({ uid: '11111111-2222-3333-4444-555555555555' })).status).toBe(409);
    expect((await remove({ resourceVersion: '1' })).status).toBe(409);
    expect((await remove({ uid: text(at(made, 'metadata.uid')), resourceVersion: version(made) })).status).toBe(200);
  });

  it('options of a deletion are checked', async (scene) => {
    await scene.unrecorded.create(scene.in(WIDGET), widget('a'));
    const options: JsonObject[] = [
      { propagationPolicy: 'Sometimes' },
      { propagationPolicy: 'Orphan', orphanDependents: true },
      { gracePeriodSeconds: -5 },
      { gracePeriodSeconds: 'soon' },
    ];
    for (const body of options) await scene.api.remove(scene.in(WIDGET, 'a'), { kind: 'DeleteOptions', apiVersion: 'v1', ...body });
    await scene.unrecorded.create(scene.in(WIDGET), widget('b'));
    await scene.api.remove(scene.in(WIDGET, 'b'), undefined, { propagationPolicy: 'Never' });
    await scene.api.remove(scene.in(WIDGET, 'b'), { kind: 'Gadget', apiVersion: 'v1' });
  });

  it('a pod on no node goes at once; one on a node after its grace, which may only shrink', async (scene) => {
    await scene.unrecorded.create(scene.in('pods'), pod('free'));
    await scene.unrecorded.create(scene.in('pods'), pod('bound', { nodeName: `${scene.ns}-n`, terminationGracePeriodSeconds: 40 }));
    expect((await scene.api.remove(scene.in('pods', 'free'))).status).toBe(200);
    expect((await scene.api.get(scene.in('pods', 'free'))).status).toBe(404);
    const seconds = async (query: Record<string, string>) => {
      const answer = await scene.api.remove(scene.in('pods', 'bound'), undefined, query);
      return at(answer, 'metadata.deletionGracePeriodSeconds');
    };
    expect(await seconds({})).toBe(40);
    expect(await seconds({ gracePeriodSeconds: '60' })).toBe(40);
    expect(await seconds({ gracePeriodSeconds: '10' })).toBe(10);
    await scene.api.remove(scene.in('pods', 'bound'), undefined, { gracePeriodSeconds: '0' });
    expect((await scene.api.get(scene.in('pods', 'bound'))).status).toBe(404);
  });

  it('a collection is deleted as a list would show it', async (scene) => {
    for (const name of ['a', 'b', 'c']) {
      await scene.unrecorded.create(scene.in(WIDGET), widget(name, { color: 'red' }, { labels: { keep: name === 'b' ? 'yes' : 'no' } }));
    }
    await scene.unrecorded.merge(scene.in(WIDGET, 'c'), { metadata: { finalizers: ['x.io/f'] } });
    const removed = await scene.api.remove(scene.in(WIDGET), undefined, { labelSelector: 'keep=no' });
    expect(removed.status).toBe(200);
    await scene.api.get(scene.in(WIDGET));
  });

  it(
    'dependants go after their owner in the background',
    async (scene) => {
      await owned(scene);
      await scene.api.remove(scene.in('configmaps', 'owner'), undefined, { propagationPolicy: 'Background' });
      await scene.api.get(scene.in('configmaps', 'owner'));
      await scene.gone(scene.in('configmaps', 'child'));
      scene.see('child', 'gone');
    },
    { controllers: true, within: 90 },
  );

  it(
    'in the foreground an owner waits for the dependants that block it',
    async (scene) => {
      await owned(scene, { blockOwnerDeletion: true });
      await scene.unrecorded.merge(scene.in('configmaps', 'child'), { metadata: { finalizers: ['x.io/f'] } });
      const marked = await scene.api.remove(scene.in('configmaps', 'owner'), undefined, { propagationPolicy: 'Foreground' });
      expect(at(marked, 'metadata.finalizers')).toEqual(['foregroundDeletion']);
      await scene.until('the child to be marked', async () => {
        const child = await scene.unrecorded.get(scene.in('configmaps', 'child'));
        return at(child, 'metadata.deletionTimestamp') !== undefined;
      });
      expect((await scene.unrecorded.get(scene.in('configmaps', 'owner'))).status).toBe(200);
      await scene.unrecorded.merge(scene.in('configmaps', 'child'), { metadata: { finalizers: null } });
      await scene.gone(scene.in('configmaps', 'owner'));
    },
    { controllers: true, within: 90 },
  );

  it(
    'orphans lose their reference and stay',
    async (scene) => {
      await owned(scene);
      const marked = await scene.api.remove(scene.in('configmaps', 'owner'), undefined, { propagationPolicy: 'Orphan' });
      expect(at(marked, 'metadata.finalizers')).toEqual(['orphan']);
      await scene.gone(scene.in('configmaps', 'owner'));
      const child = await scene.api.get(scene.in('configmaps', 'child'));
      expect(at(child, 'metadata.ownerReferences')).toBe(undefined);
    },
    { controllers: true, within: 90 },
  );

  it(
    'an owner of another uid is no owner',
    async (scene) => {
      await scene.unrecorded.create(scene.in('configmaps'), configMap('owner'));
      const reference = owner('11111111-2222-3333-4444-555555555555', 'owner');
      await scene.unrecorded.create(scene.in('configmaps'), configMap('child', {}, { ownerReferences: [reference] }));
      await scene.gone(scene.in('configmaps', 'child'));
      expect((await scene.unrecorded.get(scene.in('configmaps', 'owner'))).status).toBe(200);
      scene.see('child', 'gone');
    },
    { controllers: true, within: 90 },
  );

  it(
    'a namespace that is deleted takes nothing new, empties itself and goes',
    async (scene) => {
      const name = `${scene.ns}-doomed`;
      await scene.unrecorded.create('/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
      const maps = `/api/v1/namespaces/${name}/configmaps`;
      await scene.unrecorded.create(maps, configMap('held', {}, { finalizers: ['x.io/f'] }));
      await scene.unrecorded.create(maps, configMap('free'));
      const marked = await scene.api.remove(`/api/v1/namespaces/${name}`);
      expect(at(marked, 'status.phase')).toBe('Terminating');
      const refused = await scene.api.create(maps, configMap('late'));
      expect([refused.status, at(refused, 'details.causes.0.reason')]).toEqual([403, 'NamespaceTerminating']);
      await scene.gone(`${maps}/free`);
      await scene.unrecorded.merge(`${maps}/held`, { metadata: { finalizers: null } });
      await scene.gone(`/api/v1/namespaces/${name}`);
      scene.see('namespace', 'gone');
    },
    { controllers: true, within: 120 },
  );

  it('namespaces that every cluster has cannot be deleted', async (scene) => {
    expect((await scene.api.remove('/api/v1/namespaces/default')).status).toBe(403);
    expect((await scene.api.remove('/api/v1/namespaces/kube-system')).status).toBe(403);
  });

  it('a namespace has a phase and a finalizer of its own', async (scene) => {
    const name = `${scene.ns}-more`;
    const made = await scene.api.create('/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
    expect([at(made, 'status.phase'), pick(made.body, 'spec.finalizers')]).toEqual(['Active', ['kubernetes']]);
    await scene.api.create('/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: `${name}.dot` } });
  });
});
