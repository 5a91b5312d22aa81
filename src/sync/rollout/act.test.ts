import { beforeEach, describe, expect, it } from 'vitest';
import { ConfigMaps, Namespaces } from '../../api/builtin.ts';
import { Clusters } from '../../api/cluster.ts';
import { unitDigest } from '../../api/digest.ts';
import { API_VERSION } from '../../api/kind.ts';
import { MachineComponentSets } from '../../api/machinecomponentset.ts';
import type { ApiRequest, ApiResponse } from '../../api/transport.ts';
import type { KubeObject } from '../../api/wire.ts';
import { createClient } from '../../kube/httpclient.ts';
import { fakeApiServer, statusResponse, type FakeApiServer } from '../../kube/testing/apiserver.ts';
import { fakeClock, type FakeClock } from '../../kube/testing/clock.ts';
import type { StoredUnit } from '../bundles.ts';
import { CodedError } from '../../api/errors.ts';
import { REMOVAL } from '../records.ts';
import { act } from './act.ts';
import type { Step } from './world.ts';

const CELL = 'prod';
const { signal } = new AbortController();

let clock: FakeClock;
let hub: FakeApiServer;
let cell: FakeApiServer;
/** What was written, in order: `hub` for a record, else the name of the object in the cell. */
let writes: string[];

beforeEach(() => {
  clock = fakeClock();
  hub = fakeApiServer();
  cell = fakeApiServer();
  writes = [];
  hub.put(Clusters, { apiVersion: API_VERSION, kind: 'Cluster', metadata: { name: CELL }, spec: {} });
  hub.intercept(({ method }) => {
    if (method === 'PATCH') writes.push('hub');
    return undefined;
  });
  cell.intercept(({ method, path }) => {
    if (method === 'PATCH') writes.push(path.split('/').at(-1) ?? '');
    return undefined;
  });
});

const namespace: KubeObject = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'web' } };
const configMap = (name: string): KubeObject => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace: 'web', name } });
const proved = (object: KubeObject): Step => ({
  do: 'RecordEvidence',
  unit: unitOf(object),
  cluster: CELL,
  digest: unitDigest([object]),
  commit: 'c1',
  appliedAt: record(object)?.appliedAt,
  carrier: undefined,
  because: 'test',
});
const reinstated = (object: KubeObject): Step => ({
  do: 'Reinstate',
  unit: unitOf(object),
  cluster: CELL,
  digest: unitDigest([object]),
  retry: 'r1',
  because: 'test',
});
const unitOf = (object: KubeObject): string =>
  [object.kind, object.metadata.namespace, object.metadata.name].filter((part) => part !== undefined).join('/');
const apply = (object: KubeObject): Step => ({
  do: 'Apply',
  unit: unitOf(object),
  cluster: CELL,
  digest: unitDigest([object]),
  commit: 'c1',
  lane: 'Forward',
  proven: false,
  over: { digest: undefined, begun: undefined },
  asked: undefined,
  revoked: false,
  because: 'test',
});

async function carryOut(
  steps: Step[],
  objects: readonly KubeObject[] = [],
  requireKinds = (): Promise<void> => Promise.resolve(),
): Promise<Map<Step, unknown>> {
  return await act(CELL, steps, {
    hub: createClient(hub.transport),
    fleet: 'main',
    clock,
    cell: {
      name: CELL,
      client: createClient(cell.transport),
      store: () => undefined,
      resourceOf: async ({ kind }) => (kind === 'Namespace' ? Namespaces : ConfigMaps),
      away: () => undefined,
      now: () => 0,
      requireKinds,
      synced: () => true,
    },
    unit: async (digest, _commit, key): Promise<StoredUnit> => {
      const object = objects.find((each) => unitDigest([each]) === digest);
      if (object === undefined) throw new Error(`nobody can render ${key}`);
      return { key, objects: [object], origins: [undefined] };
    },
    signal,
  });
}

const records = () => hub.objects(Clusters)[0]?.status?.units ?? [];
const record = (object: KubeObject) => records().find(({ unit }) => unit === unitOf(object));

