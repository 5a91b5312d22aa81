import { beforeEach, describe, expect, it } from 'vitest';
import { ConfigMaps, CustomResourceDefinitions, Namespaces } from '../../api/builtin.ts';
import { Clusters, type UnitStatus } from '../../api/cluster.ts';
import { unitDigest } from '../../api/digest.ts';
import { API_VERSION } from '../../api/kind.ts';
import { MachineComponentSets } from '../../api/machine-component-set.ts';
import { MachineSets } from '../../api/machine-set.ts';
import { NodeRemediers, type NodeRemedier } from '../../api/node-remedier.ts';
import type { Resource } from '../../api/resource.ts';
import type { ApiRequest, ApiResponse } from '../../api/transport.ts';
import type { KubeObject, ManagedFieldsEntry, Stored } from '../../api/wire.ts';
import { settle } from '../../kube/testing/wait-for.ts';
import { createClient } from '../../kube/http-client.ts';
import { fakeApiServer, jsonResponse, statusResponse, type FakeApiServer } from '../../kube/testing/api-server.ts';
import { fakeClock, type FakeClock } from '../../kube/testing/clock.ts';
import type { StoredUnit } from '../bundles.ts';
import { openFence, type Fence } from '../fence.ts';
import type { CellContent } from '../cell/cell.ts';
import { CodedError } from '../../api/errors.ts';
import { FINALIZERS, MANAGERS } from '../../api/names.ts';
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
/** Of the hub that carries out. */
let fence: Fence;

