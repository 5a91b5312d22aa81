import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ConfigMaps, CustomResourceDefinitions, Namespaces, Secrets } from '../../api/builtin.ts';
import { Clusters, type UnitStatus } from '../../api/cluster.ts';
import { unitDigest } from '../../api/digest.ts';
import { Fleets } from '../../api/fleet.ts';
import { API_VERSION } from '../../api/kind.ts';
import { CELL_KINDS } from '../../api/kinds.ts';
import { MachineComponentSets } from '../../api/machine-component-set.ts';
import { MachineSets } from '../../api/machine-set.ts';
import { FINALIZERS, LABELS, MANAGERS, SYSTEM_NAMESPACE } from '../../api/names.ts';
import { Rollouts, type Rollout } from '../../api/rollout.ts';
import type { ApiRequest, ApiResponse, Transport } from '../../api/transport.ts';
import type { KubeObject, Stored } from '../../api/wire.ts';
import { openCluster, type EmbeddedCluster } from '@kubenode/embedded';
import { createCache } from '../../kube/cache.ts';
import type { Client } from '../../kube/client.ts';
import { CELL_LIMITS, createClient } from '../../kube/http-client.ts';
import type { RecordedEvent } from '../../kube/recorder.ts';
import { fakeApiServer, jsonResponse, statusResponse, type FakeApiServer } from '../../kube/testing/api-server.ts';
import { fakeClock, type FakeClock } from '../../kube/testing/clock.ts';
import { recordingLog } from '../../kube/testing/log.ts';
import { waitFor } from '../../kube/testing/wait-for.ts';
import { stamped } from '../apply-unit.ts';
import type { Bundles, StoredUnit } from '../bundles.ts';
import { openFence } from '../fence.ts';
import { runRolloutController } from './controller.ts';

const CELLS = ['test', 'prod'];
const UNIT = 'ConfigMap/web/settings';

let clock: FakeClock;
let hub: FakeApiServer;
let cells: Map<string, FakeApiServer>;
let transports: Map<string, Transport>;
/** Connections to cells that were opened and not closed. */
let connected: string[];
/** Held back until it resolves, by cell. */
let connecting: Map<string, Promise<void>>;
let events: (RecordedEvent & { about: string })[];
let log: ReturnType<typeof recordingLog>;
let units: Map<string, StoredUnit>;
/** What a commit renders again, by `commit unit cluster`, and what was asked for. */
let renders: Map<string, StoredUnit | Error>;
let rendered: string[];
/** Why nothing can be kept. */
let full: Error | undefined;
let stop: AbortController;
let running: Promise<void> | undefined;

beforeEach(() => {
  clock = fakeClock();
  hub = fakeApiServer();
  cells = new Map(CELLS.map((name) => [name, fakeApiServer()]));
  transports = new Map([...cells].map(([name, { transport }]) => [name, transport]));
  connected = [];
  connecting = new Map();
  events = [];
  log = recordingLog();
  units = new Map();
  renders = new Map();
  rendered = [];
  full = undefined;
  stop = new AbortController();
  running = undefined;
  for (const name of CELLS) {
    declare(name);
    cell(name).intercept(({ path }) => {
      if (path === '/apis/kubenode.io/v1alpha1')
        return jsonResponse(200, { resources: CELL_KINDS.map(({ plural }) => ({ name: plural })) });
      if (path === '/api/v1/namespaces/kube-system')
        return jsonResponse(200, {
          apiVersion: 'v1',
          kind: 'Namespace',
          metadata: { name: 'kube-system', uid: `uid-${name}`, resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z' },
        });
      return path === '/apis/kubenode.io' ? jsonResponse(200, { versions: [{ version: 'v1alpha1' }] }) : undefined;
    });
  }
});
afterEach(async () => {
  stop.abort(new Error('the test is over'));
  await running?.catch(() => undefined);
});

function cell(name: string): FakeApiServer {
  const found = cells.get(name);
  if (found === undefined) throw new Error(`no cell ${name}`);
  return found;
}
function giveKubeconfig(name: string): void {
  const metadata = { namespace: SYSTEM_NAMESPACE, name: `cluster-${name}` };
  hub.put(Secrets, { apiVersion: 'v1', kind: 'Secret', metadata, data: { kubeconfig: Buffer.from(name).toString('base64') } });
}
function declare(name: string): void {
  hub.put(Clusters, { apiVersion: API_VERSION, kind: 'Cluster', metadata: { name, generation: 1 }, spec: {} });
  giveKubeconfig(name);
}

function startHub(): void {
  const { signal } = stop;
  const client = createClient(hub.transport);
  const ports = { client, clock, random: () => 0.5, log, signal };
  const bundles: Bundles = {
    get: async (digest) => units.get(digest),
    async put(digest, unit) {
      await Promise.resolve();
      if (full !== undefined) throw full;
      units.set(digest, unit);
    },
    sweep: async () => undefined,
  };
  running = runRolloutController({
    ...ports,
    cache: createCache(ports),
    bundles,
    fence: openFence(ports),
    async connect(name) {
      await connecting.get(name);
      const transport = transports.get(name);
      if (transport === undefined) throw new Error(`no cell ${name}`);
      connected.push(name);
      const close = async (): Promise<void> => void connected.splice(connected.indexOf(name), 1);
      return {
        client: createClient(transport, { limits: CELL_LIMITS, clock }),
        time: { estimate: () => ({ ms: clock.now(), errorMs: 0 }) },
        close,
      };
    },
    async render(fleet, commit, unit, cluster) {
      const id = `${fleet} ${commit} ${unit} ${cluster}`;
      rendered.push(id);
      const found = renders.get(id) ?? new Error(`${commit} is not there`);
      if (found instanceof Error) throw found;
      return found;
    },
    recorder: {
      event: (about, event) => void events.push({ about: `${about.kind}/${about.metadata.name}`, ...event }),
      flush: async () => undefined,
    },
  });
}

const settings = (content: string, namespace = 'web', name = 'settings'): KubeObject =>
  ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace, name }, data: { content } }) as KubeObject;
const namespace: KubeObject = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'web' } };
const componentSet: KubeObject & { spec: object } = {
  apiVersion: API_VERSION,
  kind: 'MachineComponentSet',
  metadata: { name: 'kubelet' },
  spec: { componentName: 'kubelet', version: '1' },
};
const keyOf = ({ kind, metadata: { namespace: within, name } }: KubeObject): string =>
  [kind, within, name].filter((part) => part !== undefined).join('/');
const digestOf = (object: KubeObject): string => unitDigest([object]);
/** As the fleet controller does when it accepts a commit. */
function keep(object: KubeObject): string {
  const digest = digestOf(object);
  units.set(digest, { key: keyOf(object), objects: [object], origins: [undefined] });
  return digest;
}

interface Options {
  fleet?: string;
  clusters?: readonly string[];
  soakSeconds?: number;
  spec?: Partial<Rollout['spec']>;
}
/** A commit of these objects; `null` for one that it no longer declares. In force at once. */
function commit(
  objects: Record<string, KubeObject | null>,
  { fleet = 'main', clusters = CELLS, soakSeconds = 0, spec }: Options = {},
): string {
  const sequence = 1 + hub.objects(Rollouts).filter((rollout) => rollout.spec.fleet === fleet).length;
  const name = `${fleet}-${sequence}`;
  const { metadata } = hub.put(Rollouts, {
    apiVersion: API_VERSION,
    kind: 'Rollout',
    metadata: { name, generation: 1, creationTimestamp: new Date(clock.now()).toISOString() },
    spec: {
      fleet,
      commit: `c${sequence}`,
      sequence,
      stages: clusters.map((each) => ({ name: each, clusters: [each], soakSeconds, maxClusters: 1 })),
      units: Object.entries(objects).map(([unit, object]) => ({
        unit,
        clusters: clusters.map((each) => ({ name: each, ...(object === null ? {} : { digest: keep(object) }) })),
      })),
      ...spec,
    },
  });
  hub.put(Fleets, {
    apiVersion: API_VERSION,
    kind: 'Fleet',
    metadata: { name: fleet, generation: 1 },
    spec: { source: { path: '/fleet' }, stages: [{ name: 'all', clusterSelector: {} }] },
    status: { commit: `c${sequence}`, clusters: [...clusters], rollout: { sequence, uid: metadata.uid } },
  });
  return name;
}

const cluster = (name: string) => hub.objects(Clusters).find(({ metadata }) => metadata.name === name);
const record = (name: string, unit = UNIT): UnitStatus | undefined => cluster(name)?.status?.units?.find((each) => each.unit === unit);
const reachable = (name: string) => cluster(name)?.status?.conditions?.find(({ type }) => type === 'Reachable');
const status = (name: string) => hub.objects(Rollouts).find(({ metadata }) => metadata.name === name)?.status;
const placement = (name: string, on: string) => status(name)?.units?.[0]?.clusters?.find((each) => each.name === on);
const content = (name: string): unknown =>
  (cell(name).objects(ConfigMaps)[0] as { data?: { content?: unknown } } | undefined)?.data?.content;
