import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { unitDigest } from '../../api/digest.ts';
import type { CodedError } from '../../api/errors.ts';
import { Fleets } from '../../api/fleet.ts';
import { API_VERSION } from '../../api/kind.ts';
import { MachineSets } from '../../api/machine-set.ts';
import { Clusters, type Cluster } from '../../api/cluster.ts';
import { Rollouts, type Rollout } from '../../api/rollout.ts';
import type { KubeObject } from '../../api/wire.ts';
import { createCache } from '../../kube/cache.ts';
import { createClient } from '../../kube/http-client.ts';
import type { RecordedEvent } from '../../kube/recorder.ts';
import { fakeApiServer, statusResponse, type FakeApiServer } from '../../kube/testing/api-server.ts';
import { fakeClock, type FakeClock } from '../../kube/testing/clock.ts';
import { recordingLog } from '../../kube/testing/log.ts';
import { waitFor } from '../../kube/testing/wait-for.ts';
import type { Bundles, StoredUnit } from '../bundles.ts';
import { syncError } from '../errors.ts';
import { gitError } from '../git/errors.ts';
import { openFence } from '../fence.ts';
import { inForce } from '../in-force.ts';
import { RenderError } from '../render/errors.ts';
import type { Fetched } from '../git/index.ts';
import type { Checkout, RenderedCommit } from './checkout.ts';
import { runFleetController } from './controller.ts';

/** A branch whose commits are one unit each, named by its content; a step of the way to it may fail or wait. */
interface Branch {
  head: string;
  fail: Partial<Record<keyof Checkout, () => Error | undefined>>;
  wait: Partial<Record<keyof Checkout, Promise<void>>>;
  /** What a commit renders, where it is not the one unit that is named by it. */
  renders?: (commit: string) => RenderedCommit;
  fetched?: () => Partial<Fetched>;
}

let server: FakeApiServer;
let clock: FakeClock;
let events: RecordedEvent[];
let abouts: string[];
let renders: string[];
let closed: string[];
let log: ReturnType<typeof recordingLog>;
let kept: Map<string, StoredUnit>;
let swept: { keep: ReadonlySet<string>; ageMs: number }[];
let stops: AbortController[];
let running: Promise<unknown>[];

beforeEach(() => {
  server = fakeApiServer();
  clock = fakeClock();
  events = [];
  abouts = [];
  renders = [];
  closed = [];
  log = recordingLog();
  kept = new Map();
  swept = [];
  stops = [];
  running = [];
  server.put(Fleets, {
    apiVersion: API_VERSION,
    kind: 'Fleet',
    metadata: { name: 'main', generation: 1 },
    spec: { source: { path: '/fleet' }, stages: [{ name: 'all', clusterSelector: { stage: 'all' } }] },
  });
});
afterEach(async () => {
  for (const stop of stops) stop.abort(new Error('the test is over'));
  await Promise.allSettled(running);
});

function startHub(branch: Branch): void {
  const stop = new AbortController();
  const { signal } = stop;
  stops.push(stop);
  const client = createClient(server.transport);
  const ports = { client, clock, random: () => 0.5, log, signal };
  async function way<T>(step: keyof Checkout, value: () => T): Promise<T> {
    const seen = value();
    await branch.wait[step];
    const failure = branch.fail[step]?.();
    if (failure !== undefined) throw failure;
    return seen;
  }
  const checkout: Checkout = {
    head: () => way('head', () => ({ oid: branch.head })),
    fetch: () =>
      way('fetch', () => ({
        head: branch.head,
        relation: 'descendant',
        commits: [{ oid: branch.head, author: 'a <a@b.c>', time: '2026-11-20T00:00:00Z', subject: branch.head }],
        ...branch.fetched?.(),
      })),
    verify: () => way('verify', () => undefined),
    render: (commit) => {
      renders.push(commit);
      return way('render', () => (branch.renders ?? rendered)(commit));
    },
  };
  const checkouts = {
    open: async () => checkout,
    close: async (name: string) => void closed.push(name),
    onChange: () => () => undefined,
  };
  const recorder = {
    event(about: KubeObject, event: RecordedEvent): void {
      events.push(event);
      abouts.push(`${about.kind}/${about.metadata.name} ${event.reason}`);
    },
    flush: async () => undefined,
  };
  running.push(
    runFleetController({ ...ports, cache: createCache(ports), bundles: memoryBundles(), checkouts, fence: openFence(ports), recorder }),
  );
}

/** The disk takes real time, of which the fake clock knows nothing. */
function memoryBundles(): Bundles {
  return {
    get: async (digest) => kept.get(digest),
    async put(digest, unit) {
      await Promise.resolve();
      kept.set(digest, unit);
    },
    async sweep(keep, ageMs) {
      await Promise.resolve();
      swept.push({ keep: new Set(keep), ageMs });
    },
  };
}

function rendered(commit: string): RenderedCommit {
  const object: KubeObject & { data: object } = {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { namespace: 'web', name: 'settings' },
    data: { content: commit },
  };
  const unit = { key: 'ConfigMap/web/settings', digest: unitDigest([object]), objects: [object], origins: [undefined] };
  const cluster = { apiVersion: API_VERSION, kind: 'Cluster' as const, metadata: { name: 'one', labels: { stage: 'all' } }, spec: {} };
  return { clusters: [{ name: 'one', object: cluster, units: [unit] }], isolation: 'process', ms: 1 };
}

const branchAt = (head: string): Branch => ({ head, fail: {}, wait: {} });
const once = (error: Error): (() => Error | undefined) => {
  let left: Error | undefined = error;
  return () => {
    const now = left;
    left = undefined;
    return now;
  };
};
const fleet = () => {
  const [found] = server.objects(Fleets);
  if (found === undefined) throw new Error('the Fleet is gone');
  return found;
};
const ready = () => fleet().status?.conditions?.find(({ type }) => type === 'Ready');
/** Commits of the rollouts that count. */
const going = (): string[] => inForce(fleet(), server.objects(Rollouts)).map(({ spec }) => spec.commit);

/** Lets time pass in steps until it is so, at most `maxMs`. */
async function until(condition: () => boolean, maxMs: number): Promise<void> {
  // What a hub loads at its start takes real time.
  await waitFor(() => server.watches.open > 0);
  for (let passed = 0; passed < maxMs && !condition(); passed += 500) await clock.advance(500);
  expect(condition(), JSON.stringify(fleet().status)).toBe(true);
}

