/* oxlint-disable vitest/no-standalone-expect -- every sentence is a test */
import { expect } from 'vitest';
import { version, type Scene, type WatchLine } from './scene.ts';
import { conformance } from './suite.ts';
import { configMap, defineWidgets, WIDGET, widget } from './widgets.ts';

const types = (lines: WatchLine[]): string => lines.map(({ type }) => type).join(' ');

const first = async (scene: Scene): Promise<string> => version(await scene.unrecorded.create(scene.in('configmaps'), configMap('first')));

conformance('watch', { prepare: defineWidgets }, (it) => {
  it('a watch without a resourceVersion or from 0 begins with what is there', async (scene) => {
    await scene.unrecorded.create(scene.in(WIDGET), widget('a'));
    await scene.unrecorded.create(scene.in(WIDGET), widget('b'));
    expect(types(await scene.take(await scene.watch(scene.in(WIDGET)), 2))).toBe('ADDED ADDED');
    expect(types(await scene.take(await scene.watch(scene.in(WIDGET), { resourceVersion: '0' }), 2))).toBe('ADDED ADDED');
  });

  it('a watch from a version sends every later change, and no other', async (scene) => {
    const made = await scene.unrecorded.create(scene.in(WIDGET), widget('a'));
    const watch = await scene.watch(scene.in(WIDGET), { resourceVersion: version(made) });
    await scene.unrecorded.create(scene.in(WIDGET), widget('b'));
    await scene.unrecorded.merge(scene.in(WIDGET, 'a'), { spec: { color: 'blue' } });
    await scene.unrecorded.remove(scene.in(WIDGET, 'b'));
    expect(types(await scene.take(watch, 3))).toBe('ADDED MODIFIED DELETED');
  });

  it('what begins to match a selector is ADDED, what ceases to is DELETED with its old content', async (scene) => {
    const from = { resourceVersion: await first(scene) };
    const watch = await scene.watch(scene.in('configmaps'), { ...from, labelSelector: 'app=x' });
    const made = await scene.unrecorded.create(scene.in('configmaps'), configMap('a', { n: '1' }));
    await scene.unrecorded.merge(scene.in('configmaps', 'a'), { metadata: { labels: { app: 'x' } } });
    await scene.unrecorded.merge(scene.in('configmaps', 'a'), { data: { n: '2' } });
    const left = await scene.unrecorded.merge(scene.in('configmaps', 'a'), { metadata: { labels: { app: 'y' } }, data: { n: '3' } });
    await scene.unrecorded.merge(scene.in('configmaps', 'a'), { metadata: { labels: { app: 'x' } } });
    await scene.unrecorded.remove(scene.in('configmaps', 'a'));
    const lines = await scene.take(watch, 5);
    expect(types(lines)).toBe('ADDED MODIFIED DELETED ADDED DELETED');
    expect([lines[2]?.object['data'], version(lines[2]) === version(left), version(made) === '']).toEqual([{ n: '2' }, true, false]);
  });

  it('fields select in a watch as in a list', async (scene) => {
    const from = { resourceVersion: await first(scene) };
    const byName = await scene.watch(scene.in(WIDGET), { ...from, fieldSelector: 'metadata.name=b' });
    const byColor = await scene.watch(scene.in(WIDGET), { ...from, fieldSelector: 'spec.color=blue' });
    await scene.unrecorded.create(scene.in(WIDGET), widget('a'));
    await scene.unrecorded.create(scene.in(WIDGET), widget('b'));
    await scene.unrecorded.merge(scene.in(WIDGET, 'b'), { spec: { color: 'blue' } });
    await scene.unrecorded.merge(scene.in(WIDGET, 'b'), { spec: { color: 'green' } });
    expect(types(await scene.take(byName, 3))).toBe('ADDED MODIFIED MODIFIED');
    expect(types(await scene.take(byColor, 2))).toBe('ADDED DELETED');
  });

  it('a watch of one object by its name is one of all by field', async (scene) => {
    await scene.unrecorded.create(scene.in(WIDGET), widget('a'));
    await scene.unrecorded.create(scene.in(WIDGET), widget('b'));
    const watch = await scene.watch(scene.in(WIDGET), { fieldSelector: 'metadata.name=b' });
    expect(types(await scene.take(watch, 1))).toBe('ADDED');
  });

  it('sendInitialEvents closes the initial state with a bookmark that marks it', async (scene) => {
    await scene.unrecorded.create(scene.in(WIDGET), widget('a'));
    const query = { sendInitialEvents: 'true', resourceVersionMatch: 'NotOlderThan', allowWatchBookmarks: 'true' };
    const watch = await scene.watch(scene.in(WIDGET), query);
    const lines = await scene.take(watch, 2);
    expect(types(lines)).toBe('ADDED BOOKMARK');
    await scene.unrecorded.create(scene.in(WIDGET), widget('b'));
    expect(types(await scene.take(watch, 1))).toBe('ADDED');
    const later = await scene.watch(scene.in('configmaps'), { ...query, resourceVersion: version(lines[0]) });
    expect(types(await scene.take(later, 1))).toBe('BOOKMARK');
  });

  it('sendInitialEvents=false begins now', async (scene) => {
    await scene.unrecorded.create(scene.in(WIDGET), widget('a'));
    const watch = await scene.watch(scene.in(WIDGET), { sendInitialEvents: 'false', resourceVersionMatch: 'NotOlderThan' });
    await scene.unrecorded.create(scene.in(WIDGET), widget('b'));
    expect((await scene.take(watch, 1))[0]?.object['metadata']).toMatchObject({ name: 'b' });
  });

  it('a watch ends after its timeout, and sends nothing but bookmarks when nothing changes', async (scene) => {
    const from = { resourceVersion: await first(scene), timeoutSeconds: '2' };
    const [plain, marked] = [
      await scene.watch(scene.in('configmaps'), from),
      await scene.watch(scene.in('configmaps'), { ...from, allowWatchBookmarks: 'true' }),
    ];
    expect(types(await scene.rest(plain))).toBe('');
    const ends = await marked.rest();
    // Whether one comes within so short a time depends on the server's own clock.
    scene.see(
      'only bookmarks',
      ends.every(({ type }) => type === 'BOOKMARK'),
    );
  });

  it('a watch that cannot be is refused before it begins', async (scene) => {
    await first(scene);
    const queries: Record<string, string>[] = [
      { sendInitialEvents: 'true' },
      { resourceVersionMatch: 'NotOlderThan' },
      { sendInitialEvents: 'true', resourceVersionMatch: 'Exact' },
      { resourceVersion: 'abc' },
      { fieldSelector: 'data.x=1' },
      { labelSelector: 'a b' },
    ];
    for (const query of queries) await scene.api.get(scene.in('configmaps'), { watch: 'true', ...query });
    await scene.api.get(scene.in('gadgets'), { watch: 'true' });
  });

  it(
    'a watch of the future is refused with 504, or reports it',
    async (scene) => {
      await first(scene);
      const answer = await scene.api.get(scene.in('configmaps'), { watch: 'true', resourceVersion: '9999999', timeoutSeconds: '5' });
      expect([200, 504]).toContain(answer.status);
    },
    { within: 60 },
  );

  it('tables are watched too, with their columns in the first', async (scene) => {
    await scene.unrecorded.create(scene.in(WIDGET), widget('a'));
    const watch = await scene.watch(scene.in(WIDGET), {}, { accept: 'application/json;as=Table;v=v1;g=meta.k8s.io' });
    await scene.take(watch, 1);
    await scene.unrecorded.merge(scene.in(WIDGET, 'a'), { spec: { color: 'blue' } });
    await scene.unrecorded.remove(scene.in(WIDGET, 'a'));
    expect(types(await scene.take(watch, 2))).toBe('MODIFIED DELETED');
  });

  it('a watch of metadata only has metadata only', async (scene) => {
    await scene.unrecorded.create(scene.in(WIDGET), widget('a'));
    const watch = await scene.watch(scene.in(WIDGET), {}, { accept: 'application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io' });
    expect((await scene.take(watch, 1))[0]?.object['kind']).toBe('PartialObjectMetadata');
  });

  it('all namespaces are watched by the path without one', async (scene) => {
    const from = { resourceVersion: await first(scene) };
    const watch = await scene.watch('/apis/example.io/v1/widgets', { ...from, fieldSelector: `metadata.namespace=${scene.ns}` });
    await scene.unrecorded.create(scene.in(WIDGET), widget('a'));
    expect(types(await scene.take(watch, 1))).toBe('ADDED');
  });
});
