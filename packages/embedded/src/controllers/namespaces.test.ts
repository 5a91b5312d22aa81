import { beforeEach, describe, expect, it } from 'vitest';
import { settled } from '../testing/clock.ts';
import { names, closeRig, openRig, pick, text, type Rig } from '../testing/rig.ts';
import { configMap } from '../testing/widgets.ts';

let rig: Rig;
const NS = '/api/v1/namespaces';

beforeEach(async () => {
  rig = await openRig();
  await rig.api.create(NS, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'web' } });
  await settled();
  return () => closeRig(rig);
});

describe('a namespace', () => {
  it('is there from the start in four forms, each with a default ServiceAccount', async () => {
    expect(names((await rig.api.get(NS)).body)).toEqual(['default', 'kube-node-lease', 'kube-public', 'kube-system', 'web']);
    expect(names((await rig.api.get('/api/v1/serviceaccounts')).body)).toEqual(['default', 'default', 'default', 'default', 'default']);
  });

  it('is active, has its own name as a label, and keeps its default ServiceAccount', async () => {
    const { body } = await rig.api.get(`${NS}/web`);
    expect(body).toMatchObject({
      metadata: { labels: { 'kubernetes.io/metadata.name': 'web' } },
      spec: { finalizers: ['kubernetes'] },
      status: { phase: 'Active' },
    });
    await rig.api.remove(`${NS}/web/serviceaccounts/default`);
    await settled();
    expect((await rig.api.get(`${NS}/web/serviceaccounts/default`)).status).toBe(200);
  });

  it('that is deleted is emptied and goes', async () => {
    await rig.api.create(`${NS}/web/configmaps`, configMap('a'));
    const marked = await rig.api.remove(`${NS}/web`);
    expect(marked.body).toMatchObject({
      kind: 'Namespace',
      status: { phase: 'Terminating' },
      metadata: { deletionTimestamp: '2026-11-20T12:00:00Z' },
    });
    await settled();
    expect((await rig.api.get(`${NS}/web`)).status).toBe(404);
    expect((await rig.api.get('/api/v1/configmaps')).body['items']).toEqual([]);
  });

  it('waits for content with finalizers, reports what it waits for, and admits nothing new', async () => {
    await rig.api.create(`${NS}/web/configmaps`, configMap('a', {}, { finalizers: ['x.io/y'] }));
    await rig.api.remove(`${NS}/web`);
    await settled();
    const { body } = await rig.api.get(`${NS}/web`);
    const conditions = pick(body, 'status.conditions') as { type: string; message: string }[];
    expect(conditions.map(({ type, message }) => `${type}: ${message}`)).toEqual([
      'NamespaceContentRemaining: Some resources are remaining: configmaps has 1 resource instances',
      'NamespaceFinalizersRemaining: Some content in the namespace has finalizers remaining: x.io/y in 1 resource instances',
    ]);
    const late = await rig.api.create(`${NS}/web/configmaps`, configMap('b'));
    expect([late.status, late.body['message'], pick(late.body, 'details.causes.0.reason')]).toEqual([
      403,
      'configmaps "b" is forbidden: unable to create new content in namespace web because it is being terminated',
      'NamespaceTerminating',
    ]);
    await rig.api.merge(`${NS}/web/configmaps/a`, { metadata: { finalizers: null } });
    await settled();
    expect((await rig.api.get(`${NS}/web`)).status).toBe(404);
  });

  it('waits for pods to end', async () => {
    await rig.api.create(`${NS}/web/pods`, {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'p' },
      spec: { nodeName: 'n', containers: [{ name: 'c', image: 'i' }] },
    });
    await rig.api.remove(`${NS}/web`);
    await rig.clock.advance(29_000);
    expect((await rig.api.get(`${NS}/web`)).status).toBe(200);
    await rig.clock.advance(1_000);
    expect((await rig.api.get(`${NS}/web`)).status).toBe(404);
  });

  it('that the cluster needs cannot be deleted', async () => {
    const { status, body } = await rig.api.remove(`${NS}/kube-system`);
    expect([status, text(body['message'])]).toEqual([403, 'namespaces "kube-system" is forbidden: this namespace may not be deleted']);
  });
});
