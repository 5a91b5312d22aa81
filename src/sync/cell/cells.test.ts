import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { Secrets } from '../../api/builtin.ts';
import { Clusters, type Cluster } from '../../api/cluster.ts';
import { CodedError } from '../../api/errors.ts';
import { API_VERSION } from '../../api/kind.ts';
import { CELL_KINDS } from '../../api/kinds.ts';
import { MachineSets } from '../../api/machine-set.ts';
import { SYSTEM_NAMESPACE } from '../../api/names.ts';
import type { Stored } from '../../api/wire.ts';
import { createClient } from '../../kube/http-client.ts';
import { fakeApiServer, jsonResponse, statusResponse, type FakeApiServer } from '../../kube/testing/api-server.ts';
import { fakeClock, seededRandom, type FakeClock } from '../../kube/testing/clock.ts';
import { recordingLog } from '../../kube/testing/log.ts';
import { settle, waitFor } from '../../kube/testing/wait-for.ts';
import type { Away } from './away.ts';
import { isCell, type Cell } from './cell.ts';
import { openCells, type Cells } from './cells.ts';

const KEY = { namespace: SYSTEM_NAMESPACE, name: 'cluster-prod' };
let clock: FakeClock;
let hub: FakeApiServer;
let prod: FakeApiServer;
let cluster: Stored<Cluster>;
let cells: Cells;
let changes: number;
let stopped: AbortController;
/** What discovery of the cell reports. */
let hangs: boolean;
/** What its Namespace kube-system reports, or is not asked by us. */
let systemUID: string;
let systemRefused: boolean;
let kinds: { name: string; storageVersionHash?: string }[];

beforeEach(() => {
  clock = fakeClock();
  hub = fakeApiServer();
  prod = fakeApiServer();
  kinds = CELL_KINDS.map(({ plural }) => ({ name: plural }));
  hangs = false;
  prod.intercept(({ path, signal }) => {
    if (path === '/api/v1/namespaces/kube-system') {
      if (systemRefused) return statusResponse(403, 'Forbidden');
      const metadata = { name: 'kube-system', uid: systemUID, resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z' };
      return jsonResponse(200, { apiVersion: 'v1', kind: 'Namespace', metadata });
    }
    if (hangs && path === '/apis/kubenode.io/v1alpha1')
      return new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)));
    if (path === '/apis/kubenode.io/v1alpha1') return jsonResponse(200, { resources: kinds });
    return path === '/apis/kubenode.io' ? jsonResponse(200, { versions: [{ version: 'v1beta1' }, { version: 'v1alpha1' }] }) : undefined;
  });
  systemUID = 'uid-prod';
  systemRefused = false;
  cluster = hub.put(Clusters, { apiVersion: API_VERSION, kind: 'Cluster', metadata: { name: 'prod' }, spec: {} });
  changes = 0;
  stopped = new AbortController();
  cells = openCells({
    hub: createClient(hub.transport),
    connect: (text) => {
      if (text !== 'good') return Promise.reject(new CodedError('KubeconfigInvalid', `the kubeconfig cannot be used: it is ${text}`));
      const time = { estimate: () => ({ ms: clock.now(), errorMs: 0 }) };
      return Promise.resolve({ client: createClient(prod.transport), time, close: () => Promise.resolve() });
    },
    clock,
    random: seededRandom(1),
    log: recordingLog(),
    signal: stopped.signal,
    onChange: () => void changes++,
  });
});
afterEach(async () => {
  stopped.abort(new Error('the test is over'));
  await cells.close();
});

const put = (text: string | undefined): unknown =>
  hub.put(Secrets, {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: KEY,
    data: text === undefined ? {} : { kubeconfig: Buffer.from(text).toString('base64') },
  });

async function cell(): Promise<Cell> {
  const found = await cells.of(cluster);
  if (!isCell(found)) throw new Error(found.message);
  return found;
}
async function away(): Promise<Away | undefined> {
  const found = await cells.of(cluster);
  await settle();
  return isCell(found) ? found.away() : found;
}

