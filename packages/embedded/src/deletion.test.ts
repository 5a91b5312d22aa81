import { beforeEach, describe, expect, it } from 'vitest';
import { closeRig, openRig, pick, text, type Answer, type Rig } from './testing/rig.ts';
import { configMap, defineWidgets, MAPS, WIDGET_PATH as W, widget } from './testing/widgets.ts';

let rig: Rig;

beforeEach(async () => {
  rig = await openRig();
  await defineWidgets(rig.api);
  return () => closeRig(rig);
});

const at = (answer: Answer, path: string) => pick(answer.body, path);

describe('a deletion', () => {
  it('takes effect at once, and reports what was deleted', async () => {
    const made = await rig.api.create(W, widget('a'));
    const gone = await rig.api.remove(`${W}/a`);
    expect(gone.body).toMatchObject({
      kind: 'Status',
      status: 'Success',
      details: { name: 'a', group: 'example.io', kind: 'widgets', uid: at(made, 'metadata.uid') },
    });
    expect((await rig.api.get(`${W}/a`)).status).toBe(404);
    expect((await rig.api.remove(`${W}/a`)).status).toBe(404);
  });

  it('waits for finalizers: the object is marked, counted as changed, and goes with the last of them', async () => {
    await rig.api.create(W, widget('a', { color: 'red' }, { finalizers: ['x.io/one', 'x.io/two'] }));
    const watch = await rig.api.watch(W, { resourceVersion: rig.cluster.resourceVersion });
    const marked = await rig.api.remove(`${W}/a`);
    expect(marked.body).toMatchObject({
      kind: 'Widget',
      metadata: { deletionTimestamp: '2026-11-20T12:00:00Z', deletionGracePeriodSeconds: 0, generation: 2 },
    });
    await rig.api.merge(`${W}/a`, { metadata: { finalizers: ['x.io/two'] } });
    expect((await rig.api.get(`${W}/a`)).status).toBe(200);
    await rig.api.merge(`${W}/a`, { metadata: { finalizers: null } });
    expect((await rig.api.get(`${W}/a`)).status).toBe(404);
    expect((await watch.take(3)).map(({ type }) => type)).toEqual(['MODIFIED', 'MODIFIED', 'DELETED']);
    watch.stop();
  });

  it('asked for again changes nothing', async () => {
    await rig.api.create(W, widget('a', { color: 'red' }, { finalizers: ['x.io/one'] }));
    const first = await rig.api.remove(`${W}/a`);
    await rig.clock.advance(60_000);
    expect((await rig.api.remove(`${W}/a`)).body).toEqual(first.body);
  });

  it('under way admits no new finalizer, no new object of the name, and no taking back', async () => {
    await rig.api.create(W, widget('a', { color: 'red' }, { finalizers: ['x.io/one'] }));
    await rig.api.remove(`${W}/a`);
    const added = await rig.api.merge(`${W}/a`, { metadata: { finalizers: ['x.io/one', 'x.io/new'] } });
    expect([added.status, text(added.body['message'])]).toEqual([
      422,
      expect.stringContaining('no new finalizers can be added if the object is being deleted'),
    ]);
    expect((await rig.api.create(W, widget('a'))).body['message']).toBe('object is being deleted: widgets.example.io "a" already exists');
    expect(at(await rig.api.merge(`${W}/a`, { metadata: { deletionTimestamp: null } }), 'metadata.deletionTimestamp')).toBe(
      '2026-11-20T12:00:00Z',
    );
  });

  it('is conditioned on UID and resourceVersion when asked', async () => {
    const made = await rig.api.create(W, widget('a'));
    const uid = await rig.api.remove(`${W}/a`, { kind: 'DeleteOptions', apiVersion: 'v1', preconditions: { uid: 'other' } });
    expect([uid.status, text(uid.body['message'])]).toEqual([
      409,
      expect.stringContaining('the UID in the precondition (other) does not match'),
    ]);
    expect((await rig.api.remove(`${W}/a`, { preconditions: { resourceVersion: '1' } })).status).toBe(409);
    const version = text(at(made, 'metadata.resourceVersion'));
    expect(
      (await rig.api.remove(`${W}/a`, { preconditions: { resourceVersion: version, uid: text(at(made, 'metadata.uid')) } })).status,
    ).toBe(200);
  });

  it.each([
    [{ propagationPolicy: 'Sideways' }, 422],
    [{ dryRun: ['Some'] }, 422],
    [{ gracePeriodSeconds: 'soon' }, 400],
    [{ kind: 'Pod' }, 400],
    [{ orphanDependents: true, propagationPolicy: 'Orphan' }, 422],
  ])('with %j is refused with %i', async (options, status) => {
    await rig.api.create(W, widget('a'));
    expect((await rig.api.remove(`${W}/a`, options)).status).toBe(status);
    expect((await rig.api.get(`${W}/a`)).status).toBe(200);
  });

  it('of a collection takes what a list would show', async () => {
    for (const [name, app] of [
      ['a', 'x'],
      ['b', 'x'],
      ['c', 'y'],
    ] as const)
      await rig.api.create(MAPS, configMap(name, {}, { labels: { app } }));
    const gone = await rig.api.remove(MAPS, undefined, { labelSelector: 'app=x' });
    expect([gone.status, gone.body['kind']]).toEqual([200, 'ConfigMapList']);
    const left = await rig.api.get(MAPS);
    expect(pick(left.body, 'items.0.metadata.name')).toBe('c');
    expect(pick(left.body, 'items.1')).toBeUndefined();
  });
});

