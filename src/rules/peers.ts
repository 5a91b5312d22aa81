/** How many others of a machine's rack, zone, pool and cluster are unhealthy, kept up to date machine by machine. */
import type { PeerScope } from '../api/facts.ts';
import { LABELS } from '../api/names.ts';
import type { PeerCounts, PeerFacts, Snapshot } from './snapshot.ts';

/** What one machine adds to the counts of its scopes. */
export interface Peer {
  /** Name of its rack, zone … by scope; one it has no label for is left out. */
  groups: Readonly<Partial<Record<PeerScope, string>>>;
  unhealthy: boolean;
  /** Types of its conditions that are unhealthy. */
  bad: readonly string[];
}

/**
 * A machine counts as unhealthy when its Node is gone, any of its conditions is bad, Ready is not known to be True, or the ledger has a reservation
 * for it: a node under repair is not there, though its object may seem healthy.
 */
export function peerOf(snapshot: Omit<Snapshot, 'peers'>, hasReservation: boolean): Peer {
  const { machine, node } = snapshot;
  const zone = node?.labels[LABELS.zone] ?? machine.spec.failureDomain;
  const rack = node?.labels[LABELS.rack] ?? machine.spec.labels?.[LABELS.rack];
  const bad = [...(node?.conditions ?? [])].filter(([, condition]) => condition.health === 'Unhealthy').map(([type]) => type);
  return {
    groups: {
      cluster: '',
      pool: machine.metadata.namespace ?? '',
      ...(zone === undefined ? {} : { zone }),
      ...(rack === undefined ? {} : { rack }),
    },
    unhealthy: hasReservation || bad.length > 0 || node?.conditions.get('Ready')?.status !== 'True',
    bad: bad.sort(),
  };
}

interface Group {
  total: number;
  unhealthy: number;
  byCondition: Map<string, number>;
}

const groupKey = (scope: string, name: string): string => `${scope}/${name}`;

const samePeer = (a: Peer | undefined, b: Peer | undefined): boolean => JSON.stringify(a) === JSON.stringify(b);

export class PeerIndex {
  readonly #peers = new Map<string, Peer>();
  readonly #groups = new Map<string, Group>();

  /** Puts a machine in (undefined: takes it out). Returns the groups whose counts moved, as `groupsOf` names them. */
  set(machineUID: string, peer: Peer | undefined): ReadonlySet<string> {
    const moved = new Set<string>();
    const before = this.#peers.get(machineUID);
    if (samePeer(before, peer)) return moved;
    if (before !== undefined) this.#count(before, -1, moved);
    if (peer === undefined) this.#peers.delete(machineUID);
    else {
      this.#peers.set(machineUID, peer);
      this.#count(peer, 1, moved);
    }
    return moved;
  }

  /** Names of the groups a machine is in, by scope. */
  groupsOf(machineUID: string): Readonly<Partial<Record<PeerScope, string>>> {
    const groups = this.#peers.get(machineUID)?.groups ?? {};
    return Object.fromEntries(Object.entries(groups).map(([scope, name]) => [scope, groupKey(scope, name)]));
  }

  /** Counts of the others. */
  factsFor(machineUID: string): PeerFacts {
    const self = this.#peers.get(machineUID);
    const facts: Partial<Record<PeerScope, PeerCounts>> = {};
    if (self === undefined) return facts;
    for (const [scope, name] of Object.entries(self.groups) as [PeerScope, string][]) {
      const group = this.#groups.get(groupKey(scope, name));
      if (group === undefined) continue;
      const byCondition = new Map(group.byCondition);
      for (const type of self.bad) {
        const others = (byCondition.get(type) ?? 0) - 1;
        if (others > 0) byCondition.set(type, others);
        else byCondition.delete(type);
      }
      facts[scope] = { total: group.total - 1, unhealthy: group.unhealthy - (self.unhealthy ? 1 : 0), byCondition };
    }
    return facts;
  }

  #count(peer: Peer, by: 1 | -1, moved: Set<string>): void {
    for (const [scope, name] of Object.entries(peer.groups)) {
      const key = groupKey(scope, name);
      const group = this.#groups.get(key) ?? { total: 0, unhealthy: 0, byCondition: new Map<string, number>() };
      group.total += by;
      group.unhealthy += peer.unhealthy ? by : 0;
      for (const type of peer.bad) group.byCondition.set(type, (group.byCondition.get(type) ?? 0) + by);
      if (group.total === 0) this.#groups.delete(key);
      else this.#groups.set(key, group);
      moved.add(key);
    }
  }
}
