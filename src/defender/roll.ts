/**
 * Every machine as limits see it, by scope. Kept up to date machine by machine: what it costs to ask it something does not grow with the
 * number of machines, only with how many of them are unavailable.
 */

/** A machine as limits see it. */
export interface CensusMachine {
  uid: string;
  /** namespace/name */
  name: string;
  /** Every scope it belongs to, each once; also those of sets that want nothing of it now. */
  scopes: readonly string[];
  /** Node absent, not Ready=True by a fresh heartbeat, or unschedulable by anyone (docs/protocols.md#d7). A deletion alone is not. */
  unavailable: boolean;
  /** Its Node was never Ready: nothing runs there that could be missed. It is neither unavailable nor one of the total, and disrupting it costs nothing. */
  isNew?: boolean;
  /** Unavailable by something else than a cordon of ours, so that no operation's end will mend it. */
  lastingly: boolean;
  /** What its Node says is wrong with it, by which a suspect is told; absent where there was no Node yet, which is no outage. */
  ailments?: readonly string[];
}

/** The machines of one scope. */
export interface Muster {
  /** Without the new ones. */
  readonly total: number;
  /** By UID. */
  readonly unavailable: ReadonlyMap<string, CensusMachine>;
  /** How many of the unavailable ones are so lastingly. */
  readonly lasting: number;
  /** By UID: lastingly unavailable, and with ailments to tell. */
  readonly ailing: ReadonlyMap<string, CensusMachine>;
  /** How many of the ailing ones share each ailment. */
  readonly ailments: ReadonlyMap<string, number>;
}

export interface Roll {
  /** Grows with each change: what was made of the roll before is over then. */
  readonly version: number;
  of(uid: string): CensusMachine | undefined;
  /** undefined: no machine is in this scope. */
  in(scope: string): Muster | undefined;
}

export interface WritableRoll extends Roll {
  /** In the place of what its UID had. */
  put(machine: CensusMachine): void;
  remove(uid: string): void;
  clear(): void;
}

interface Mustered extends Muster {
  total: number;
  /** With the new ones: a scope is known as long as there is any. */
  members: number;
  unavailable: Map<string, CensusMachine>;
  lasting: number;
  ailing: Map<string, CensusMachine>;
  ailments: Map<string, number>;
}

export function createRoll(machines: Iterable<CensusMachine> = []): WritableRoll {
  const known = new Map<string, CensusMachine>();
  const scopes = new Map<string, Mustered>();
  let version = 0;

  function enter(machine: CensusMachine): void {
    for (const scope of machine.scopes) {
      let muster = scopes.get(scope);
      if (muster === undefined)
        scopes.set(scope, (muster = { total: 0, members: 0, unavailable: new Map(), lasting: 0, ailing: new Map(), ailments: new Map() }));
      muster.members++;
      if (machine.isNew === true) continue;
      muster.total++;
      if (!machine.unavailable) continue;
      muster.unavailable.set(machine.uid, machine);
      if (machine.lastingly) muster.lasting++;
      if (!ails(machine)) continue;
      muster.ailing.set(machine.uid, machine);
      for (const ailment of machine.ailments) muster.ailments.set(ailment, (muster.ailments.get(ailment) ?? 0) + 1);
    }
  }

  function leave(machine: CensusMachine): void {
    for (const scope of machine.scopes) {
      const muster = scopes.get(scope);
      if (muster === undefined) continue;
      if (--muster.members === 0) {
        scopes.delete(scope);
        continue;
      }
      if (machine.isNew === true) continue;
      muster.total--;
      if (!muster.unavailable.delete(machine.uid)) continue;
      if (machine.lastingly) muster.lasting--;
      if (!ails(machine)) continue;
      muster.ailing.delete(machine.uid);
      for (const ailment of machine.ailments) {
        const left = (muster.ailments.get(ailment) ?? 0) - 1;
        if (left > 0) muster.ailments.set(ailment, left);
        else muster.ailments.delete(ailment);
      }
    }
  }

  function remove(uid: string): void {
    const before = known.get(uid);
    if (before === undefined) return;
    version++;
    known.delete(uid);
    leave(before);
  }

  function put(machine: CensusMachine): void {
    const before = known.get(machine.uid);
    if (before !== undefined && isSame(before, machine)) return;
    version++;
    if (before !== undefined) leave(before);
    known.set(machine.uid, machine);
    enter(machine);
  }

  for (const machine of machines) put(machine);
  return {
    get version() {
      return version;
    },
    of: (uid) => known.get(uid),
    in: (scope) => scopes.get(scope),
    put,
    remove,
    clear() {
      version++;
      known.clear();
      scopes.clear();
    },
  };
}

/** An outage is what does not pass by itself, of a machine that had a Node. */
const ails = (machine: CensusMachine): machine is CensusMachine & { ailments: readonly string[] } =>
  machine.unavailable && machine.lastingly && machine.ailments !== undefined;

function isSame(a: CensusMachine, b: CensusMachine): boolean {
  return (
    a.name === b.name &&
    a.unavailable === b.unavailable &&
    a.lastingly === b.lastingly &&
    a.isNew === b.isNew &&
    sameTexts(a.scopes, b.scopes) &&
    sameTexts(a.ailments, b.ailments)
  );
}

function sameTexts(a: readonly string[] | undefined, b: readonly string[] | undefined): boolean {
  if (a === b) return true;
  return a !== undefined && b !== undefined && a.length === b.length && a.every((text, at) => text === b[at]);
}