const PODS = '/api/v1/namespaces/default/pods';

const pod = (name: string, nodeName?: string) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name },
  spec: { ...(nodeName === undefined ? {} : { nodeName }), containers: [{ name: 'c', image: 'i' }] },
});

describe('a pod', () => {
  it('that runs nowhere goes at once', async () => {
    await rig.api.create(PODS, pod('a'));
    expect((await rig.api.remove(`${PODS}/a`)).body).toMatchObject({ kind: 'Pod', metadata: { deletionGracePeriodSeconds: 0 } });
    expect((await rig.api.get(`${PODS}/a`)).status).toBe(404);
  });

  it('on a node has its grace, which can be shortened and not lengthened, and goes when it is over', async () => {
    await rig.api.create(PODS, pod('a', 'n1'));
    expect(at(await rig.api.remove(`${PODS}/a`), 'metadata.deletionGracePeriodSeconds')).toBe(30);
    expect(at(await rig.api.remove(`${PODS}/a`, { gracePeriodSeconds: 10 }), 'metadata.deletionTimestamp')).toBe('2026-11-20T12:00:10Z');
    expect(at(await rig.api.remove(`${PODS}/a`, { gracePeriodSeconds: 60 }), 'metadata.deletionTimestamp')).toBe('2026-11-20T12:00:10Z');
    await rig.clock.advance(9_000);
    expect((await rig.api.get(`${PODS}/a`)).status).toBe(200);
    await rig.clock.advance(1_000);
    expect((await rig.api.get(`${PODS}/a`)).status).toBe(404);
  });

  it('that is deleted with grace 0 goes at once', async () => {
    await rig.api.create(PODS, pod('a', 'n1'));
    await rig.api.remove(`${PODS}/a`);
    expect((await rig.api.remove(`${PODS}/a`, { gracePeriodSeconds: 0 })).status).toBe(200);
    expect((await rig.api.get(`${PODS}/a`)).status).toBe(404);
  });

  it('that a kubelet is to end stays until it does', async () => {
    const real = await openRig({ podsEndedBy: 'kubelet' });
    await real.api.create(PODS, pod('a', 'n1'));
    await real.api.remove(`${PODS}/a`);
    await real.clock.advance(3_600_000);
    expect((await real.api.get(`${PODS}/a`)).status).toBe(200);
    await real.api.remove(`${PODS}/a`, { gracePeriodSeconds: 0 });
    expect((await real.api.get(`${PODS}/a`)).status).toBe(404);
    await real.cluster.close();
  });
});