const writes = (server: FakeApiServer): ApiRequest[] => server.requests.filter(({ method }) => method !== 'GET');

/** How often a hub of one fleet has observed the clusters by now: it reads the kubeconfig of each then. */
const reads = (): number => hub.requests.filter(({ method, path }) => method === 'GET' && path.endsWith('/secrets/cluster-prod')).length;

/** How often a decision was made again on what the API server has: only then the Fleet is read. */
const decidedAgain = (): number => hub.requests.filter(({ method, path }) => method === 'GET' && path.endsWith('/fleets/main')).length;

/** Lets time pass in steps until it is so, at most `maxMs`. */
async function until(condition: () => boolean, maxMs: number): Promise<void> {
  await waitFor(() => hub.watches.open >= 3);
  for (let passed = 0; passed < maxMs && !condition(); passed += 100) await clock.advance(100);
  expect(condition(), JSON.stringify([hub.objects(Rollouts).map((rollout) => rollout.status), log.lines.slice(-5)])).toBe(true);
}
const done = (name: string) => (): boolean => status(name)?.phase === 'Done';
/** Answers the requests that `matches` until it is called. */
const answer = (server: FakeApiServer, matches: (request: ApiRequest) => boolean, response: () => ApiResponse): (() => void) =>
  server.intercept((request) => (matches(request) ? response() : undefined));
const isPatchOf =
  (end: string) =>
  ({ method, path }: ApiRequest): boolean =>
    method === 'PATCH' && path.endsWith(end);

describe('a rollout', () => {
  it('goes through the cells, is reported to be done, and then costs nothing', async () => {
    startHub();
    const name = commit({ [UNIT]: settings('1') });
    await until(done(name), 10_000);
    expect(CELLS.map(content)).toEqual(['1', '1']);
    expect(status(name)).toMatchObject({ observedGeneration: 1, units: [{ unit: UNIT, phase: 'Done', lane: 'Forward' }] });
    expect(events.filter(({ reason }) => reason === 'UnitDone')).toEqual([
      { about: `Rollout/${name}`, type: 'Normal', reason: 'UnitDone', message: `${UNIT} is done on 2 clusters` },
    ]);
    expect(log.lines).toContainEqual(
      expect.objectContaining({
        level: 'info',
        fields: expect.objectContaining({ step: 'Apply', unit: UNIT, cluster: 'test' }) as unknown,
        message: 'stage test is open',
      }),
    );
    await clock.advance(10_000);
    const before = [hub, ...cells.values()].map((server) => writes(server).length);
    const earlier = reads();
    const again = decidedAgain();
    expect(again).toBeGreaterThan(0);
    await clock.advance(300_000);
    // Where nothing is to be written, the stores are enough to decide.
    expect(decidedAgain()).toBe(again);
    expect([hub, ...cells.values()].map((server) => writes(server).length)).toEqual(before);
    // Once a minute, for what could have changed unseen.
    expect(reads() - earlier).toBeLessThanOrEqual(6);
    expect(log.lines.filter(({ level }) => level === 'warn' || level === 'error')).toEqual([]);
  });

  it('goes on when its soak is over, and waits for nothing else', async () => {
    startHub();
    const name = commit({ [UNIT]: settings('1') }, { soakSeconds: 20 });
    await until(() => status(name)?.units?.[0]?.phase === 'Soaking', 10_000);
    const { soakUntil = '' } = status(name)?.units?.[0] ?? {};
    // What a step leaves to be observed is over by then.
    await clock.advance(Date.parse(soakUntil) - clock.now() - 100);
    expect(content('prod')).toBeUndefined();
    await until(() => content('prod') === '1', 1000);
  });

  it('is carried out of no commit that the Fleet does not name', async () => {
    commit({ [UNIT]: settings('1') });
    const late = commit({ [UNIT]: settings('2') });
    const [fleet] = hub.objects(Fleets);
    if (fleet === undefined) throw new Error('no Fleet');
    hub.put(Fleets, { ...fleet, status: { ...fleet.status, rollout: { sequence: 1 } } });
    startHub();
    await until(done('main-1'), 10_000);
    expect(CELLS.map(content)).toEqual(['1', '1']);
    expect(status(late)).toBeUndefined();
  });

  it('leaves alone a cluster that the Fleet no longer declares', async () => {
    const name = commit({ [UNIT]: settings('1') });
    const [fleet] = hub.objects(Fleets);
    if (fleet === undefined) throw new Error('no Fleet');
    hub.put(Fleets, { ...fleet, status: { ...fleet.status, clusters: ['prod'] } });
    startHub();
    await until(done(name), 10_000);
    expect(placement(name, 'test')?.phase).toBe('Left');
    expect(CELLS.map(content)).toEqual([undefined, '1']);
  });

  it('E12: begins nowhere while its Fleet, made again, has accepted no commit', async () => {
    const name = commit({ [UNIT]: settings('1') });
    const [fleet] = hub.objects(Fleets);
    if (fleet === undefined) throw new Error('no Fleet');
    const { status, ...made } = fleet;
    hub.put(Fleets, made);
    startHub();
    await clock.advance(10_000);
    expect(CELLS.map(content)).toEqual([undefined, undefined]);
    hub.put(Fleets, { ...made, status: { ...status, clusters: ['prod'] } });
    await until(done(name), 10_000);
    expect(CELLS.map(content)).toEqual([undefined, '1']);
  });

  it('E8: is rendered again where the cache lost it, and kept', async () => {
    const object = settings('1');
    const name = commit({ [UNIT]: object });
    const unit = units.get(digestOf(object));
    if (unit === undefined) throw new Error('it was not kept');
    units.clear();
    renders.set(`main c1 ${UNIT} test`, unit);
    startHub();
    await until(done(name), 10_000);
    expect(CELLS.map(content)).toEqual(['1', '1']);
    // Of a kind that is not watched nothing is compared: it is asked for when it is applied, and once.
    expect(rendered).toEqual([`main c1 ${UNIT} test`]);
    expect(units.get(digestOf(object))).toEqual(unit);
  });

  it('that another wrote meanwhile is observed again, and fails nothing', async () => {
    let conflicts = 0;
    answer(
      hub,
      (request) => isPatchOf('/rollouts/main-1/status')(request) && conflicts++ === 0,
      () => statusResponse(409, 'Conflict'),
    );
    startHub();
    commit({ [UNIT]: settings('1') });
    await until(done('main-1'), 10_000);
    expect(conflicts).toBeGreaterThan(1);
    expect(log.lines.filter(({ message }) => message.includes('failed'))).toEqual([]);
  });

  it('whose state cannot be written is tried again', async () => {
    const cancel = answer(hub, isPatchOf('/rollouts/main-1/status'), () => statusResponse(403, 'Forbidden'));
    startHub();
    commit({ [UNIT]: settings('1') });
    await until(() => log.lines.some(({ message }) => message === 'failed; is retried'), 5000);
    cancel();
    await until(done('main-1'), 20_000);
  });

  it('E18: whose status is refused, as one that is too large, holds up neither its units in later clusters nor any report', async () => {
    const cancel = answer(hub, isPatchOf('/rollouts/main-1/status'), () => statusResponse(413, 'RequestEntityTooLarge'));
    startHub();
    commit({ [UNIT]: settings('1') });
    await until(() => CELLS.every((name) => content(name) === '1' && reachable(name)?.status === 'True'), 60_000);
    expect(status('main-1')).toBeUndefined();
    expect(log.lines).toContainEqual(
      expect.objectContaining({
        message: 'its status cannot be written',
        fields: expect.objectContaining({ rollout: 'main-1' }) as unknown,
      }),
    );
    const reasons = events.filter(({ about }) => about === 'Rollout/main-1').map(({ reason }) => reason);
    expect(new Set(reasons)).toEqual(new Set(['StatusNotWritten']));
    cancel();
    await until(done('main-1'), 60_000);
  });
});

