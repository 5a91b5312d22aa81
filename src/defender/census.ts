import type { LedgerRow, StartsBucket } from '../api/disruptionledger.ts';
import { countsOf, type Counts } from './rates.ts';
import { classOf, type Request } from './request.ts';
import { CLUSTER_SCOPE, isConditionScope } from './scopes.ts';

/** A machine as limits see it. */
export interface CensusMachine {
  uid: string;
  /** namespace/name */
  name: string;
  /** Every scope it belongs to, also those of sets that want nothing of it now. */
  scopes: readonly string[];
  /** Node absent, not Ready=True by a fresh heartbeat, or unschedulable by anyone (D7). A deletion alone is not. */
  unavailable: boolean;
  /** Unavailable by something else than a cordon of ours, so that no operation's end will mend it. */
  lastingly: boolean;
  /** What its Node says is wrong with it, by which a suspect is told; absent where there was no Node yet, which is no outage. */
  ailments?: readonly string[];
}

interface Member {
  name: string;
  reserved: boolean;
  lastingly: boolean;
}

/** Who takes a place in a scope. */
export interface Occupation {
  used: number;
  /** Names of up to five, reserved ones first; and how many would still be there if every operation under way had ended. */
  who(): { holders: readonly string[]; lasting: number };
}

/** Machines of a scope that are unavailable, and not because of a row of ours. */
export interface Outage {
  machines: number;
  holders: readonly string[];
  /** Condition types that more than half of them share, the commonest first. */
  shared: readonly string[];
}

/** Who counts in each scope: unavailable machines, rows and starts. Grows as reservations are granted. */
export interface Census {
  /** Machines in a scope; undefined when it has none, which is an unknown total. */
  total(scope: string): number | undefined;
  /** Unavailable machines and reserved ones, each once. */
  places(scope: string): Occupation;
  counts(scope: string, uid: string): boolean;
  /** Unavailable by itself, whatever rows it has. */
  ails(uid: string): boolean;
  /** Rows of these classes. */
  rows(scope: string, classes: readonly string[]): Occupation;
  readonly starts: Counts;
  outage(scope: string): Outage;
  /** Counts this one as reserved in all scopes of its machine and in its own. */
  add(granted: Pick<Request, 'machineUID' | 'machine' | 'kind' | 'class'> & { scopes: readonly string[] }): void;
  /** Takes a row away that has not begun: its machine counts on only if it ails. */
  remove(row: LedgerRow): void;
}

export interface CensusOptions {
  /** Buckets of the ledger. */
  hours?: readonly StartsBucket[];
  nowMs?: number;
  /** UIDs of machines whose row has its order: what they are now is its doing. */
  ordered?: ReadonlySet<string>;
}

export function takeCensus(
  machines: readonly CensusMachine[],
  rows: readonly LedgerRow[],
  { hours = [], nowMs = 0, ordered = new Set() }: CensusOptions = {},
): Census {
  const totals = new Map<string, number>();
  /** By scope, then by machine UID. */
  const members = new Map<string, Map<string, Member>>();
  const reserved = new Map<string, Map<string, Member & { class: string }>>();
  const known = new Map<string, CensusMachine>();
  const summaries = new Map<string, ReturnType<Occupation['who']>>();
  let outages: Map<string, CensusMachine[]> | undefined;
  const noted = new Map<string, Outage>();

  function of<Value>(map: Map<string, Map<string, Value>>, scope: string): Map<string, Value> {
    let inScope = map.get(scope);
    if (inScope === undefined) map.set(scope, (inScope = new Map()));
    return inScope;
  }

  /** A row whose Machine is not known counts by what it says itself. */
  function scopesOf(uid: string, scopes: readonly string[]): Set<string> {
    return new Set([...(known.get(uid)?.scopes ?? []), ...scopes]);
  }

  const starts = countsOf(hours, nowMs);

  function count({ machineUID: uid, machine: name, kind, class: asked, scopes }: Parameters<Census['add']>[0]): void {
    const lastingly = known.get(uid)?.lastingly ?? true;
    for (const scope of scopesOf(uid, scopes)) {
      of(members, scope).set(uid, { name, reserved: true, lastingly });
      of(reserved, scope).set(uid, { name, reserved: true, lastingly, class: classOf({ kind, class: asked }) });
    }
    summaries.clear();
  }

  for (const machine of machines) {
    known.set(machine.uid, machine);
    for (const scope of machine.scopes) {
      totals.set(scope, (totals.get(scope) ?? 0) + 1);
      if (machine.unavailable) of(members, scope).set(machine.uid, { name: machine.name, reserved: false, lastingly: machine.lastingly });
    }
  }
  for (const row of rows) count(row);

  function outagesByScope(): Map<string, CensusMachine[]> {
    if (outages !== undefined) return outages;
    outages = new Map();
    for (const machine of machines) {
      if (!machine.lastingly || machine.ailments === undefined || ordered.has(machine.uid)) continue;
      for (const scope of machine.scopes) {
        const inScope = outages.get(scope);
        if (inScope === undefined) outages.set(scope, [machine]);
        else inScope.push(machine);
      }
    }
    return outages;
  }

  function summary(key: string, all: readonly Member[]): ReturnType<Occupation['who']> {
    let known = summaries.get(key);
    if (known === undefined) {
      const holders = all
        .toSorted((a, b) => Number(b.reserved) - Number(a.reserved) || (a.name < b.name ? -1 : 1))
        .slice(0, 5)
        .map((member) => member.name);
      known = { holders, lasting: all.filter((member) => member.lastingly).length };
      summaries.set(key, known);
    }
    return known;
  }

  return {
    // Conditions are asked for on any machine.
    total: (scope) => totals.get(isConditionScope(scope) ? CLUSTER_SCOPE : scope),
    places: (scope) => ({ used: members.get(scope)?.size ?? 0, who: () => summary(scope, [...(members.get(scope)?.values() ?? [])]) }),
    counts: (scope, uid) => members.get(scope)?.has(uid) ?? false,
    ails: (uid) => known.get(uid)?.lastingly ?? true,
    rows(scope, classes) {
      const all = [...(reserved.get(scope)?.values() ?? [])].filter((member) => classes.includes(member.class));
      return { used: all.length, who: () => summary(`${scope} ${classes.join(' ')}`, all) };
    },
    starts,
    outage(scope) {
      let outage = noted.get(scope);
      if (outage === undefined) {
        const all = outagesByScope().get(scope) ?? [];
        outage = { machines: all.length, holders: all.slice(0, 5).map((machine) => machine.name), shared: sharedBy(all) };
        noted.set(scope, outage);
      }
      return outage;
    },
    add(granted) {
      count(granted);
      starts.add(classOf(granted), granted.scopes);
    },
    remove(row) {
      for (const scope of scopesOf(row.machineUID, row.scopes)) {
        reserved.get(scope)?.delete(row.machineUID);
        const machine = known.get(row.machineUID);
        if (machine?.lastingly === true && machine.scopes.includes(scope))
          of(members, scope).set(machine.uid, { name: machine.name, reserved: false, lastingly: true });
        else members.get(scope)?.delete(row.machineUID);
      }
      starts.remove(row);
      summaries.clear();
    },
  };
}

function sharedBy(machines: readonly CensusMachine[]): string[] {
  const counts = new Map<string, number>();
  for (const machine of machines) for (const ailment of machine.ailments ?? []) counts.set(ailment, (counts.get(ailment) ?? 0) + 1);
  return [...counts]
    .filter(([, count]) => count * 2 > machines.length)
    .sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))
    .map(([type]) => type);
}
