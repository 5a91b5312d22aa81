import { describe, expect, it } from 'vitest';
import type { Lease } from '../../api/builtin.ts';
import { keyOf } from '../../api/resource.ts';
import type { Stored } from '../../api/wire.ts';
import { watchRenewals } from './leases.ts';

const T0 = Date.parse('2026-01-01T00:00:00Z');
const KEY = { namespace: 'web', name: 'a' };

type Store = Parameters<typeof watchRenewals>[0];
type Listener = Parameters<Store['subscribe']>[0];

const lease = (renewedMs: number, change: { uid?: string; seconds?: number } = {}): Stored<Lease> => ({
  apiVersion: 'coordination.k8s.io/v1',
  kind: 'Lease',
  metadata: { ...KEY, uid: change.uid ?? 'u', resourceVersion: '1', creationTimestamp: new Date(T0).toISOString() },
  spec: { renewTime: new Date(renewedMs).toISOString(), leaseDurationSeconds: change.seconds ?? 40 },
});

function world(listed: Stored<Lease>[] = []) {
  let nowMs = T0;
  let tell: Listener = () => undefined;
  let quietMs = 0;
  let subscribed = true;
  const returned: string[] = [];
  const store = {
    list: () => listed,
    subscribe: (listener: Listener) => {
      tell = listener;
      return () => void (subscribed = false);
    },
    quietMs: () => quietMs,
  } as unknown as Store;
  const renewals = watchRenewals(
    store,
    () => nowMs,
    (key) => void returned.push(keyOf(key)),
  );
  return {
    returned,
    quiet: (ms: number) => void (quietMs = ms),
    tell: (event: object) => tell(event as unknown as Parameters<Listener>[0]),
    stop: () => (renewals.stop(), subscribed),
    at: (seconds: number) => void (nowMs = T0 + seconds * 1000),
    see: (type: 'added' | 'modified' | 'deleted', object: Stored<Lease>, initial = false) =>
      tell({ type, object, initial, old: object } as unknown as Parameters<Listener>[0]),
    freshFor: () => {
      const untilMs = renewals.freshUntilMs(KEY);
      return untilMs === undefined ? undefined : (untilMs - T0) / 1000;
    },
  };
}

describe('a Lease', () => {
  it('is fresh for its duration since it was seen renewed, whatever time its holder says', () => {
    const { at, see, freshFor } = world();
    expect(freshFor()).toBeUndefined();
    at(10);
    see('added', lease(T0 - 3_600_000));
    expect(freshFor()).toBe(50);
    at(20);
    see('modified', lease(T0 - 3_590_000));
    expect(freshFor()).toBe(60);
    // Written again without a renewal.
    at(30);
    see('modified', lease(T0 - 3_590_000));
    expect(freshFor()).toBe(60);
  });

  it('that was there before counts from its renewal, and not from the future', () => {
    expect(world([lease(T0 - 30_000)]).freshFor()).toBe(10);
    expect(world([lease(T0 + 3_600_000)]).freshFor()).toBe(40);
  });

  it('invariant 7: that is gone is not fresh, whatever is left of its time, and whoever waits for it is told', () => {
    const { see, freshFor, returned } = world();
    see('added', lease(T0));
    expect(freshFor()).toBe(40);
    see('deleted', lease(T0));
    expect(freshFor()).toBeUndefined();
    expect(returned).toEqual(['web/a', 'web/a']);
    see('deleted', lease(T0));
    expect(returned).toHaveLength(2);
  });

  it('is told of when its holder had been silent or is another one, and not with each renewal', () => {
    const { at, see, returned } = world([lease(T0)]);
    at(10);
    see('modified', lease(T0 + 10_000));
    expect(returned).toEqual([]);
    at(51);
    see('modified', lease(T0 + 51_000));
    expect(returned).toHaveLength(1);
    see('modified', lease(T0 + 52_000, { uid: 'another' }));
    expect(returned).toHaveLength(2);
  });

  it('is fresh for as much longer as the server was not heard, and says nothing where it never was', () => {
    const { freshFor, quiet } = world([lease(T0)]);
    quiet(30_000);
    expect(freshFor()).toBe(70);
    quiet(Infinity);
    expect(freshFor()).toBe(40);
  });

  it('without a duration counts for three minutes, and without a renewal from when it was seen', () => {
    const bare = lease(T0);
    bare.spec = {};
    expect(world([bare]).freshFor()).toBe(180);
    const { at, see, freshFor } = world();
    at(10);
    see('added', bare);
    expect(freshFor()).toBe(190);
    const { spec: _, ...empty } = lease(T0);
    expect(world([empty]).freshFor()).toBe(180);
  });

  it('of a list that came later counts as of the first, and what tells of no Lease is no news', () => {
    const { at, see, freshFor, tell, returned, stop } = world();
    at(20);
    see('added', lease(T0), true);
    expect(freshFor()).toBe(40);
    tell({ type: 'listed' });
    tell({ type: 'bookmark' });
    expect(returned).toEqual(['web/a']);
    // To the very end of its time it was not silent.
    at(40);
    see('modified', lease(T0 + 40_000));
    expect(returned).toHaveLength(1);
    expect(stop()).toBe(false);
  });
});