describe('a step that fails', () => {
  it('blocks its cluster, reports why, and is tried again ever more rarely until it succeeds', async () => {
    let tries = 0;
    const cancel = answer(
      cell('test'),
      (request) => isPatchOf('/configmaps/settings')(request) && tries++ >= 0,
      () => statusResponse(403, 'Forbidden', 'configmaps are forbidden'),
    );
    startHub();
    const name = commit({ [UNIT]: settings('1') });
    await until(() => placement(name, 'test')?.phase === 'Blocked', 1000);
    expect(placement(name, 'test')?.message).toContain('configmaps are forbidden');
    expect(log.lines).toContainEqual(
      expect.objectContaining({
        level: 'warn',
        fields: expect.objectContaining({ unit: UNIT, cluster: 'test', error: expect.stringContaining('forbidden') as unknown }) as unknown,
        message: 'Apply failed',
      }),
    );
    expect(tries).toBe(1);
    // 0.75 s after the first, 1.5 s after the second: nothing else leads there.
    await clock.advance(1000);
    expect(tries).toBe(2);
    await clock.advance(1000);
    expect(tries).toBe(2);
    await clock.advance(600);
    expect(tries).toBe(3);
    await clock.advance(300_000);
    expect(tries).toBeGreaterThan(7);
    expect(tries).toBeLessThan(16);
    cancel();
    await until(done(name), 61_000);
    // Then it is as if nothing had been.
    tries = 0;
    const again = answer(
      cell('test'),
      (request) => isPatchOf('/configmaps/settings')(request) && tries++ >= 0,
      () => statusResponse(403, 'Forbidden'),
    );
    commit({ [UNIT]: settings('2') });
    await until(() => tries === 2, 1000);
    again();
  });

  it('is observed no more when nothing is to be done there any longer', async () => {
    answer(cell('test'), isPatchOf('/configmaps/settings'), () => statusResponse(403, 'Forbidden'));
    startHub();
    const name = commit({ [UNIT]: settings('1') });
    await until(() => placement(name, 'test')?.phase === 'Blocked', 1000);
    const [fleet] = hub.objects(Fleets);
    if (fleet === undefined) throw new Error('no Fleet');
    hub.put(Fleets, { ...fleet, status: { ...fleet.status, clusters: ['prod'] } });
    await until(done(name), 10_000);
    await clock.advance(10_000);
    const earlier = reads();
    await clock.advance(60_000);
    expect(reads() - earlier).toBeLessThanOrEqual(6);
  });

  it('since its unit could not be kept reports it', async () => {
    const object = settings('1');
    const name = commit({ [UNIT]: object });
    renders.set(`main c1 ${UNIT} test`, { key: UNIT, objects: [object], origins: [undefined] });
    units.clear();
    full = new Error('no space left on device');
    startHub();
    await until(() => placement(name, 'test')?.phase === 'Blocked', 1000);
    expect(placement(name, 'test')?.message).toBe('no space left on device');
    full = undefined;
    renders.set(`main c1 ${UNIT} prod`, { key: UNIT, objects: [object], origins: [undefined] });
    await until(done(name), 10_000);
  });

  it('as the hub ends is not reported to have failed', async () => {
    cell('test').intercept(({ method, signal }) => {
      if (method !== 'PATCH') return undefined;
      const cut = Promise.withResolvers<undefined>();
      signal?.addEventListener('abort', () => cut.reject(signal.reason));
      return cut.promise;
    });
    startHub();
    commit({ [UNIT]: settings('1') });
    await until(() => cell('test').requests.some(({ method }) => method === 'PATCH'), 1000);
    stop.abort(new Error('the end'));
    await running;
    expect(log.lines.filter(({ level }) => level === 'warn')).toEqual([]);
  });

  it('for want of its namespace has that made again, once', async () => {
    startHub();
    const first = commit({ 'Namespace/web': namespace, [UNIT]: settings('1') });
    await until(done(first), 20_000);
    for (const name of CELLS) {
      answer(
        cell(name),
        (request) => isPatchOf('/configmaps/settings')(request) && cell(name).objects(Namespaces).length === 0,
        () =>
          jsonResponse(404, {
            apiVersion: 'v1',
            kind: 'Status',
            status: 'Failure',
            reason: 'NotFound',
            message: 'namespaces "web" not found',
            details: { name: 'web', kind: 'namespaces' },
            code: 404,
          }),
      );
      cell(name).remove(Namespaces, { name: 'web' });
    }
    const name = commit({ [UNIT]: settings('2') });
    await until(done(name), 20_000);
    expect(CELLS.map(content)).toEqual(['2', '2']);
    expect(cell('prod').objects(Namespaces)).toHaveLength(1);
    await clock.advance(10_000);
    const before = writes(cell('test')).length;
    await clock.advance(130_000);
    expect(writes(cell('test'))).toHaveLength(before);
  });

  it('for want of something else has no namespace made', async () => {
    startHub();
    const first = commit({ 'Namespace/web': namespace, [UNIT]: settings('1') });
    await until(done(first), 20_000);
    const made = cell('test').requests.filter(isPatchOf('/namespaces/web')).length;
    const gone = { status: 'Failure', reason: 'NotFound', message: 'web not found', details: { name: 'web', kind: 'secrets' }, code: 404 };
    answer(cell('test'), isPatchOf('/configmaps/settings'), () => jsonResponse(404, { apiVersion: 'v1', kind: 'Status', ...gone }));
    commit({ [UNIT]: settings('2') });
    await clock.advance(30_000);
    expect(cell('test').requests.filter(isPatchOf('/namespaces/web'))).toHaveLength(made);
  });
});

describe('what is removed', () => {
  it('is read again soon while a finalizer keeps it, and then forgotten', async () => {
    startHub();
    await until(done(commit({ [UNIT]: settings('1') })), 10_000);
    for (const name of CELLS) {
      // A finalizer holds it: the server takes the request, and keeps the object.
      const [object] = cell(name).objects(ConfigMaps);
      if (object === undefined) throw new Error('it was not applied');
      cell(name).put(ConfigMaps, { ...object, metadata: { ...object.metadata, deletionTimestamp: '2026-11-20T00:00:00Z' } });
    }
    const name = commit({ [UNIT]: null });
    await until(() => record('test')?.begun === 'Removal', 5000);
    await clock.advance(9000);
    expect(record('test')?.inventory).toHaveLength(1);
    const reads = (): number => cell('test').requests.filter(({ path }) => path.endsWith('/configmaps/settings')).length;
    const before = reads();
    await clock.advance(10_000);
    // Every two seconds, twice asked each time at most.
    expect(reads() - before).toBeGreaterThanOrEqual(4);
    expect(reads() - before).toBeLessThanOrEqual(12);
    cell('test').remove(ConfigMaps, { namespace: 'web', name: 'settings' });
    await until(() => record('test')?.removal?.at !== undefined, 2500);
    cell('prod').remove(ConfigMaps, { namespace: 'web', name: 'settings' });
    await until(done(name), 5000);
    await until(() => record('test') === undefined && record('prod') === undefined, 5000);
  });
});

