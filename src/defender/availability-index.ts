/**
 * Every machine as limits see it, by scope. Kept up to date machine by machine: what it costs to ask it something does not grow with the
 * number of machines, only with how many of them are unavailable.
 */

/** A machine as limits see it. */
export interface IndexedMachine {
  uid: string;
  /** namespace/name */
  name: string;
  /** Every scope it belongs to, each once; also the scopes of sets that have no entry on it now. */
  scopes: readonly string[];
  /** Node absent, not Ready=True by a fresh heartbeat, or unschedulable by anyone (docs/protocols.md#d7). A deletion alone is not. */
  unavailable: boolean;
  /** Its Node was never Ready: nothing runs there that could be missed. It is neither unavailable nor one of the total, and disrupting it costs nothing. */
  isNew?: boolean;
  /** Unavailable by something else than a cordon of ours, so that no operation's end will change it. */
  persistently: boolean;
  /** What its Node reports to be wrong with it, by which a suspect is recognised; absent where there was no Node yet, which is no outage. */
  symptoms?: readonly string[];
}

/** The machines of one scope. */
export interface ScopeAvailability {
  /** Without the new ones. */
  readonly total: number;
  /** By UID. */
  readonly unavailable: ReadonlyMap<string, IndexedMachine>;
  /** How many of the unavailable ones are so persistently. */
  readonly lasting: number;
  /** By UID: persistently unavailable, and with symptoms. */
  readonly unhealthy: ReadonlyMap<string, IndexedMachine>;
  /** How many of the unhealthy ones share each symptom. */
  readonly symptoms: ReadonlyMap<string, number>;
}

export interface AvailabilityIndex {
  /** Grows with each change: what was made of the availability index before is over then. */
  readonly version: number;
  of(uid: string): IndexedMachine | undefined;
  /** undefined: no machine is in this scope. */
  in(scope: string): ScopeAvailability | undefined;
}

export interface WritableAvailabilityIndex extends AvailabilityIndex {
  /** Replaces what its UID had. */
  put(machine: IndexedMachine): void;
  remove(uid: string): void;
  clear(): void;
}

interface WritableScope extends ScopeAvailability {
  total: number;
  /** With the new ones: a scope is known as long as there is any. */
  members: number;
  unavailable: Map<string, IndexedMachine>;
  lasting: number;
  unhealthy: Map<string, IndexedMachine>;
  symptoms: Map<string, number>;
}

export function createAvailabilityIndex(machines: Iterable<IndexedMachine> = []): WritableAvailabilityIndex {
  const known = new Map<string, IndexedMachine>();
  const scopes = new Map<string, WritableScope>();
  let version = 0;

  function enter(machine: IndexedMachine): void {
    for (const scope of machine.scopes) {
      let scopeAvailability = scopes.get(scope);
      if (scopeAvailability === undefined)
        scopes.set(
          scope,
          (scopeAvailability = { total: 0, members: 0, unavailable: new Map(), lasting: 0, unhealthy: new Map(), symptoms: new Map() }),
        );
      scopeAvailability.members++;
      if (machine.isNew === true) continue;
      scopeAvailability.total++;
      if (!machine.unavailable) continue;
      scopeAvailability.unavailable.set(machine.uid, machine);
      if (machine.persistently) scopeAvailability.lasting++;
      if (!isUnhealthy(machine)) continue;
      scopeAvailability.unhealthy.set(machine.uid, machine);
      for (const symptom of machine.symptoms) scopeAvailability.symptoms.set(symptom, (scopeAvailability.symptoms.get(symptom) ?? 0) + 1);
    }
  }

  function leave(machine: IndexedMachine): void {
    for (const scope of machine.scopes) {
      const scopeAvailability = scopes.get(scope);
      if (scopeAvailability === undefined) continue;
      if (--scopeAvailability.members === 0) {
        scopes.delete(scope);
        continue;
      }
      if (machine.isNew === true) continue;
      scopeAvailability.total--;
      if (!scopeAvailability.unavailable.delete(machine.uid)) continue;
      if (machine.persistently) scopeAvailability.lasting--;
      if (!isUnhealthy(machine)) continue;
      scopeAvailability.unhealthy.delete(machine.uid);
      for (const symptom of machine.symptoms) {
        const left = (scopeAvailability.symptoms.get(symptom) ?? 0) - 1;
        if (left > 0) scopeAvailability.symptoms.set(symptom, left);
        else scopeAvailability.symptoms.delete(symptom);
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

  function put(machine: IndexedMachine): void {
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

/** An outage: a symptom that does not pass by itself, on a machine that had a Node. */
const isUnhealthy = (machine: IndexedMachine): machine is IndexedMachine & { symptoms: readonly string[] } =>
  machine.unavailable && machine.persistently && machine.symptoms !== undefined;

function isSame(a: IndexedMachine, b: IndexedMachine): boolean {
  return (
    a.name === b.name &&
    a.unavailable === b.unavailable &&
    a.persistently === b.persistently &&
    a.isNew === b.isNew &&
    sameTexts(a.scopes, b.scopes) &&
    sameTexts(a.symptoms, b.symptoms)
  );
}

function sameTexts(a: readonly string[] | undefined, b: readonly string[] | undefined): boolean {
  if (a === b) return true;
  return a !== undefined && b !== undefined && a.length === b.length && a.every((text, at) => text === b[at]);
}
