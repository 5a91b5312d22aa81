import type { JsonObject } from '@kubenode/api-machinery/wire';
import { copy } from '../json.ts';
import type { Served } from '../kinds/served.ts';
import { Refusal } from '../refusal.ts';
import { remove, type DeleteOptions } from '../remove.ts';
import type { Entry, EntryEvent } from '../store/entry.ts';
import { SYSTEM, type World } from '../world.ts';
import { modify, type Writer } from '../write.ts';
import type { Tasks } from './tasks.ts';

/** What the controllers inside the server share. */
export interface Context {
  readonly world: World;
  readonly tasks: Tasks;
}

/** A part of the control plane that a real cluster runs in kube-controller-manager. */
export interface EmbeddedController {
  /** Reconciles what is there when the cluster opens. */
  start?(): void;
  onEvent(event: EntryEvent): void;
  /** Cancels its timers. */
  stop?(): void;
}

/** A kind that every cluster serves, by the name of its storage. */
export function builtin(world: World, storageKey: string): Served {
  const served = world.registry.byStorage(storageKey);
  if (served === undefined) throw new Error(`${storageKey} is built in`);
  return served;
}

export const systemWriter = (manager: string): Writer => ({
  user: SYSTEM,
  manager,
  dryRun: false,
  fieldValidation: 'Ignore',
  warn: () => undefined,
});

/** Instead of a manager: the write is inside the API server, and no manager owns what it changes. */
export const UNRECORDED = Symbol('unrecorded');

/** Changes an object if it is still there and still the same one. Returns false when it is not. */
export function change(
  world: World,
  served: Served,
  entry: Entry,
  subresource: string,
  edit: (object: JsonObject) => JsonObject,
  manager: string | typeof UNRECORDED = 'kube-controller-manager',
): boolean {
  const current = world.store.table(served.storageKey).get(entry.key);
  if (current?.uid !== entry.uid) return false;
  modify(world, served, {
    namespace: entry.namespace,
    name: entry.name,
    subresource,
    writer: systemWriter(manager === UNRECORDED ? 'kube-apiserver' : manager),
    allowCreate: false,
    recorded: manager === UNRECORDED,
    unconditional: true,
    change: (live) => edit(copy(live ?? {})),
  });
  return true;
}

/** Deletes an object if it is still there and still the same one. */
export function discard(world: World, served: Served, entry: Entry, options: Partial<DeleteOptions> = {}): void {
  try {
    remove(world, served, entry.namespace, entry.name, { dryRun: false, uid: entry.uid, ...options });
  } catch (error) {
    if (!(error instanceof Refusal && (error.code === 404 || error.code === 409))) throw error;
  }
}