it('E3: records the intents of all units, then applies them, Namespaces first, then records all digests', async () => {
  const objects = [...Array.from({ length: 20 }, (_, index) => configMap(`c${index}`)), namespace];
  expect(await carryOut(objects.map(apply), objects)).toEqual(new Map());
  expect([writes[0], writes[1], writes.at(-1)]).toEqual(['hub', 'web', 'hub']);
  expect(writes.filter((each) => each === 'hub')).toHaveLength(2);
  expect(writes).toHaveLength(23);
  for (const object of objects) expect(record(object)).toMatchObject({ digest: unitDigest([object]), commit: 'c1', fleet: 'main' });
});

it('records no digest of a unit that could not be applied, and those of all others', async () => {
  const [good, bad, lost] = [configMap('good'), configMap('bad'), configMap('lost')];
  cell.intercept((request) => (request.method === 'PATCH' && request.path.endsWith('/bad') ? statusResponse(403, 'Forbidden') : undefined));
  const steps = [good, bad, lost].map(apply);
  const errors = await carryOut(steps, [good, bad]);
  expect([...errors.keys()]).toEqual([steps[2], steps[1]]);
  expect(record(good)?.digest).toBe(unitDigest([good]));
  // What prune may have to delete is known all the same.
  expect(record(bad)).toMatchObject({ inventory: [{ name: 'bad' }] });
  expect(record(bad)).not.toHaveProperty('digest');
  expect(record(lost)).toBeUndefined();
});

it('applies nothing whose intent could not be recorded', async () => {
  hub.intercept((request) => {
    if (request.method === 'PATCH') throw new Error('the hub is away');
    return undefined;
  });
  const objects = [configMap('a'), namespace];
  const errors = await carryOut(objects.map(apply), objects);
  expect([...errors.values()].map(String)).toEqual([
    expect.stringContaining('the hub is away'),
    expect.stringContaining('the hub is away'),
  ]);
  expect(cell.requests.filter(({ method }) => method !== 'GET')).toEqual([]);
});

it('computes records again where another wrote between, and loses nothing of it', async () => {
  const [a, b] = [configMap('a'), configMap('b')];
  await carryOut([a, b].map(apply), [a, b]);
  let meddled = false;
  hub.intercept((request) => {
    if (request.method !== 'PATCH' || meddled) return undefined;
    meddled = true;
    const [live] = hub.objects(Clusters);
    if (live !== undefined)
      hub.put(Clusters, { ...live, status: { ...live.status, units: [...records(), { unit: 'X', fleet: 'other' }] } });
    return undefined;
  });
  expect(await carryOut([a, b].map(proved))).toEqual(new Map());
  expect(record(a)?.evidence).toBe(unitDigest([a]));
  expect(record(b)?.verified).toMatchObject([{ digest: unitDigest([b]) }]);
  expect(records().map(({ unit }) => unit)).toContain('X');
});

it('writes the evidence of many units at once, and nothing when nothing differs', async () => {
  const objects = [configMap('a'), configMap('b'), configMap('c')];
  await carryOut(objects.map(apply), objects);
  writes = [];
  await carryOut(objects.map(proved));
  expect(writes).toEqual(['hub']);
  await carryOut(objects.map(reinstated));
  writes = [];
  await carryOut(objects.map(reinstated));
  expect(writes).toEqual([]);
});

it('E2: evidence that was seen on an earlier state of the object is not recorded, however late the store is', async () => {
  const object = configMap('a');
  await carryOut([apply(object)], [object]);
  const [live] = cell.objects(ConfigMaps);
  if (live === undefined) throw new Error('it was not applied');
  const { uid } = live.metadata;
  // Another content was applied and this one again: the store still shows the evidence of the first time.
  cell.put(ConfigMaps, { ...live, metadata: { ...live.metadata, generation: 7 } });
  const seenOn = (carrier: { uid: string; generation: number }): Step => ({
    ...(proved(object) as Extract<Step, { do: 'RecordEvidence' }>),
    carrier,
  });
  for (const carrier of [
    { uid, generation: 5 },
    { uid: 'another', generation: 7 },
  ]) {
    const errors = await carryOut([seenOn(carrier)]);
    expect([...errors.values()]).toMatchObject([{ code: 'Overtaken' }]);
    expect(record(object)?.evidence).toBeUndefined();
  }
  expect(await carryOut([seenOn({ uid, generation: 7 })])).toEqual(new Map());
  expect(record(object)?.evidence).toBe(unitDigest([object]));
});