describe('E10: only a verdict about the content refuses a commit', () => {
  const hiccups: [string, keyof Checkout, CodedError][] = [
    ['the server is not reached', 'head', gitError('GitUnreachable', 'no answer')],
    ['a fetch is cut', 'fetch', gitError('GitUnreachable', 'connection reset')],
    ['a fetch takes too long', 'fetch', gitError('GitTimeout', 'too slow')],
    ['credentials expired', 'fetch', gitError('GitAuth', 'wants others')],
    ['the disk is full', 'fetch', gitError('GitDisk', 'no space')],
    ['the child was killed', 'render', new RenderError([{ code: 'RenderCrashed', message: 'ended' }])],
    ['the machine is slow', 'render', new RenderError([{ code: 'RenderTimeout', message: 'slow' }])],
  ];
  it.each(hiccups)('safety 1: %s once, and the commit is accepted without another push', async (_what, step, error) => {
    const branch = { ...branchAt('c1'), fail: { [step]: once(error) } };
    startHub(branch);
    await until(() => fleet().status?.commit === 'c1', 5000);
    expect(events).toContainEqual({ type: 'Warning', reason: error.code, message: `${error.message}; it is tried again` });
    expect(going()).toEqual(['c1']);
  });

  it.each(['ServiceUnavailable', 'Timeout', 'Forbidden', 'NotFound', 'Unknown'])(
    "safety 1: the hub's API server answers %s once, and the commit is accepted",
    async (reason) => {
      const answer = once(new Error(reason));
      server.intercept(({ method, path, query }) =>
        method === 'GET' && path.endsWith('/clusters') && query?.['watch'] === undefined && answer() !== undefined
          ? statusResponse(503, reason)
          : undefined,
      );
      startHub(branchAt('c1'));
      await until(() => fleet().status?.commit === 'c1', 5000);
    },
  );

  it('what goes on failing is tried ever more rarely, and at once for another head', async () => {
    let fetches = 0;
    const branch = branchAt('c1');
    branch.fail.fetch = () => {
      fetches += 1;
      return branch.head === 'c1' ? gitError('GitTimeout', 'slow') : undefined;
    };
    startHub(branch);
    await clock.advance(600_000);
    expect(fetches).toBeGreaterThan(5);
    expect(fetches).toBeLessThan(20);
    branch.head = 'c2';
    await until(() => fleet().status?.commit === 'c2', 31_000);
  });

  it('a commit that was judged waits for another head, and another Fleet', async () => {
    const branch = branchAt('c1');
    let renders = 0;
    branch.fail.render = () => {
      renders += 1;
      return branch.head === 'c1' ? new RenderError([{ code: 'RenderThrew', message: 'fleet/main.ts throws' }]) : undefined;
    };
    startHub(branch);
    await clock.advance(600_000);
    expect(renders).toBe(1);
    expect(ready()).toMatchObject({ status: 'False', reason: 'RenderThrew' });
    expect(ready()?.message).not.toContain('tried again');
    server.put(Fleets, { ...fleet(), metadata: { ...fleet().metadata, generation: 2 } });
    await until(() => renders === 2, 31_000);
    branch.head = 'c2';
    await until(() => fleet().status?.commit === 'c2', 31_000);
  });
});

it('security 5, I4: the head is judged again when signatures are switched on, also where nothing is new', async () => {
  const branch = branchAt('c1');
  startHub(branch);
  await until(() => fleet().status?.commit === 'c1', 5000);
  branch.fetched = () => ({ relation: 'same', commits: [] });
  branch.fail.verify = () => syncError('Unsigned', 'c1 has no signature');
  server.put(Fleets, { ...fleet(), metadata: { ...fleet().metadata, generation: 2 } });
  await until(() => ready()?.reason === 'Unsigned', 31_000);
  expect(ready()?.status).toBe('False');
});

it('E10: each refused commit is named, in the condition and in an Event of its own, also where the reason is the same', async () => {
  const branch = branchAt('aaaaaaaaaaaa1');
  branch.fail.render = () => new RenderError([{ code: 'RenderThrew', message: 'fleet/main.ts:3:5: it throws' }]);
  startHub(branch);
  await until(() => ready()?.reason === 'RenderThrew', 5000);
  expect(ready()?.message).toContain('aaaaaaaaaa is refused: fleet/main.ts:3:5');
  branch.head = 'bbbbbbbbbbbb2';
  await until(() => fleet().status?.head === branch.head, 60_000);
  expect(ready()?.message).toContain('bbbbbbbbbb is refused: fleet/main.ts:3:5');
  const messages = events.filter(({ reason }) => reason === 'RenderThrew').map(({ message }) => message.slice(0, 21));
  expect(messages).toEqual(['aaaaaaaaaa is refused', 'bbbbbbbbbb is refused']);
  expect(fleet().status?.commit).toBeUndefined();
});

const rendersOf = (commit: string): number => renders.filter((each) => each === commit).length;

describe('E11: a hub that was deposed', () => {
  /** Hub `late` has fetched c1 and stands still while another accepts c2. */
  async function deposed(step: keyof Checkout, next: string): Promise<void> {
    const late = branchAt('c1');
    const stuck = Promise.withResolvers<void>();
    late.wait[step] = stuck.promise;
    startHub(late);
    await clock.advance(1000);
    startHub(branchAt(next));
    await until(() => fleet().status?.commit === next, 5000);
    // What it was about to do with c1, it does now; what it reads again, it finds as it is.
    Object.assign(late, { head: next, wait: {} });
    stuck.resolve();
    await clock.advance(1000);
  }

  it('does not set the accepted commit back, nor brings its Rollout into force', async () => {
    await deposed('render', 'c2');
    expect(fleet().status?.commit).toBe('c2');
    expect(going()).toEqual(['c2']);
  });

  it('brings no Rollout into force where the next commit changed nothing, and the next Rollout takes its place', async () => {
    startHub(branchAt('c0'));
    await until(() => fleet().status?.commit === 'c0', 5000);
    stops[0]?.abort(new Error('restart'));
    stops = [];
    const late = branchAt('c1');
    const [creating, stuck] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const first = once(new Error('x'));
    server.intercept(async ({ method, path }) => {
      if (method !== 'POST' || !path.endsWith('/rollouts') || first() === undefined) return undefined;
      creating.resolve();
      await stuck.promise;
      return undefined;
    });
    startHub(late);
    await until(() => rendersOf('c1') === 1, 31_000);
    await creating.promise;
    // Another hub accepted a revert of c1 meanwhile: nothing differs from c0, so it made no Rollout.
    const { status } = fleet();
    server.put(Fleets, { ...fleet(), status: { ...status, head: 'c2', commit: 'c2' } });
    late.head = 'c2';
    stuck.resolve();
    await clock.advance(1000);
    expect(server.objects(Rollouts).map(({ spec }) => spec.commit)).toEqual(['c0', 'c1']);
    expect(going()).toEqual(['c0']);
    expect(fleet().status?.commit).toBe('c2');
    late.head = 'c3';
    await until(() => fleet().status?.commit === 'c3', 31_000);
    expect(going()).toEqual(['c0', 'c3']);
    expect(server.objects(Rollouts).map(({ metadata }) => metadata.name)).toEqual(['main-1', 'main-2']);
  });

  /** The same, where a commit was accepted before. */
  async function deposedAfter(first: string, renders?: (commit: string) => RenderedCommit): Promise<void> {
    const of = (head: string): Branch => ({ ...branchAt(head), ...(renders === undefined ? {} : { renders }) });
    startHub(of(first));
    await until(() => fleet().status?.commit === first, 5000);
    stops[0]?.abort(new Error('restart'));
    stops = [];
    const late = of('c1');
    const stuck = Promise.withResolvers<void>();
    late.wait.render = stuck.promise;
    startHub(late);
    await until(() => rendersOf('c1') === 1, 31_000);
    startHub(of('c2'));
    await until(() => fleet().status?.commit === 'c2', 31_000);
    late.head = 'c2';
    stuck.resolve();
    await clock.advance(1000);
  }
  it('removes no Rollout that another has brought into force', async () => {
    await deposedAfter('c0');
    expect(going()).toEqual(['c0', 'c2']);
  });

  it('removes no Rollout that another is about to bring into force', async () => {
    startHub(branchAt('c0'));
    await until(() => fleet().status?.commit === 'c0', 5000);
    stops[0]?.abort(new Error('restart'));
    stops = [];
    // One is left of a hub that died. As another removes it for one of its own, a third takes it as it is.
    const cut = server.intercept(({ method, path, body }) => {
      if (method === 'PATCH' && path.endsWith('/status') && String(body).includes('"commit":"c2"')) throw new Error('the hub dies');
      return undefined;
    });
    startHub(branchAt('c2'));
    await until(() => server.objects(Rollouts).length === 2, 31_000);
    stops[0]?.abort(new Error('it is dead'));
    stops = [];
    cut();
    const removing = Promise.withResolvers<void>();
    const held = Promise.withResolvers<void>();
    const first = once(new Error('x'));
    server.intercept(async ({ method }) => {
      if (method !== 'DELETE' || first() === undefined) return undefined;
      removing.resolve();
      await held.promise;
      return undefined;
    });
    const late = branchAt('c1');
    startHub(late);
    await until(() => rendersOf('c1') === 1, 31_000);
    await removing.promise;
    startHub(branchAt('c2'));
    await until(() => fleet().status?.commit === 'c2', 31_000);
    late.head = 'c2';
    held.resolve();
    await clock.advance(1000);
    expect(going()).toEqual(['c0', 'c2']);
  });

  it('writes over no Cluster that another has written', async () => {
    await deposedAfter('c0', (commit) => renderedOf({ one: [configMap('settings', commit)] }, {}, { zone: commit }));
    expect(server.objects(Clusters).map(({ metadata }) => metadata.labels?.['zone'])).toEqual(['c2']);
  });

  it('writes over no Cluster that another left as it is, though no other wrote it', async () => {
    const labelled = (zone: string) => (commit: string) => renderedOf({ one: [configMap('settings', commit)] }, {}, { zone });
    const first = { ...branchAt('c0'), renders: labelled('here') };
    startHub(first);
    await until(() => fleet().status?.commit === 'c0', 5000);
    stops[0]?.abort(new Error('it stops'));
    const late = { ...branchAt('c1'), renders: labelled('elsewhere') };
    const [reached, stuck] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let stands = false;
    server.intercept(async ({ method, path }) => {
      // The write of the Cluster itself: the Fleet is read by then.
      if (stands || method !== 'PATCH' || !path.endsWith('/clusters/one')) return undefined;
      stands = true;
      reached.resolve();
      await stuck.promise;
      return undefined;
    });
    startHub(late);
    await until(() => stands, 5000);
    startHub({ ...branchAt('c2'), renders: labelled('here') });
    await until(() => fleet().status?.commit === 'c2', 31_000);
    Object.assign(late, { head: 'c2', renders: labelled('here') });
    stuck.resolve();
    await clock.advance(2000);
    expect(server.objects(Clusters).map(({ metadata }) => metadata.labels?.['zone'])).toEqual(['here']);
  });

  it('a refusal of a commit that another has accepted since is not written', async () => {
    const late = branchAt('c1');
    const stuck = Promise.withResolvers<void>();
    late.wait.verify = stuck.promise;
    late.fail.verify = () => syncError('Unsigned', 'c1 has no signature');
    startHub(late);
    await clock.advance(1000);
    startHub(branchAt('c2'));
    await until(() => fleet().status?.commit === 'c2', 5000);
    late.head = 'c2';
    stuck.resolve();
    await clock.advance(2000);
    expect(ready()).toMatchObject({ status: 'True', reason: 'Accepted' });
  });
});

