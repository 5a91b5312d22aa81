import { beforeEach, expect, it } from 'vitest';
import { ConfigMaps, Namespaces } from '../../api/builtin.ts';
import { Clusters } from '../../api/cluster.ts';
import { unitDigest } from '../../api/digest.ts';
import { API_VERSION } from '../../api/kind.ts';
import type { KubeObject } from '../../api/wire.ts';
import { createClient } from '../../kube/httpclient.ts';
import { fakeApiServer, statusResponse, type FakeApiServer } from '../../kube/testing/apiserver.ts';
import { fakeClock } from '../../kube/testing/clock.ts';
import type { StoredUnit } from '../bundles.ts';
import { CodedError } from '../../api/errors.ts';
import { act } from './act.ts';
import type { Step } from './world.ts';

const CELL = 'prod';
const { signal } = new AbortController();

let hub: FakeApiServer;
let cell: FakeApiServer;
/** What was written, in order: `hub` for a record, else the name of the object in the cell. */
let writes: string[];

beforeEach(() => {
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
  because: 'test',
});
const reinstated = (object: KubeObject): Step => ({
  do: 'Reinstate',
  unit: unitOf(object),
  cluster: CELL,
  digest: unitDigest([object]),
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
    clock: fakeClock(),
    cell: {
      name: CELL,
      client: createClient(cell.transport),
      store: () => undefined,
      resourceOf: async ({ kind }) => (kind === 'Namespace' ? Namespaces : ConfigMaps),
      away: () => undefined,
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

it('writes nothing into a cell whose kinds are not those that it knows, nor records that it would', async () => {
  const newer = new CodedError('KindsNewer', 'machinesets are kept in v1beta1');
  const object = configMap('a');
  const evidence: Step = { do: 'RecordEvidence', unit: 'ConfigMap/b', cluster: CELL, digest: 'd', commit: 'c1', because: 'test' };
  const remove: Step = { do: 'Remove', unit: 'ConfigMap/c', cluster: CELL, commit: 'c1', because: 'test' };
  const steps: Step[] = [apply(object), remove, evidence];
  expect(await carryOut(steps, [object], () => Promise.reject(newer))).toEqual(new Map(steps.slice(0, 2).map((step) => [step, newer])));
  expect(cell.requests).toEqual([]);
  expect(record(object)).toBeUndefined();
});