describe('a cell', () => {
  it('is reported as reachable, with its machines, and without an Event', async () => {
    for (const [name, total, ready] of [
      ['a', 3, 1],
      ['b', 4, 4],
    ] as const) {
      cell('prod').put(MachineSets, {
        apiVersion: API_VERSION,
        kind: 'MachineSet',
        metadata: { namespace: 'web', name },
        spec: { provider: { name: 'none' }, ...(name === 'b' ? { replicas: 3 } : {}) },
        status: { replicas: total, readyReplicas: ready, ...(name === 'b' ? { deletingReplicas: 2 } : { keptReplicas: 5 }) },
      });
    }
    cell('prod').put(MachineSets, {
      apiVersion: API_VERSION,
      kind: 'MachineSet',
      metadata: { namespace: 'web', name: 'new' },
      spec: { provider: { name: 'none' } },
    });
    startHub();
    await until(done(commit({ [UNIT]: settings('1') })), 10_000);
    expect(reachable('prod')).toMatchObject({ status: 'True', reason: 'Connected', message: '', observedGeneration: 1 });
    expect(cluster('prod')?.status?.machines).toEqual({
      total: 7,
      ready: 5,
      sets: [
        { set: 'web/a', replicas: 3, wanted: 5 },
        { set: 'web/b', replicas: 4, wanted: 3, deleting: 2 },
        { set: 'web/new', replicas: 0, wanted: 0 },
      ],
    });
    expect(cluster('test')?.status?.machines).toEqual({ total: 0, ready: 0, sets: [] });
    expect(events.filter(({ about }) => about.startsWith('Cluster/'))).toEqual([]);
  });

  it('whose kubeconfig comes later is reported to be away until then, and is reached soon', async () => {
    hub.remove(Secrets, { namespace: SYSTEM_NAMESPACE, name: 'cluster-test' });
    startHub();
    const name = commit({ [UNIT]: settings('1') });
    await until(() => reachable('test')?.status === 'False', 5000);
    expect(reachable('test')).toMatchObject({ reason: 'KubeconfigAbsent', message: expect.stringContaining('is absent') as unknown });
    expect(placement(name, 'test')).toMatchObject({ phase: 'Blocked', message: expect.stringContaining('is absent') as unknown });
    const { message } = reachable('test') ?? {};
    expect(events).toContainEqual({ about: 'Cluster/test', type: 'Warning', reason: 'KubeconfigAbsent', message });
    expect(connected).toEqual(['prod']);
    await clock.advance(30_000);
    expect(events.filter(({ about }) => about === 'Cluster/test')).toHaveLength(1);
    giveKubeconfig('test');
    await until(() => reachable('test')?.status === 'True', 5500);
    expect(events.filter(({ about }) => about === 'Cluster/test').at(-1)).toEqual({
      about: 'Cluster/test',
      type: 'Normal',
      reason: 'Connected',
      message: 'the hub reaches it again',
    });
    await until(done(name), 10_000);
  });

  it('E15: that another cluster answers for is given nothing, until a commit reports that it is the one that is meant', async () => {
    startHub();
    const first = commit({ [UNIT]: settings('1') });
    await until(() => done(first)() && reachable('prod')?.status === 'True', 10_000);
    expect(['test', 'prod'].map((name) => cluster(name)?.status?.cellUID)).toEqual(['uid-test', 'uid-prod']);
    // A user puts the kubeconfig of `test` into the Secret of `prod`.
    const metadata = { namespace: SYSTEM_NAMESPACE, name: 'cluster-prod' };
    hub.put(Secrets, { apiVersion: 'v1', kind: 'Secret', metadata, data: { kubeconfig: Buffer.from('test').toString('base64') } });
    const second = commit({ [UNIT]: settings('2') });
    await until(() => reachable('prod')?.reason === 'CellReplaced', 70_000);
    await until(() => placement(second, 'test')?.phase === 'Verified', 10_000);
    await clock.advance(70_000);
    expect([content('prod'), placement(second, 'prod')?.phase]).toEqual(['1', 'Blocked']);
    expect(cluster('prod')?.status?.cellUID).toBe('uid-prod');
    expect(events.filter(({ reason }) => reason === 'CellReplaced')).toHaveLength(1);
    const prod = cluster('prod');
    if (prod === undefined) throw new Error('no cluster');
    hub.put(Clusters, { ...prod, spec: { ...prod.spec, cellUID: 'uid-test' } });
    await until(() => reachable('prod')?.status === 'True', 70_000);
    expect(cluster('prod')?.status?.cellUID).toBe('uid-test');
  });

  it('that was reached and is not any more keeps its number of machines, and is not written over and over', async () => {
    cell('prod').put(MachineSets, {
      apiVersion: API_VERSION,
      kind: 'MachineSet',
      metadata: { namespace: 'web', name: 'a' },
      spec: { provider: { name: 'none' } },
      status: { replicas: 3, readyReplicas: 3 },
    });
    startHub();
    await until(done(commit({ [UNIT]: settings('1') })), 10_000);
    hub.remove(Secrets, { namespace: SYSTEM_NAMESPACE, name: 'cluster-prod' });
    await until(() => reachable('prod')?.status === 'False', 125_000);
    expect(cluster('prod')?.status?.machines).toMatchObject({ total: 3, ready: 3 });
    const before = writes(hub).length;
    await clock.advance(60_000);
    expect(writes(hub)).toHaveLength(before);
  });

  it('that has more sets than are reported reports none of them, also where it reported some before', async () => {
    const put = (index: number): unknown =>
      cell('prod').put(MachineSets, {
        apiVersion: API_VERSION,
        kind: 'MachineSet',
        metadata: { namespace: 'web', name: `s${index}` },
        spec: { provider: { name: 'none' } },
        status: { replicas: 1, readyReplicas: 1 },
      });
    for (let index = 0; index < 500; index += 1) put(index);
    startHub();
    await until(done(commit({ [UNIT]: settings('1') })), 10_000);
    expect(cluster('prod')?.status?.machines?.sets).toHaveLength(500);
    put(500);
    await until(() => cluster('prod')?.status?.machines?.total === 501, 125_000);
    expect(cluster('prod')?.status?.machines).toEqual({ total: 501, ready: 501 });
    const before = writes(hub).length;
    await clock.advance(60_000);
    expect(writes(hub)).toHaveLength(before);
  });

  it('of which nothing is to be done, and that fails only after a while, is reported to be away soon', async () => {
    const object = settings('1');
    for (const name of CELLS) {
      const known = {
        unit: UNIT,
        fleet: 'main',
        digest: keep(object),
        commit: 'c1',
        evidence: keep(object),
        appliedAt: '2026-11-19T00:00:00Z',
      };
      const stored = cluster(name);
      if (stored === undefined) throw new Error(`no Cluster ${name}`);
      hub.put(Clusters, { ...stored, status: { units: [known] } });
    }
    const hung = Promise.withResolvers<ApiResponse>();
    cell('test').intercept(({ path }) => (path.endsWith('/machinesets') ? hung.promise : undefined));
    startHub();
    const name = commit({ [UNIT]: object });
    await until(() => reachable('prod')?.status === 'True' && done(name)(), 1000);
    await clock.advance(2000);
    hung.resolve(statusResponse(403, 'Forbidden'));
    await until(() => reachable('test')?.status === 'False', 5000);
    expect(reachable('test')?.reason).toBe('Forbidden');
  });

  it('that answers nothing from the start is reported to be away soon, and not before it was asked', async () => {
    const cancel = cell('test').intercept(({ path }) => {
      if (path.endsWith('/machinesets')) throw new Error('no route to host');
      return undefined;
    });
    startHub();
    const name = commit({ [UNIT]: settings('1') });
    await until(() => reachable('test')?.status === 'False', 8000);
    expect(reachable('test')?.message).toContain('no route to host');
    expect(content('test')).toBeUndefined();
    cancel();
    await until(done(name), 60_000);
    expect(reachable('test')?.status).toBe('True');
  });

  it('E15: that refuses to report which cluster it is is asked every five seconds', async () => {
    let asked = 0;
    const { transport } = cell('test');
    transports.set('test', async (request) => {
      if (request.path !== '/api/v1/namespaces/kube-system') return await transport(request);
      asked += 1;
      // So that a hub which asks over and over comes to an end here.
      return asked > 100 ? await new Promise<never>(() => undefined) : statusResponse(403, 'Forbidden');
    });
    startHub();
    commit({ [UNIT]: settings('1') });
    await until(() => reachable('test')?.reason === 'Forbidden', 10_000);
    await clock.advance(60_000);
    expect(asked).toBeGreaterThan(10);
    expect(asked).toBeLessThanOrEqual(15);
  });

  it('E12, E14: is written by what is on the hub, not by what late stores of it show', async () => {
    const slow = Promise.withResolvers<void>();
    connecting.set('test', slow.promise);
    startHub();
    const name = commit({ [UNIT]: settings('1') });
    await until(() => reads() > 0, 1000);
    hub.watches.stall();
    const [rollout] = hub.objects(Rollouts);
    if (rollout === undefined) throw new Error('no Rollout');
    hub.put(Rollouts, { ...rollout, spec: { ...rollout.spec, paused: true } });
    slow.resolve();
    await until(() => reachable('prod')?.status === 'True', 10_000);
    await clock.advance(20_000);
    expect([content('test'), record('test')]).toEqual([undefined, undefined]);
    hub.watches.resume();
    await until(() => status(name)?.units?.[0]?.pausedBy === name, 10_000);
    const paused = hub.objects(Rollouts)[0];
    if (paused === undefined) throw new Error('no Rollout');
    hub.put(Rollouts, { ...paused, spec: { ...paused.spec, paused: false } });
    await until(done(name), 60_000);
  });

  it('that hangs before it has reported anything is neither reached nor away', async () => {
    const hung = Promise.withResolvers<undefined>();
    cell('test').intercept(({ path }) => (path.endsWith('/machinesets') ? hung.promise : undefined));
    startHub();
    const name = commit({ [UNIT]: settings('1') });
    await until(() => reachable('prod')?.status === 'True', 5000);
    expect(reachable('test')).toBeUndefined();
    // What is not watched needs nothing of it.
    await until(done(name), 10_000);
    await clock.advance(20_000);
    expect(reachable('test')).toBeUndefined();
    hung.resolve(undefined);
    await until(() => reachable('test')?.status === 'True', 1000);
  });

  it('that is declared while another is being reached waits for its turn', async () => {
    const slow = Promise.withResolvers<void>();
    connecting.set('test', slow.promise);
    hub.remove(Clusters, { name: 'prod' });
    startHub();
    const name = commit(
      { [UNIT]: settings('1') },
      { spec: { stages: [{ name: 'all', clusters: CELLS, soakSeconds: 0, maxClusters: 2 }] } },
    );
    await clock.advance(500);
    declare('prod');
    await clock.advance(100);
    const reported: unknown[] = [];
    hub.intercept(({ path, body }) => {
      if (path.endsWith(`/rollouts/${name}/status`)) reported.push(JSON.parse(String(body)));
      // Nothing is reported of its way before there is one.
      if (path.endsWith('/clusters/prod/status') && String(body).includes('Reachable')) expect(connected).toContain('prod');
      return undefined;
    });
    slow.resolve();
    await until(done(name), 10_000);
    expect(JSON.stringify(reported[0])).toContain('not connected yet');
    expect(CELLS.map(content)).toEqual(['1', '1']);
  });

  it('is watched: its news needs no other read', async () => {
    startHub();
    await until(done(commit({ [UNIT]: settings('1') })), 10_000);
    await clock.advance(20_000);
    cell('prod').put(MachineSets, {
      apiVersion: API_VERSION,
      kind: 'MachineSet',
      metadata: { namespace: 'web', name: 'a' },
      spec: { provider: { name: 'none' } },
      status: { replicas: 2, readyReplicas: 1 },
    });
    await until(() => cluster('prod')?.status?.machines?.total === 2, 300);
  });

  it('reports what there needs a person, until nothing does; what it reported last stays while it is away', async () => {
    startHub();
    await until(done(commit({ [UNIT]: settings('1') })), 10_000);
    const put = (status: 'True' | 'False'): unknown =>
      cell('prod').put(MachineSets, {
        apiVersion: API_VERSION,
        kind: 'MachineSet',
        metadata: { namespace: 'web', name: 'a' },
        spec: { provider: { name: 'none' } },
        status: {
          conditions: [{ type: 'Available', status, reason: 'TooFew', message: '1 of 2', lastTransitionTime: '2026-01-01T00:00:00Z' }],
        },
      });
    const reported = (): string[] | undefined => cluster('prod')?.status?.attention?.map(({ object, reason }) => `${object} ${reason}`);
    put('False');
    await until(() => reported()?.[0] === 'MachineSet/web/a TooFew', 300);
    hub.remove(Secrets, { namespace: SYSTEM_NAMESPACE, name: 'cluster-prod' });
    await until(() => reachable('prod')?.status === 'False', 125_000);
    expect(reported()).toEqual(['MachineSet/web/a TooFew']);
    giveKubeconfig('prod');
    put('True');
    await until(() => reported()?.length === 0, 125_000);
  });

  it('of which nothing can be written holds up the report of no other, and reports it', async () => {
    answer(hub, isPatchOf('/clusters/prod/status'), () => statusResponse(422, 'Invalid'));
    startHub();
    commit({ [UNIT]: settings('1') }, { spec: { stages: [{ name: 'all', clusters: ['test'], soakSeconds: 0, maxClusters: 2 }] } });
    await until(() => reachable('test')?.status === 'True', 5000);
    hub.remove(Secrets, { namespace: SYSTEM_NAMESPACE, name: 'cluster-test' });
    await until(() => reachable('test')?.status === 'False', 125_000);
    expect(reachable('prod')).toBeUndefined();
    expect(events.filter(({ about }) => about === 'Cluster/prod')[0]).toMatchObject({ reason: 'StatusNotWritten' });
    expect(log.lines.filter(({ message }) => message === 'failed; is retried')).toEqual([]);
  });

  it('that is no longer declared is let go, and all are when the hub ends', async () => {
    startHub();
    await until(done(commit({ [UNIT]: settings('1') })), 10_000);
    expect(connected.toSorted()).toEqual(['prod', 'test']);
    hub.remove(Clusters, { name: 'test' });
    await until(() => connected.length === 1, 500);
    expect(connected).toEqual(['prod']);
    stop.abort(new Error('the end'));
    await running;
    expect(connected).toEqual([]);
  });

  it('that another wrote meanwhile is reported once it is written', async () => {
    hub.remove(Secrets, { namespace: SYSTEM_NAMESPACE, name: 'cluster-test' });
    let refuses = true;
    answer(
      hub,
      (request) => isPatchOf('/clusters/test/status')(request) && JSON.stringify(request.body).includes('conditions') && refuses,
      () => statusResponse(409, 'Conflict'),
    );
    startHub();
    commit({ [UNIT]: settings('1') });
    await until(() => reachable('prod') !== undefined, 5000);
    await clock.advance(6000);
    expect(events.filter(({ about }) => about === 'Cluster/test')).toEqual([]);
    expect(log.lines.filter(({ message }) => message === 'failed; is retried')).toEqual([]);
    refuses = false;
    await until(() => reachable('test') !== undefined, 6000);
    expect(events.filter(({ about }) => about === 'Cluster/test')).toHaveLength(1);
  });

  it('whose state cannot be written is tried again', async () => {
    const cancel = answer(hub, isPatchOf('/clusters/prod/status'), () => statusResponse(403, 'Forbidden'));
    startHub();
    commit({ [UNIT]: settings('1') });
    await until(() => log.lines.some(({ message }) => message === 'failed; is retried'), 5000);
    cancel();
    await until(() => reachable('prod') !== undefined, 10_000);
  });
});