it('a hub that dies between the Rollout and its acceptance goes on with that Rollout', async () => {
  const cut = server.intercept(({ method, path, body }) => {
    if (method === 'PATCH' && path.endsWith('/status') && String(body).includes('"commit"')) throw new Error('the hub dies');
    return undefined;
  });
  startHub(branchAt('c1'));
  await until(() => server.objects(Rollouts).length === 1, 5000);
  const [{ metadata: { uid } } = { metadata: { uid: '' } }] = server.objects(Rollouts);
  expect(going()).toEqual([]);
  cut();
  await until(() => fleet().status?.commit === 'c1', 120_000);
  expect(inForce(fleet(), server.objects(Rollouts)).map(({ metadata }) => metadata.uid)).toEqual([uid]);
});

const configMap = (name: string, content: string): KubeObject =>
  ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace: 'web', name }, data: { content } }) as KubeObject;
const machines = (replicas: number): KubeObject =>
  MachineSets.parse({
    apiVersion: API_VERSION,
    kind: 'MachineSet',
    metadata: { namespace: 'web', name: 'a' },
    spec: { provider: { name: 'none' }, replicas },
  });
const keyOf = ({ kind, metadata }: KubeObject): string => `${kind}/${metadata.namespace ?? ''}/${metadata.name}`;
/** These objects, a unit each, in each cluster. */
function renderedOf(
  clusters: Record<string, KubeObject[]>,
  more: Partial<RenderedCommit> = {},
  labels: Record<string, string> = {},
): RenderedCommit {
  return {
    clusters: Object.entries(clusters).map(([name, objects]) => ({
      name,
      object: { apiVersion: API_VERSION, kind: 'Cluster', metadata: { name, labels: { stage: 'all', ...labels } }, spec: {} },
      units: objects.map((object) => ({ key: keyOf(object), digest: unitDigest([object]), objects: [object], origins: [undefined] })),
    })),
    isolation: 'process',
    ms: 1,
    ...more,
  };
}
const digestOf = (object: KubeObject): string => unitDigest([object]);
const statusOf = (name: string): Cluster['status'] => server.objects(Clusters).find(({ metadata }) => metadata.name === name)?.status;
function recordOn(name: string, status: NonNullable<Cluster['status']>): void {
  const found = server.objects(Clusters).find(({ metadata }) => metadata.name === name);
  if (found === undefined) throw new Error(`no Cluster ${name}`);
  server.put(Clusters, { ...found, status });
}
const putRollout = (fleet: string, sequence: number, objects: KubeObject[], more: Partial<Rollout['spec']> = {}): unknown =>
  server.put(Rollouts, {
    apiVersion: API_VERSION,
    kind: 'Rollout',
    metadata: { name: `${fleet}-${sequence}` },
    spec: {
      fleet,
      commit: `old${sequence}`,
      sequence,
      stages: [{ name: 'all', clusters: ['one'], soakSeconds: 0, maxClusters: 1 }],
      units: objects.map((object) => ({ unit: keyOf(object), clusters: [{ name: 'one', digest: digestOf(object) }] })),
      ...more,
    },
  });
const change = (spec: object, more: object = {}): unknown =>
  server.put(Fleets, { ...fleet(), ...more, spec: { ...fleet().spec, ...spec } });
const statusWrites = (): number =>
  server.requests.filter(({ method, path }) => method === 'PATCH' && path.endsWith('/fleets/main/status')).length;