it('writes nothing into a cell whose kinds are not those that it knows, nor records that it would', async () => {
  const newer = new CodedError('KindsNewer', 'machinesets are kept in v1beta1');
  const object = configMap('a');
  const evidence: Step = {
    do: 'RecordEvidence',
    unit: 'ConfigMap/b',
    cluster: CELL,
    digest: 'd',
    commit: 'c1',
    appliedAt: undefined,
    carrier: undefined,
    because: 'test',
  };
  const remove: Step = {
    do: 'Remove',
    unit: 'ConfigMap/c',
    cluster: CELL,
    commit: 'c1',
    over: { digest: undefined, begun: undefined },
    because: 'test',
  };
  const steps: Step[] = [apply(object), remove, evidence];
  expect(await carryOut(steps, [object], () => Promise.reject(newer))).toEqual(new Map(steps.slice(0, 2).map((step) => [step, newer])));
  expect(cell.requests).toEqual([]);
  expect(record(object)).toBeUndefined();
});

describe('E11: a hub that was deposed between its decision and its write', () => {
  const v1 = { ...configMap('a'), data: { version: '1' } };
  const v2 = { ...configMap('a'), data: { version: '2' } };
  const [d1, d2] = [unitDigest([v1]), unitDigest([v2])];
  const over = (digest: string | undefined, begun?: string) => ({ digest, begun });
  const applyOver = (object: KubeObject, before: ReturnType<typeof over>): Step => ({
    ...(apply(object) as Extract<Step, { do: 'Apply' }>),
    over: before,
  });
  const held = () => cell.objects(ConfigMaps)[0]?.data;
  const overtaken = (errors: Map<Step, unknown>): string[] => [...errors.values()].map((error) => (error as CodedError).code);
  /** What another hub does when the late one has come to this request. */
  function meanwhile(server: FakeApiServer, at: (request: ApiRequest) => boolean, work: () => Promise<unknown>): void {
    let done = false;
    server.intercept(async (request) => {
      if (done || !at(request)) return undefined;
      done = true;
      await work();
      return undefined;
    });
  }

  it('begins nothing where the record has gone on from what it decided by', async () => {
    await carryOut([apply(v1)], [v1]);
    await carryOut([applyOver(v2, over(d1))], [v2]);
    expect(overtaken(await carryOut([applyOver(v1, over(undefined))], [v1]))).toEqual(['Overtaken']);
    expect(held()).toEqual({ version: '2' });
  });

  it('writes nothing over what another hub has begun since, and records nothing of it', async () => {
    await carryOut([apply(v1)], [v1]);
    meanwhile(
      cell,
      ({ method, path }) => method === 'GET' && path.endsWith('/a'),
      async () => await carryOut([applyOver(v1, over(d1, d2))], [v1]),
    );
    expect(overtaken(await carryOut([applyOver(v2, over(d1))], [v1, v2]))).toEqual(['Overtaken']);
    expect(held()).toEqual({ version: '1' });
    expect(record(v1)).toMatchObject({ digest: d1 });
    expect(record(v1)).not.toHaveProperty('begun');
  });

  it('writes nothing over what another has written since it read', async () => {
    await carryOut([apply(v1)], [v1]);
    meanwhile(
      cell,
      ({ method }) => method === 'PATCH',
      async () => cell.put(ConfigMaps, { ...v1, data: { version: 'of another' } }),
    );
    expect(overtaken(await carryOut([applyOver(v2, over(d1))], [v2]))).toEqual(['Conflict']);
    expect(held()).toEqual({ version: 'of another' });
    // It is tried again, over what is there then.
    expect(record(v1)).toMatchObject({ digest: d1, begun: d2 });
  });

  it('restores nothing that was revoked since', async () => {
    await carryOut([apply(v1)], [v1]);
    await carryOut([{ do: 'Revoke', unit: unitOf(v1), cluster: CELL, digest: d2, retry: undefined, because: 'it halted elsewhere' }]);
    const restore: Step = { ...(applyOver(v2, over(d1)) as Extract<Step, { do: 'Apply' }>), lane: 'Restore' };
    expect(overtaken(await carryOut([restore], [v2]))).toEqual(['Overtaken']);
    expect(held()).toEqual({ version: '1' });
  });

  it('deletes nothing that another hub has begun to apply again', async () => {
    await carryOut([apply(v1)], [v1]);
    // The fake server keeps no labels of apply: the object is ours.
    const remove: Step = { do: 'Remove', unit: unitOf(v1), cluster: CELL, commit: 'c2', over: over(d1), because: 'test' };
    meanwhile(
      cell,
      ({ method, path }) => method === 'GET' && path.endsWith('/a'),
      async () => await carryOut([applyOver(v1, over(d1, REMOVAL))], [v1]),
    );
    expect(overtaken(await carryOut([remove]))).toEqual(['Overtaken']);
    expect(held()).toEqual({ version: '1' });
  });

  it('counts no evidence that it saw before the digest was replaced and came again', async () => {
    await carryOut([apply(v1)], [v1]);
    const late = proved(v1);
    clock.pause(1000);
    await carryOut([applyOver(v2, over(d1))], [v2]);
    await carryOut([applyOver(v1, over(d2))], [v1]);
    await carryOut([late]);
    expect(record(v1)?.evidence).toBeUndefined();
  });
});