describe('E13: a Cluster that a user deletes', () => {
  const halt = { digest: digestOf(settings('1')), message: 'MaxFailed', since: '2026-11-19T00:00:00Z' };
  const record = { unit: UNIT, fleet: 'main', digest: halt.digest, commit: 'c1', appliedAt: '2026-11-18T00:00:00Z' };
  const deleted = '2026-11-19T01:00:00Z';
  function keep(units: UnitStatus[], metadata: object = { deletionTimestamp: deleted }): void {
    const stored = cluster('prod');
    if (stored === undefined) throw new Error('no Cluster prod');
    const finalizers = [FINALIZERS.records, 'example.org/other'];
    hub.put(Clusters, { ...stored, metadata: { ...stored.metadata, finalizers, ...metadata }, status: { ...stored.status, units } });
  }
  const held = (): string[] => events.filter(({ reason }) => reason === 'DeletionHeld').map(({ about, message }) => `${about} ${message}`);

  it('stays while it has a halt, reports it once, and goes when that is over', async () => {
    commit({ [UNIT]: settings('1') }, { clusters: ['test'] });
    keep([{ ...record, halt }]);
    startHub();
    await until(() => held().length > 0, 5000);
    await clock.advance(70_000);
    expect(held()).toEqual([
      `Cluster/prod it goes when what it halted is over: ${UNIT}. kubenode rollout retry NAME ends a halt, and so does a commit that changes the unit`,
    ]);
    expect(cluster('prod')?.metadata.finalizers).toEqual([FINALIZERS.records, 'example.org/other']);
    keep([record]);
    await until(() => cluster('prod')?.metadata.finalizers?.includes(FINALIZERS.records) === false, 5000);
    expect(cluster('prod')?.metadata.finalizers).toEqual(['example.org/other']);
  });

  it('E9: stays while something is to be removed there, and goes when it is gone; not where the fleet declares it no more', async () => {
    hub.remove(Secrets, { namespace: SYSTEM_NAMESPACE, name: 'cluster-prod' });
    commit({ [UNIT]: null });
    const declares = (clusters: string[]): void => {
      for (const fleet of hub.objects(Fleets)) hub.put(Fleets, { ...fleet, status: { ...fleet.status, clusters } });
    };
    const isKept = (): boolean => cluster('prod')?.metadata.finalizers?.includes(FINALIZERS.records) === true;
    declares(CELLS);
    keep([record], { finalizers: [] });
    startHub();
    await until(isKept, 5000);
    keep([record]);
    await until(() => held().length > 0, 5000);
    expect(held()).toEqual([`Cluster/prod it goes when what a commit removes there is gone: ${UNIT}`]);
    declares(['test']);
    await until(() => !isKept(), 5000);
    declares(CELLS);
    keep([record]);
    await clock.advance(10_000);
    expect(isKept()).toBe(true);
    keep([]);
    await until(() => !isKept(), 5000);
  });

  it('is not kept by what a fleet halted that is no more; one that is not being deleted is given free too', async () => {
    commit({ [UNIT]: settings('1') }, { clusters: ['test'] });
    keep([{ ...record, fleet: 'gone', halt }], {});
    startHub();
    await until(() => cluster('prod')?.metadata.finalizers?.includes(FINALIZERS.records) === false, 5000);
    expect(held()).toEqual([]);
  });

  it('of a halt that an earlier version recorded is kept too', async () => {
    commit({ [UNIT]: settings('1') }, { clusters: ['test'] });
    keep([{ ...record, halt }], { finalizers: [] });
    startHub();
    await until(() => cluster('prod')?.metadata.finalizers?.includes(FINALIZERS.records) === true, 5000);
    expect(record.digest).toBe(cluster('prod')?.status?.units?.[0]?.halt?.digest);
  });

  it('is not given free by a hub whose store is late', async () => {
    commit({ [UNIT]: settings('1') }, { clusters: ['test'] });
    keep([record]);
    let tries = 0;
    answer(
      hub,
      (request) => request.method === 'PATCH' && request.path.endsWith('/clusters/prod'),
      () => {
        tries += 1;
        return statusResponse(409, 'Conflict');
      },
    );
    startHub();
    await until(() => tries > 0, 5000);
    const [request] = hub.requests.filter(({ method, path }) => method === 'PATCH' && path.endsWith('/clusters/prod'));
    expect(String(request?.body)).toContain('"resourceVersion"');
    expect(log.lines.filter(({ message }) => message === 'failed; is retried')).toEqual([]);
  });
});

