import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { unitDigest } from '../../api/digest.ts';
import type { CodedError } from '../../api/errors.ts';
import { Fleets } from '../../api/fleet.ts';
import { API_VERSION } from '../../api/kind.ts';
import { Rollouts } from '../../api/rollout.ts';
import type { KubeObject } from '../../api/wire.ts';
import { createCache } from '../../kube/cache.ts';
import { createClient } from '../../kube/httpclient.ts';
import type { RecordedEvent } from '../../kube/recorder.ts';
import { fakeApiServer, statusResponse, type FakeApiServer } from '../../kube/testing/apiserver.ts';
import { fakeClock, type FakeClock } from '../../kube/testing/clock.ts';
import { recordingLog } from '../../kube/testing/log.ts';
import { waitFor } from '../../kube/testing/waitfor.ts';
import type { Bundles, StoredUnit } from '../bundles.ts';
import { syncError } from '../errors.ts';
import { gitError } from '../git/errors.ts';
import { inForce } from '../inforce.ts';
import { RenderError } from '../render/errors.ts';
import type { Checkout, RenderedCommit } from './checkout.ts';
import { runFleetController } from './controller.ts';

/** A branch whose commits are one unit each, named by its content; a step of the way to it may fail or wait. */
interface Branch {
  head: string;
  fail: Partial<Record<keyof Checkout, () => Error | undefined>>;
  wait: Partial<Record<keyof Checkout, Promise<void>>>;
}

let server: FakeApiServer;
let clock: FakeClock;
let events: RecordedEvent[];
let stops: AbortController[];
let running: Promise<unknown>[];

beforeEach(() => {
  server = fakeApiServer();
  clock = fakeClock();
  events = [];
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
  const log = recordingLog();
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
      })),
    verify: () => way('verify', () => undefined),
    render: (commit) => way('render', () => rendered(commit)),
  };
  const checkouts = { open: async () => checkout, close: async () => undefined, onChange: () => () => undefined };
  const recorder = { event: (_about: KubeObject, event: RecordedEvent) => void events.push(event), flush: async () => undefined };
  running.push(runFleetController({ ...ports, cache: createCache(ports), bundles: memoryBundles(), checkouts, recorder }));
}

/** The disk takes real time, of which the fake clock knows nothing. */
function memoryBundles(): Bundles {
  const units = new Map<string, StoredUnit>();
  return {
    get: async (digest) => units.get(digest),
    put: async (digest, unit) => void units.set(digest, unit),
    sweep: async () => undefined,
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

it('E10: each refused commit is named, in the condition and in an Event of its own, also where the reason is the same', async () => {
  const branch = branchAt('aaaaaaaaaaaa1');
  branch.fail.render = () => new RenderError([{ code: 'RenderThrew', message: 'fleet/main.ts:3:5: it throws' }]);
  startHub(branch);
  await until(() => ready()?.reason === 'RenderThrew', 5000);
  expect(ready()?.message).toContain('aaaaaaaaaa is refused: fleet/main.ts:3:5');
  branch.head = 'bbbbbbbbbbbb2';
  await until(() => fleet().status?.head === branch.head, 60_000);
  expect(ready()?.message).toContain('bbbbbbbbbb is refused: fleet/main.ts:3:5');
  const told = events.filter(({ reason }) => reason === 'RenderThrew').map(({ message }) => message.slice(0, 21));
  expect(told).toEqual(['aaaaaaaaaa is refused', 'bbbbbbbbbb is refused']);
  expect(fleet().status?.commit).toBeUndefined();
});

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
    // What it was about to do with c1, it does now; what it looks up again, it finds as it is.
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
    const stuck = Promise.withResolvers<void>();
    late.wait.render = stuck.promise;
    startHub(late);
    await clock.advance(1000);
    // Another hub accepted a revert of c1 meanwhile: nothing differs from c0, so it made no Rollout.
    const { status } = fleet();
    server.put(Fleets, { ...fleet(), status: { ...status, head: 'c2', commit: 'c2' } });
    Object.assign(late, { head: 'c2', wait: {} });
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
