import type { Clock, Random } from '@kubenode/api-machinery/ports';
import type { JsonObject } from '@kubenode/api-machinery/wire';
import type { Policies } from './admission/policies.ts';
import type { Bookmarks } from './bookmarks.ts';
import type { Served, User } from './kinds/served.ts';
import type { Authorizer } from './rbac/authorizer.ts';
import type { Registry } from './registry.ts';
import type { StoreDisk } from './store/disk.ts';
import { factsOf, type EntryFacts } from './store/entry.ts';
import type { EmbeddedStore } from './store/store.ts';

/** What every part of one cluster shares. */
export interface World {
  readonly name: string;
  readonly store: EmbeddedStore;
  readonly disk: StoreDisk;
  readonly registry: Registry;
  readonly clock: Clock;
  readonly random: Random;
  readonly bookmarks: Bookmarks;
  readonly policies: Policies;
  /** Absent: everybody may do everything. */
  readonly authorizer: Authorizer | undefined;
}

/** What the server itself writes as. */
export const SYSTEM: User = { name: 'system:kube-controller-manager', groups: ['system:masters', 'system:authenticated'] };

/** RFC 3339 in whole seconds: the precision of the times that the server sets. */
export function timestamp(milliseconds: number): string {
  return `${new Date(milliseconds).toISOString().slice(0, 19)}Z`;
}

export const now = (world: World): string => timestamp(world.clock.now());

export function factsFor(served: Served | undefined, object: JsonObject): EntryFacts {
  return factsOf(object, served?.strategy.selectable);
}

/** A version 4 UUID. */
export function uuid(random: Random): string {
  const hex = Array.from({ length: 32 }, (_, index) => {
    const digit = Math.floor(random() * 16);
    return (index === 12 ? 4 : index === 16 ? (digit & 3) | 8 : digit).toString(16);
  }).join('');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

// Without vowels and characters that resemble others, as upstream's generated names.
const LETTERS = 'bcdfghjklmnpqrstvwxz2456789';

export function suffix(random: Random): string {
  return Array.from({ length: 5 }, () => LETTERS[Math.floor(random() * LETTERS.length)]).join('');
}
