import { describe, expect, it, test } from 'vitest';
import type { Lease, Node } from '../api/builtin.ts';
import { keyOf } from '../api/resource.ts';
import type { Stored } from '../api/wire.ts';
import { agentLease, claimedAliveUntilMs, isNodeReady, kubeletLease, trackLiveness } from './liveness.ts';
import { fakeClock } from './testing/clock.ts';

const KEY = { namespace: 'web', name: 'a' };
const OTHER = { namespace: 'web', name: 'b' };
const MINUTE = 60_000;

type Store = Parameters<typeof trackLiveness>[0];
type Listener = Parameters<Store['subscribe']>[0];

/** `agoMs`: when it was renewed by the clock of its holder, before the start. */
const lease = (agoMs: number, change: { uid?: string; seconds?: number; name?: string } = {}): Stored<Lease> => ({
  apiVersion: 'coordination.k8s.io/v1',
  kind: 'Lease',
  metadata: { ...KEY, name: change.name ?? KEY.name, uid: change.uid ?? 'u', resourceVersion: '1', creationTimestamp: '' },
  spec: { renewTime: new Date(fakeClock().now() - agoMs).toISOString(), leaseDurationSeconds: change.seconds ?? 40 },
});

function world(listed: Stored<Lease>[] = []) {
  const clock = fakeClock();
  const startMs = clock.monotonic();
  const objects = new Map(listed.map((each) => [keyOf(each.metadata), each]));
  let notify: Listener = () => undefined;
  let ageMs = 0;
  let subscribed = true;
  const returned: string[] = [];
  const store = {
    list: () => [...objects.values()],
    get: (key: { namespace: string; name: string }) => objects.get(keyOf(key)),
    subscribe: (listener: Listener) => {
      notify = listener;
      return () => void (subscribed = false);
    },
    ageMs: () => ageMs,
  } as unknown as Store;
  const liveness = trackLiveness(store, clock);
  const cancel = liveness.onReturn((key) => void returned.push(keyOf(key)));
  const sinceStart = (ms: number | undefined): number | undefined => (ms === undefined ? undefined : (ms - startMs) / 1000);
  return {
    clock,
    liveness,
    returned,
    cancel,
    setAge: (ms: number) => void (ageMs = ms),
    notify: (event: object) => notify(event as unknown as Parameters<Listener>[0]),
    stop: () => (liveness.stop(), subscribed),
    at: (seconds: number) => clock.advance(startMs + seconds * 1000 - clock.monotonic()),
    see: (type: 'added' | 'updated' | 'deleted', object: Stored<Lease>, initial = false): void => {
      if (type === 'deleted') objects.delete(keyOf(object.metadata));
      else objects.set(keyOf(object.metadata), object);
      notify({ type, object, initial, old: object });
    },
    /** Seconds after the start. */
    aliveUntil: () => sinceStart(liveness.aliveUntilMs(KEY)),
    presumedUntil: () => sinceStart(liveness.presumedAliveUntilMs(KEY)),
  };
}

describe('a Lease', () => {
  it('proves life for its duration since its renewal was observed, with any time of its holder', async () => {
    const { at, see, aliveUntil, liveness } = world();
    expect([aliveUntil(), liveness.isAlive(KEY), liveness.unseenMs(KEY)]).toEqual([undefined, false, undefined]);
    await at(10);
    see('added', lease(60 * MINUTE));
    expect(aliveUntil()).toBe(50);
    await at(20);
    see('updated', lease(59 * MINUTE));
    expect(aliveUntil()).toBe(60);
    // Written again without a renewal.
    await at(30);
    see('updated', lease(59 * MINUTE));
    expect(aliveUntil()).toBe(60);
    expect(liveness.unseenMs(KEY)).toBe(10_000);
  });

  it('proves life to the last millisecond of its duration', async () => {
    const { clock, at, liveness } = world([lease(10_000)]);
    await at(30);
    expect(liveness.isAlive(KEY)).toBe(true);
    await clock.advance(1);
    expect(liveness.isAlive(KEY)).toBe(false);
    expect(liveness.isAlive(OTHER)).toBe(false);
  });

  it('that was there before counts from its renewal, and not from the future', () => {
    expect(world([lease(30_000)]).aliveUntil()).toBe(10);
    expect(world([lease(-60 * MINUTE)]).aliveUntil()).toBe(40);
    expect(world([lease(60 * MINUTE)]).liveness.unseenMs(KEY)).toBe(60 * MINUTE);
  });

  it('of a list that came later counts as of the first', async () => {
    const { at, see, aliveUntil } = world();
    await at(20);
    see('added', lease(0), true);
    expect(aliveUntil()).toBe(40);
  });

  it('invariant 7: that is gone proves nothing, even if time is left', () => {
    const { see, aliveUntil, presumedUntil, liveness } = world();
    see('added', lease(0));
    expect(aliveUntil()).toBe(40);
    see('deleted', lease(0));
    expect([aliveUntil(), presumedUntil(), liveness.isAlive(KEY), liveness.unseenMs(KEY)]).toEqual([
      undefined,
      undefined,
      false,
      undefined,
    ]);
  });

  it('without a duration counts for three minutes, and without a renewal from when it was observed', async () => {
    const bare = lease(0);
    bare.spec = {};
    expect(world([bare]).aliveUntil()).toBe(180);
    const { at, see, aliveUntil } = world();
    await at(10);
    see('added', bare);
    expect(aliveUntil()).toBe(190);
    const { spec: _, ...empty } = lease(0);
    expect(world([empty]).aliveUntil()).toBe(180);
    expect(world([{ ...bare, spec: { renewTime: 'yesterday', leaseDurationSeconds: 10 } }]).aliveUntil()).toBe(10);
  });

  it('lasts for its present duration', () => {
    const { see, aliveUntil } = world([lease(0)]);
    see('updated', lease(0, { seconds: 60 }));
    expect(aliveUntil()).toBe(60);
  });
});

