import type { KubeObject } from '../api/wire.ts';
import type { Reflector } from './reflector.ts';

/**
 * No controller decides from a store once the server has sent nothing for longer than this: a cell's controllers begin no disruption, and the hub opens no
 * gate by what a cell reported. Bookmarks come each minute; a watch without any is opened again sooner than this (`WATCH_STALE_MS`).
 */
export const STORE_STALE_MS = 150_000;

export function isStale(store: Pick<Reflector<KubeObject>, 'ageMs'>): boolean {
  return store.ageMs() > STORE_STALE_MS;
}