it('a Fleet that has no rollout yet reaches for no cell', async () => {
  commit({});
  for (const { metadata } of hub.objects(Rollouts)) hub.remove(Rollouts, metadata);
  startHub();
  await waitFor(() => hub.watches.open >= 3);
  await clock.advance(70_000);
  expect(connected).toEqual([]);
});

it('E17: a hub that was put back to a backup takes content that it knows from before for newer, where a cell got it since', async () => {
  const unit = 'MachineComponentSet/kubelet';
  const second = { ...componentSet, spec: { ...componentSet.spec, version: '2' } };
  const clusters = ['prod'];
  const live = () => cell('prod').objects(MachineComponentSets)[0];
  const version = () => live()?.spec.version;
  const begin = async (object: KubeObject): Promise<void> => {
    const name = commit({ [unit]: object }, { clusters });
    await until(() => live()?.spec.unitDigest === digestOf(object) && placement(name, 'prod')?.appliedAt !== undefined, 10_000);
    await clock.advance(2000);
  };
  startHub();
  await begin(componentSet);
  await begin(second);
  const backup = structuredClone([hub.objects(Fleets), hub.objects(Clusters)] as const);
  await begin(componentSet);
  expect(version()).toBe('1');
  stop.abort(new Error('the hub ends'));
  await running?.catch(() => undefined);
  hub.remove(Rollouts, { name: 'main-3' });
  for (const fleet of backup[0]) hub.put(Fleets, fleet);
  for (const each of backup[1]) hub.put(Clusters, each);
  stop = new AbortController();
  startHub();
  await clock.advance(30_000);
  expect(version()).toBe('1');
  expect(placement('main-2', 'prod')).toMatchObject({
    phase: 'Waiting',
    message: expect.stringContaining('put back to a backup') as unknown,
  });
  // The newest commit, accepted again, reports that it is meant.
  await begin(componentSet);
  await clock.advance(10_000);
  expect([version(), placement('main-3', 'prod')?.message ?? '']).toEqual(['1', expect.not.stringContaining('backup')]);
  await begin(second);
  expect(version()).toBe('2');
});

describe('E17: a hub that was put back to a backup', () => {
  const unit = 'MachineComponentSet/kubelet';
  const setOf = (version: string): KubeObject => ({ ...componentSet, spec: { ...componentSet.spec, version } }) as KubeObject;
  const key = { name: 'kubelet' };
  let servers: EmbeddedCluster[];
  let clients: Map<string, Client>;
  const clientOf = (name: string): Client => clients.get(name) ?? createClient(cell(name).transport);
  const versions = async () =>
    await Promise.all(CELLS.map(async (name) => (await clientOf(name).find(MachineComponentSets, key))?.spec.version));
  beforeEach(async () => {
    // Servers that keep who wrote which field: drift shows in that.
    servers = await Promise.all(CELLS.map((name) => openCluster({ name, state: 'memory', clock })));
    clients = new Map(servers.map((server, index) => [CELLS[index] ?? '', createClient(server.asUser())]));
    for (const [index, server] of servers.entries()) transports.set(CELLS[index] ?? '', server.asUser());
    for (const client of clients.values())
      for (const kind of CELL_KINDS) await client.create(CustomResourceDefinitions, CustomResourceDefinitions.parse(kind.crd()));
  });
  afterEach(async () => {
    await stopHub();
    for (const server of servers) await server.close();
  });
  const stopHub = async (): Promise<void> => {
    stop.abort(new Error('the hub ends'));
    await running?.catch(() => undefined);
    stop = new AbortController();
  };
  const given = async (name: string, object: KubeObject): Promise<void> => {
    const client = clientOf(name);
    const carries = async (): Promise<boolean> => (await client.find(MachineComponentSets, key))?.spec.unitDigest === digestOf(object);
    for (let passed = 0; passed < 10_000 && !(await carries()); passed += 100) await clock.advance(100);
    await clock.advance(1000);
    const { metadata, spec } = await client.get(MachineComponentSets, key);
    expect(spec.unitDigest).toBe(digestOf(object));
    const evidence = { unitDigest: digestOf(object), at: new Date(clock.now()).toISOString() };
    const merge = { status: { observedGeneration: metadata.generation, evidence } };
    await client.patch(MachineComponentSets, key, { merge }, { subresource: 'status' });
    await clock.advance(1000);
  };
  const go = async (object: KubeObject): Promise<void> => {
    const name = commit({ [unit]: object });
    for (const each of CELLS) await given(each, object);
    await until(done(name), 10_000);
  };
  const backedUp = () => structuredClone([hub.objects(Fleets), hub.objects(Clusters), hub.objects(Rollouts)] as const);
  const putBack = ([fleets, clusters, rollouts]: ReturnType<typeof backedUp>): void => {
    for (const { metadata } of hub.objects(Rollouts)) hub.remove(Rollouts, metadata);
    for (const rollout of rollouts) hub.put(Rollouts, rollout);
    for (const { metadata, status: its } of fleets) {
      const { uid } = hub.objects(Rollouts).find(({ spec }) => spec.sequence === its?.rollout?.sequence)?.metadata ?? {};
      const kept = fleets.find((each) => each.metadata.name === metadata.name);
      if (kept !== undefined && its?.rollout !== undefined && uid !== undefined)
        hub.put(Fleets, { ...kept, status: { ...its, rollout: { ...its.rollout, uid } } });
    }
    for (const each of clusters) hub.put(Clusters, each);
  };

  it('from before a revert had begun reverts no newer content, until a commit that is accepted since wants that', async () => {
    startHub();
    await go(setOf('1'));
    await go(setOf('2'));
    await stopHub();
    commit({ [unit]: setOf('1') });
    const backup = backedUp();
    startHub();
    for (const name of CELLS) await given(name, setOf('1'));
    await go(setOf('3'));
    await stopHub();
    putBack(backup);
    startHub();
    await clock.advance(10_000);
    expect(await versions()).toEqual(['3', '3']);
    expect(placement('main-3', 'prod')).toMatchObject({
      phase: 'Waiting',
      message: expect.stringContaining('put back to a backup') as unknown,
    });
    await go(setOf('4'));
    expect(await versions()).toEqual(['4', '4']);
  });

  it.each(['test', 'prod'])('from the soak of a stage begins nothing by its records before it has the list of %s', async (late) => {
    startHub();
    await go(setOf('1'));
    commit({ [unit]: setOf('2') }, { soakSeconds: 5 });
    await given('test', setOf('2'));
    expect(placement('main-2', 'test')?.phase).toBe('Verified');
    await stopHub();
    const backup = backedUp();
    startHub();
    await given('prod', setOf('2'));
    await go(setOf('3'));
    await stopHub();
    putBack(backup);
    const direct = transports.get(late);
    let isLate = true;
    transports.set(late, async (request) => {
      if (isLate && request.method === 'GET' && request.path.endsWith('/machinecomponentsets')) {
        await new Promise<void>((listed) => void clock.setTimer(8000, listed));
        isLate = false;
      }
      if (direct === undefined) throw new Error(`no cell ${late}`);
      return await direct(request);
    });
    startHub();
    await clock.advance(30_000);
    expect(isLate).toBe(false);
    expect(await versions()).toEqual(['3', '3']);
  });
});

