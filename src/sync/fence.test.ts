import { beforeEach, describe, expect, it } from 'vitest';
import { Clusters, type Cluster } from '../api/cluster.ts';
import { API_VERSION } from '../api/kind.ts';
import { createClient } from '../kube/http-client.ts';
import { fakeApiServer, statusResponse, type FakeApiServer } from '../kube/testing/api-server.ts';
import { openFence, type Fence } from './fence.ts';

const { signal } = new AbortController();
let server: FakeApiServer;
beforeEach(() => {
  server = fakeApiServer();
  for (const name of ['a', 'b']) put(name);
});

const put = (name: string, status: NonNullable<Cluster['status']> = {}) =>
  server.put(Clusters, { apiVersion: API_VERSION, kind: 'Cluster', metadata: { name }, spec: {}, status });
const fenceOf = (isOurs?: () => Promise<boolean>): Fence => openFence({ client: createClient(server.transport), signal, isOurs });
const stored = () => server.objects(Clusters);
const epochs = (): (number | undefined)[] => stored().map(({ status }) => status?.epoch);
const cluster = (epoch?: number): Cluster => ({
  apiVersion: API_VERSION,
  kind: 'Cluster',
  metadata: { name: 'x' },
  spec: {},
  ...(epoch === undefined ? {} : { status: { epoch } }),
});
const writes = (): number => server.requests.filter(({ method }) => method === 'PATCH').length;

describe('E14: the fence of a term', () => {
  it('is on every Cluster before it is up, costs one write each, and none after', async () => {
    const fence = fenceOf();
    await fence.raise([]);
    expect(epochs()).toEqual([fence.epoch, fence.epoch]);
    const sent = server.requests.length;
    await fence.raise(stored());
    expect([writes(), server.requests.length - sent]).toEqual([2, 0]);
  });

  it('is above that of each term before, and leaves what else is known of a Cluster', async () => {
    put('a', { epoch: 1_000_000, units: [{ unit: 'u', fleet: 'main', digest: 'd' }] });
    const [first, second] = [fenceOf(), fenceOf()];
    await first.raise([]);
    await second.raise([]);
    expect(first.epoch).toBeGreaterThan(1_000_000);
    expect(second.epoch).toBeGreaterThan(first.epoch);
    expect(stored()[0]?.status).toEqual({ epoch: second.epoch, units: [{ unit: 'u', fleet: 'main', digest: 'd' }] });
  });

  it('is above that of a term that has written nothing yet', async () => {
    const [early, late] = [fenceOf(), fenceOf()];
    server.intercept(({ method }) => (method === 'PATCH' ? statusResponse(500, 'InternalError') : undefined));
    await expect(early.raise([])).rejects.toMatchObject({ status: 500 });
    // Between the two the Lease is written, by the later one.
    put('c');
    await expect(late.raise([])).rejects.toMatchObject({ status: 500 });
    expect(late.epoch).toBeGreaterThan(early.epoch);
  });

  it('is put on a Cluster that was made since', async () => {
    const fence = fenceOf();
    await fence.raise([]);
    put('c');
    await fence.raise(stored());
    expect(epochs()).toEqual([fence.epoch, fence.epoch, fence.epoch]);
    expect(writes()).toBe(3);
  });

  it('passes what bears no number, a lower one or its own, and stops at a higher one', async () => {
    const fence = fenceOf();
    await fence.raise([]);
    for (const epoch of [undefined, fence.epoch - 1, fence.epoch]) expect(() => fence.require(cluster(epoch))).not.toThrow();
    expect(() => fence.require(cluster(fence.epoch + 1))).toThrow(expect.objectContaining({ code: 'Deposed' }));
  });

  it('stands over a Cluster that was written since it was read, and one that is gone', async () => {
    const fence = fenceOf();
    let met = 0;
    server.intercept(({ method, path }) => {
      if (method !== 'PATCH') return undefined;
      met += 1;
      if (path.endsWith('/a/status') && met <= 2) put('a', { units: [{ unit: 'u', fleet: 'main' }] });
      if (path.endsWith('/b/status')) server.remove(Clusters, { name: 'b' });
      return undefined;
    });
    await fence.raise([]);
    expect(stored().map(({ metadata, status }) => [metadata.name, status])).toEqual([
      ['a', { epoch: fence.epoch, units: [{ unit: 'u', fleet: 'main' }] }],
    ]);
  });

  it.each([
    [422, 'Invalid'],
    [413, 'RequestEntityTooLarge'],
    [400, 'BadRequest'],
  ])('is up without a Cluster whose status cannot be written (%d), and is tried there again', async (status, reason) => {
    const fence = fenceOf();
    let refuses = true;
    server.intercept(({ method, path }) =>
      refuses && method === 'PATCH' && path.endsWith('/a/status') ? statusResponse(status, reason) : undefined,
    );
    await fence.raise([]);
    expect(epochs()).toEqual([undefined, fence.epoch]);
    refuses = false;
    await fence.raise(stored());
    expect(epochs()).toEqual([fence.epoch, fence.epoch]);
  });

  it('is not raised where the Lease is held by another, and nothing is written', async () => {
    const fence = fenceOf(async () => false);
    await expect(fence.raise([])).rejects.toMatchObject({ code: 'Deposed' });
    expect(writes()).toBe(0);
  });

  it('is not raised over that of a term that began since the Clusters were listed', async () => {
    const next = fenceOf();
    let held = true;
    const fence = fenceOf(async () => held);
    server.intercept(async ({ method }) => {
      if (method !== 'PATCH' || !held) return undefined;
      held = false;
      put('c');
      await next.raise([]);
      return undefined;
    });
    await expect(fence.raise([])).rejects.toMatchObject({ code: 'Deposed' });
    await expect(fence.raise([])).rejects.toMatchObject({ code: 'Deposed' });
    expect(new Set(epochs())).toEqual(new Set([next.epoch]));
  });

  it('is raised again by the term that isOurs the Lease, where a Cluster bears a higher number all the same', async () => {
    const fence = fenceOf(async () => true);
    await fence.raise([]);
    put('a', { epoch: 1_000_000 });
    expect(() => stored().forEach((each) => fence.require(each))).toThrow(expect.objectContaining({ code: 'Deposed' }));
    await fence.raise([]);
    expect(fence.epoch).toBe(1_000_001);
    expect(epochs()).toEqual([1_000_001, 1_000_001]);
  });
});