describe('a commit that is accepted', () => {
  it('is in the status, with all that it is, and in one Event', async () => {
    const [a, b] = [configMap('a', '1'), configMap('b', '1')];
    startHub({ ...branchAt('abcdefabcdef12'), renders: () => renderedOf({ two: [a], one: [a, b] }) });
    await until(() => fleet().status?.commit !== undefined, 5000);
    const [rollout] = server.objects(Rollouts);
    expect(fleet().status).toMatchObject({
      head: 'abcdefabcdef12',
      commit: 'abcdefabcdef12',
      commitTime: '2026-11-20T00:00:00Z',
      rollout: { sequence: 1, uid: rollout?.metadata.uid },
      clusters: ['one', 'two'],
      isolation: 'process',
      units: 3,
      observedGeneration: 1,
    });
    expect(ready()).toMatchObject({ status: 'True', reason: 'Accepted', message: 'abcdefabcd changes 2 units', observedGeneration: 1 });
    expect(rollout?.spec).toMatchObject({
      fleet: 'main',
      commit: 'abcdefabcdef12',
      subject: 'abcdefabcdef12',
      author: 'a <a@b.c>',
      sequence: 1,
    });
    expect(abouts).toEqual(['Rollout/main-1 RolloutCreated']);
    expect(events[0]).toEqual({
      type: 'Normal',
      reason: 'RolloutCreated',
      message: 'abcdefabcd "abcdefabcdef12": ConfigMap/web/a, ConfigMap/web/b',
    });
    expect(log.lines).toContainEqual(
      expect.objectContaining({
        message: 'rendered',
        fields: expect.objectContaining({ commit: 'abcdefabcdef12', clusters: 2, ms: 1 }) as unknown,
      }),
    );
    expect([...kept.values()].map(({ key }) => key).toSorted()).toEqual(['ConfigMap/web/a', 'ConfigMap/web/b']);
    expect(swept).toEqual([{ keep: new Set([digestOf(a), digestOf(b)]), ageMs: 86_400_000 }]);
    const writes = statusWrites();
    await clock.advance(120_000);
    expect([renders.length, statusWrites(), swept.length]).toEqual([1, writes, 1]);
  });

  it('E18: is no larger than its Rollout may be: a larger one is refused before anything is written', async () => {
    const many = Array.from({ length: 501 }, (_, index) => configMap(`c${index}`, '1'));
    startHub({ ...branchAt('c1'), renders: () => renderedOf({ one: many }) });
    await until(() => ready()?.reason === 'CommitTooLarge', 5000);
    expect(ready()?.message).toContain('c1 is refused: it changes 501 units on up to 1 clusters each');
    expect(server.requests.filter(({ method, path }) => method !== 'GET' && !path.includes('/fleets/'))).toEqual([]);
    expect(kept.size).toBe(0);
  });

  it('E1: gives no unit another API group, since its former object would stay in no record', async () => {
    const widget = (group: string): KubeObject => ({
      apiVersion: `${group}/v1`,
      kind: 'Widget',
      metadata: { namespace: 'web', name: 'w' },
    });
    const groups: Record<string, string> = { c1: 'b.example.com', c2: 'a.example.com' };
    const branch = { ...branchAt('c1'), renders: (commit: string) => renderedOf({ one: [widget(groups[commit] ?? '')] }) };
    startHub(branch);
    await until(() => fleet().status?.commit === 'c1', 5000);
    branch.head = 'c2';
    await until(() => ready()?.reason === 'GroupChanged', 31_000);
    expect(ready()?.message).toContain('Widget/web/w in one from b.example.com to a.example.com');
    expect([ready()?.message.includes('tried again'), going()]).toEqual([false, ['c1']]);
  });

  it('that drops a cluster reports it: what was applied there stays', async () => {
    const a = configMap('settings', 'a');
    let clusters: Record<string, KubeObject[]> = { one: [a], two: [a], three: [a] };
    const branch: Branch = { ...branchAt('c1'), renders: () => renderedOf(clusters) };
    startHub(branch);
    await until(() => fleet().status?.commit === 'c1', 5000);
    clusters = { one: [a] };
    branch.head = 'c2';
    await until(() => fleet().status?.commit === 'c2', 31_000);
    expect(ready()?.message).toBe('c2 changes nothing, and lets go of clusters three, two: what was applied there stays');
  });

  it('that changes nothing makes no Rollout, keeps the one in force, and the time of the commit where none is known', async () => {
    const branch: Branch = { ...branchAt('c1'), renders: () => rendered('same') };
    startHub(branch);
    await until(() => fleet().status?.commit === 'c1', 5000);
    expect(ready()?.message).toBe('c1 changes 1 unit');
    const { rollout } = fleet().status ?? {};
    Object.assign(branch, { head: 'c2', fetched: () => ({ commits: [] }) });
    await until(() => fleet().status?.commit === 'c2', 31_000);
    expect(ready()?.message).toBe('c2 changes nothing');
    expect(fleet().status).toMatchObject({ commitTime: '2026-11-20T00:00:00Z', rollout });
    expect(going()).toEqual(['c1']);
    expect(abouts).toEqual(['Rollout/main-1 RolloutCreated']);
  });

  it('applies its Clusters, each over its own, and writes only what differs', async () => {
    let labels: Record<string, string> = {};
    const branch: Branch = {
      ...branchAt('c1'),
      renders: () => renderedOf({ one: [configMap('a', '1')], two: [configMap('a', '1')] }, {}, labels),
    };
    startHub(branch);
    await until(() => fleet().status?.commit === 'c1', 5000);
    expect(server.objects(Clusters).map(({ metadata }) => [metadata.name, metadata.labels])).toEqual([
      ['one', { stage: 'all' }],
      ['two', { stage: 'all' }],
    ]);
    labels = { zone: 'b' };
    branch.head = 'c2';
    await until(() => fleet().status?.commit === 'c2', 31_000);
    expect(server.objects(Clusters).map(({ metadata }) => metadata.labels)).toEqual([
      { stage: 'all', zone: 'b' },
      { stage: 'all', zone: 'b' },
    ]);
    const applies = server.requests.filter(({ method, path }) => method === 'PATCH' && /\/clusters\/[^/]+$/.test(path));
    expect(applies.every(({ query }) => query?.['force'] === 'true')).toBe(true);
  });

  it('that cannot apply a Cluster, or keep what it rendered, is not accepted', async () => {
    const answer = once(new Error('refused'));
    server.intercept(({ method, path }) =>
      method === 'PATCH' && path.endsWith('/clusters/one') && answer() !== undefined ? statusResponse(403, 'Forbidden') : undefined,
    );
    startHub(branchAt('c1'));
    await until(() => fleet().status?.commit === 'c1', 5000);
    expect(events[0]).toMatchObject({ type: 'Warning', reason: 'Forbidden' });
    expect(abouts[0]).toBe('Fleet/main Forbidden');
  });

  it('goes by the Rollouts of its own fleet', async () => {
    putRollout('other', 7, [configMap('settings', 'of another')]);
    startHub(branchAt('c1'));
    await until(() => fleet().status?.commit === 'c1', 5000);
    expect(fleet().status?.rollout?.sequence).toBe(1);
    expect(server.objects(Rollouts).find(({ spec }) => spec.fleet === 'main')?.spec.units[0]?.clusters).toEqual([
      { name: 'one', digest: digestOf(configMap('settings', 'c1')) },
    ]);
  });

  it('goes on after the Rollouts of a hub that counted them by their number alone', async () => {
    putRollout('main', 2, [configMap('settings', 'old')]);
    putRollout('main', 3, [configMap('settings', 'newer')]);
    startHub(branchAt('c1'));
    await until(() => fleet().status?.commit === 'c1', 5000);
    expect(fleet().status?.rollout?.sequence).toBe(4);
    expect(server.objects(Rollouts).at(-1)?.spec.units[0]?.clusters).toMatchObject([{ from: digestOf(configMap('settings', 'newer')) }]);
  });

  it('takes no Rollout of that name that is of another fleet', async () => {
    putRollout('main', 1, [configMap('settings', 'x')], { fleet: 'other' });
    startHub(branchAt('c1'));
    await until(() => ready()?.reason === 'NotOurs', 5000);
    expect(ready()?.message).toContain('Rollout "main-1" belongs to fleet "other"');
    expect(ready()?.message).toContain('\nnext: give this Fleet another name');
    expect(fleet().status?.commit).toBeUndefined();
    expect(server.objects(Rollouts)).toHaveLength(1);
  });

  it.each([
    ['NotFound', 404],
    ['Conflict', 409],
  ])('replaces a Rollout that reports something else, also where its removal is answered %s', async (reason, status) => {
    startHub(branchAt('c0'));
    await until(() => fleet().status?.commit === 'c0', 5000);
    putRollout('main', 2, [configMap('settings', 'left')]);
    const [deleted] = [Promise.withResolvers<undefined>()];
    server.intercept(({ method, path }) => {
      if (method !== 'DELETE' || !path.endsWith('/rollouts/main-2')) return undefined;
      server.remove(Rollouts, { name: 'main-2' });
      deleted.resolve(undefined);
      return statusResponse(status, reason);
    });
    stops[0]?.abort(new Error('restart'));
    startHub(branchAt('c1'));
    await until(() => fleet().status?.commit === 'c1', 5000);
    expect(going()).toEqual(['c0', 'c1']);
    expect(events.filter(({ type }) => type === 'Warning')).toEqual([]);
  });

  it('is tried again where a Rollout cannot be made, or one that reports something else not removed', async () => {
    startHub(branchAt('c0'));
    await until(() => fleet().status?.commit === 'c0', 5000);
    stops[0]?.abort(new Error('restart'));
    putRollout('main', 2, [configMap('settings', 'left')]);
    const [created, removed] = [once(new Error('x')), once(new Error('x'))];
    server.intercept(({ method, path }) => {
      if (method === 'POST' && path.endsWith('/rollouts') && created() !== undefined)
        return statusResponse(500, 'InternalError', 'no create');
      return method === 'DELETE' && removed() !== undefined ? statusResponse(403, 'Forbidden', 'no delete') : undefined;
    });
    startHub(branchAt('c1'));
    await until(() => fleet().status?.commit === 'c1', 10_000);
    const reported = events.filter(({ type }) => type === 'Warning').map(({ message }) => message);
    expect(reported).toEqual([expect.stringContaining('no create'), expect.stringContaining('no delete')]);
    expect(going()).toEqual(['c0', 'c1']);
  });

  it('lets old Rollouts go that nothing depends on, and keeps what may be wanted again', async () => {
    const unit = (content: number): KubeObject => configMap('settings', String(content));
    for (let sequence = 1; sequence <= 53; sequence += 1) putRollout('main', sequence, [unit(sequence)]);
    putRollout('other', 1, [unit(1000)]);
    server.put(Fleets, { ...fleet(), status: { rollout: { sequence: 53 } } });
    const gone = once(new Error('x'));
    server.intercept(({ method, path }) => {
      if (method !== 'DELETE' || gone() === undefined) return undefined;
      server.remove(Rollouts, { name: path.split('/').at(-1) ?? '' });
      // A pause that came since the Rollouts were listed counts.
      putRollout('main', 2, [unit(2)], { paused: true });
      return statusResponse(404, 'NotFound');
    });
    startHub(branchAt('c1'));
    await until(() => swept.length > 0, 5000);
    const left = server
      .objects(Rollouts)
      .filter(({ spec }) => spec.fleet === 'main')
      .map(({ spec }) => spec.sequence);
    expect([left.length, ...left.toSorted((a, b) => a - b).slice(0, 2), left.at(-1)]).toEqual([51, 2, 5, 54]);
    expect(server.objects(Rollouts).filter(({ spec }) => spec.fleet === 'other')).toHaveLength(1);
    expect(swept[0]?.keep).toContain(digestOf(unit(53)));
    expect(swept[0]?.keep).toContain(digestOf(configMap('settings', 'c1')));
    expect(events.filter(({ type }) => type === 'Warning')).toEqual([]);
  });
});

