import { beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '@kubenode/api-machinery/wire';
import { openRig, pick, text, type Rig, type WatchLine } from './testing/rig.ts';
import { settled } from './testing/clock.ts';
import { configMap, DEFINITION_PATH, defineWidgets, MAPS, WIDGET_PATH as W, widget } from './testing/widgets.ts';

let rig: Rig;

beforeEach(async () => {
  rig = await openRig({ history: 100 });
  return () => rig.cluster.close();
});

const shown = ({ type, object }: WatchLine) => `${type} ${text(pick(object, 'metadata.name'))}`;
const version = ({ object }: WatchLine) => Number(pick(object, 'metadata.resourceVersion'));
const label = (app: string) => ({ metadata: { labels: { app } } });

describe('a watch', () => {
  it.each([{}, { resourceVersion: '0' }])('with %j first shows what is there as ADDED, then what comes', async (query) => {
    await rig.api.create(MAPS, configMap('a'));
    const watch = await rig.api.watch(MAPS, query);
    await rig.api.create(MAPS, configMap('b'));
    await rig.api.merge(`${MAPS}/a`, { data: { x: '1' } });
    await rig.api.remove(`${MAPS}/a`);
    const lines = await watch.take(4);
    expect(lines.map(shown)).toEqual(['ADDED a', 'ADDED b', 'MODIFIED a', 'DELETED a']);
    const versions = lines.map(version);
    expect(versions).toEqual(versions.toSorted((a, b) => a - b));
    expect(String(versions[3])).toBe(rig.cluster.resourceVersion);
    watch.stop();
  });

  it('from a resourceVersion shows only what came after, with nothing missing or twice', async () => {
    await rig.api.create(MAPS, configMap('a'));
    const then = rig.cluster.resourceVersion;
    await rig.api.merge(`${MAPS}/a`, { data: { x: '1' } });
    const watch = await rig.api.watch(MAPS, { resourceVersion: then });
    await rig.api.merge(`${MAPS}/a`, { data: { x: '2' } });
    expect((await watch.take(2)).map(({ object }) => pick(object, 'data.x'))).toEqual(['1', '2']);
    watch.stop();
  });

  it('shows an object that comes to match as ADDED, and one that ceases to as DELETED: its old body at the new version', async () => {
    await rig.api.create(MAPS, configMap('a', { v: 'old' }));
    const watch = await rig.api.watch(MAPS, { labelSelector: 'app=x', resourceVersion: rig.cluster.resourceVersion });
    await rig.api.merge(`${MAPS}/a`, label('x'));
    await rig.api.merge(`${MAPS}/a`, { data: { v: 'middle' } });
    await rig.api.merge(`${MAPS}/a`, { ...label('y'), data: { v: 'new' } });
    const left = rig.cluster.resourceVersion;
    await rig.api.merge(`${MAPS}/a`, { data: { v: 'unseen' } });
    await rig.api.merge(`${MAPS}/a`, label('x'));
    const lines = await watch.take(4);
    expect(lines.map(({ type }) => type)).toEqual(['ADDED', 'MODIFIED', 'DELETED', 'ADDED']);
    expect(lines[2]?.object).toMatchObject({ data: { v: 'middle' }, metadata: { labels: { app: 'x' }, resourceVersion: left } });
    watch.stop();
  });

  it('replays such transitions from history too', async () => {
    await rig.api.create(MAPS, configMap('a', {}, { labels: { app: 'x' } }));
    const then = rig.cluster.resourceVersion;
    await rig.api.merge(`${MAPS}/a`, label('y'));
    const watch = await rig.api.watch(MAPS, { labelSelector: 'app=x', resourceVersion: then });
    expect((await watch.take(1)).map(shown)).toEqual(['DELETED a']);
    watch.stop();
  });

  it('of one name or field sees nothing of others', async () => {
    await defineWidgets(rig.api);
    const from = { resourceVersion: rig.cluster.resourceVersion };
    const byName = await rig.api.watch(W, { ...from, fieldSelector: 'metadata.name=b' });
    const byColor = await rig.api.watch('/apis/example.io/v1/widgets', { ...from, fieldSelector: 'spec.color=blue' });
    await rig.api.create(W, widget('a'));
    await rig.api.create(W, widget('b'));
    await rig.api.merge(`${W}/a`, { spec: { color: 'blue' } });
    await rig.api.merge(`${W}/b`, { spec: { color: 'blue' } });
    expect((await byName.take(2)).map(shown)).toEqual(['ADDED b', 'MODIFIED b']);
    expect((await byColor.take(2)).map(shown)).toEqual(['ADDED a', 'ADDED b']);
    byName.stop();
    byColor.stop();
  });

  it('too old is answered 200 with an ERROR event that carries 410, and ends', async () => {
    await rig.api.create(MAPS, configMap('a'));
    const then = rig.cluster.resourceVersion;
    for (let n = 0; n < 200; n++) await rig.api.merge(`${MAPS}/a`, { data: { n: String(n) } });
    const watch = await rig.api.watch(MAPS, { resourceVersion: then });
    expect(watch.status).toBe(200);
    const lines = await watch.rest();
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatchObject({ type: 'ERROR', object: { kind: 'Status', code: 410, reason: 'Expired' } });
  });

  it('ends after its timeout, with a bookmark for those who want one', async () => {
    const watch = await rig.api.watch(MAPS, {
      timeoutSeconds: '5',
      allowWatchBookmarks: 'true',
      resourceVersion: rig.cluster.resourceVersion,
    });
    await rig.clock.advance(5000);
    const lines = await watch.rest();
    expect(lines.map(({ type }) => type)).toEqual(['BOOKMARK']);
    expect(rig.cluster.watches).toBe(0);
  });

  it('without a timeout ends between half an hour and an hour', async () => {
    await rig.api.watch(MAPS, {});
    await rig.clock.advance(30 * 60_000 - 1000);
    expect(rig.cluster.watches).toBe(1);
    await rig.clock.advance(31 * 60_000);
    expect(rig.cluster.watches).toBe(0);
  });

  it('gets a bookmark each minute: kind and resourceVersion, and nothing older after it', async () => {
    const watch = await rig.api.watch(MAPS, { allowWatchBookmarks: 'true', resourceVersion: rig.cluster.resourceVersion });
    await rig.api.create('/api/v1/nodes', { apiVersion: 'v1', kind: 'Node', metadata: { name: 'n' } });
    await rig.clock.advance(60_000);
    expect(await watch.next()).toEqual({
      type: 'BOOKMARK',
      object: { kind: 'ConfigMap', apiVersion: 'v1', metadata: { resourceVersion: rig.cluster.resourceVersion } },
    });
    await rig.api.create(MAPS, configMap('a'));
    expect((await watch.next())?.type).toBe('ADDED');
    watch.stop();
  });

  it('gets no bookmark unasked', async () => {
    const watch = await rig.api.watch(MAPS, { timeoutSeconds: '90' });
    await rig.clock.advance(90_000);
    expect(await watch.rest()).toEqual([]);
  });

  it('with sendInitialEvents closes the initial state with a bookmark', async () => {
    await rig.api.create(MAPS, configMap('a'));
    const query = { sendInitialEvents: 'true', resourceVersionMatch: 'NotOlderThan', allowWatchBookmarks: 'true' };
    const watch = await rig.api.watch(MAPS, query);
    await rig.api.create(MAPS, configMap('b'));
    const lines = await watch.take(3);
    expect(lines.map(({ type }) => type)).toEqual(['ADDED', 'BOOKMARK', 'ADDED']);
    expect(pick(lines[1]?.object, 'metadata.annotations')).toEqual({ 'k8s.io/initial-events-end': 'true' });
    expect(version(lines[1] as WatchLine)).toBeLessThan(version(lines[2] as WatchLine));
    watch.stop();
  });

  it('with sendInitialEvents=false starts now', async () => {
    await rig.api.create(MAPS, configMap('a'));
    const watch = await rig.api.watch(MAPS, { sendInitialEvents: 'false', resourceVersionMatch: 'NotOlderThan' });
    await rig.api.create(MAPS, configMap('b'));
    expect(shown((await watch.next()) as WatchLine)).toBe('ADDED b');
    watch.stop();
  });

  it.each([
    [{ sendInitialEvents: 'true' }, 422],
    [{ resourceVersionMatch: 'NotOlderThan' }, 422],
    [{ sendInitialEvents: 'true', resourceVersionMatch: 'Exact' }, 422],
    [{ sendInitialEvents: 'true', resourceVersionMatch: 'NotOlderThan', resourceVersion: '99999' }, 504],
    [{ resourceVersion: 'abc' }, 500],
    [{ fieldSelector: 'data.x=1' }, 400],
    [{ labelSelector: 'a b' }, 400],
  ])('with %j is refused with %i', async (query, status) => {
    expect((await rig.api.watch(MAPS, query as unknown as Record<string, string>)).status).toBe(status);
    expect(rig.cluster.watches).toBe(0);
  });

  it('that is stopped rejects its reader and is forgotten', async () => {
    const watch = await rig.api.watch(MAPS);
    const next = watch.next();
    watch.stop();
    await expect(next).rejects.toThrow('stopped');
    expect(rig.cluster.watches).toBe(0);
  });

  it('ends when its resource is no longer served, or served otherwise', async () => {
    await defineWidgets(rig.api);
    const changed = await rig.api.watch(W);
    await rig.api.json(`${DEFINITION_PATH}/widgets.example.io`, [
      { op: 'add', path: '/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/more', value: { type: 'string' } },
    ]);
    expect(await changed.rest()).toEqual([]);
    const gone = await rig.api.watch(W);
    await rig.api.remove(`${DEFINITION_PATH}/widgets.example.io`);
    await settled();
    expect(await gone.rest()).toEqual([]);
  });

  it('ends when the cluster closes', async () => {
    const watch = await rig.api.watch(MAPS);
    await rig.cluster.close();
    expect(await watch.rest()).toEqual([]);
    expect((await rig.api.get(MAPS)).status).toBe(503);
  });

  it('shares the bytes of an event with every other watch of its form', async () => {
    const transport = rig.cluster.asUser();
    const open = async () =>
      (await transport({ method: 'GET', path: MAPS, query: { watch: '1', resourceVersion: rig.cluster.resourceVersion } })).body[
        Symbol.asyncIterator
      ]();
    const [one, two] = [await open(), await open()];
    await rig.api.create(MAPS, configMap('a'));
    const [first, second] = [await one.next(), await two.next()];
    expect(first.value).toBe(second.value);
    await one.return?.();
    await two.return?.();
  });
});

describe('a watch of tables', () => {
  it('sends the columns once', async () => {
    await rig.api.create(MAPS, configMap('a'));
    const watch = await rig.api.watch(MAPS, {}, { accept: 'application/json;as=Table;v=v1;g=meta.k8s.io' });
    await rig.api.merge(`${MAPS}/a`, { data: { x: '1' } });
    const [first, second] = (await watch.take(2)) as [WatchLine, WatchLine];
    expect(first.object).toMatchObject({ kind: 'Table', rows: [{ cells: ['a', 0, '0s'] }] });
    expect((first.object['columnDefinitions'] as JsonObject[]).length).toBe(3);
    expect(second).toMatchObject({ type: 'MODIFIED', object: { columnDefinitions: null, rows: [{ cells: ['a', 1, '0s'] }] } });
    watch.stop();
  });
});
