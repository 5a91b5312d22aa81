import { afterEach, describe, expect, test } from 'vitest';
import { Leases, Nodes } from '../../../api/builtin.ts';
import { DefenderPolicies } from '../../../api/defender-policy.ts';
import { DisruptionLedgers } from '../../../api/disruption-ledger.ts';
import { Freezes } from '../../../api/freeze.ts';
import { MachineComponentSets } from '../../../api/machine-component-set.ts';
import { Machines } from '../../../api/machine.ts';
import { RemedyOperationJobs } from '../../../api/remedy-operation-job.ts';
import type { ApiResponse } from '../../../api/transport.ts';
import { createReleaseMarks } from '../../../defender/evidence.ts';
import { createCache } from '../../../kube/cache.ts';
import { createClient } from '../../../kube/http-client.ts';
import { fakeApiServer } from '../../../kube/testing/api-server.ts';
import { fakeClock, seededRandom } from '../../../kube/testing/clock.ts';
import { recordingLog } from '../../../kube/testing/log.ts';
import { trackLiveness } from '../../../kube/liveness.ts';
import { createObserver } from './observe.ts';

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

/** An observer on a server that does not answer for `unwatched`: its watch is never opened, and once `synced` has resolved its lists hang too. */
async function world(unwatched?: string) {
  const api = fakeApiServer();
  const clock = fakeClock();
  const ended = new AbortController();
  let isCut = false;
  api.intercept(({ path, query, signal }) => {
    if (unwatched === undefined || !path.endsWith(`/${unwatched}`) || (!isCut && query?.['watch'] === undefined)) return undefined;
    return new Promise<ApiResponse>((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason), { once: true }));
  });
  const client = createClient(api.transport);
  const cache = createCache({ client, clock, random: seededRandom(1), log: recordingLog(), signal: ended.signal });
  const stores = {
    machines: cache.store(Machines),
    nodes: cache.store(Nodes),
    leases: cache.store(Leases),
    sets: cache.store(MachineComponentSets),
    policies: cache.store(DefenderPolicies),
    freezes: cache.store(Freezes),
    ledgers: cache.store(DisruptionLedgers),
    jobs: cache.store(RemedyOperationJobs),
  };
  const liveness = trackLiveness(stores.leases, clock);
  const observer = createObserver({ client, stores, providers: new Map(), liveness, clock, epoch: 1 });
  const marks = createReleaseMarks();
  ends.push(() => (observer.stop(), liveness.stop(), ended.abort(new Error('over')), cache.done()));
  return {
    marks,
    stale: () => observer.cell(() => 0, marks).stale,
    synced: async (): Promise<void> => {
      while (!cache.states().every(({ synced }) => synced)) await clock.advance(10);
      isCut = true;
    },
    /** Time passes in which the server sends bookmarks to the watches that are open. */
    pass: async (seconds: number): Promise<void> => {
      for (let left = seconds; left > 0; left -= 10) {
        await clock.advance(Math.min(10, left) * 1000);
        api.bookmark();
        await clock.advance(0);
      }
    },
  };
}

describe('D8: stores are trusted only while they are current', () => {
  test.each([
    'machines',
    'nodes',
    'leases',
    'machinecomponentsets',
    'defenderpolicies',
    'freezes',
    'disruptionledgers',
    'remedyoperationjobs',
  ])('not after 150 seconds without %s, while all the others are current', async (plural) => {
    const { synced, pass, stale } = await world(plural);
    await synced();
    await pass(140);
    expect(stale()).toBeUndefined();
    await pass(20);
    expect(stale()).toMatch(new RegExp(`^${plural} have been stale for 1[56]\\d s$`));
  });

  test('not before it is listed, and for ever while it is current', async () => {
    const { synced, pass, stale } = await world();
    expect(stale()).toBe('machines are not listed yet');
    await synced();
    expect(stale()).toBeUndefined();
    await pass(1000);
    expect(stale()).toBeUndefined();
  });

  test('not while a release is not seen', async () => {
    const { synced, stale, marks } = await world();
    await synced();
    let passed = false;
    marks.record(() => passed);
    expect(stale()).toBe('a release is not seen in the stores yet');
    passed = true;
    expect(stale()).toBeUndefined();
  });
});