describe('E17: what bears the label of a Fleet, and no record and no commit has', () => {
  const set = (name: string, fleet = 'main'): Stored<KubeObject> =>
    cell('prod').put(MachineSets, {
      apiVersion: API_VERSION,
      kind: 'MachineSet',
      metadata: { namespace: 'web', name, labels: { [LABELS.fleet]: fleet } },
      spec: { provider: { name: 'none' }, replicas: 1 },
    });
  const orphans = () => cluster('prod')?.status?.orphans;

  it('is named after a minute, costs no request, and is left as it is', async () => {
    startHub();
    await until(done(commit({ [UNIT]: settings('1') })), 10_000);
    await clock.advance(10_000);
    const before = cell('prod').requests.length;
    set('old');
    await clock.advance(50_000);
    expect(orphans()).toBeUndefined();
    await until(() => orphans() !== undefined, 15_000);
    expect(orphans()).toEqual({ total: 1, first: [{ object: 'MachineSet/web/old', fleet: 'main', reason: 'NotDeclared' }] });
    await clock.advance(200_000);
    // Watches, and what a reflector asks to see that its watch has missed nothing.
    const isWatching = ({ method, query }: ApiRequest): boolean => method === 'GET' && (query?.['watch'] ?? query?.['limit']) !== undefined;
    const others = cell('prod')
      .requests.slice(before)
      .filter((request) => !isWatching(request));
    expect(others.map(({ method, path }) => `${method} ${path}`)).toEqual([]);
  });

  it('is named still by a hub that starts again, and while its cell is away, until it is gone', async () => {
    set('old');
    startHub();
    await until(done(commit({ [UNIT]: settings('1') })), 10_000);
    await until(() => orphans() !== undefined, 70_000);
    stop.abort(new Error('the hub ends'));
    await running?.catch(() => undefined);
    stop = new AbortController();
    startHub();
    await clock.advance(30_000);
    expect(orphans()?.total).toBe(1);
    hub.remove(Secrets, { namespace: SYSTEM_NAMESPACE, name: 'cluster-prod' });
    await until(() => reachable('prod')?.status === 'False', 125_000);
    expect(orphans()?.total).toBe(1);
    giveKubeconfig('prod');
    cell('prod').remove(MachineSets, { namespace: 'web', name: 'old' });
    await until(() => orphans() === undefined, 125_000);
  });

  it('is not named where the hub knows of it before a minute is over', async () => {
    startHub();
    await until(done(commit({ [UNIT]: settings('1') })), 10_000);
    set('new');
    await clock.advance(50_000);
    const prod = cluster('prod');
    if (prod === undefined) throw new Error('no cluster');
    const units = [...(prod.status?.units ?? []), { unit: 'MachineSet/web/new', fleet: 'main', begun: 'd' }];
    hub.put(Clusters, { ...prod, status: { ...prod.status, units } });
    await clock.advance(70_000);
    expect(orphans()).toBeUndefined();
    set('newer');
    await clock.advance(50_000);
    expect(orphans()).toBeUndefined();
    await clock.advance(20_000);
    expect(orphans()?.first.map(({ object }) => object)).toEqual(['MachineSet/web/newer']);
  });

  it('is named with that where its Fleet is gone, and nothing of that Fleet goes on', async () => {
    set('web');
    startHub();
    const name = commit({ [UNIT]: settings('1') }, { soakSeconds: 60 });
    await until(() => status(name)?.units?.[0]?.phase === 'Soaking', 10_000);
    hub.remove(Fleets, { name: 'main' });
    await until(() => orphans() !== undefined, 70_000);
    expect(orphans()).toEqual({ total: 1, first: [{ object: 'MachineSet/web/web', fleet: 'main', reason: 'FleetAbsent' }] });
    await clock.advance(60_000);
    expect(CELLS.map(content)).toEqual(['1', undefined]);
    // It is still observed.
    cell('prod').remove(MachineSets, { namespace: 'web', name: 'web' });
    await until(() => orphans() === undefined, 1000);
  });

  it('is named by the first twenty and their number', async () => {
    for (let index = 10; index < 35; index += 1) set(`s${index}`);
    startHub();
    await until(done(commit({ [UNIT]: settings('1') })), 10_000);
    await until(() => orphans() !== undefined, 70_000);
    expect([orphans()?.total, orphans()?.first.length, orphans()?.first[0]?.object]).toEqual([25, 20, 'MachineSet/web/s10']);
  });
});

describe('E8: what live objects are compared with', () => {
  const unit = keyOf(componentSet);
  const digest = digestOf(componentSet);
  const lost = `main c7 ${unit} prod`;
  const found: StoredUnit = { key: unit, objects: [componentSet], origins: [undefined] };
  const known: UnitStatus = { unit, fleet: 'main', digest, commit: 'c7', evidence: digest, appliedAt: '2026-11-19T00:00:00Z' };
  let server: EmbeddedCluster;
  let prod: Client;

  function recordOn(name: string, records: UnitStatus[]): void {
    const stored = cluster(name);
    if (stored === undefined) throw new Error(`no Cluster ${name}`);
    hub.put(Clusters, { ...stored, status: { ...stored.status, units: records } });
  }

  beforeEach(async () => {
    // A server that keeps who wrote which field: drift shows in that.
    server = await openCluster({ name: 'prod', state: 'memory', clock });
    prod = createClient(server.asUser());
    for (const kind of CELL_KINDS) await prod.create(CustomResourceDefinitions, CustomResourceDefinitions.parse(kind.crd()));
    transports.set('prod', server.asUser());
    await prod.apply(MachineComponentSets, stamped(componentSet, true, { digest, fleet: 'main', lane: 'Forward' }, undefined), {
      fieldManager: MANAGERS.sync,
    });
    recordOn('prod', [
      known,
      { ...known, unit: UNIT, digest: digestOf(settings('1')) },
      { ...known, unit: 'MachineComponentSet/other', fleet: 'other', digest: 'v1:other' },
      { unit: 'MachineComponentSet/removed', fleet: 'main', commit: 'c6', begun: 'Removal' },
      { unit: 'MachineComponentSet/odd', fleet: 'main', digest: 'v1:odd' },
    ]);
  });
  afterEach(async () => {
    stop.abort(new Error('the test is over'));
    await running;
    await server.close();
  });

  it('is rendered again where the cache lost it, soon and then ever more rarely, and then a change by another is undone', async () => {
    const name = commit({ [unit]: componentSet }, { clusters: ['prod'] });
    units.clear();
    startHub();
    await until(() => rendered.length === 1, 1000);
    await until(() => placement(name, 'prod')?.message?.includes('c7 is not there') === true, 300);
    const first = clock.monotonic();
    // 0.75 s, 1.5 s, 3 s … after each other, and nothing else leads there.
    for (const [times, ms] of [
      [2, 1000],
      [3, 2600],
      [4, 6000],
      [5, 13_000],
    ] as const) {
      await clock.advance(first + ms - clock.monotonic());
      expect(rendered).toHaveLength(times);
    }
    renders.set(lost, found);
    const earlier = reads();
    await until(() => placement(name, 'prod')?.phase === 'Verified' && placement(name, 'prod')?.message === undefined, 13_000);
    // It did not read it all the time meanwhile.
    expect(reads() - earlier).toBeLessThanOrEqual(4);
    await clock.advance(130_000);
    expect(rendered).toEqual(Array.from({ length: 6 }, () => lost));
    await prod.patch(MachineComponentSets, { name: 'kubelet' }, { merge: { spec: { version: '6' } } }, { fieldManager: 'kubectl-edit' });
    for (let passed = 0; passed < 1000; passed += 100) await clock.advance(100);
    expect((await prod.get(MachineComponentSets, { name: 'kubelet' })).spec.version).toBe('1');
    const put = (): string[] =>
      events.filter(({ reason }) => reason === 'DriftCorrected').map(({ about, message }) => `${about} ${message}`);
    const changed = 'MachineComponentSet/kubelet: spec.version from "6" to "1", set by kubectl-edit';
    expect(put()).toEqual([`Cluster/prod put back as Git has it: ${changed}`]);
    await prod.delete(MachineComponentSets, { name: 'kubelet' });
    await until(() => put().length === 2, 5000);
    expect(put()[1]).toBe('Cluster/prod put back as Git has it: MachineComponentSet/kubelet was deleted, and is made again');
  });

  it('E3: is put back where a user replaced it without what sync adds, or made it again, and that is reported', async () => {
    commit({ [unit]: componentSet }, { clusters: ['prod'] });
    startHub();
    const key = { name: 'kubelet' };
    const live = () => prod.get(MachineComponentSets, key);
    const put = (): string[] => events.filter(({ reason }) => reason === 'DriftCorrected').map(({ message }) => message);
    const advance = async (): Promise<void> => {
      for (let passed = 0; passed < 3000; passed += 100) await clock.advance(100);
    };
    await advance();
    const { apiVersion, kind, metadata } = await live();
    const { resourceVersion, uid, creationTimestamp } = metadata;
    const theirs = { componentName: 'kubelet', version: '6' };
    const bare = { apiVersion, kind, metadata: { ...key, resourceVersion, uid, creationTimestamp }, spec: theirs };
    await prod.update(MachineComponentSets, bare, { fieldManager: 'kubectl-replace' });
    await advance();
    expect(await live()).toMatchObject({ metadata: { labels: { [LABELS.fleet]: 'main' } }, spec: { version: '1', unitDigest: digest } });
    expect(put()).toEqual([expect.stringContaining('spec.version from "6" to "1", set by kubectl-replace')]);
    await prod.delete(MachineComponentSets, key);
    await prod.create(MachineComponentSets, MachineComponentSets.parse({ ...componentSet, spec: theirs }), {
      fieldManager: 'kubectl-create',
    });
    await advance();
    expect((await live()).spec).toMatchObject({ version: '1', unitDigest: digest });
    expect(put().slice(1).join('\n')).toContain('deleted');
    // No further write: it is as it was applied.
    const { resourceVersion: settled } = (await live()).metadata;
    await advance();
    expect((await live()).metadata.resourceVersion).toBe(settled);
  });

  it('E3: has what Git does not give taken out, ever more rarely where another writer puts it there again each time', async () => {
    const name = commit({ [unit]: componentSet }, { clusters: ['prod'] });
    startHub();
    const key = { name: 'kubelet' };
    const maxFailed = async () => (await prod.get(MachineComponentSets, key)).spec.maxFailed;
    const put = (): string[] => events.filter(({ reason }) => reason === 'DriftCorrected').map(({ message }) => message);
    const fight = async (ms: number): Promise<void> => {
      for (let passed = 0; passed < ms; passed += 100) {
        if ((await maxFailed()) === 1)
          await prod.patch(MachineComponentSets, key, { merge: { spec: { maxFailed: 50 } } }, { fieldManager: 'argo' });
        await clock.advance(100);
      }
    };
    await until(() => placement(name, 'prod')?.phase === 'Verified', 3000);
    await fight(1000);
    expect(put()[0]).toBe('put back as Git has it: MachineComponentSet/kubelet: spec.maxFailed from 50 to 1, set by argo');
    await fight(120_000);
    expect(put().length).toBeGreaterThan(4);
    expect(put().length).toBeLessThan(12);
    expect(placement(name, 'prod')?.message).toMatch(
      /^not put back as Git has it: it was put back \d+ times.*spec\.maxFailed from 50 to 1, set by argo/,
    );
    // Once the other writer gives up, it is put back and stays.
    for (let passed = 0; passed < 61_000; passed += 500) await clock.advance(500);
    expect(await maxFailed()).toBe(1);
    expect(placement(name, 'prod')?.message).toBeUndefined();
  });

  it('E2: gives no evidence while it has what Git does not give, and keeps and shows a pause by hand', async () => {
    const { evidence: _, ...begun } = known;
    recordOn('prod', [begun]);
    const key = { name: 'kubelet' };
    const { metadata } = await prod.get(MachineComponentSets, key);
    const theirs = { maxFailed: 50, paused: true };
    await prod.patch(MachineComponentSets, key, { merge: { spec: theirs } }, { fieldManager: 'kubectl-edit' });
    const prove = async (): Promise<void> => {
      const { generation = 0 } = (await prod.get(MachineComponentSets, key)).metadata;
      const status = {
        observedGeneration: generation,
        desired: 1,
        progress: '1/1',
        evidence: { unitDigest: digest, at: '2026-11-19T00:00:00Z' },
      };
      await prod.patch(MachineComponentSets, key, { merge: { status } }, { subresource: 'status' });
    };
    await prove();
    const recorded = (): string | undefined => cluster('prod')?.status?.units?.find((each) => each.unit === unit)?.evidence;
    const written: (string | undefined)[] = [];
    const name = commit({ [unit]: componentSet }, { clusters: ['prod'] });
    startHub();
    for (let passed = 0; passed < 3000; passed += 100) {
      await clock.advance(100);
      const { spec } = await prod.get(MachineComponentSets, key);
      if (spec.maxFailed !== 1) written.push(recorded());
    }
    expect(written.filter((each) => each !== undefined)).toEqual([]);
    expect((await prod.get(MachineComponentSets, key)).spec).toMatchObject({ maxFailed: 1, paused: true });
    expect((await prod.get(MachineComponentSets, key)).metadata.generation).toBe((metadata.generation ?? 0) + 2);
    expect(recorded()).toBeUndefined();
    await prove();
    await until(() => placement(name, 'prod')?.phase === 'Verified', 3000);
    expect(recorded()).toBe(digest);
    expect(placement(name, 'prod')?.message).toBe(
      '`spec.paused` is true in its cell and not in Git: it stays until it is set to false there',
    );
  });

  it('is asked for of no cell that is away, and is no reason to observe more often', async () => {
    recordOn('test', [{ ...known, commit: 'c8' }]);
    hub.remove(Secrets, { namespace: SYSTEM_NAMESPACE, name: 'cluster-test' });
    commit({ [unit]: componentSet }, { clusters: ['prod'] });
    units.clear();
    startHub();
    await until(() => rendered.length === 1, 1000);
    // Now this cell is away too, and what it lost is due again soon.
    hub.remove(Secrets, { namespace: SYSTEM_NAMESPACE, name: 'cluster-prod' });
    await until(() => reachable('prod')?.status === 'False', 20_000);
    await clock.advance(120_000);
    const earlier = reads();
    const before = rendered.length;
    await clock.advance(60_000);
    // Every five seconds, as for each cell that is away, and once a minute for each object that could have changed unseen.
    expect(reads() - earlier).toBeLessThanOrEqual(18);
    expect(new Set(rendered)).toEqual(new Set([lost]));
    expect(rendered).toHaveLength(before);
  });

  it('is tried at once when it is wanted again, after it was not wanted', async () => {
    commit({ [unit]: componentSet }, { clusters: ['prod'] });
    units.clear();
    startHub();
    await until(() => rendered.length === 6, 60_000);
    recordOn('prod', []);
    await clock.advance(200);
    recordOn('prod', [known]);
    await clock.advance(200);
    expect(rendered.filter((each) => each === lost)).toHaveLength(7);
  });
});

