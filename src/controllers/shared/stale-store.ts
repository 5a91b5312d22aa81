import type { KubeObject } from '../../api/wire.ts';
import type { Reflector } from '../../kube/reflector.ts';

/** Bookmarks come each minute: a store for which the server sent nothing for longer than this may lack what matters. */
const STALE_MS = 150_000;

/** Whether nothing must be decided from the store. */
export function isStale(store: Pick<Reflector<KubeObject>, 'quietMs'>): boolean {
  return store.quietMs() > STALE_MS;
}
