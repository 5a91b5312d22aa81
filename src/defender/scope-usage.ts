import type { LedgerReservation, StartsBucket } from '../api/disruption-ledger.ts';
import { countsOf, type Counts } from './rates.ts';
import { classOf, type Request } from './request.ts';
import type { IndexedMachine, ScopeAvailability, AvailabilityIndex } from './availability-index.ts';
import { CLUSTER_SCOPE, isConditionScope } from './scopes.ts';

/** Who takes a place in a scope. */
export interface Occupation {
  used: number;
  /** Names of up to five, reserved ones first; and how many would still be there if every operation under way had ended. */
  who(): { holders: readonly string[]; lasting: number };
}

/** Machines of a scope that are unavailable, and not because of a reservation of ours. */
export interface Outage {
  machines: number;
  /** Names of up to five, and the condition types that more than half of them share, the commonest first. */
  who(): { holders: readonly string[]; shared: readonly string[] };
}

/**
 * Who counts in each scope: unavailable machines, reservations and starts. Grows as reservations are granted. It is the availability index with the reservations laid over
 * it, and good only until the availability index changes; asked after that it throws.
 */
export interface ScopeUsage {
  /** Machines in a scope; undefined when it has none, which is an unknown total. */
  total(scope: string): number | undefined;
  /** Unavailable machines and reserved ones, each once. */
  places(scope: string): Occupation;
  /** Whether reserving this machine takes no place: it has one, or is new. */
  counts(scope: string, uid: string): boolean;
  /** Unavailable by itself, whatever reservations it has, or never there yet. */
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

const HOLDERS = 5;
const NOBODY: ReadonlyMap<string, IndexedMachine> = new Map();

export function scopeUsage(
  availabilityIndex: AvailabilityIndex,
  reservations: readonly LedgerReservation[],
  { hours = [], nowMs = 0, ordered = new Set() }: ScopeUsageOptions = {},
): ScopeUsage {
  const { version } = availabilityIndex;
  const overlays = new Map<string, Overlay>();
  const summaries = new Map<string, ReturnType<Occupation['who']>>();
  const outages = new Map<string, Outage>();
  const starts = countsOf(hours, nowMs);

  function current(): AvailabilityIndex {
    if (availabilityIndex.version !== version) throw new Error('scope usage is asked after its availability index has changed');
    return availabilityIndex;
  }

  function overlayOf(scope: string): Overlay {
    let overlay = overlays.get(scope);
    if (overlay === undefined) overlays.set(scope, (overlay = { reservations: new Map(), added: 0, left: new Set() }));
    return overlay;
  }

  const unavailableIn = (scope: string): ReadonlyMap<string, IndexedMachine> => current().in(scope)?.unavailable ?? NOBODY;

  /** A reservation whose Machine is not known counts by what it says itself. */
  function scopesOf(uid: string, scopes: readonly string[]): Set<string> {
    return new Set([...(availabilityIndex.of(uid)?.scopes ?? []), ...scopes]);
  }

  const isNew = (uid: string): boolean => availabilityIndex.of(uid)?.isNew === true;

  function count({ machineUID: uid, machine: name, kind, class: asked, scopes }: Parameters<ScopeUsage['add']>[0]): void {
    const reserved = { name, class: classOf({ kind, class: asked }), persistently: availabilityIndex.of(uid)?.persistently ?? true };
    for (const scope of scopesOf(uid, scopes)) {
      const overlay = overlayOf(scope);
      overlay.left.delete(uid);
      if (!isNew(uid) && !overlay.reservations.has(uid) && !unavailableIn(scope).has(uid)) overlay.added++;
      overlay.reservations.set(uid, reserved);
    }
    summaries.clear();
  }

  for (const reservation of reservations) count(reservation);

  function whoIn(scope: string): ReturnType<Occupation['who']> {
    const scopeAvailability = availabilityIndex.in(scope);
    const overlay = overlays.get(scope);
    const reserved = overlay === undefined ? [] : [...overlay.reservations].filter(([uid]) => !isNew(uid));
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

  function summary(key: string, make: () => ReturnType<Occupation['who']>): ReturnType<Occupation['who']> {
    let known = summaries.get(key);
    if (known === undefined) summaries.set(key, (known = make()));
    return known;
  }

  function outageIn(scope: string): Outage {
    const scopeAvailability = availabilityIndex.in(scope);
    if (scopeAvailability === undefined) return { machines: 0, who: () => ({ holders: [], shared: [] }) };
    const excused = [...ordered].flatMap((uid) => scopeAvailability.unhealthy.get(uid) ?? []);
    let known: ReturnType<Outage['who']> | undefined;
    return { machines: scopeAvailability.unhealthy.size - excused.length, who: () => (known ??= suspects(scopeAvailability, excused)) };
  }

  function suspects({ unhealthy, symptoms }: ScopeAvailability, excused: readonly IndexedMachine[]): ReturnType<Outage['who']> {
    const machines = unhealthy.size - excused.length;
    const names: string[] = [];
    for (const [uid, { name }] of unhealthy) if (!ordered.has(uid)) names.push(name);
    const counts = new Map(symptoms);
    for (const machine of excused) for (const symptom of machine.symptoms ?? []) counts.set(symptom, (counts.get(symptom) ?? 0) - 1);
    const shared = [...counts]
      .filter(([, times]) => times * 2 > machines)
      .sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))
      .map(([type]) => type);
    return { holders: firstNames(names), shared };
  }

