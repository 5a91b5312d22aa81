/** Names of what a limit covers, as a reservation's `scopes` contains them. A scope is a string so that reservations outlive what made them. */
export const CLUSTER_SCOPE = 'cluster';
export const poolScope = (namespace: string): string => `pool/${namespace}`;
/** By the zone label of the machine. */
export const zoneScope = (zone: string): string => `zone/${zone}`;
/** By the rack label of the machine. */
export const rackScope = (rack: string): string => `rack/${rack}`;
/** Scope of repairs that a condition asks for, on any machine. */
export const conditionScope = (type: string): string => `condition/${type}`;
/** Scope of a MachineSet. */
export const machineSetScope = (namespace: string, name: string): string => `machineset/${namespace}/${name}`;
/** Scope of a MachineComponentSet (docs/protocols.md#b8). */
export const setScope = (uid: string): string => `set/${uid}`;

export type Scope =
  | { kind: 'Cluster' }
  | { kind: 'Pool'; pool: string }
  | { kind: 'Zone' | 'Rack' }
  | { kind: 'Condition'; type: string }
  | { kind: 'MachineSet'; pool: string; name: string }
  | { kind: 'Set'; uid: string };

/** undefined for a scope that this build does not know. */
export function parseScope(scope: string): Scope | undefined {
  if (scope === CLUSTER_SCOPE) return { kind: 'Cluster' };
  const slash = scope.indexOf('/');
  const rest = scope.slice(slash + 1);
  if (slash < 0 || rest === '') return undefined;
  switch (scope.slice(0, slash)) {
    case 'pool':
      return { kind: 'Pool', pool: rest };
    case 'zone':
      return { kind: 'Zone' };
    case 'rack':
      return { kind: 'Rack' };
    // Types may contain a slash: `example.com/Broken`.
    case 'condition':
      return { kind: 'Condition', type: rest };
    case 'set':
      return { kind: 'Set', uid: rest };
    case 'machineset': {
      const [pool, name] = rest.split('/');
      return pool === undefined || name === undefined ? undefined : { kind: 'MachineSet', pool, name };
    }
    default:
      return undefined;
  }
}

export const isConditionScope = (scope: string): boolean => scope.startsWith('condition/');
/** A zone or a rack. */
export const isTopology = (scope: string): boolean => scope.startsWith('zone/') || scope.startsWith('rack/');
/** The zone or the rack that one of these scopes names. */
export const topologyIn = (scopes: readonly string[], kind: 'Zone' | 'Rack'): string | undefined =>
  scopes.find((scope) => scope.startsWith(kind === 'Zone' ? 'zone/' : 'rack/'));
