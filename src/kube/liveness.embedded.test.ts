import { afterEach, describe, expect, test } from 'vitest';
import { Leases, Namespaces, type Lease } from '../api/builtin.ts';
import { openCluster } from '@kubenode/embedded';
import { createCache } from './cache.ts';
import { microTime } from './clock.ts';
import { createClient } from './http-client.ts';
import { noteRenewal } from './renewal.ts';
import { fakeClock } from './testing/clock.ts';
import { recordingLog } from './testing/log.ts';
import { trackLiveness } from './liveness.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

const key = { namespace: 'web', name: 'agent-a' };
const MINUTE = 60_000;
const YEAR = 365 * 86_400_000;

/** A server, and a holder whose clock is `aheadMs` before the server's. */
async function world(aheadMs: number) {
  const clock = fakeClock();
  const cluster = await openCluster({ name: 'cell', state: 'memory', clock });
  cleanups.push(() => cluster.close());
  const client = createClient(cluster.asUser(), { fieldManager: 'an-agent' });
  await client.create(Namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'web' } });
  const spec = () => ({ leaseDurationSeconds: 180, renewTime: microTime(clock.now() + aheadMs) });
  const lease: Lease = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: key, spec: spec() };
  await client.create(Leases, lease);
  return {
    clock,
    renew: () => client.patch(Leases, key, { merge: { spec: spec() } }),
    /** Another client writes to it, and renews nothing. */
    annotate: () => client.patch(Leases, key, { merge: { metadata: { annotations: { team: 'x' } } } }, { fieldManager: 'a-human' }),
    /** What a leader makes of the Lease that begins now. */
    begin: async () => {
      const stopped = new AbortController();
      const cache = createCache({ client, clock, random: () => 0.5, log: recordingLog(), signal: stopped.signal });
      const store = cache.store(Leases, { project: noteRenewal });
      await cache.whenSynced();
      const liveness = trackLiveness(store, clock);
      cleanups.push(() => (liveness.stop(), stopped.abort(new Error('over')), cache.done()));
      const presumedForMs = (liveness.presumedAliveUntilMs(key) ?? NaN) - clock.monotonic();
      return { unseenMs: liveness.unseenMs(key), isAlive: liveness.isAlive(key), presumedForMs };
    },
  };
}

describe('H5: a leader that begins asks the server when a Lease was renewed, with any clock of its holder', () => {
  test.each([-YEAR, -25 * MINUTE, 0, 25 * MINUTE, YEAR])('a holder that is %d ms ahead and alive is not stale', async (aheadMs) => {
    const { clock, renew, begin } = await world(aheadMs);
    await clock.advance(10 * MINUTE);
    await renew();
    await clock.advance(30_000);
    expect(await begin()).toEqual({ unseenMs: 30_000, isAlive: true, presumedForMs: 150_000 });
  });

  test.each([-YEAR, -25 * MINUTE, 0, 25 * MINUTE, YEAR])('one that is %d ms ahead and dead is', async (aheadMs) => {
    const { clock, renew, annotate, begin } = await world(aheadMs);
    await renew();
    await clock.advance(10 * MINUTE);
    await annotate();
    expect(await begin()).toEqual({ unseenMs: 10 * MINUTE, isAlive: false, presumedForMs: -7 * MINUTE });
  });
});