it.each<[string, string | undefined]>([
  ['that goes on', 'A'],
  ['that is over and soaks', undefined],
])('E12: a commit takes a removal %s along where it changes the unit in another cluster, and no other', async (_what, digest) => {
  const trees: Record<string, Record<string, KubeObject[]>> = {
    c1: { one: [configMap('a', '1'), configMap('b', '1')], two: [configMap('a', '1'), configMap('b', '1')] },
    c2: { one: [configMap('b', '1')], two: [configMap('b', '1')] },
    c3: { one: [configMap('b', '1')], two: [configMap('a', '2'), configMap('b', '1')] },
  };
  const branch: Branch = { ...branchAt('c1'), renders: (commit) => renderedOf(trees[commit] ?? {}) };
  startHub(branch);
  await until(() => fleet().status?.commit === 'c1', 5000);
  branch.head = 'c2';
  await until(() => fleet().status?.commit === 'c2', 31_000);
  const removal = { lane: 'Forward' as const, at: '2026-11-20T00:00:00Z' };
  const record = { unit: 'ConfigMap/web/a', fleet: 'main', ...(digest === undefined ? { removal } : { digest }) };
  recordOn('one', { units: [record] });
  branch.head = 'c3';
  await until(() => fleet().status?.commit === 'c3', 31_000);
  const newest = server.objects(Rollouts).find(({ spec }) => spec.commit === 'c3');
  const two = { name: 'two', digest: digestOf(configMap('a', '2')) };
  expect(newest?.spec.units).toEqual([{ unit: 'ConfigMap/web/a', clusters: [{ name: 'one' }, two] }]);
});

