import { expect, it } from 'vitest';
import { isStale } from './stale-store.ts';

it('a store is stale when two bookmarks and a half are missing', () => {
  const staleAt = (ms: number) => isStale({ ageMs: () => ms });
  expect([staleAt(0), staleAt(150_000), staleAt(150_001), staleAt(Infinity)]).toEqual([false, false, true, true]);
});
