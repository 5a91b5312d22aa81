import { expect, it } from 'vitest';
import { isStale } from './stale-store.ts';

it('a store is stale when two bookmarks and a half are missing', () => {
  const quiet = (ms: number) => isStale({ quietMs: () => ms });
  expect([quiet(0), quiet(150_000), quiet(150_001), quiet(Infinity)]).toEqual([false, false, true, true]);
});