describe('E9: a commit that would let too many machines go', () => {
  async function reduced(lose: boolean, record: (digest: string) => NonNullable<Cluster['status']>['units']): Promise<void> {
    change({ prune: { maxDeletions: 3 } });
    const branch: Branch = {
      ...branchAt('c1'),
      renders: (commit) => renderedOf({ one: [machines(commit === 'c1' ? 6 : 1), configMap('a', commit)] }),
    };
    startHub(branch);
    await until(() => fleet().status?.commit === 'c1', 5000);
    const now = new Date(clock.now()).toISOString();
    recordOn('one', {
      units: record(digestOf(machines(6))) ?? [],
      machines: { total: 6, ready: 6 },
      conditions: [{ type: 'Reachable', status: 'True', reason: 'Connected', message: '', lastTransitionTime: now }],
    });
    if (lose) kept.clear();
    renders.length = 0;
    branch.head = 'c2';
    await until(() => fleet().status?.commit === 'c2', 31_000);
  }
  const held = (digest: string) => [{ unit: 'MachineSet/web/a', fleet: 'main', digest, commit: 'c1' }];
  const replaced = (): unknown =>
    server
      .objects(Rollouts)
      .at(-1)
      ?.spec.units.map(({ unit }) => unit);

  it('goes on but for its set, with a message and an Event, and is not tried again', async () => {
    await reduced(false, held);
    expect(ready()).toMatchObject({ status: 'False', reason: 'HeldBack' });
    expect(ready()?.message).toMatch(/^c2 changes 1 unit, but .*MachineSet\/web\/a in one: 6 → 1.*\nnext: /);
    expect(events).toContainEqual({ type: 'Warning', reason: 'HeldBack', message: ready()?.message });
    expect(abouts).toContain('Fleet/main HeldBack');
    expect(replaced()).toEqual(['ConfigMap/web/a']);
    await clock.advance(120_000);
    expect(renders).toEqual(['c2']);
  });

  const sets = (replicas: number, wanted: number, deleting = 0): NonNullable<NonNullable<Cluster['status']>['machines']> => ({
    total: replicas,
    ready: replicas,
    sets: [{ set: 'web/a', replicas, wanted, ...(deleting === 0 ? {} : { deleting }) }],
  });
  const recordMachines = (replicas: number, reported: ReturnType<typeof sets>, reached: 'True' | 'False' = 'True'): void => {
    const now = new Date(clock.now()).toISOString();
    recordOn('one', {
      units: held(digestOf(machines(replicas))),
      machines: reported,
      conditions: [{ type: 'Reachable', status: reached, reason: 'X', message: '', lastTransitionTime: now }],
    });
  };
  /** Commits are named by the number of machines that they want. */
  const branchOf = (commit: string): Branch => ({
    ...branchAt(commit),
    renders: (commit) => renderedOf({ one: [machines(Number(commit.slice(1)))] }),
  });
  const wantedNow = (): unknown =>
    server
      .objects(Rollouts)
      .toSorted((a, b) => a.spec.sequence - b.spec.sequence)
      .at(-1)?.spec.commit;

  it('names all of its sets in the log', async () => {
    await reduced(false, held);
    expect(log.lines.find(({ message }) => message.startsWith('held back: '))?.fields).toMatchObject({
      commit: 'c2',
      all: ['MachineSet/web/a in one: 6 → 1'],
    });
  });

  it('names all objects of a commit that is refused in the log', async () => {
    const objects = ['a', 'b', 'c', 'd', 'e'].map((name) => configMap(name, '1'));
    const branch: Branch = {
      ...branchAt('c1'),
      renders: (commit) => renderedOf({ one: commit === 'c1' ? objects : objects.slice(0, 1) }),
    };
    startHub(branch);
    await until(() => fleet().status?.commit === 'c1', 5000);
    branch.head = 'c2';
    await until(() => ready()?.reason === 'PruneBudget', 31_000);
    expect(ready()?.message).toContain('4 objects would go, 3 may');
    expect(ready()?.message).toContain('\nnext: delete fewer at a time; or');
    expect(log.lines.find(({ fields }) => fields['reason'] === 'PruneBudget')?.fields['all']).toHaveLength(4);
  });

  it.each([false, true])(
    'takes no other share while the first goes, and goes by itself when that is gone (restart: %s)',
    async (restart) => {
      const branch = branchOf('c40');
      startHub(branch);
      await until(() => fleet().status?.commit === 'c40', 5000);
      recordMachines(40, sets(40, 40));
      branch.head = 'c37';
      await until(() => fleet().status?.commit === 'c37', 31_000);
      expect(ready()?.reason).toBe('Accepted');
      // Nothing of it has begun.
      branch.head = 'c34';
      await until(() => fleet().status?.commit === 'c34', 31_000);
      expect(ready()?.message).toContain('3 of its 40 machines would go beside 3 that go already, 3 may');
      expect(wantedNow()).toBe('c37');
      if (restart) {
        stops[0]?.abort(new Error('restart'));
        startHub(branch);
      }
      recordMachines(37, sets(37, 37, 2));
      await clock.advance(62_000);
      expect([ready()?.reason, wantedNow()]).toEqual(['HeldBack', 'c37']);
      recordMachines(37, sets(37, 37));
      await until(() => ready()?.reason === 'Accepted', 62_000);
      expect(wantedNow()).toBe('c34');
    },
  );

  it('lets none go where it is not known how many there are, and lets them go when the cluster is reached', async () => {
    const branch = branchOf('c40');
    startHub(branch);
    await until(() => fleet().status?.commit === 'c40', 5000);
    recordMachines(40, sets(40, 40), 'False');
    branch.head = 'c39';
    await until(() => fleet().status?.commit === 'c39', 31_000);
    expect(ready()?.message).toContain('how many it has is not known');
    renders.length = 0;
    await clock.advance(120_000);
    expect(renders).toEqual([]);
    recordMachines(40, sets(40, 40));
    await until(() => ready()?.reason === 'Accepted', 62_000);
    expect(wantedNow()).toBe('c39');
  });

  it('counts what the cell has where the hub was put back to before its set grew, also where the commit grows it by the record', async () => {
    const branch = branchOf('c2');
    startHub(branch);
    await until(() => fleet().status?.commit === 'c2', 5000);
    recordMachines(6, sets(6, 6));
    branch.head = 'c3';
    await until(() => fleet().status?.commit === 'c3', 31_000);
    expect(ready()?.message).toContain('3 of its 6 machines would go, 1 may');
    expect(ready()?.message).toContain('6 → 3');
    expect(wantedNow()).toBe('c2');
    recordMachines(2, sets(2, 2));
    await until(() => ready()?.reason === 'Accepted', 62_000);
    expect(wantedNow()).toBe('c3');
  });

  it('is not tried again by itself where it is too much of its own, whatever becomes of the cluster', async () => {
    const branch = branchOf('c40');
    startHub(branch);
    await until(() => fleet().status?.commit === 'c40', 5000);
    recordMachines(40, sets(40, 40));
    branch.head = 'c1';
    await until(() => ready()?.reason === 'HeldBack', 31_000);
    renders.length = 0;
    recordMachines(40, sets(1000, 1000));
    await clock.advance(120_000);
    expect([renders, wantedNow()]).toEqual([[], 'c40']);
  });

  /** The cell was asked for 200 machines, of which it has so many; 40 were proven. */
  const recordTypo = (replicas: number, wanted = 200): void => {
    recordMachines(200, sets(replicas, wanted));
    const found = server.objects(Clusters).find(({ metadata }) => metadata.name === 'one');
    const verified = [{ digest: digestOf(machines(40)), commit: 'c40', at: new Date(clock.now()).toISOString() }];
    const units = (found?.status?.units ?? []).map((unit) => ({ ...unit, verified }));
    recordOn('one', { ...found?.status, units });
  };
  const newestPlacement = (): unknown => server.objects(Rollouts).at(-1)?.spec.units[0]?.clusters[0];
  const letGo = (maxDeletions: number): void => {
    const stages = [{ name: 'all', clusterSelector: { stage: 'all' }, prune: { maxDeletions, maxMachines: '100%' } }];
    change({ stages }, { metadata: { ...fleet().metadata, generation: 2 } });
  };

  it('is judged again where a set has more machines by then, and goes on where the limits are raised', async () => {
    const branch = branchOf('c200');
    startHub(branch);
    await until(() => fleet().status?.commit === 'c200', 5000);
    recordTypo(42);
    branch.head = 'c40';
    await until(() => fleet().status?.commit === 'c40', 31_000);
    expect(ready()?.reason).toBe('Accepted');
    expect(newestPlacement()).toMatchObject({ digest: digestOf(machines(40)), atMost: 42 });
    const rollouts = server.objects(Rollouts).length;
    recordTypo(100, 100);
    await until(() => ready()?.reason === 'HeldBack', 62_000);
    expect(ready()?.message).toContain('60 of its 100 machines would go, 3 may');
    expect(server.objects(Rollouts)).toHaveLength(rollouts);
    renders.length = 0;
    await clock.advance(120_000);
    expect(renders).toEqual([]);
    letGo(60);
    await until(() => ready()?.reason === 'Accepted', 62_000);
    expect(newestPlacement()).toMatchObject({ digest: digestOf(machines(40)), atMost: 100 });
  });

  it('waits in the cell where that makes what it takes back, and goes on where the limits are raised', async () => {
    const branch = branchOf('c200');
    startHub(branch);
    await until(() => fleet().status?.commit === 'c200', 5000);
    recordTypo(60);
    branch.head = 'c40';
    await until(() => ready()?.reason === 'HeldBack', 31_000);
    expect(ready()?.message).toContain('20 of its 60 machines would go, 3 may');
    expect([wantedNow(), newestPlacement()]).toMatchObject(['c40', { digest: digestOf(machines(40)), atMost: 40 }]);
    recordTypo(62, 62);
    await clock.advance(62_000);
    expect(ready()?.reason).toBe('HeldBack');
    letGo(22);
    await until(() => ready()?.reason === 'Accepted', 62_000);
    expect(newestPlacement()).toMatchObject({ digest: digestOf(machines(40)), atMost: 62 });
  });

  it('counts what an earlier commit removes, as long as its cell has it', async () => {
    const other = { ...machines(3), metadata: { namespace: 'web', name: 'b' } };
    const trees: Record<string, KubeObject[]> = {
      c1: [machines(40), other, configMap('a', '1')],
      c2: [machines(40), configMap('a', '1')],
      c3: [machines(38), configMap('a', '1')],
    };
    change({ prune: { maxDeletions: 4 } });
    const branch: Branch = { ...branchAt('c1'), renders: (commit) => renderedOf({ one: trees[commit] ?? [] }) };
    startHub(branch);
    await until(() => fleet().status?.commit === 'c1', 5000);
    const units = [
      { unit: 'MachineSet/web/a', fleet: 'main', digest: digestOf(machines(40)) },
      { unit: 'MachineSet/web/b', fleet: 'main', digest: digestOf(other) },
    ];
    const conditions = [
      { type: 'Reachable', status: 'True' as const, reason: 'X', message: '', lastTransitionTime: new Date(clock.now()).toISOString() },
    ];
    const a = { set: 'web/a', replicas: 40, wanted: 40 };
    recordOn('one', { units, machines: { total: 43, ready: 43, sets: [a, { set: 'web/b', replicas: 3, wanted: 3 }] }, conditions });
    branch.head = 'c2';
    await until(() => fleet().status?.commit === 'c2', 31_000);
    expect(ready()?.reason).toBe('Accepted');
    branch.head = 'c3';
    await until(() => fleet().status?.commit === 'c3', 31_000);
    expect(ready()?.message).toContain('2 of its 43 machines would go beside 3 that go already, 4 may');
    recordOn('one', { units: units.slice(0, 1), machines: { total: 40, ready: 40, sets: [a] }, conditions });
    await until(() => ready()?.reason === 'Accepted', 62_000);
  });

  it('renders the former commit again where its content was lost', async () => {
    await reduced(true, held);
    expect(renders).toEqual(['c2', 'c1']);
    expect(ready()?.message).toContain('6 → 1');
  });

  it.each<[string, (digest: string) => NonNullable<Cluster['status']>['units'], boolean]>([
    ['has them all where the set is on its way', (digest) => [{ unit: 'MachineSet/web/a', fleet: 'main', begun: digest }], true],
    ['has none where the set was never begun', () => [{ unit: 'ConfigMap/web/a', fleet: 'main', digest: 'x' }], false],
    [
      'has none where the set is being removed and nothing is left of it',
      () => [{ unit: 'MachineSet/web/a', fleet: 'main', begun: 'Removal' }],
      false,
    ],
    ['may have all where nothing at all is recorded', () => [], true],
  ])('a cluster %s', async (_what, record, back) => {
    await reduced(false, record);
    expect(ready()?.reason).toBe(back ? 'HeldBack' : 'Accepted');
  });
});

