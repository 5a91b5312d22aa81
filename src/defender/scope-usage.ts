import type { LedgerReservation, StartsBucket } from '../api/disruption-ledger.ts';
import { countsOf, type Counts } from './rates.ts';
import { classOf, type Request } from './request.ts';
import type { IndexedMachine, AvailabilityIndex } from './availability-index.ts';
import { firstNames, HOLDERS } from './holders.ts';
import { outageIn } from './outage.ts';
import type { Outage } from './outage.ts';
import { CLUSTER_SCOPE, isConditionScope } from './scopes.ts';

/** Who takes a slot in a scope. */
export interface Occupation {
  used: number;
  /** Names of up to five, reserved ones first; and how many would still be there if every operation under way had ended. */
  who(): { holders: readonly string[]; lasting: number };
}

/**
 * Who counts in each scope: unavailable machines, reservations and starts. Grows as reservations are granted. It is the availability index with the reservations laid over
 * it, and good only until the availability index changes; asked after that it throws.
 */
export interface ScopeUsage {
  /** Machines in a scope; undefined when it has none, which is an unknown total. */
  total(scope: string): number | undefined;
  /** Unavailable machines and reserved ones, each once. */
  slots(scope: string): Occupation;
  /** Whether reserving this machine takes no slot: it has one, or is new. */
  counts(scope: string, uid: string): boolean;
  /** Unavailable by itself, with any reservations, or never there yet. */
  isUnavailableByItself(uid: string): boolean;
  /** Reservations of these classes. */
  reservations(scope: string, classes: readonly string[]): Occupation;
  readonly starts: Counts;
  outage(scope: string): Outage;
  /** Counts this one as reserved in all scopes of its machine and in its own. */
  add(granted: Pick<Request, 'machineUID' | 'machine' | 'kind' | 'class'> & { scopes: readonly string[] }): void;
  /** Takes a reservation away that has not begun: its machine still counts only where it is unavailable by itself. */
  remove(reservation: LedgerReservation): void;
}

export interface ScopeUsageOptions {
  /** Buckets of the ledger. */
  hours?: readonly StartsBucket[];
  nowMs?: number;
  /** UIDs of machines whose reservation has its order: what they are now is its doing. */
  ordered?: ReadonlySet<string>;
}

/** A machine that has a reservation, in one scope. */
interface Reserved {
  name: string;
  class: string;
  persistently: boolean;
}

/** What reservations change in one scope of the availability index. */
interface Overlay {
  reservations: Map<string, Reserved>;
  /** Machines with reservations that the availability index does not count as unavailable. */
  added: number;
  /** Machines that the availability index counts, and whose reservation is taken away, with the cordon that made them unavailable. */
  left: Set<string>;
}

const NONE: ReadonlyMap<string, IndexedMachine> = new Map();

type Granted = Parameters<ScopeUsage['add']>[0];
type Holders = ReturnType<Occupation['who']>;

interface UsageState {
  readonly index: AvailabilityIndex;
  /** Version of the availability index from which this was made. */
  readonly version: number;
  /** By scope. */
  readonly overlays: Map<string, Overlay>;
  /** What was answered since the last change. */
  readonly summaries: Map<string, Holders>;
}

export function scopeUsage(
  availabilityIndex: AvailabilityIndex,
  reservations: readonly LedgerReservation[],
  { hours = [], nowMs = 0, ordered = new Set() }: ScopeUsageOptions = {},
): ScopeUsage {
  const state: UsageState = {
    index: availabilityIndex,
    version: availabilityIndex.version,
    overlays: new Map(),
    summaries: new Map(),
  };
  const outages = new Map<string, Outage>();
  const starts = countsOf(hours, nowMs);
  for (const reservation of reservations) count(state, reservation);

  return {
    // Conditions are asked for on any machine.
    total: (scope) => current(state).in(isConditionScope(scope) ? CLUSTER_SCOPE : scope)?.total,
    slots: (scope) => slots(state, scope),
    counts(scope, uid) {
      const overlay = state.overlays.get(scope);
      if (isNew(state, uid) || overlay?.reservations.has(uid) === true) return true;
      return unavailableIn(state, scope).has(uid) && overlay?.left.has(uid) !== true;
    },
    isUnavailableByItself: (uid) => isNew(state, uid) || (current(state).of(uid)?.persistently ?? true),
    reservations: (scope, classes) => reservationsIn(state, scope, classes),
    starts,
    outage(scope) {
      const index = current(state);
      let outage = outages.get(scope);
      if (outage === undefined) outages.set(scope, (outage = outageIn(index, scope, ordered)));
      return outage;
    },
    add(granted) {
      count(state, granted);
      starts.add(classOf(granted), granted.scopes);
    },
    remove(reservation) {
      discount(state, reservation);
      starts.remove(reservation);
    },
  };
}