describe('while the server does not answer', () => {
  it('a holder is neither proven alive nor proven absent', async () => {
    const { at, setAge, liveness, presumedUntil } = world([lease(0, { seconds: 180 })]);
    await at(700);
    setAge(700_000);
    expect([liveness.isAlive(KEY), liveness.unseenMs(KEY)]).toEqual([false, 0]);
    expect(presumedUntil()).toBe(880);
    expect(liveness.unansweredMs()).toBe(700_000);
  });

  it('a holder is presumed to be alive for as much longer, and for no longer where the server never answered', () => {
    const { presumedUntil, setAge } = world([lease(0)]);
    setAge(30_000);
    expect(presumedUntil()).toBe(70);
    setAge(Infinity);
    expect(presumedUntil()).toBe(40);
  });
});

describe('a return is', () => {
  it('a Lease that appears or goes, once', () => {
    const { see, returned } = world();
    see('added', lease(0));
    see('deleted', lease(0));
    expect(returned).toEqual(['web/a', 'web/a']);
    see('deleted', lease(0));
    expect(returned).toHaveLength(2);
  });

  it('one whose holder is another one, or had let it run out, and no other renewal', async () => {
    const { at, see, returned } = world([lease(0)]);
    await at(10);
    see('updated', lease(-10_000));
    expect(returned).toEqual([]);
    // It was alive to the very end of its time.
    await at(50);
    see('updated', lease(-50_000));
    expect(returned).toEqual([]);
    await at(90.001);
    see('updated', lease(-90_001));
    expect(returned).toHaveLength(1);
    see('updated', lease(-91_000, { uid: 'another' }));
    expect(returned).toHaveLength(2);
  });

  it('nothing that concerns no Lease, and nothing once cancelled or stopped', () => {
    const { see, notify, returned, cancel, stop } = world();
    notify({ type: 'listed' });
    notify({ type: 'bookmark' });
    cancel();
    see('added', lease(0));
    expect(returned).toEqual([]);
    expect(stop()).toBe(false);
  });
});

test('a Lease that is read once proves life by the time that it carries', () => {
  const nowMs = fakeClock().now();
  expect(claimedAliveUntilMs(lease(10_000))).toBe(nowMs + 30_000);
  expect(claimedAliveUntilMs({ ...lease(0), spec: { renewTime: new Date(nowMs).toISOString() } })).toBe(nowMs + 180_000);
  expect(claimedAliveUntilMs({ ...lease(0), spec: {} })).toBeUndefined();
  expect(claimedAliveUntilMs(undefined)).toBeUndefined();
});

test('an agent renews a Lease in the namespace of its Machine, a kubelet one of the name of its Node', () => {
  expect(agentLease({ metadata: { namespace: 'web', name: 'm' } })).toEqual({ namespace: 'web', name: 'agent-m' });
  expect(kubeletLease('n')).toEqual({ namespace: 'kube-node-lease', name: 'n' });
});

test('a Node is ready while its status reports Ready and its kubelet is alive', () => {
  const node = (status: 'True' | 'False' | 'Unknown'): Node => ({
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: 'n' },
    status: { conditions: [{ type: 'Ready', status }] },
  });
  expect([isNodeReady(node('True'), true), isNodeReady(node('True'), false)]).toEqual([true, false]);
  expect([isNodeReady(node('Unknown'), true), isNodeReady(node('False'), true)]).toEqual([false, false]);
  expect(isNodeReady({ apiVersion: 'v1', kind: 'Node', metadata: { name: 'n' } }, true)).toBe(false);
});