beforeEach(() => {
  clock = fakeClock();
  hub = fakeApiServer();
  cell = fakeApiServer();
  writes = [];
  hub.put(Clusters, { apiVersion: API_VERSION, kind: 'Cluster', metadata: { name: CELL }, spec: {} });
  fence = openFence({ client: createClient(hub.transport), signal });
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
const applies = (object: KubeObject): Extract<Step, { do: 'Apply' }> => ({
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
  found: false,
  because: 'test',
});
const apply: (object: KubeObject) => Step = applies;

function never(): never {
  throw new Error('it is gone');
}

const KNOWN: Resource[] = [Namespaces, MachineComponentSets, MachineSets, NodeRemediers, CustomResourceDefinitions];

async function carryOut(
  steps: Step[],
  objects: readonly KubeObject[] = [],
  requireWritable = (): Promise<void> => Promise.resolve(),
  { away = false, store }: { away?: boolean; store?: (kind: string) => unknown } = {},
): Promise<Map<Step, unknown>> {
  return await act(CELL, steps, {
    hub: createClient(hub.transport),
    fence,
    fleet: 'main',
    clock,
    cell: away
      ? undefined
      : {
          name: CELL,
          client: createClient(cell.transport),
          store: (kind) => store?.(kind) as ReturnType<CellContent['store']>,
          resourceOf: async ({ kind }) => KNOWN.find((each) => each.kind === kind) ?? ConfigMaps,
          now: () => clock.now(),
          requireWritable,
        },
    unit: async (digest, _commit, key): Promise<StoredUnit> => {
      const object = objects.find((each) => unitDigest([each]) === digest);
      if (object === undefined) throw new Error(`there is no render of ${key}`);
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

it('E2: evidence that the object has no more is not recorded, however late the store is', async () => {
  const set = {
    apiVersion: API_VERSION,
    kind: 'MachineComponentSet',
    metadata: { name: 'kubelet' },
    spec: { componentName: 'kubelet', version: '1' },
  };
  const digest = unitDigest([set]);
  await carryOut([apply(set)], [set]);
  const put = (halted: boolean): void => {
    const [live] = cell.objects(MachineComponentSets);
    if (live === undefined) throw new Error('it was not applied');
    const condition = {
      type: 'Halted',
      status: halted ? 'True' : 'False',
      reason: 'MaxFailed',
      message: '',
      lastTransitionTime: '',
    } as const;
    const status = { observedGeneration: 1, evidence: { unitDigest: digest, at: '2026-11-20T00:00:00Z' }, conditions: [condition] };
    cell.put(MachineComponentSets, { ...live, metadata: { ...live.metadata, generation: 1 }, status });
  };
  const uid = cell.objects(MachineComponentSets)[0]?.metadata.uid ?? '';
  const seen: Step = { ...(proved(set) as Extract<Step, { do: 'RecordEvidence' }>), carrier: { uid, generation: 1 } };
  put(true);
  expect([...(await carryOut([seen], [set])).values()]).toMatchObject([{ code: 'Overtaken' }]);
  expect(record(set)?.evidence).toBeUndefined();
  put(false);
  expect(await carryOut([seen], [set])).toEqual(new Map());
  expect(record(set)?.evidence).toBe(digest);
});

it('E2: evidence of what has more than Git gives, or cannot be compared with that, is not recorded', async () => {
  const set = {
    apiVersion: API_VERSION,
    kind: 'MachineComponentSet',
    metadata: { name: 'kubelet' },
    spec: { componentName: 'kubelet', version: '1' },
  };
  const digest = unitDigest([set]);
  await carryOut([apply(set)], [set]);
  const [live] = cell.objects(MachineComponentSets);
  if (live === undefined) throw new Error('it was not applied');
  const status = { observedGeneration: 1, evidence: { unitDigest: digest, at: '2026-11-20T00:00:00Z' } };
  const put = (more: object): void =>
    void cell.put(MachineComponentSets, {
      ...live,
      metadata: { ...live.metadata, generation: 1 },
      spec: { ...live.spec, ...more },
      status,
    });
  const carrier = { uid: live.metadata.uid, generation: 1 };
  const seen: Step = { ...(proved(set) as Extract<Step, { do: 'RecordEvidence' }>), carrier };
  put({ selector: { tier: 'web' } });
  expect([...(await carryOut([seen], [set])).values()]).toMatchObject([
    { code: 'Overtaken', message: expect.stringContaining('spec.selector') as unknown },
  ]);
  put({});
  expect((await carryOut([seen])).size).toBe(1);
  expect(record(set)?.evidence).toBeUndefined();
  // What people and rollouts write, and defaults, are no reason.
  put({ paused: true, rolloutID: 'r', maxFailed: 1 });
  expect(await carryOut([seen], [set])).toEqual(new Map());
  expect(record(set)?.evidence).toBe(digest);
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
    lane: 'Forward',
    over: { digest: undefined, begun: undefined },
    because: 'test',
  };
  const steps: Step[] = [apply(object), remove, evidence];
  expect(await carryOut(steps, [object], () => Promise.reject(newer))).toEqual(new Map(steps.slice(0, 2).map((step) => [step, newer])));
  expect(cell.requests).toEqual([]);
  expect(record(object)).toBeUndefined();
});

describe('E9: a MachineSet that is removed', () => {
  const UNIT = 'MachineSet/web/a';
  const known = {
    unit: UNIT,
    fleet: 'main',
    digest: 'd1',
    evidence: 'd1',
    verified: [{ digest: 'd1', commit: 'c1', at: '2026-11-20T00:00:00Z' }],
  };
  const removal = (begun?: string, lane: 'Forward' | 'Restore' = 'Forward'): Step => ({
    do: 'Remove',
    unit: UNIT,
    cluster: CELL,
    commit: 'c2',
    lane,
    over: { digest: 'd1', begun },
    because: 'test',
  });
  const put = (replicas: number | undefined, status: object | undefined, generation = 3, by: string = MANAGERS.sync): void => {
    const [before] = cell.objects(MachineSets);
    const stored = cell.put(MachineSets, {
      apiVersion: API_VERSION,
      kind: 'MachineSet',
      metadata: { ...before?.metadata, namespace: 'web', name: 'a', generation, labels: { 'kubenode.io/fleet': 'main' } },
      spec: { provider: { name: 'local' }, ...(replicas === undefined ? {} : { replicas }) },
      ...(status === undefined ? {} : { status }),
    });
    // The stand-in for a server keeps no managedFields.
    cell.intercept(({ method, path }) => {
      const [found] = cell.objects(MachineSets);
      if (method !== 'GET' || !path.endsWith('/machinesets/a') || found === undefined) return undefined;
      return jsonResponse(200, { ...found, metadata: { ...found.metadata, managedFields: [setBy(by)] } });
    });
    const inventory = [{ apiVersion: API_VERSION, kind: 'MachineSet', namespace: 'web', name: 'a', uid: stored.metadata.uid }];
    if (records().length === 0)
      hub.put(Clusters, {
        apiVersion: API_VERSION,
        kind: 'Cluster',
        metadata: { name: CELL },
        spec: {},
        status: { units: [{ ...known, inventory }] },
      });
  };
  const setBy = (manager: string): ManagedFieldsEntry => ({
    manager,
    operation: 'Update',
    apiVersion: API_VERSION,
    fieldsType: 'FieldsV1',
    fieldsV1: { 'f:spec': { 'f:replicas': {} } },
  });
  const left = () => cell.objects(MachineSets).map(({ spec }) => spec.replicas);
  const deletes = (): number => cell.requests.filter(({ method }) => method === 'DELETE').length;

  it.each<[string, number | undefined]>([
    ['that has machines', 4],
    ['whose number is left out', undefined],
  ])('%s lets them go first, at its own pace, and its record reports what it was', async (_what, replicas) => {
    put(replicas, { replicas: 4, observedGeneration: 3 });
    expect(await carryOut([removal()])).toEqual(new Map());
    expect([left(), deletes()]).toEqual([[0], 0]);
    expect(records()).toMatchObject([{ ...known, begun: REMOVAL, inventory: [{ name: 'a' }] }]);
  });

  it.each<[string, object]>([
    ['some are there', { replicas: 1, observedGeneration: 3 }],
    ['some are being deleted', { replicas: 0, deletingReplicas: 1, observedGeneration: 3 }],
    ['its controller has not seen it yet', { replicas: 0, observedGeneration: 2 }],
    ['its controller has noted names only', { making: ['a-1'] }],
  ])('stays while %s, and is written no more', async (_what, status) => {
    put(4, { replicas: 4, observedGeneration: 3 });
    await carryOut([removal()]);
    put(0, status);
    writes = [];
    expect(await carryOut([removal(REMOVAL)])).toEqual(new Map());
    expect([left(), deletes(), writes]).toEqual([[0], 0, []]);
    expect(records()).toMatchObject([{ digest: 'd1', begun: REMOVAL }]);
  });

  it('C8e: takes a 0 that another user wrote out of it, so that the 0 that it writes then is its own', async () => {
    put(0, { replicas: 4, observedGeneration: 3 }, 3, 'kubectl');
    expect(await carryOut([removal()])).toEqual(new Map());
    expect([left(), deletes()]).toEqual([[undefined], 0]);
    expect(await carryOut([removal(REMOVAL)])).toEqual(new Map());
    expect([left(), deletes()]).toEqual([[0], 0]);
  });

  it.each<[string, number, object | undefined]>([
    ['none is left', 0, { replicas: 0, deletingReplicas: 0, observedGeneration: 3 }],
    ['a cell that does not count what it deletes has none left', 0, { replicas: 0, observedGeneration: 3 }],
    ['none was ever made', 4, undefined],
  ])('goes when %s', async (_what, replicas, status) => {
    put(replicas, status);
    await carryOut([removal()]);
    expect([left(), deletes()]).toEqual([[], 1]);
    const { digest: _digest, ...rest } = known;
    expect(records()).toMatchObject([{ unit: rest.unit, begun: REMOVAL }]);
    expect(records()[0]).not.toHaveProperty('digest');
    await carryOut([{ ...removal(REMOVAL), over: { digest: undefined, begun: REMOVAL } } as Step]);
    const at = expect.any(String) as unknown;
    expect(records()).toEqual([{ unit: UNIT, fleet: 'main', removal: { lane: 'Forward', at, after: known.verified[0]?.at } }]);
  });

  it('E5: reports since when nothing is left also of what was just added and is taken back', async () => {
    put(0, { replicas: 0, observedGeneration: 3 });
    await carryOut([removal(undefined, 'Restore')]);
    expect(records()).toMatchObject([{ begun: REMOVAL, removal: { lane: 'Restore' } }]);
    await carryOut([{ ...removal(REMOVAL, 'Restore'), over: { digest: undefined, begun: REMOVAL } } as Step]);
    expect(records()).toMatchObject([{ fleet: 'main', removal: { at: expect.any(String) as string } }]);
    expect(records()[0]).not.toHaveProperty('begun');
  });

  it('is not emptied where another hub has begun to apply it again, or a user wrote it since it was read', async () => {
    put(4, { replicas: 4, observedGeneration: 3 });
    let changed = false;
    cell.intercept(({ method }) => {
      if (method !== 'PATCH' || changed) return undefined;
      changed = true;
      put(5, { replicas: 4, observedGeneration: 3 }, 4);
      return statusResponse(409, 'Conflict');
    });
    expect(await carryOut([removal()])).toEqual(new Map());
    expect([left(), deletes()]).toEqual([[5], 0]);
    expect(records()).toMatchObject([{ digest: 'd1', begun: REMOVAL }]);
  });
});

describe('E14: a hub that decided before the next term began', () => {
  const v1 = { ...configMap('a'), data: { version: '1' } };
  const set = {
    apiVersion: API_VERSION,
    kind: 'MachineComponentSet',
    metadata: { name: 'kubelet' },
    spec: { componentName: 'kubelet', version: '1' },
  };
  const nextTerm = async (): Promise<void> => await openFence({ client: createClient(hub.transport), signal }).raise([]);
  const codes = (errors: Map<Step, unknown>): string[] => [...errors.values()].map((error) => (error as CodedError).code);
  beforeEach(async () => {
    await fence.raise([]);
    writes = [];
  });

  it('begins nothing, though the record is as it was', async () => {
    await nextTerm();
    writes = [];
    expect(codes(await carryOut([apply(v1)], [v1]))).toEqual(['Deposed']);
    expect([writes, records(), cell.requests]).toEqual([[], [], []]);
  });

  it('begins nothing where that begins as it is about to record it', async () => {
    let met = false;
    hub.intercept(async ({ method, path, query }) => {
      if (met || method !== 'PATCH' || JSON.stringify(query).includes('epoch') || !path.endsWith('/status')) return undefined;
      met = true;
      await nextTerm();
      return undefined;
    });
    expect(codes(await carryOut([apply(v1)], [v1]))).toEqual(['Deposed']);
    expect([met, records(), cell.requests]).toEqual([true, [], []]);
  });

  it('writes nothing into the cell where that begins after it has recorded what it begins', async () => {
    let met = false;
    cell.intercept(async ({ method }) => {
      if (met || method !== 'GET') return undefined;
      met = true;
      await nextTerm();
      return undefined;
    });
    expect(codes(await carryOut([apply(v1)], [v1]))).toEqual(['Deposed']);
    expect([met, cell.objects(ConfigMaps), record(v1)?.begun]).toEqual([true, [], unitDigest([v1])]);
  });

  it.each<[string, (on: { unit: string; cluster: string; because: string; seen: Extract<Step, { do: 'Ceiling' }>['seen'] }) => Step]>([
    ['a ceiling', (on) => ({ do: 'Ceiling', ceiling: { unitDigest: 'd', nodes: 0 }, ...on })],
    ['a retry', (on) => ({ do: 'TryAgain', rolloutID: 'r1', ...on })],
    ['a set that keeps its machines', (on) => ({ do: 'KeepMachines', digest: 'd', ...on })],
  ])('writes %s no more', async (_what, stepOf) => {
    const stored = cell.put(MachineComponentSets, set);
    const seen = { over: { digest: undefined, begun: undefined }, resourceVersion: stored.metadata.resourceVersion };
    const step = stepOf({ unit: 'MachineComponentSet/kubelet', cluster: CELL, because: 'test', seen });
    await nextTerm();
    writes = [];
    expect(codes(await carryOut([step]))).toEqual(['Deposed']);
    expect(writes).toEqual([]);
  });
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
    const before = cell.requests.length;
    expect(overtaken(await carryOut([applyOver(v1, over(undefined))], [v1]))).toEqual(['Overtaken']);
    expect(held()).toEqual({ version: '2' });
    expect(cell.requests).toHaveLength(before);
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

  it('writes nothing over what another has written since it read the record again', async () => {
    await carryOut([apply(v1)], [v1]);
    const writeOf = records()[0]?.appliedAt;
    meanwhile(
      hub,
      ({ method }) => method === 'GET' && record(v1)?.begun === d2,
      async () => cell.put(ConfigMaps, { ...v1, data: { version: 'of another' } }),
    );
    expect(overtaken(await carryOut([applyOver(v2, over(d1))], [v2]))).toEqual(['Conflict']);
    expect(held()).toEqual({ version: 'of another' });
    expect(record(v1)).toMatchObject({ digest: d1, begun: d2, appliedAt: writeOf });
  });

  it('writes nothing over what another has made since it found nothing there', async () => {
    meanwhile(
      cell,
      ({ method }) => method === 'PATCH',
      async () => cell.put(ConfigMaps, { ...v1, data: { version: 'of another' } }),
    );
    expect(overtaken(await carryOut([apply(v1)], [v1]))).toEqual(['Conflict']);
    expect(held()).toEqual({ version: 'of another' });
  });

  it('brings nothing back that another has removed since it read', async () => {
    await carryOut([apply(v1)], [v1]);
    meanwhile(
      cell,
      ({ method }) => method === 'PATCH',
      async () => cell.remove(ConfigMaps, { namespace: 'web', name: 'a' }),
    );
    expect(overtaken(await carryOut([applyOver(v2, over(d1))], [v2]))).toEqual(['Conflict']);
    expect(cell.objects(ConfigMaps)).toEqual([]);
  });

  it('begins nothing that was revoked since, also forward, and goes forward with what it knew to be revoked', async () => {
    await carryOut([apply(v1)], [v1]);
    await carryOut([{ do: 'Revoke', unit: unitOf(v1), cluster: CELL, digest: d2, retry: undefined, because: 'it halted elsewhere' }]);
    expect(overtaken(await carryOut([applyOver(v2, over(d1))], [v2]))).toEqual(['Overtaken']);
    expect(held()).toEqual({ version: '1' });
    const knowing: Step = { ...(applyOver(v2, over(d1)) as Extract<Step, { do: 'Apply' }>), revoked: true };
    expect(await carryOut([knowing], [v2])).toEqual(new Map());
    expect(held()).toEqual({ version: '2' });
    expect(record(v2)).toMatchObject({ digest: d2, revoked: [d2] });
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
    const remove: Step = { do: 'Remove', unit: unitOf(v1), cluster: CELL, commit: 'c2', lane: 'Forward', over: over(d1), because: 'test' };
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

it('waits for the ceiling to be written before it reports that it is', async () => {
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

describe('what the hub records of a unit', () => {
  const object = configMap('a');
  const digest = unitDigest([object]);
  const on = { unit: unitOf(object), cluster: CELL, because: 'test' };
  const know = (more: object): void => {
    const [live] = hub.objects(Clusters);
    if (live === undefined) throw new Error('no Cluster');
    hub.put(Clusters, { ...live, status: { units: [{ unit: on.unit, fleet: 'main', digest, commit: 'c1', ...more }] } });
  };
  const at = '2026-11-19T00:00:00Z';
  const entry = { digest, commit: 'c1', at };

  it.each<[string, Step, object, object]>([
    [
      'a soak that begins again',
      { do: 'SoakAgain', digest, ...on },
      { evidence: digest, appliedAt: at, verified: [{ ...entry, at: '2027-01-01T00:00:00Z' }] },
      { verified: [{ ...entry, at: '2026-11-20T00:00:00.000Z' }] },
    ],
    [
      'a digest that others go back from',
      { do: 'Uphold', digest, ...on },
      { verified: [entry] },
      { verified: [{ ...entry, upheld: true }] },
    ],
    [
      'a digest that halted, and the end of its retry',
      { do: 'Revoke', digest, retry: 'r1', ...on },
      {},
      { revoked: [digest], retried: 'r1' },
    ],
    ['a digest that a human wants again', { do: 'Reinstate', digest, retry: 'r1', ...on }, { revoked: ['x', digest] }, { revoked: ['x'] }],
    [
      'a retry that was carried out',
      { do: 'RecordRetry', retry: 'r2', over: 'r1', lifts: true, ...on },
      { retried: 'r1' },
      { retried: 'r2' },
    ],
    [
      'a halt',
      { do: 'RecordHalt', digest, halt: { message: 'MaxFailed', refused: false, appliedAt: at, retried: 'r1' }, ...on },
      { appliedAt: at, retried: 'r1' },
      { halt: { digest, message: 'MaxFailed', since: '2026-11-20T00:00:00.000Z' } },
    ],
    ['the end of a halt, once', { do: 'Lift', digest, since: at, ...on }, { halt: { digest, message: 'MaxFailed', since: at } }, {}],
  ])('%s, also while its cell is away', async (_what, step, before, after) => {
    for (const away of [true, false]) {
      know(before);
      expect(await carryOut([step], [], undefined, { away })).toEqual(new Map());
      expect(record(object)).toMatchObject(after);
      if (step.do === 'Lift') expect(record(object)).not.toHaveProperty('halt');
    }
    expect(cell.requests).toEqual([]);
  });

  it('of a halt comes after the finalizer that keeps it, also where the hub dies between the two', async () => {
    know({ appliedAt: at });
    const halt: Step = {
      do: 'RecordHalt',
      digest,
      halt: { message: 'MaxFailed', refused: false, appliedAt: at, retried: undefined },
      ...on,
    };
    const clusterNow = () => hub.objects(Clusters)[0];
    const cut = hub.intercept(({ method, path }) => {
      if (method === 'PATCH' && path.endsWith('/status')) throw new Error('the hub dies');
      return undefined;
    });
    expect((await carryOut([halt])).size).toBe(1);
    expect([clusterNow()?.metadata.finalizers, record(object)?.halt]).toEqual([[FINALIZERS.records], undefined]);
    cut();
    expect(await carryOut([halt])).toEqual(new Map());
    expect(clusterNow()?.metadata.finalizers).toEqual([FINALIZERS.records]);
    expect(record(object)?.halt).toMatchObject({ digest });
  });

  it('of a halt of a Cluster that is being deleted already is made all the same', async () => {
    know({ appliedAt: at });
    const found = hub.objects(Clusters)[0] ?? never();
    hub.put(Clusters, { ...found, metadata: { ...found.metadata, deletionTimestamp: at, finalizers: ['example.org/other'] } });
    const halt: Step = {
      do: 'RecordHalt',
      digest,
      halt: { message: 'MaxFailed', refused: false, appliedAt: at, retried: undefined },
      ...on,
    };
    expect(await carryOut([halt])).toEqual(new Map());
    expect([hub.objects(Clusters)[0]?.metadata.finalizers, record(object)?.halt?.digest]).toEqual([['example.org/other'], digest]);
  });

  it('is nothing of what needs its cell while that is away', async () => {
    know({});
    const over = { digest, begun: undefined };
    const seen = { over, resourceVersion: undefined };
    const set = { ...on, unit: 'MachineComponentSet/kubelet', seen };
    const steps: Step[] = [
      { ...(apply(object) as Extract<Step, { do: 'Apply' }>), over },
      { do: 'Remove', commit: 'c1', lane: 'Forward', over, ...on },
      { do: 'Ceiling', ceiling: undefined, ...set },
      { do: 'TryAgain', rolloutID: 'r1', ...set },
    ];
    expect(await carryOut(steps, [object], undefined, { away: true })).toEqual(new Map());
    expect(writes).toEqual([]);
    const evidence: Step = { ...(proved(object) as Extract<Step, { do: 'RecordEvidence' }>), carrier: { uid: 'u', generation: 1 } };
    expect([...(await carryOut([evidence], [], undefined, { away: true })).values()]).toMatchObject([{ code: 'ClusterUnreachable' }]);
    expect(record(object)?.evidence).toBeUndefined();
  });

  it('needs no kinds of the cell', async () => {
    know({ appliedAt: undefined });
    const newer = (): Promise<void> => Promise.reject(new CodedError('KindsNewer', 'they are newer'));
    expect(await carryOut([proved(object)], [], newer)).toEqual(new Map());
    expect(record(object)?.evidence).toBe(digest);
  });
});

it('E2: evidence for what is in no namespace is read where it is', async () => {
  const set: KubeObject & { spec: object } = {
    apiVersion: API_VERSION,
    kind: 'MachineComponentSet',
    metadata: { name: 'kubelet' },
    spec: { componentName: 'kubelet', version: '1' },
  };
  expect(await carryOut([apply(set)], [set])).toEqual(new Map());
  const [live] = cell.objects(MachineComponentSets);
  if (live === undefined) throw new Error('it was not applied');
  const status = { observedGeneration: 1, evidence: { unitDigest: unitDigest([set]), at: '2026-11-20T00:00:00Z' } };
  cell.put(MachineComponentSets, { ...live, metadata: { ...live.metadata, generation: 1 }, status });
  const carrier = { uid: live.metadata.uid, generation: 1 };
  const evidence: Step = { ...(proved(set) as Extract<Step, { do: 'RecordEvidence' }>), carrier };
  expect(await carryOut([evidence], [set])).toEqual(new Map());
  expect(record(set)?.evidence).toBe(unitDigest([set]));
});

it('writes nothing at all into a cell that reports late which kinds it has', async () => {
  const newer = new CodedError('KindsNewer', 'machinesets are kept in v1beta1');
  const seen = { over: { digest: undefined, begun: undefined }, resourceVersion: undefined };
  const on = { unit: 'MachineComponentSet/kubelet', cluster: CELL, because: 'test', seen };
  const object = configMap('a');
  const steps: Step[] = [apply(object), { do: 'Ceiling', ceiling: undefined, ...on }, { do: 'TryAgain', rolloutID: 'r1', ...on }];
  const late = async (): Promise<void> => {
    await settle();
    throw newer;
  };
  for (const step of steps) expect(await carryOut([step], [object], late)).toEqual(new Map([[step, newer]]));
  expect(writes).toEqual([]);
});

it('makes what others need first, goes on in the order of the decision, and with eight units at once', async () => {
  const crd: KubeObject = {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: 'widgets.example.com' },
  };
  const objects = [...Array.from({ length: 20 }, (_, index) => configMap(`c${index}`)), crd, namespace];
  let [now, most] = [0, 0];
  cell.intercept(async ({ method }) => {
    if (method !== 'PATCH') return undefined;
    now += 1;
    most = Math.max(most, now);
    await settle();
    now -= 1;
    return undefined;
  });
  expect(await carryOut(objects.map(apply), objects)).toEqual(new Map());
  expect(writes.filter((each) => each !== 'hub')).toEqual([crd, namespace, ...objects.slice(0, 20)].map(({ metadata }) => metadata.name));
  expect(most).toBe(8);
});

describe('a ceiling and a retry', () => {
  const name = 'kubelet';
  const seen = () => ({
    over: { digest: undefined, begun: undefined },
    resourceVersion: cell.objects(MachineComponentSets)[0]?.metadata.resourceVersion,
  });
  const on = () => ({ unit: `MachineComponentSet/${name}`, cluster: CELL, because: 'test', seen: seen() });
  const set = {
    apiVersion: API_VERSION,
    kind: 'MachineComponentSet',
    metadata: { name },
    spec: { componentName: name, version: '1' },
  } as const;
  const spec = () => cell.objects(MachineComponentSets)[0]?.spec;
  beforeEach(() => void cell.put(MachineComponentSets, set));

  it('are written into the set, and change nothing else', async () => {
    expect(await carryOut([{ do: 'Ceiling', ceiling: { unitDigest: 'd', nodes: 0 }, ...on() }])).toEqual(new Map());
    expect(spec()).toEqual({ ...set.spec, ceiling: { unitDigest: 'd', nodes: 0 } });
    expect(await carryOut([{ do: 'TryAgain', rolloutID: 'r1', ...on() }])).toEqual(new Map());
    expect(spec()).toEqual({ ...set.spec, ceiling: { unitDigest: 'd', nodes: 0 }, rolloutID: 'r1' });
    expect(await carryOut([{ do: 'Ceiling', ceiling: undefined, ...on() }])).toEqual(new Map());
    expect(spec()).toEqual({ ...set.spec, rolloutID: 'r1' });
  });

  it('are written where the record is the one that was seen, whatever it is', async () => {
    const [live] = hub.objects(Clusters);
    if (live === undefined) throw new Error('no Cluster');
    hub.put(Clusters, { ...live, status: { units: [{ unit: `MachineComponentSet/${name}`, fleet: 'main', digest: 'd1', begun: 'd2' }] } });
    const orderOf = { ...on(), seen: { ...seen(), over: { digest: 'd1', begun: 'd2' } } };
    expect(await carryOut([{ do: 'TryAgain', rolloutID: 'r1', ...orderOf }])).toEqual(new Map());
    expect(spec()).toMatchObject({ rolloutID: 'r1' });
    for (const over of [
      { digest: 'd1', begun: undefined },
      { digest: 'd0', begun: 'd2' },
    ]) {
      const late: Step = { do: 'TryAgain', rolloutID: 'r2', ...on(), seen: { ...seen(), over } };
      expect([...(await carryOut([late])).values()]).toMatchObject([{ code: 'Overtaken' }]);
    }
    expect(spec()).toMatchObject({ rolloutID: 'r1' });
  });

  it('wait while the very set is applied, and for no other unit', async () => {
    const other = configMap('a');
    const ceiling: Step = { do: 'Ceiling', ceiling: { unitDigest: 'd', nodes: 0 }, ...on() };
    const steps = [apply(set), apply(other), ceiling];
    expect(await carryOut(steps, [set, other])).toEqual(new Map());
    expect(spec()).not.toHaveProperty('ceiling');
    const next: Step = { ...ceiling, seen: { over: { digest: unitDigest([set]), begun: undefined }, resourceVersion: undefined } };
    const again: Step = { ...(apply(other) as Extract<Step, { do: 'Apply' }>), over: { digest: unitDigest([other]), begun: undefined } };
    expect(await carryOut([again, next], [other])).toEqual(new Map());
    expect(spec()).toMatchObject({ ceiling: { nodes: 0 } });
  });
});

describe('E9: a set that keeps its machines', () => {
  const key = { namespace: 'web', name: 'web' };
  const unit = 'MachineSet/web/web';
  const set = { apiVersion: API_VERSION, kind: 'MachineSet', metadata: key, spec: { provider: { name: 'local' }, replicas: 0 } } as const;
  const spec = () => cell.objects(MachineSets)[0]?.spec;
  const keep = (over: { digest?: string; begun?: string }): Step => {
    const { resourceVersion } = cell.objects(MachineSets)[0]?.metadata ?? {};
    const seen = { over: { digest: over.digest, begun: over.begun }, resourceVersion };
    return { do: 'KeepMachines', unit, cluster: CELL, digest: 'd2', seen, because: 'test' };
  };
  const recordIs = (is: Pick<UnitStatus, 'digest' | 'begun'>): void => {
    const [live] = hub.objects(Clusters);
    if (live === undefined) throw new Error('no Cluster');
    hub.put(Clusters, { ...live, status: { units: [{ unit, fleet: 'main', ...is }] } });
  };
  beforeEach(() => void cell.put(MachineSets, set));

  it.each([
    ['as it was seen', { digest: 'd1', begun: 'Removal' }],
    ['of the begin of what is wanted', { digest: 'd1', begun: 'd2' }],
  ])('has its number taken out where the record is %s', async (_what, is) => {
    recordIs(is);
    expect(await carryOut([keep({ digest: 'd1', begun: 'Removal' })])).toEqual(new Map());
    expect(spec()).toEqual({ provider: { name: 'local' } });
  });

  it('is left alone where another has begun something else', async () => {
    recordIs({ digest: 'd1', begun: 'd3' });
    expect([...(await carryOut([keep({ digest: 'd1', begun: 'Removal' })])).values()]).toMatchObject([{ code: 'Overtaken' }]);
    expect(spec()).toEqual(set.spec);
  });

  it('is left alone where it was written since it was seen', async () => {
    recordIs({ digest: 'd1', begun: 'Removal' });
    const late = keep({ digest: 'd1', begun: 'Removal' });
    cell.put(MachineSets, { ...set, spec: { ...set.spec, replicas: 2 } });
    expect((await carryOut([late])).size).toBe(1);
    expect(spec()?.replicas).toBe(2);
  });
});

describe('E9: a set that has more machines than may be there, which a late store does not show', () => {
  const unit = 'MachineSet/web/web';
  const content = {
    apiVersion: API_VERSION,
    kind: 'MachineSet',
    metadata: { namespace: 'web', name: 'web' },
    spec: { provider: { name: 'local' }, replicas: 4 },
  } as const;
  /** It is to have 40 machines, and has 30. */
  const putSet = (): unknown => cell.put(MachineSets, { ...content, spec: { ...content.spec, replicas: 40 }, status: { replicas: 30 } });
  const over = { digest: undefined, begun: undefined };
  const smaller = (atMost: number): Step => ({ ...applies(content), unit, atMost });
  const removal = (atMost: number): Step => ({
    do: 'Remove',
    unit,
    cluster: CELL,
    commit: 'c2',
    lane: 'Restore',
    over,
    atMost,
    because: 'x',
  });

  it.each([
    ['a smaller number', smaller],
    ['its removal', removal],
  ])('stays as it is: %s is neither recorded nor written', async (_what, step) => {
    putSet();
    expect([...(await carryOut([step(29)], [content])).values()]).toMatchObject([{ code: 'Overtaken' }]);
    expect([records(), writes]).toEqual([[], []]);
  });

  it('changes where it has as many', async () => {
    putSet();
    expect(await carryOut([smaller(30)], [content])).toEqual(new Map());
    expect(cell.objects(MachineSets)[0]?.spec.replicas).toBe(4);
  });

  it('is made where it is not there', async () => {
    expect(await carryOut([smaller(0)], [content])).toEqual(new Map());
    expect(cell.objects(MachineSets)).toHaveLength(1);
  });
});

describe('E2: a repair rule that is to be enforced', () => {
  const rule: NodeRemedier = {
    apiVersion: API_VERSION,
    kind: 'NodeRemedier',
    metadata: { name: 'hung' },
    spec: {
      when: { all: [{ fact: 'condition.KernelDeadlock.status', operator: 'equal', value: 'True' }] },
      holdsForSeconds: 30,
      ladder: [{ action: 'Reboot' }, { action: 'Human' }],
      healedWhen: { condition: 'KernelDeadlock', is: 'False', forSeconds: 300 },
      mode: 'Enforce',
    },
  };
  const digest = unitDigest([rule]);
  /** As its cell has it after so many seconds in Shadow. */
  const shadowed = (seconds: number): Stored<NodeRemedier> => ({
    ...rule,
    metadata: { name: 'hung', uid: 'u', resourceVersion: '1', creationTimestamp: '2026-11-20T00:00:00Z', generation: 1 },
    spec: { ...rule.spec, mode: 'Shadow', unitDigest: digest },
    status: {
      observedGeneration: 1,
      acceptedDigest: digest,
      counters: {
        since: new Date(clock.now() - seconds * 1000).toISOString(),
        wouldBeJobs: 0,
        jobs: 0,
        succeeded: 0,
        failed: 0,
        needsHuman: 0,
      },
      conditions: [
        {
          type: 'Accepted',
          status: 'True',
          reason: 'Accepted',
          message: '',
          lastTransitionTime: '2026-11-20T00:00:00Z',
          observedGeneration: 1,
        },
      ],
    },
  });
  const mode = () => cell.objects(NodeRemediers)[0]?.spec.mode;
  const step = (proven: boolean): Step => ({ ...(apply(rule) as Extract<Step, { do: 'Apply' }>), proven });

  it.each<[string, boolean, number | undefined, string]>([
    ['is applied in Shadow where it is new', false, undefined, 'Shadow'],
    ['is enforced where it was verified', true, undefined, 'Enforce'],
    ['stays in Shadow before its time', false, 599, 'Shadow'],
    ['is enforced when it was in Shadow for long enough', false, 600, 'Enforce'],
  ])('%s', async (_what, proven, seconds, expected) => {
    const store = (kind: string): unknown =>
      kind === 'NodeRemedier'
        ? { get: ({ name }: { name: string }) => (name === 'hung' && seconds !== undefined ? shadowed(seconds) : undefined), relist() {} }
        : undefined;
    expect(await carryOut([step(proven)], [rule], undefined, { store })).toEqual(new Map());
    expect(mode()).toBe(expected);
  });
});

describe('an object that seems to differ', () => {
  const set = {
    apiVersion: API_VERSION,
    kind: 'MachineComponentSet',
    metadata: { name: 'kubelet' },
    spec: { componentName: 'kubelet', version: '1' },
  } as const;
  const digest = unitDigest([set]);
  const again: Step = { ...(apply(set) as Extract<Step, { do: 'Apply' }>), over: { digest, begun: undefined } };
  let lists: unknown[];
  /** The store shows what it is given; the server does not report who wrote which field, so that it proves nothing. */
  const storeOf = (shown: () => Stored<KubeObject> | undefined) => (kind: string) =>
    kind === 'MachineComponentSet' ? { get: shown, relist: (how: unknown) => void lists.push(how) } : undefined;
  beforeEach(() => {
    lists = [];
  });

  it('and does not, is listed again', async () => {
    const live = () => cell.objects(MachineComponentSets)[0];
    await carryOut([apply(set)], [set]);
    expect(await carryOut([again], [set], undefined, { store: storeOf(live) })).toEqual(new Map());
    expect(lists).toEqual([{ again: true }]);
  });

  it('and does, is not', async () => {
    const live = () => cell.objects(MachineComponentSets)[0];
    await carryOut([apply(set)], [set]);
    const [object] = cell.objects(MachineComponentSets);
    if (object === undefined) throw new Error('it was not applied');
    cell.put(MachineComponentSets, { ...object, spec: { ...object.spec, version: '6' } });
    expect(await carryOut([again], [set], undefined, { store: storeOf(live) })).toEqual(new Map());
    expect(lists).toEqual([]);
  });

  it('that the store does not have is not', async () => {
    await carryOut([apply(set)], [set]);
    expect(await carryOut([again], [set], undefined, { store: storeOf(() => undefined) })).toEqual(new Map());
    expect(lists).toEqual([]);
  });

  it('as its store shows it is not listed again where it does not', async () => {
    await carryOut([apply(set)], [set]);
    const [object] = cell.objects(MachineComponentSets);
    if (object === undefined) throw new Error('it was not applied');
    const fields = (value: object): object =>
      Object.fromEntries(
        Object.entries(value).map(([key, each]: [string, unknown]) => [
          `f:${key}`,
          each !== null && typeof each === 'object' ? fields(each) : {},
        ]),
      );
    const fieldsV1 = fields({ metadata: { labels: object.metadata.labels ?? {} }, spec: object.spec });
    const managedFields = [{ manager: MANAGERS.sync, operation: 'Apply', fieldsType: 'FieldsV1', apiVersion: API_VERSION, fieldsV1 }];
    const shown = { ...object, metadata: { ...object.metadata, managedFields } } as Stored<KubeObject>;
    expect(await carryOut([again], [set], undefined, { store: storeOf(() => shown) })).toEqual(new Map());
    expect(lists).toEqual([]);
  });
});