describe('what is reported of a try that failed', () => {
  it('is reported once for as long as it is the same, with what to do', async () => {
    const branch = branchAt('c1');
    branch.fail.render = () => new RenderError([{ code: 'RenderThrew', message: 'it throws', next: 'correct it' }]);
    startHub(branch);
    await until(() => ready() !== undefined, 5000);
    expect(ready()?.message).toBe('c1 is refused: it throws\nnext: correct it');
    expect(fleet().status).toMatchObject({ head: 'c1', observedGeneration: 1 });
    server.put(Fleets, { ...fleet(), metadata: { ...fleet().metadata, generation: 2 } });
    await until(() => fleet().status?.observedGeneration === 2, 31_000);
    expect(events).toHaveLength(1);
    expect(log.lines.filter(({ level }) => level === 'warn')).toEqual([
      {
        level: 'warn',
        fields: { fleet: 'main', head: 'c1', reason: 'RenderThrew' },
        message: 'c1 is refused: it throws\nnext: correct it',
      },
    ]);
  });

  it('has the reason InternalError where it has no code, and no head where none was seen', async () => {
    const branch = branchAt('c1');
    branch.fail.head = () => new Error('oops');
    startHub(branch);
    await until(() => ready() !== undefined, 5000);
    expect(ready()).toMatchObject({ status: 'False', reason: 'InternalError', message: 'oops; it is tried again' });
    expect(fleet().status).not.toHaveProperty('head');
  });

  it('is that of the write, where the status cannot be written', async () => {
    const answer = once(new Error('x'));
    server.intercept(({ method, path, body }) =>
      method === 'PATCH' && path.endsWith('/fleets/main/status') && String(body).includes('"commit"') && answer() !== undefined
        ? statusResponse(403, 'Forbidden', 'no writes')
        : undefined,
    );
    startHub(branchAt('c1'));
    await until(() => fleet().status?.commit === 'c1', 5000);
    expect(events.map(({ reason }) => reason)).toEqual(['Forbidden', 'RolloutCreated']);
  });

  it('is followed by the next try at once, where the report took longer than the wait', async () => {
    const branch = branchAt('c1');
    branch.fail.head = once(new Error('no answer'));
    server.intercept(({ method, path }) => {
      // The answer to the report of the failure comes a minute later.
      if (method === 'PATCH' && path.endsWith('/fleets/main/status') && ready() === undefined) clock.pause(60_000);
      return undefined;
    });
    startHub(branch);
    await until(() => fleet().status?.commit === 'c1', 5000);
    expect(log.lines.filter(({ fields }) => fields['failures'] !== undefined)).toEqual([]);
  });

  it('is nothing where another wrote the Fleet meanwhile', async () => {
    const answer = once(new Error('x'));
    server.intercept(({ method, path }) =>
      method === 'PATCH' && path.endsWith('/fleets/main/status') && answer() !== undefined ? statusResponse(409, 'Conflict') : undefined,
    );
    startHub(branchAt('c1'));
    await until(() => fleet().status?.commit === 'c1', 5000);
    expect(events.map(({ type }) => type)).toEqual(['Normal']);
    expect(log.lines.filter(({ message }) => message.includes('failed'))).toEqual([]);
  });

  it.each(['generation', 'commit'])('is not reported of a Fleet that has another %s by then', async (what) => {
    const branch = branchAt('c1');
    const stuck = Promise.withResolvers<void>();
    branch.wait.verify = stuck.promise;
    branch.fail.verify = once(syncError('Unsigned', 'c1 has no signature'));
    startHub(branch);
    await clock.advance(1000);
    const { metadata, status } = fleet();
    server.put(Fleets, {
      ...fleet(),
      ...(what === 'commit' ? { status: { ...status, commit: 'c0' } } : { metadata: { ...metadata, generation: 2 } }),
    });
    stuck.resolve();
    await until(() => fleet().status?.commit === 'c1', 5000);
    expect(events.map(({ reason }) => reason)).toEqual(['RolloutCreated']);
  });

  it.each([
    ['rewritten', 'HistoryRewritten', 'the branch was rewritten: bbbbbbbbbb does not descend from aaaaaaaaaa; nothing was changed'],
    ['tooLong', 'HistoryTooLong', 'the history between aaaaaaaaaa and bbbbbbbbbb is longer than can be checked; nothing was changed'],
  ] as const)('E7: is what a human has to accept, of a history that is %s', async (relation, reason, message) => {
    const branch = branchAt('aaaaaaaaaaaa1');
    startHub(branch);
    await until(() => fleet().status?.commit === branch.head, 5000);
    Object.assign(branch, { head: 'bbbbbbbbbbbb2', fetched: () => ({ relation }) });
    await until(() => ready()?.reason === reason, 31_000);
    expect(ready()?.message).toContain(message);
    expect(ready()?.message).toContain(`kubectl patch fleet main --type merge -p '{"spec":{"acceptRewrittenHead":"bbbbbbbbbbbb2"}}'`);
    expect(going()).toEqual(['aaaaaaaaaaaa1']);
    change({ acceptRewrittenHead: 'aaaaaaaaaaaa1' }, { metadata: { ...fleet().metadata, generation: 2 } });
    await clock.advance(31_000);
    expect(going()).toEqual(['aaaaaaaaaaaa1']);
    change({ acceptRewrittenHead: 'bbbbbbbbbbbb2' }, { metadata: { ...fleet().metadata, generation: 3 } });
    await until(() => fleet().status?.commit === 'bbbbbbbbbbbb2', 31_000);
  });
});