function current({ index, version }: UsageState): AvailabilityIndex {
  if (index.version !== version) throw new Error('scope usage is asked after its availability index has changed');
  return index;
}

function overlayOf({ overlays }: UsageState, scope: string): Overlay {
  let overlay = overlays.get(scope);
  if (overlay === undefined) overlays.set(scope, (overlay = { reservations: new Map(), added: 0, left: new Set() }));
  return overlay;
}

function unavailableIn(state: UsageState, scope: string): ReadonlyMap<string, IndexedMachine> {
  return current(state).in(scope)?.unavailable ?? NONE;
}

/** A reservation whose Machine is not known counts by its own scopes. */
function scopesOf({ index }: UsageState, uid: string, scopes: readonly string[]): Set<string> {
  return new Set([...(index.of(uid)?.scopes ?? []), ...scopes]);
}

function isNew({ index }: UsageState, uid: string): boolean {
  return index.of(uid)?.isNew === true;
}

function count(state: UsageState, { machineUID: uid, machine: name, kind, class: asked, scopes }: Granted): void {
  const reserved = { name, class: classOf({ kind, class: asked }), persistently: state.index.of(uid)?.persistently ?? true };
  for (const scope of scopesOf(state, uid, scopes)) {
    const overlay = overlayOf(state, scope);
    overlay.left.delete(uid);
    if (!isNew(state, uid) && !overlay.reservations.has(uid) && !unavailableIn(state, scope).has(uid)) overlay.added++;
    overlay.reservations.set(uid, reserved);
  }
  state.summaries.clear();
}

function discount(state: UsageState, { machineUID: uid, scopes }: LedgerReservation): void {
  for (const scope of scopesOf(state, uid, scopes)) {
    const overlay = overlayOf(state, scope);
    const machine = unavailableIn(state, scope).get(uid);
    if (overlay.reservations.delete(uid) && machine === undefined && !isNew(state, uid)) overlay.added--;
    if (machine?.persistently === false) overlay.left.add(uid);
  }
  state.summaries.clear();
}

function slots(state: UsageState, scope: string): Occupation {
  const unavailable = current(state).in(scope)?.unavailable.size ?? 0;
  const overlay = state.overlays.get(scope);
  const used = overlay === undefined ? unavailable : unavailable + overlay.added - overlay.left.size;
  return { used, who: () => summary(state, scope, () => holdersIn(state, scope)) };
}

function holdersIn(state: UsageState, scope: string): Holders {
  const scopeAvailability = state.index.in(scope);
  const overlay = state.overlays.get(scope);
  const reserved = overlay === undefined ? [] : [...overlay.reservations].filter(([uid]) => !isNew(state, uid));
  const holders = firstNames(reserved.map(([, { name }]) => name));
  if (holders.length < HOLDERS && scopeAvailability !== undefined) {
    const others: string[] = [];
    for (const [uid, { name }] of scopeAvailability.unavailable)
      if (overlay?.reservations.has(uid) !== true && overlay?.left.has(uid) !== true) others.push(name);
    holders.push(...firstNames(others, HOLDERS - holders.length));
  }
  const more = reserved.filter(([uid, { persistently }]) => persistently && scopeAvailability?.unavailable.has(uid) !== true).length;
  return { holders, lasting: (scopeAvailability?.lasting ?? 0) + more };
}

function reservationsIn(state: UsageState, scope: string, classes: readonly string[]): Occupation {
  const all = [...(state.overlays.get(scope)?.reservations.values() ?? [])].filter((reserved) => classes.includes(reserved.class));
  const who = (): Holders => ({
    holders: firstNames(all.map(({ name }) => name)),
    lasting: all.filter(({ persistently }) => persistently).length,
  });
  return { used: all.length, who: () => summary(state, `${scope} ${classes.join(' ')}`, who) };
}

function summary({ summaries }: UsageState, key: string, make: () => Holders): Holders {
  let known = summaries.get(key);
  if (known === undefined) summaries.set(key, (known = make()));
  return known;
}
