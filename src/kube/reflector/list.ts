import { kubeError } from '../errors.ts';
import { keyOf } from '../../api/resource.ts';
import type { KubeList, KubeObject, Stored } from '../../api/wire.ts';
import { withDeadline } from '../clock.ts';
import { requireBounds, requireRoom } from './bounds.ts';
import { kept, notify, notifyAll } from './reflection.ts';
import type { PartialList, Reflection } from './reflection.ts';
import { createWeights, larger, NOTHING, weightOf } from './weights.ts';
import type { Weight, Weights } from './weights.ts';

const PAGE = 500;
/** For a page, and for the head of a watch: what takes longer hangs. */
export const ANSWER_MS = 60_000;

export function requestPage<T extends KubeObject>(
  { options, selection }: Reflection<T>,
  query: { limit?: number; continue?: string },
): Promise<KubeList<Stored<T>>> {
  const { client, clock, resource, signal } = options;
  const late = (): Error => kubeError('Stalled', `a page of the list of ${resource.plural} took longer than ${ANSWER_MS} ms`);
  return withDeadline(clock, ANSWER_MS, signal, late, (signal) => client.list(resource, { ...selection, signal, ...query }));
}

/** Begins a list, or continues it, by one page. The last page swaps the content of the store. */
export async function listPage<T extends KubeObject>(reflection: Reflection<T>): Promise<void> {
  const { options, lists } = reflection;
  const { clock, most, resource } = options;
  const under = (lists.partial ??= beginList(reflection));
  reflection.state = { phase: 'listing', items: under.objects.size };
  const page = await requestPage(reflection, {
    ...(lists.paged ? { limit: options.pageSize ?? PAGE } : {}),
    ...(under.token === undefined ? {} : { continue: under.token }),
  });
  reflection.lastSeenAt = clock.monotonic();
  under.pages++;
  for (const object of page.items.map((item) => kept(options, item))) {
    // What comes again under one name replaces what came before: what is kept is what is counted.
    const key = keyOf(object.metadata);
    under.objects.set(key, object);
    if (most !== undefined) under.weights.set(key, weightOf(object));
  }
  under.token = page.metadata.continue;
  requireBounds(most, resource.plural, under.weights, under.token === undefined ? 0 : under.pages);
  requireRoom(most, resource.plural, ({ listed }) => listed);
  if (under.token === undefined) completeList(reflection, under, page.metadata.resourceVersion);
}

function beginList<T extends KubeObject>({ options, lists, watches }: Reflection<T>): PartialList<T> {
  const { most } = options;
  const weights = createWeights((memory) => {
    if (most?.room !== undefined) most.room.listed += memory;
  });
  const partial: PartialList<T> = { objects: new Map(), token: undefined, again: lists.again, pages: 0, weights };
  lists.due = false;
  lists.again = false;
  watches.doubted = false;
  watches.cut = false;
  watches.endedAt = undefined;
  lists.begun++;
  return partial;
}

/** Keeps nothing of a list that is not continued. */
export function abandonList<T extends KubeObject>({ lists }: Reflection<T>): void {
  lists.partial?.weights.clear();
  lists.partial = undefined;
}

function completeList<T extends KubeObject>(reflection: Reflection<T>, list: PartialList<T>, resourceVersion: string): void {
  const { options, lists, store, weights, counters } = reflection;
  const kept = options.most === undefined ? undefined : keptAfter(reflection, list.objects, list.weights);
  lists.partial = undefined;
  lists.paged = true;
  const initial = !reflection.synced;
  const differences = store.replace([...list.objects.values()], list.again);
  if (kept !== undefined) weights.replace(kept);
  list.weights.clear();
  reflection.resourceVersion = resourceVersion;
  lists.done = lists.begun;
  reflection.synced = true;
  counters?.listed();
  reflection.state = { phase: 'listed', resourceVersion };
  notifyAll(reflection, differences, initial);
  notify(reflection, { type: 'listed', resourceVersion });
  reflection.firstList.resolve();
}

/** What the store will keep: an object that it has in this version stays as it is there, however large it is in the list. */
function keptAfter<T extends KubeObject>(
  { options, store, weights }: Reflection<T>,
  objects: ReadonlyMap<string, Stored<T>>,
  listed: Weights,
): Map<string, Weight> {
  const { most, resource } = options;
  const after = new Map<string, Weight>();
  const total = createWeights(() => undefined);
  for (const [key, { metadata }] of objects) {
    const known = store.get(metadata)?.metadata;
    const isSame = known?.uid === metadata.uid && known.resourceVersion === metadata.resourceVersion;
    const old = isSame ? weights.get(key) : undefined;
    const weight = larger(listed.get(key) ?? NOTHING, old ?? NOTHING);
    after.set(key, weight);
    total.set(key, weight);
  }
  requireBounds(most, resource.plural, total, 0);
  requireRoom(most, resource.plural, ({ kept }) => kept - weights.memory + total.memory);
  return after;
}