describe('E7a: a commit does not choose by which stage a known cluster is judged', () => {
  const [a, b, c, d, e] = ['a', 'b', 'c', 'd', 'e'].map((name) => configMap(name, '1')) as [
    KubeObject,
    KubeObject,
    KubeObject,
    KubeObject,
    KubeObject,
  ];
  const objects = [a, b, c, d, e];
  /** Cluster `two` is of stage `late`, which lets nothing be deleted; what is left out of a commit has left the fleet. */
  const labelled = (commits: Record<string, [stage: string, objects: KubeObject[]] | undefined>) => (commit: string) => {
    const two = commits[commit];
    const { clusters, ...rest } = renderedOf({ one: [a], ...(two === undefined ? {} : { two: two[1] }) });
    const moved = clusters.map((each) =>
      each.name === 'two' ? { ...each, object: { ...each.object, metadata: { name: 'two', labels: { stage: two?.[0] ?? '' } } } } : each,
    );
    return { ...rest, clusters: moved };
  };
  async function started(commits: Parameters<typeof labelled>[0]): Promise<Branch> {
    const stages = [
      { name: 'all', clusterSelector: { stage: 'all' }, prune: { maxDeletions: 10 } },
      { name: 'late', clusterSelector: { stage: 'late' }, soakSeconds: 86_400, prune: { maxDeletions: 0 } },
    ];
    change({ stages });
    const branch = { ...branchAt('c1'), renders: labelled({ c1: ['late', objects], ...commits }) };
    startHub(branch);
    await until(() => fleet().status?.commit === 'c1', 5000);
    return branch;
  }
  const stageOfTwo = (): string | undefined =>
    server.objects(Clusters).find(({ metadata }) => metadata.name === 'two')?.metadata.labels?.['stage'];

  it('a commit that moves a cluster and deletes there is refused, and so is one that only moves it', async () => {
    const branch = await started({ c2: ['late', [a]], c3: ['all', [a]], c4: ['all', objects] });
    branch.head = 'c2';
    await until(() => ready()?.reason === 'PruneBudget', 31_000);
    for (const head of ['c3', 'c4']) {
      branch.head = head;
      await until(() => fleet().status?.head === head, 31_000);
      expect(ready()).toMatchObject({ status: 'False', reason: 'ClusterMoved' });
      expect(ready()?.message).toContain(`"two" from stage "late" to stage "all"; nothing was changed`);
      expect(ready()?.message).toContain(`kubectl patch fleet main --type merge -p '{"spec":{"acceptMoves":"${head}"}}'`);
    }
    expect([stageOfTwo(), going()]).toEqual(['late', ['c1']]);
  });

  it('also where the cluster left the fleet before and comes back', async () => {
    const branch = await started({ c2: undefined, c3: ['all', [a]] });
    recordOn('two', { units: objects.map((object) => ({ unit: keyOf(object), fleet: 'main', digest: digestOf(object) })) });
    branch.head = 'c2';
    await until(() => fleet().status?.commit === 'c2', 31_000);
    branch.head = 'c3';
    await until(() => ready()?.reason === 'ClusterMoved', 31_000);
    expect([stageOfTwo(), fleet().status?.commit]).toEqual(['late', 'c2']);
  });

  it('goes on once a person who writes the Fleet accepts that head, and is not asked for again', async () => {
    const branch = await started({ c2: ['all', objects], c3: ['all', [a, b, c]] });
    branch.head = 'c2';
    await until(() => ready()?.reason === 'ClusterMoved', 31_000);
    change({ acceptMoves: 'c1' }, { metadata: { ...fleet().metadata, generation: 2 } });
    await clock.advance(31_000);
    expect(fleet().status?.commit).toBe('c1');
    change({ acceptMoves: 'c2' }, { metadata: { ...fleet().metadata, generation: 3 } });
    await until(() => fleet().status?.commit === 'c2', 31_000);
    expect(stageOfTwo()).toBe('all');
    branch.head = 'c3';
    await until(() => fleet().status?.commit === 'c3', 31_000);
    expect(ready()?.reason).toBe('Accepted');
  });
});

describe('E12: a Cluster that a user deletes', () => {
  const two = (): RenderedCommit => renderedOf({ one: [configMap('a', '1')], two: [configMap('a', '1')] });
  const names = (): string[] => server.objects(Clusters).map(({ metadata }) => metadata.name);
  async function accepted(branch: Branch): Promise<void> {
    startHub(branch);
    await until(() => fleet().status?.commit === 'c1', 5000);
    await clock.advance(1000);
    events.length = 0;
    abouts.length = 0;
    renders.length = 0;
  }

  it('is made again at once as the accepted commit declares it, and an Event reports it', async () => {
    await accepted({ ...branchAt('c1'), renders: two });
    const before = fleet().status;
    server.remove(Clusters, { name: 'two' });
    await until(() => names().includes('two'), 2000);
    expect(server.objects(Clusters).find(({ metadata }) => metadata.name === 'two')?.metadata.labels).toEqual({ stage: 'all' });
    expect(abouts).toEqual(['Cluster/two ClusterMadeAgain']);
    expect(renders).toEqual(['c1']);
    expect(fleet().status).toEqual(before);
    expect(going()).toEqual(['c1']);
  });

  it('is made again by a hub that was not there then, also while the head is refused', async () => {
    const branch: Branch = { ...branchAt('c1'), renders: two };
    await accepted(branch);
    for (const stop of stops) stop.abort(new Error('the hub stops'));
    await Promise.allSettled(running);
    server.remove(Clusters, { name: 'two' });
    startHub({ ...branch, head: 'c2', fail: { verify: () => gitError('CommitUnsigned', 'c2 is not signed') } });
    await until(() => names().includes('two'), 61_000);
    expect(fleet().status?.commit).toBe('c1');
  });

  it('is not made again where the next commit declares it no more', async () => {
    const branch: Branch = {
      ...branchAt('c1'),
      renders: (commit) => (commit === 'c1' ? two() : renderedOf({ one: [configMap('a', '1')] })),
    };
    await accepted(branch);
    branch.head = 'c2';
    server.remove(Clusters, { name: 'two' });
    await until(() => fleet().status?.commit === 'c2', 31_000);
    await clock.advance(61_000);
    expect(names()).toEqual(['one']);
  });

  it('is left where the Fleet is another by then, and tried again where it cannot be made', async () => {
    const branch: Branch = { ...branchAt('c1'), renders: two };
    await accepted(branch);
    branch.fail.render = once(new Error('no memory'));
    server.remove(Clusters, { name: 'two' });
    await until(() => names().includes('two'), 61_000);
    expect(abouts).toEqual(['Fleet/main ClusterNotMade', 'Cluster/two ClusterMadeAgain']);
    expect(ready()?.status).toBe('True');
  });
});

it('a Fleet that is paused reports it once and does nothing, and one that is gone is closed', async () => {
  change({ paused: true });
  startHub(branchAt('c1'));
  await until(() => ready()?.reason === 'Paused', 5000);
  expect(ready()).toMatchObject({ status: 'Unknown', message: 'spec.paused is set' });
  await clock.advance(120_000);
  expect([statusWrites(), renders.length]).toEqual([1, 0]);
  server.remove(Fleets, { name: 'main' });
  await clock.advance(1000);
  expect(closed).toEqual(['main']);
});

it('a Fleet that is not valid is refused with the field', async () => {
  change({ brunch: 'main' });
  startHub(branchAt('c1'));
  await until(() => ready()?.reason === 'InvalidFleet', 5000);
  expect(ready()?.message).toContain('brunch');
  expect(statusOf('one')).toBeUndefined();
});
