import { afterEach, describe, expect, test } from 'vitest';
import { Leases, Namespaces, type Lease } from '../../api/builtin.ts';
import { openCluster } from '@kubenode/embedded';
import { createCache } from '../../kube/cache.ts';
import { microTime } from '../../kube/clock.ts';
import { createClient } from '../../kube/http-client.ts';
import { noteRenewal } from '../../kube/renewal.ts';
import { fakeClock } from '../../kube/testing/clock.ts';
import { recordingLog } from '../../kube/testing/log.ts';
import { watchRenewals } from '../remedy/leases.ts';
import { leaseAges } from './lease-ages.ts';

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
    /** Somebody else writes to it, and renews nothing. */
    annotate: () => client.patch(Leases, key, { merge: { metadata: { annotations: { team: 'x' } } } }, { fieldManager: 'a-human' }),
    /** What a leader makes of the Lease that begins now. */
    begin: async () => {
      const stopped = new AbortController();
      const cache = createCache({ client, clock, random: () => 0.5, log: recordingLog(), signal: stopped.signal });
      const store = cache.store(Leases, { project: noteRenewal });
      await cache.whenSynced();
      const ages = leaseAges(store, clock);
      const renewals = watchRenewals(
        store,
        () => clock.now(),
        () => undefined,
      );
      cleanups.push(() => (ages.stop(), renewals.stop(), stopped.abort(new Error('over')), cache.done()));
      return { age: ages.of(key), freshUntilMs: renewals.freshUntilMs(key) };
    },
  };
}

describe('H5: a leader that begins asks the server when a Lease was renewed, whatever clock its holder has', () => {
  test.each([-YEAR, -25 * MINUTE, 0, 25 * MINUTE, YEAR])('a holder that is %d ms ahead and alive is not silent', async (aheadMs) => {
    const { clock, renew, begin } = await world(aheadMs);
    await clock.advance(10 * MINUTE);
    await renew();
    await clock.advance(30_000);
    const { age, freshUntilMs } = await begin();
    expect(age).toEqual({ silentMs: 30_000, fresh: true });
    expect(freshUntilMs).toBe(clock.now() + 150_000);
  });

  test.each([-YEAR, -25 * MINUTE, 0, 25 * MINUTE, YEAR])('one that is %d ms ahead and dead is', async (aheadMs) => {
    const { clock, renew, annotate, begin } = await world(aheadMs);
    await renew();
    await clock.advance(10 * MINUTE);
    await annotate();
    const { age, freshUntilMs } = await begin();
    expect(age).toEqual({ silentMs: 10 * MINUTE, fresh: false });
    expect(freshUntilMs).toBe(clock.now() - 7 * MINUTE);
  });
});
