import { beforeEach, describe, expect, it } from 'vitest';
import { names, openRig, pick, text, type Answer, type Rig } from './testing/rig.ts';
import { configMap, defineWidgets, MAPS, WIDGET_PATH as W, widget } from './testing/widgets.ts';

let rig: Rig;

beforeEach(async () => {
  rig = await openRig({ history: 100 });
  return () => rig.cluster.close();
});

const listed = (answer: Answer) => names(answer.body);
const token = (answer: Answer) => text(pick(answer.body, 'metadata.continue'));

async function make(count: number): Promise<string[]> {
  const made = Array.from({ length: count }, (_, n) => `m${String(n).padStart(4, '0')}`);
  for (const name of made) await rig.api.create(MAPS, configMap(name));
  return made;
}

describe('a list', () => {
  it('has the resourceVersion of now, and items in order', async () => {
    await rig.api.create(MAPS, configMap('b'));
    await rig.api.create(MAPS, configMap('a'));
    const { body } = await rig.api.get(MAPS);
    expect([body['kind'], body['apiVersion'], pick(body, 'metadata.resourceVersion'), names(body)]).toEqual([
      'ConfigMapList',
      'v1',
      rig.cluster.resourceVersion,
      ['a', 'b'],
    ]);
  });

  it('of a built-in kind has items without a type, of a custom one with it, as on a real server', async () => {
    await defineWidgets(rig.api);
    await rig.api.create(W, widget('a'));
    await rig.api.create(MAPS, configMap('a'));
    expect(pick((await rig.api.get(MAPS)).body, 'items.0.kind')).toBeUndefined();
    expect(pick((await rig.api.get(W)).body, 'items.0.kind')).toBe('Widget');
  });

  it('goes over one namespace or all of them', async () => {
    await rig.api.create('/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'web' } });
    await rig.api.create(MAPS, configMap('a'));
    await rig.api.create('/api/v1/namespaces/web/configmaps', configMap('b'));
    expect(listed(await rig.api.get(MAPS))).toEqual(['a']);
    expect(listed(await rig.api.get('/api/v1/configmaps'))).toEqual(['a', 'b']);
    expect(listed(await rig.api.get('/api/v1/configmaps', { fieldSelector: 'metadata.namespace=web' }))).toEqual(['b']);
  });

  it('selects by labels and fields', async () => {
    await defineWidgets(rig.api);
    await rig.api.create(W, widget('a', { color: 'red' }, { labels: { app: 'x' } }));
    await rig.api.create(W, widget('b', { color: 'blue' }, { labels: { app: 'x' } }));
    await rig.api.create(W, widget('c', { color: 'blue' }));
    expect(listed(await rig.api.get(W, { labelSelector: 'app=x' }))).toEqual(['a', 'b']);
    expect(listed(await rig.api.get(W, { fieldSelector: 'spec.color=blue' }))).toEqual(['b', 'c']);
    expect(listed(await rig.api.get(W, { fieldSelector: 'spec.color=blue,metadata.name!=b' }))).toEqual(['c']);
    expect(listed(await rig.api.get(W, { fieldSelector: 'metadata.name=a', labelSelector: '!app' }))).toEqual([]);
    const wrong = await rig.api.get(W, { fieldSelector: 'spec.replicas=1' });
    expect([wrong.status, wrong.body['message']]).toEqual([400, 'field label not supported: spec.replicas']);
    expect((await rig.api.get('/api/v1/nodes', { fieldSelector: 'metadata.namespace=x' })).status).toBe(400);
  });
});

describe('pages', () => {
  it('of 2,000 objects are all of one snapshot, with writes in between', async () => {
    await rig.cluster.close();
    rig = await openRig();
    const all = await make(2000);
    const seen: string[] = [];
    const remaining: unknown[] = [];
    let next = '';
    let version: unknown;
    do {
      const page: Answer = await rig.api.get(MAPS, { limit: '500', ...(next === '' ? {} : { continue: next }) });
      expect(page.status).toBe(200);
      seen.push(...listed(page));
      remaining.push(pick(page.body, 'metadata.remainingItemCount'));
      version ??= pick(page.body, 'metadata.resourceVersion');
      expect(pick(page.body, 'metadata.resourceVersion')).toBe(version);
      next = token(page);
      await rig.api.remove(`${MAPS}/m1999`);
      await rig.api.create(MAPS, configMap(`a${seen.length}`));
      await rig.api.merge(`${MAPS}/m1500`, { data: { changed: String(seen.length) } });
      expect(listed(page).includes('m1500') ? JSON.stringify(page.body).includes('changed') : false).toBe(false);
    } while (next !== '');
    expect(seen).toEqual(all);
    expect(remaining).toEqual([1500, 1000, 500, undefined]);
  });

  it('do not count what remains when there is a selector', async () => {
    await make(5);
    const first = await rig.api.get(MAPS, { limit: '2', labelSelector: '!x' });
    expect([pick(first.body, 'metadata.remainingItemCount'), token(first) === '']).toEqual([undefined, false]);
    const second = await rig.api.get(MAPS, { limit: '9', labelSelector: '!x', continue: token(first) });
    expect([listed(second), token(second)]).toEqual([['m0002', 'm0003', 'm0004'], '']);
  });

  it('whose snapshot is forgotten end in 410 with a token that goes on with what is there now', async () => {
    await make(4);
    const first = await rig.api.get(MAPS, { limit: '2' });
    for (let n = 0; n < 200; n++) await rig.api.merge(`${MAPS}/m0003`, { data: { n: String(n) } });
    const late = await rig.api.get(MAPS, { limit: '2', continue: token(first) });
    expect([late.status, late.body['reason']]).toEqual([410, 'Expired']);
    const rest = await rig.api.get(MAPS, { limit: '9', continue: token(late) });
    expect([rest.status, listed(rest), pick(rest.body, 'items.1.data.n')]).toEqual([200, ['m0002', 'm0003'], '199']);
  });

  it.each([
    [{ continue: 'nonsense' }, 400],
    [{ limit: 'many' }, 400],
  ])('with %j are refused with %i', async (query, status) => {
    expect((await rig.api.get(MAPS, query)).status).toBe(status);
  });
});

const both = (resourceVersion: string, resourceVersionMatch: string) => ({ resourceVersion, resourceVersionMatch });

describe('a resourceVersion', () => {
  it('asks for at least that, or with Exact for that very state', async () => {
    await rig.api.create(MAPS, configMap('a'));
    const then = rig.cluster.resourceVersion;
    await rig.api.create(MAPS, configMap('b'));
    expect(listed(await rig.api.get(MAPS, { resourceVersion: then }))).toEqual(['a', 'b']);
    expect(listed(await rig.api.get(MAPS, { resourceVersion: '0' }))).toEqual(['a', 'b']);
    expect(listed(await rig.api.get(MAPS, both(then, 'NotOlderThan')))).toEqual(['a', 'b']);
    expect(listed(await rig.api.get(MAPS, both(then, 'Exact')))).toEqual(['a']);
    expect(listed(await rig.api.get(MAPS, { resourceVersion: then, limit: '5' }))).toEqual(['a']);
  });

  it('of the future is a 504 with its reason, in lists and gets', async () => {
    await rig.api.create(MAPS, configMap('a'));
    for (const path of [MAPS, `${MAPS}/a`]) {
      const { status, body, headers } = await rig.api.get(path, { resourceVersion: '99999' });
      expect([status, body['reason'], pick(body, 'details.causes.0.reason'), headers['retry-after']]).toEqual([
        504,
        'Timeout',
        'ResourceVersionTooLarge',
        '1',
      ]);
    }
  });

  it('that is forgotten is a 410', async () => {
    await make(1);
    const then = rig.cluster.resourceVersion;
    for (let n = 0; n < 200; n++) await rig.api.merge(`${MAPS}/m0000`, { data: { n: String(n) } });
    const { status, body } = await rig.api.get(MAPS, both(then, 'Exact'));
    expect([status, body['reason']]).toEqual([410, 'Expired']);
  });

  it.each([
    [{ resourceVersionMatch: 'Exact' }, 422],
    [both('0', 'Exact'), 422],
    [both('5', 'Nearly'), 422],
    [{ resourceVersion: 'abc' }, 400],
    [{ sendInitialEvents: 'true' }, 422],
  ])('asked for as %j is refused with %i', async (query, status) => {
    expect((await rig.api.get(MAPS, query)).status).toBe(status);
  });
});