describe('E16: a cell that misbehaves', () => {
  const rule = (since: string): KubeObject =>
    ({
      apiVersion: API_VERSION,
      kind: 'MachineSet',
      metadata: { namespace: 'web', name: 'a' },
      spec: { provider: { name: 'none' } },
      status: { replicas: since === 'odd' ? 1e300 : 1 },
    }) as KubeObject;
  /** Both in one stage, at once. */
  const together = { spec: { stages: [{ name: 'all', clusters: [...CELLS], soakSeconds: 0, maxClusters: 2 }] } };

  it('by never answering a write keeps no other waiting, is away with the reason, and is tried again', async () => {
    let hangs = true;
    cell('test').intercept(({ method, signal }) => {
      if (method !== 'PATCH' || !hangs) return undefined;
      return new Promise<ApiResponse>((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason as Error)));
    });
    startHub();
    const first = commit({ [UNIT]: settings('1') }, together);
    await until(() => content('prod') === '1', 1000);
    // While the first write hangs, another commit goes through elsewhere.
    commit({ [UNIT]: settings('2') }, together);
    await until(() => content('prod') === '2', 10_000);
    expect(cell('test').requests.filter(({ method }) => method === 'PATCH')).toHaveLength(1);
    await until(() => reachable('test')?.reason === 'RequestTimeout', 40_000);
    const reported: (string | undefined)[] = [];
    for (let passed = 0; passed < 60_000; passed += 500) {
      await clock.advance(500);
      reported.push(reachable('test')?.status);
    }
    expect(reported.filter((each) => each !== 'False')).toEqual([]);
    expect(reachable('test')).toMatchObject({
      status: 'False',
      message: expect.stringContaining('was not complete after 30 s') as unknown,
    });
    expect(events).toContainEqual(expect.objectContaining({ about: 'Cluster/test', type: 'Warning', reason: 'RequestTimeout' }));
    commit({ [UNIT]: settings('3') }, together);
    await until(() => content('prod') === '3', 10_000);
    await clock.advance(300_000);
    // It stays away as long as it hangs, whatever else it answers meanwhile, and is reported once.
    expect(reachable('test')?.status).toBe('False');
    expect(events.filter(({ about, reason }) => about === 'Cluster/test' && reason === 'RequestTimeout')).toHaveLength(1);
    expect(events.filter(({ about, reason }) => about === 'Cluster/test' && reason === 'Connected')).toEqual([]);
    hangs = false;
    await until(() => content('test') === '3' && reachable('test')?.status === 'True', 130_000);
    expect(status(first)?.phase).not.toBe('Halted');
  });

  it('by what its objects report is away, and all others are reported and go on', async () => {
    cell('prod').put(MachineSets, rule('odd') as Parameters<typeof MachineSets.parse>[0] as never);
    startHub();
    const name = commit({ [UNIT]: settings('1') }, together);
    await until(() => reachable('prod')?.reason === 'ContentInvalid', 5000);
    expect(reachable('prod')?.status).toBe('False');
    await until(() => placement(name, 'test')?.phase === 'Verified' && reachable('test')?.status === 'True', 10_000);
    expect(events).toContainEqual(expect.objectContaining({ about: 'Cluster/prod', type: 'Warning', reason: 'ContentInvalid' }));
    cell('prod').put(MachineSets, rule('sound') as never);
    await until(() => reachable('prod')?.status === 'True' && done(name)(), 130_000);
  });

  it.each([
    ['413', () => statusResponse(413, 'RequestEntityTooLarge')],
    [
      'a connection that breaks',
      () => {
        throw new Error('write EPIPE');
      },
    ],
  ])('so that %s answers its report keeps no other from being reported', async (_what, response) => {
    // It comes first.
    hub.intercept((request) =>
      isPatchOf('/clusters/test/status')(request) && JSON.stringify(request.body).includes('conditions') ? response() : undefined,
    );
    startHub();
    commit({ [UNIT]: settings('1') }, together);
    await until(() => reachable('prod')?.status === 'True', 5000);
    expect(events).toContainEqual(expect.objectContaining({ about: 'Cluster/test', reason: 'StatusNotWritten' }));
  });
});