it('waits for the ceiling to be written before it says that it is', async () => {
  const name = 'kubelet';
  cell.put(MachineComponentSets, {
    apiVersion: API_VERSION,
    kind: 'MachineComponentSet',
    metadata: { name },
    spec: { componentName: name, version: '1' },
  });
  const refusal = Promise.withResolvers<ApiResponse>();
  cell.intercept(({ method }) => (method === 'PATCH' ? refusal.promise : undefined));
  const ceiling: Step = {
    do: 'Ceiling',
    unit: `MachineComponentSet/${name}`,
    cluster: CELL,
    ceiling: { unitDigest: 'd', nodes: 0 },
    seen: { over: { digest: undefined, begun: undefined }, resourceVersion: undefined },
    because: 'test',
  };
  const carried = carryOut([ceiling]);
  refusal.resolve(statusResponse(503, 'ServiceUnavailable'));
  expect([...(await carried).keys()]).toEqual([ceiling]);
});

describe('E14: a deposed hub that is late with a ceiling or a retry writes over nothing', () => {
  const name = 'kubelet';
  const late = (over: { digest: string | undefined; begun: string | undefined }): Step[] => {
    const seen = { over, resourceVersion: cell.objects(MachineComponentSets)[0]?.metadata.resourceVersion };
    const on = { unit: `MachineComponentSet/${name}`, cluster: CELL, because: 'test', seen };
    return [
      { do: 'TryAgain', rolloutID: 'r1', ...on },
      { do: 'Ceiling', ceiling: { unitDigest: 'd', nodes: 0 }, ...on },
    ];
  };
  const put = (version: string) =>
    cell.put(MachineComponentSets, {
      apiVersion: API_VERSION,
      kind: 'MachineComponentSet',
      metadata: { name },
      spec: { componentName: name, version, rolloutID: 'r2' },
    });
  beforeEach(() => put('1'));

  it('that another has written since', async () => {
    const steps = late({ digest: undefined, begun: undefined });
    put('2');
    expect([...(await carryOut(steps)).keys()]).toEqual(steps);
    expect(cell.objects(MachineComponentSets)[0]?.spec).toMatchObject({ rolloutID: 'r2' });
  });

  it('where the record has gone on', async () => {
    const steps = late({ digest: 'd3', begun: undefined });
    expect([...(await carryOut(steps)).keys()]).toEqual(steps);
    expect(writes).toEqual([]);
  });
});