describe('the way to a cell', () => {
  test('is reported to be missing, with what to do, until there is one', async () => {
    expect(await away()).toEqual({
      reason: 'KubeconfigAbsent',
      message:
        'Secret kubenode-system/cluster-prod is absent; next: kubectl create secret generic cluster-prod -n kubenode-system --from-file=kubeconfig=FILE',
    });
    put(undefined);
    expect(await away()).toMatchObject({ message: expect.stringContaining('has no key "kubeconfig"') as string });
    put('nonsense');
    expect(await away()).toMatchObject({
      reason: 'KubeconfigInvalid',
      message: expect.stringMatching(
        /^Secret kubenode-system\/cluster-prod: the kubeconfig cannot be used: it is nonsense; next: kubectl/,
      ) as string,
    });
    put('good');
    expect(await away()).toBeUndefined();
  });

  test('is the one that the newest Secret names', async () => {
    put('good');
    const first = await cell();
    expect(await cell()).toBe(first);
    put('nonsense');
    expect(await away()).toMatchObject({ reason: 'KubeconfigInvalid' });
    put('good');
    expect(await cell()).not.toBe(first);
  });

  test('is one, also when two fleets ask for it at once', async () => {
    put('good');
    const [first, second] = await Promise.all([cell(), cell()]);
    expect(first).toBe(second);
    await settle();
    expect(prod.watches.open).toBe(4);
  });

  test.each([
    [401, 'Unauthorized'],
    [403, 'Forbidden'],
    [503, 'ServiceUnavailable'],
  ])('that is answered %i reports %s, and recovers', async (status, reason) => {
    put('good');
    await cell();
    await settle();
    const cancel = prod.intercept(() => statusResponse(status, reason));
    prod.watches.reset();
    await clock.advance(30_000);
    expect(await away()).toMatchObject({ reason, message: expect.stringMatching(/^machinecomponentsets\.kubenode\.io: GET/) as string });
    cancel();
    await clock.advance(60_000);
    expect(await away()).toBeUndefined();
  });
});

describe('E15: a cell that is another than the one that is known', () => {
  const known = (status: NonNullable<Cluster['status']>, spec: Cluster['spec'] = {}): void => {
    cluster = { ...cluster, spec, status };
  };

  test('is away, with what to do, and nothing is written there', async () => {
    known({ cellUID: 'uid-before' });
    put('good');
    await cell();
    await settle();
    const { reason, message } = (await away()) ?? {};
    expect(reason).toBe('CellReplaced');
    expect(message).toContain('its Namespace kube-system has UID uid-prod, and not uid-before');
    expect(message).toContain("commit `cellUID: 'uid-prod'` for it in fleet/");
    await expect((await cell()).content.requireWritable()).rejects.toMatchObject({ code: 'CellReplaced' });
  });

  test('is the one that is meant where a commit reports it', async () => {
    known({ cellUID: 'uid-before' }, { cellUID: 'uid-prod' });
    put('good');
    await cell();
    await settle();
    expect([await away(), (await cell()).uid()]).toEqual([undefined, 'uid-prod']);
    known({ cellUID: 'uid-prod' }, { cellUID: 'uid-other' });
    expect(await away()).toMatchObject({ reason: 'CellReplaced' });
  });

  test('is seen before the next write, where the server was made again behind one address', async () => {
    known({ cellUID: 'uid-prod' });
    put('good');
    const one = await cell();
    await settle();
    await one.content.requireWritable();
    systemUID = 'uid-new';
    await expect(one.content.requireWritable()).rejects.toMatchObject({ code: 'CellReplaced' });
    expect(await away()).toMatchObject({ reason: 'CellReplaced' });
  });

  test('is not handed out before it was asked which one it is', async () => {
    put('good');
    const found = await cells.of(cluster);
    expect(isCell(found) && [found.uid(), found.away()]).toEqual(['uid-prod', undefined]);
  });

  test('that hangs is waited for once, and is away', async () => {
    put('good');
    hangs = true;
    const opening = cells.of(cluster);
    await settle();
    await clock.advance(5000);
    const found = await opening;
    expect(isCell(found) && found.away()).toMatchObject({ reason: 'Unreachable' });
    expect(await cells.of(cluster)).toBe(found);
  });

  test('that may not be asked is away with the reason, and is asked until it answers', async () => {
    systemRefused = true;
    put('good');
    await cell();
    await settle();
    expect(await away()).toMatchObject({ reason: 'Forbidden' });
    systemRefused = false;
    const before = changes;
    await clock.advance(5000);
    await settle();
    expect(await away()).toBeUndefined();
    expect(changes).toBeGreaterThan(before);
  });
});