  return {
    // Conditions are asked for on any machine.
    total: (scope) => current().in(isConditionScope(scope) ? CLUSTER_SCOPE : scope)?.total,
    places(scope) {
      const unavailable = current().in(scope)?.unavailable.size ?? 0;
      const overlay = overlays.get(scope);
      const used = overlay === undefined ? unavailable : unavailable + overlay.added - overlay.left.size;
      return { used, who: () => summary(scope, () => whoIn(scope)) };
    },
    counts(scope, uid) {
      const overlay = overlays.get(scope);
      return isNew(uid) || overlay?.reservations.has(uid) === true || (unavailableIn(scope).has(uid) && overlay?.left.has(uid) !== true);
    },
    isUnavailableByItself: (uid) => isNew(uid) || (current().of(uid)?.persistently ?? true),
    reservations(scope, classes) {
      const all = [...(overlays.get(scope)?.reservations.values() ?? [])].filter((reserved) => classes.includes(reserved.class));
      const who = (): ReturnType<Occupation['who']> => ({
        holders: firstNames(all.map(({ name }) => name)),
        lasting: all.filter(({ persistently }) => persistently).length,
      });
      return { used: all.length, who: () => summary(`${scope} ${classes.join(' ')}`, who) };
    },
    starts,
    outage(scope) {
      current();
      let outage = outages.get(scope);
      if (outage === undefined) outages.set(scope, (outage = outageIn(scope)));
      return outage;
    },
    add(granted) {
      count(granted);
      starts.add(classOf(granted), granted.scopes);
    },
    remove(reservation) {
      const uid = reservation.machineUID;
      for (const scope of scopesOf(uid, reservation.scopes)) {
        const overlay = overlayOf(scope);
        const machine = unavailableIn(scope).get(uid);
        if (overlay.reservations.delete(uid) && machine === undefined && !isNew(uid)) overlay.added--;
        if (machine?.persistently === false) overlay.left.add(uid);
      }
      starts.remove(reservation);
      summaries.clear();
    },
  };
}

/** The first few by name, without sorting them all. */
function firstNames(names: readonly string[], many = HOLDERS): string[] {
  const first: string[] = [];
  for (const name of names) {
    if (first.length === many && name >= (first[many - 1] ?? '')) continue;
    const at = first.findIndex((other) => name < other);
    first.splice(at < 0 ? first.length : at, 0, name);
    if (first.length > many) first.pop();
  }
  return first;
}
