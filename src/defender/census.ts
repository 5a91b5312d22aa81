import type { LedgerRow } from '../api/disruptionledger.ts';

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
}

interface Member {
  name: string;
  reserved: boolean;
  lastingly: boolean;
}

/** Who counts in each scope: unavailable machines and reserved ones, each once. Grows as reservations are granted. */
export interface Census {
  /** Machines in a scope; undefined when it has none, which is an unknown total. */
  total(scope: string): number | undefined;
  used(scope: string): number;
  counts(scope: string, uid: string): boolean;
  /** Names of up to five that count, reserved ones first. */
  holders(scope: string): string[];
  /** How many would still count if every operation under way had ended. */
  lasting(scope: string): number;
  /** Counts this machine as reserved in all its scopes and in these. */
  add(uid: string, name: string, scopes: readonly string[]): void;
}

export function takeCensus(machines: readonly CensusMachine[], rows: readonly LedgerRow[]): Census {
  const totals = new Map<string, number>();
  const members = new Map<string, Map<string, Member>>();
  const known = new Map<string, CensusMachine>();

  function count(scope: string, uid: string, member: Member): void {
    let inScope = members.get(scope);
    if (inScope === undefined) members.set(scope, (inScope = new Map()));
    const before = inScope.get(uid);
    inScope.set(uid, before === undefined ? member : { ...member, reserved: before.reserved || member.reserved });
  }

  function add(uid: string, name: string, scopes: readonly string[]): void {
    const machine = known.get(uid);
    // A row whose Machine is not known counts by what it says itself.
    for (const scope of new Set([...(machine?.scopes ?? []), ...scopes]))
      count(scope, uid, { name, reserved: true, lastingly: machine?.lastingly ?? true });
  }

  for (const machine of machines) {
    known.set(machine.uid, machine);
    for (const scope of machine.scopes) {
      totals.set(scope, (totals.get(scope) ?? 0) + 1);
      if (machine.unavailable) count(scope, machine.uid, { name: machine.name, reserved: false, lastingly: machine.lastingly });
    }
  }
  for (const row of rows) add(row.machineUID, row.machine, row.scopes);

  return {
    total: (scope) => totals.get(scope),
    used: (scope) => members.get(scope)?.size ?? 0,
    counts: (scope, uid) => members.get(scope)?.has(uid) ?? false,
    holders: (scope) =>
      [...(members.get(scope)?.values() ?? [])]
        .sort((a, b) => Number(b.reserved) - Number(a.reserved) || (a.name < b.name ? -1 : 1))
        .slice(0, 5)
        .map((member) => member.name),
    lasting: (scope) => [...(members.get(scope)?.values() ?? [])].filter((member) => member.lastingly).length,
    add,
  };
}