describe('what a cell has reported', () => {
  test('is trusted for 150 s after its server sent something, as the controllers of a cell trust their caches', async () => {
    put('good');
    const found = await cell();
    await clock.advance(1000);
    expect(found.away()).toBeUndefined();
    // Its watches stay open and bring nothing, and what else is asked of its stores has no answer. Its probe has one.
    prod.watches.stall();
    prod.intercept(({ path, signal }) =>
      path.includes('machinesets') ? new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason))) : undefined,
    );
    await clock.advance(148_000);
    expect(found.away()).toBeUndefined();
    await clock.advance(3000);
    expect(found.away()).toEqual({
      reason: 'Unreachable',
      message: 'machinesets.kubenode.io: the server sent nothing for more than 150 s',
    });
  });
});

describe('the kinds of a cell', () => {
  test('that are newer, or absent, make it away, with the reason, until they are those that this hub knows', async () => {
    put('good');
    const found = await cell();
    await found.content.requireWritable();
    kinds = kinds.map(({ name }) => (name === 'machinesets' ? { name, storageVersionHash: 'AAAAAAAAAAA=' } : { name }));
    await clock.advance(5000);
    await expect(found.content.requireWritable()).rejects.toMatchObject({ code: 'KindsNewer' });
    expect(found.away()).toMatchObject({
      reason: 'KindsNewer',
      message: expect.stringMatching(
        /^machinesets of kubenode\.io are kept in v1beta1.*nothing is written; next: upgrade this hub$/,
      ) as string,
    });
    expect(changes).toBeGreaterThan(0);
    kinds = [];
    await clock.advance(5000);
    await away();
    expect(await away()).toMatchObject({ reason: 'KindsAbsent', message: expect.stringContaining('kubenode install --cell') as string });
    kinds = CELL_KINDS.map(({ plural }) => ({ name: plural }));
    await clock.advance(5000);
    await away();
    expect(await away()).toBeUndefined();
    await found.content.requireWritable();
  });

  test('are asked for soon where they were asked for a moment before the cell went away, though no turn of the hub follows', async () => {
    put('good');
    const found = await cell();
    await found.content.requireWritable();
    await settle();
    const cancel = prod.intercept(({ path }) => (path.includes('machinesets') ? statusResponse(410, 'Expired') : undefined));
    kinds = kinds.map(({ name }) => (name === 'machinesets' ? { name, storageVersionHash: 'AAAAAAAAAAA=' } : { name }));
    prod.watches.reset();
    await clock.advance(2000);
    // The one turn that its going away leads to.
    expect(await away()).toMatchObject({ reason: 'Expired' });
    const before = changes;
    await clock.advance(5000);
    expect(found.away()).toMatchObject({ reason: 'KindsNewer' });
    expect(changes).toBeGreaterThan(before);
    cancel();
  });

  test('are asked for once by all who want to write at one time', async () => {
    put('good');
    const found = await cell();
    await settle();
    const before = prod.requests.length;
    await Promise.all([found.content.requireWritable(), found.content.requireWritable(), found.content.requireWritable()]);
    // Its kinds, and which cluster it is.
    expect(prod.requests.length - before).toBe(2);
  });

  test('that cannot be asked for are not taken for good ones, and no other cluster waits for the answer', async () => {
    put('good');
    const found = await cell();
    await settle();
    hangs = true;
    const asked = found.content.requireWritable();
    const refused = expect(asked).rejects.toMatchObject({ code: 'Unreachable' });
    expect(isCell(await cells.of(cluster))).toBe(true);
    await clock.advance(5000);
    await refused;
  });
});

