import { afterEach, describe, expect, test } from 'vitest';
import type { ApiResponse } from '../../api/transport.ts';
import { createCache } from '../../kube/cache.ts';
import { createClient } from '../../kube/httpclient.ts';
import { fakeApiServer } from '../../kube/testing/apiserver.ts';
import { fakeClock, seededRandom } from '../../kube/testing/clock.ts';
import { recordingLog } from '../../kube/testing/log.ts';
import { openSight } from './sight.ts';

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

/** What is seen of a server that tells nothing of `silent` after its first list. */
async function seen(silent?: string) {
  const api = fakeApiServer();
  const clock = fakeClock();
  const ended = new AbortController();
  let isSilent = false;
  api.intercept(({ path, query, signal }) => {
    if (silent === undefined || !path.endsWith(`/${silent}`) || (!isSilent && query?.['watch'] === undefined)) return undefined;
    return new Promise<ApiResponse>((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason), { once: true }));
  });
  const ports = { client: createClient(api.transport), clock, random: seededRandom(1), log: recordingLog(), signal: ended.signal };
  const cache = createCache(ports);
  const opening = openSight({ ...ports, cache });
  await clock.advance(1000);
  const sight = await opening;
  isSilent = true;
  ends.push(() => (sight.stop(), ended.abort(new Error('over')), cache.done()));
  const isDeaf = (): boolean => sight.isDeaf();
  return {
    isDeaf,
    /** Time passes in which those that are watched are heard of. */
    pass: async (seconds: number): Promise<void> => {
      for (let left = seconds; left > 0; left -= 10) {
        await clock.advance(10_000);
        api.bookmark();
        await clock.advance(0);
      }
    },
  };
}

describe('invariant 7: a cell that is not heard of is not judged', () => {
  test.each(['machines', 'nodes', 'leases', 'disruptionledgers', 'remedyoperationjobs'])(
    'after 150 seconds of silence about %s, while all the others are heard',
    async (plural) => {
      const { isDeaf, pass } = await seen(plural);
      await pass(140);
      expect(isDeaf()).toBe(false);
      await pass(20);
      expect(isDeaf()).toBe(true);
    },
  );

  test('one that is heard of is, for ever', async () => {
    const { isDeaf, pass } = await seen();
    await pass(1000);
    expect(isDeaf()).toBe(false);
  });
});
