import type { ReleaseMarks } from '../../../defender/evidence.ts';
import { isStale } from '../../../kube/stale-store.ts';
import type { Stores } from '../stores.ts';

/** Why nothing may be judged from these stores; undefined when they are current. Lists a stale store again where that may help. */
export function whyStale(stores: Stores, marks: ReleaseMarks): string | undefined {
  for (const store of Object.values(stores)) {
    if (!store.synced) return `${store.resource.plural} are not listed yet`;
    if (!isStale(store)) continue;
    // Some servers send no bookmarks. Then a watch without events proves nothing, and a list does.
    if (store.state.phase === 'watching') store.relist();
    return `${store.resource.plural} have been stale for ${Math.round(store.ageMs() / 1000)} s`;
  }
  return marks.allPassed() ? undefined : 'a release is not seen in the stores yet';
}