describe('E16: a cell', () => {
  test('that asks to be left alone for a year is tried again within a minute', async () => {
    const cancel = prod.intercept(({ path }) =>
      path.endsWith('/machinesets') ? statusResponse(429, 'TooManyRequests', 'go away', { 'retry-after': '31536000' }) : undefined,
    );
    put('good');
    const found = await cell();
    await waitFor(() => found.away()?.reason === 'TooManyRequests');
    cancel();
    await clock.advance(60_000);
    expect([found.away(), found.synced()]).toEqual([undefined, true]);
  });

  test('of which each kind alone is small enough is away where all together are too large', async () => {
    const parts = Array.from({ length: 200_000 }, () => ({}));
    const large = (plural: string, kind: string, spec: object): void => {
      const metadata = { name: 'a', namespace: 'web', uid: kind, resourceVersion: '100', creationTimestamp: '2026-01-01T00:00:00Z' };
      const items = [{ apiVersion: API_VERSION, kind, metadata: { ...metadata, ownerReferences: parts }, spec }];
      prod.intercept(({ path, query }) =>
        path.endsWith(`/${plural}`) && query?.['watch'] === undefined
          ? jsonResponse(200, { metadata: { resourceVersion: '100' }, items })
          : undefined,
      );
    };
    large('machinesets', 'MachineSet', { provider: { name: 'none' } });
    put('good');
    const found = await cell();
    await waitFor(() => found.synced(), { deadlineMs: 10_000 });
    expect(found.away()).toBe(undefined);
    large('defenderpolicies', 'DefenderPolicy', { limits: [] });
    found.content.store('DefenderPolicy')?.relist();
    await waitFor(() => found.away() !== undefined, { deadlineMs: 10_000 });
    expect(found.away()).toEqual({ reason: 'StoreTooLarge', message: expect.stringContaining('134217728 bytes of memory') as unknown });
  });
});

describe('E16: a cell that sends watch events without end', () => {
  const MIB = 1024 ** 2;
  /** How many events of 1 MiB each watch of machine sets was sent, until it was closed. */
  let sent: number[];

  async function* flood(signal: AbortSignal | undefined): AsyncGenerator<Uint8Array, void> {
    const watch = sent.push(0) - 1;
    const metadata = { name: 'f', namespace: 'web', uid: 'u', resourceVersion: '900', annotations: { pad: 'x'.repeat(MIB) } };
    const object = { apiVersion: API_VERSION, kind: 'MachineSet', metadata, spec: { provider: { name: 'none' } } };
    const line = Buffer.from(`${JSON.stringify({ type: 'MODIFIED', object })}\n`);
    // So that a hub which takes all of it comes to an end here.
    for (let event = 0; event < 200; event += 1) {
      if (signal?.aborted === true) return;
      sent[watch] = event + 1;
      yield line;
      await settle();
    }
  }

  test('is away, its watches are closed, and none is opened before it is tried again', async () => {
    sent = [];
    let floods = true;
    prod.intercept(({ path, query, signal }) =>
      floods && path.endsWith('/machinesets') && query?.['watch'] !== undefined
        ? { status: 200, headers: {}, body: flood(signal) }
        : undefined,
    );
    put('good');
    const found = await cell();
    await waitFor(() => found.away()?.reason === 'SendsTooMuch' || sent[0] === 200, { deadlineMs: 20_000 });
    expect(found.away()).toEqual({ reason: 'SendsTooMuch', message: expect.stringContaining('more than 128 MiB') as unknown });
    expect([sent.length, sent[0]]).toEqual([1, 128]);
    const watches = (): number => prod.requests.filter(({ path, query }) => path.endsWith('/machinesets') && query?.['watch']).length;
    expect(watches()).toBe(1);
    await clock.advance(2400);
    expect([watches(), found.away()?.reason]).toEqual([1, 'SendsTooMuch']);
    // It is tried again, and takes no more than has come to it meanwhile.
    await clock.advance(2700);
    expect([found.away(), found.isOnTrial()]).toEqual([undefined, true]);
    await waitFor(() => found.away()?.reason === 'SendsTooMuch', { deadlineMs: 20_000 });
    expect(sent[1]).toBeLessThan(25);
    floods = false;
    await clock.advance(200_000);
    expect([found.away(), found.isOnTrial(), watches() > 2]).toEqual([undefined, false, true]);
  });

  test('of little each wakes the hub now and then, and not with each', async () => {
    put('good');
    await cell();
    await clock.advance(10_000);
    changes = 0;
    const events = async (count: number): Promise<void> => {
      for (let event = 0; event < count; event += 1) {
        prod.put(MachineSets, {
          apiVersion: API_VERSION,
          kind: 'MachineSet',
          metadata: { namespace: 'web', name: 'a', annotations: { event: `${clock.now()} ${event}` } },
          spec: { provider: { name: 'none' } },
        });
        await settle();
      }
    };
    await events(1);
    await waitFor(() => changes === 1);
    for (let second = 0; second < 60; second += 1) {
      await events(20);
      await clock.advance(1000);
    }
    expect(changes).toBeLessThan(200);
    // What came last is not kept back for long.
    changes = 0;
    await events(1);
    await clock.advance(600);
    expect(changes).toBeGreaterThan(0);
  });
});
