/* oxlint-disable vitest/no-standalone-expect -- every sentence is a test */
import { expect } from 'vitest';
import { names, pick, text } from '@kubenode/embedded/testing';
import { at, version, type Scene } from './scene.ts';
import { conformance } from './suite.ts';
import { configMap, defineWidgets, WIDGET, widget } from './widgets.ts';

const TABLE = { accept: 'application/json;as=Table;v=v1;g=meta.k8s.io' };

async function maps(scene: Scene, count: number): Promise<string> {
  let last = '';
  for (let n = 0; n < count; n++) {
    last = version(
      await scene.unrecorded.create(scene.in('configmaps'), configMap(`m${n}`, {}, n % 2 === 0 ? { labels: { even: 'yes' } } : {})),
    );
  }
  return last;
}

conformance('list', { prepare: defineWidgets }, (it) => {
  it('a list is in order of names; its items carry a type only for custom kinds', async (scene) => {
    await maps(scene, 2);
    await scene.unrecorded.create(scene.in(WIDGET), widget('b'));
    await scene.unrecorded.create(scene.in(WIDGET), widget('a'));
    expect(names((await scene.api.get(scene.in(WIDGET))).body)).toEqual(['a', 'b']);
    expect(pick((await scene.api.get(scene.in('configmaps'))).body, 'items.0.kind')).toBe(undefined);
    await scene.api.get(scene.in('secrets'));
    await scene.api.get(`/api/v1/namespaces/${scene.ns}-none/configmaps`);
    await scene.api.get(`/apis/example.io/v1/namespaces/${scene.ns}-none/widgets`);
  });

  it('pages are of one snapshot, count what remains and end without a token', async (scene) => {
    await maps(scene, 5);
    let next = '';
    const seen: string[] = [];
    do {
      const page = await scene.api.get(scene.in('configmaps'), { limit: '2', ...(next === '' ? {} : { continue: next }) });
      seen.push(...names(page.body));
      next = text(at(page, 'metadata.continue'));
      await scene.unrecorded.create(scene.in('configmaps'), configMap(`n${seen.length}`));
      await scene.unrecorded.remove(scene.in('configmaps', 'm4'));
    } while (next !== '');
    expect(seen).toEqual(['m0', 'm1', 'm2', 'm3', 'm4']);
    const selected = await scene.api.get(scene.in('configmaps'), { limit: '1', labelSelector: 'even=yes' });
    expect([text(at(selected, 'metadata.continue')) === '', at(selected, 'metadata.remainingItemCount')]).toEqual([false, undefined]);
    await scene.api.get(scene.in(WIDGET), { limit: '2' });
  });

  it('a page token is no text of one’s own, and goes with no resourceVersion', async (scene) => {
    await maps(scene, 3);
    expect((await scene.api.get(scene.in('configmaps'), { continue: 'nonsense' })).status).toBe(400);
    expect((await scene.api.get(scene.in('configmaps'), { limit: 'many' })).status).toBe(400);
    const first = await scene.unrecorded.get(scene.in('configmaps'), { limit: '1' });
    const token = text(at(first, 'metadata.continue'));
    await scene.api.get(scene.in('configmaps'), { limit: '1', continue: token, resourceVersion: '1' });
  });

  it('labels select by equality, sets and presence', async (scene) => {
    await scene.unrecorded.create(scene.in(WIDGET), widget('a', { color: 'red' }, { labels: { app: 'x', tier: 'one' } }));
    await scene.unrecorded.create(scene.in(WIDGET), widget('b', { color: 'blue' }, { labels: { app: 'y' } }));
    await scene.unrecorded.create(scene.in(WIDGET), widget('c', { color: 'blue' }));
    const listed = async (labelSelector: string) => names((await scene.api.get(scene.in(WIDGET), { labelSelector })).body).join('');
    expect(await listed('app=x')).toBe('a');
    expect(await listed('app==x,tier=one')).toBe('a');
    expect(await listed('app!=x')).toBe('bc');
    expect(await listed('app in (x,y)')).toBe('ab');
    expect(await listed('app notin (x),tier')).toBe('');
    expect(await listed('!app')).toBe('c');
    expect(await listed('')).toBe('abc');
    for (const bad of ['a b', 'app in x', 'app=', '=x', 'app in ()', 'app>1', 'a/b/c=d', 'app=a b']) {
      await scene.api.get(scene.in(WIDGET), { labelSelector: bad });
    }
  });

  it('fields select where a kind declares them', async (scene) => {
    await scene.unrecorded.create(scene.in(WIDGET), widget('a', { color: 'red' }));
    await scene.unrecorded.create(scene.in(WIDGET), widget('b', { color: 'blue' }));
    const listed = async (fieldSelector: string, path = scene.in(WIDGET)) => scene.api.get(path, { fieldSelector });
    expect(names((await listed('metadata.name=a')).body)).toEqual(['a']);
    expect(names((await listed('metadata.name!=a')).body)).toEqual(['b']);
    expect(names((await listed('spec.color=blue,metadata.name=b')).body)).toEqual(['b']);
    expect(names((await listed(`metadata.namespace=${scene.ns}`)).body)).toEqual(['a', 'b']);
    expect(names((await listed(`metadata.namespace=${scene.ns}`, '/apis/example.io/v1/widgets')).body)).toEqual(['a', 'b']);
    expect((await listed('spec.replicas=1')).status).toBe(400);
    await listed('spec.color');
    await listed('data.x=1', scene.in('configmaps'));
    await listed('metadata.namespace=x', '/api/v1/nodes');
    await listed('metadata.name=nothing', '/api/v1/nodes');
    await listed('type=Opaque', scene.in('secrets'));
    await listed('involvedObject.name=x,reason=y,type=Normal', scene.in('events'));
    await listed('spec.nodeName=n,status.phase=Running,spec.restartPolicy=Never', scene.in('pods'));
    await listed('spec.unschedulable=true,metadata.name=nothing', '/api/v1/nodes');
    await listed('spec.image=x', scene.in('pods'));
  });

  it('a resourceVersion asks for at least that state, for exactly it, or for one to come', async (scene) => {
    const then = await maps(scene, 2);
    await scene.unrecorded.create(scene.in('configmaps'), configMap('z'));
    const get = async (query: Record<string, string>) => scene.api.get(scene.in('configmaps'), query);
    expect(names((await get({ resourceVersion: then })).body)).toEqual(['m0', 'm1', 'z']);
    expect(names((await get({ resourceVersion: then, resourceVersionMatch: 'NotOlderThan' })).body)).toEqual(['m0', 'm1', 'z']);
    expect(names((await get({ resourceVersion: then, resourceVersionMatch: 'Exact' })).body)).toEqual(['m0', 'm1']);
    expect(names((await get({ resourceVersion: then, limit: '5' })).body)).toEqual(['m0', 'm1']);
    await get({ resourceVersionMatch: 'Exact' });
    await get({ resourceVersion: '0', resourceVersionMatch: 'Exact' });
    await get({ resourceVersion: then, resourceVersionMatch: 'Nearly' });
    await get({ resourceVersion: 'abc' });
    await get({ sendInitialEvents: 'true' });
    await get({ sendInitialEvents: 'true', resourceVersionMatch: 'NotOlderThan' });
    await scene.api.get(scene.in('configmaps', 'm0'), { resourceVersion: 'abc' });
    await scene.api.get(scene.in('configmaps', 'm0'), { resourceVersion: then });
    await scene.api.get(scene.in('configmaps', 'm0'), { resourceVersion: '0' });
  });

  it(
    'a state of the future is a 504 that names the reason',
    async (scene) => {
      await maps(scene, 1);
      const future = await scene.api.get(scene.in('configmaps'), { resourceVersion: '9999999' });
      expect([future.status, at(future, 'details.causes.0.reason')]).toEqual([504, 'ResourceVersionTooLarge']);
      await scene.api.get(scene.in('configmaps', 'm0'), { resourceVersion: '9999999' });
    },
    { within: 60 },
  );

  it('a table has columns, cells and as much of the object as asked', async (scene) => {
    await scene.unrecorded.create(scene.in(WIDGET), widget('a', { color: 'red', since: '2020-01-01T00:00:00Z' }));
    await scene.unrecorded.merge(scene.in(WIDGET, 'a', 'status'), { status: { conditions: [{ type: 'Ready', status: 'True' }] } });
    await maps(scene, 1);
    const table = await scene.api.get(scene.in(WIDGET), {}, TABLE);
    expect(table.body['kind']).toBe('Table');
    await scene.api.get(scene.in(WIDGET, 'a'), { includeObject: 'None' }, TABLE);
    await scene.api.get(scene.in(WIDGET, 'a'), { includeObject: 'Object' }, TABLE);
    await scene.api.get(scene.in(WIDGET), { includeObject: 'Some' }, TABLE);
    await scene.api.get(scene.in(WIDGET, 'none'), {}, TABLE);
    await scene.api.get(scene.in('configmaps'), {}, TABLE);
    await scene.api.get(scene.in('configmaps', 'm0'), {}, TABLE);
    for (const kind of ['secrets', 'events', 'pods', 'coordination.k8s.io/v1/leases', 'policy/v1/poddisruptionbudgets']) {
      await scene.api.get(scene.in(kind), { limit: '1' }, TABLE);
    }
    await scene.api.get('/api/v1/nodes', { fieldSelector: 'metadata.name=none' }, TABLE);
    await scene.api.get('/api/v1/namespaces', { fieldSelector: `metadata.name=${scene.ns}` }, TABLE);
    await scene.api.get('/apis/certificates.k8s.io/v1/certificatesigningrequests', { fieldSelector: 'metadata.name=none' }, TABLE);
    await scene.api.get(
      '/apis/apiextensions.k8s.io/v1/customresourcedefinitions',
      { fieldSelector: 'metadata.name=widgets.example.io' },
      TABLE,
    );
  });

  it('an answer comes in a language that the client takes', async (scene) => {
    await maps(scene, 1);
    const go = 'application/vnd.kubernetes.protobuf,application/json';
    expect((await scene.api.get(scene.in(WIDGET), {}, { accept: go })).status).toBe(200);
    expect(
      (await scene.api.get(scene.in('configmaps'), {}, { accept: 'application/json;as=Table;v=v1;g=meta.k8s.io,application/json' })).body[
        'kind'
      ],
    ).toBe('Table');
    expect((await scene.api.get(scene.in('configmaps'), {}, { accept: 'text/html' })).status).toBe(406);
    await scene.api.get(scene.in('configmaps'), {}, { accept: '*/*' });
    await scene.api.get(scene.in('configmaps'), {}, { accept: 'application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io' });
    await scene.api.get(scene.in('configmaps', 'm0'), {}, { accept: 'application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io' });
    await scene.api.get(scene.in(WIDGET), {}, { accept: 'application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io' });
    await scene.api.get(scene.in('configmaps'), {}, { accept: 'application/json;as=Nothing;v=v1;g=meta.k8s.io' });
  });
});
