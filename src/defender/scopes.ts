/** Names of what a limit covers, as they stand in a row's `scopes`. A scope is a string so that rows outlive what made them. */
export const CLUSTER_SCOPE = 'cluster';
export const poolScope = (namespace: string): string => `pool/${namespace}`;
/** By the zone label of the machine. */
export const zoneScope = (zone: string): string => `zone/${zone}`;
/** By the rack label of the machine. */
export const rackScope = (rack: string): string => `rack/${rack}`;
/** Of repairs that a condition asks for, whatever the machine. */
export const conditionScope = (type: string): string => `condition/${type}`;
/** Of a MachineSet. */
export const machineSetScope = (namespace: string, name: string): string => `machineset/${namespace}/${name}`;
/** Of a MachineComponentSet (PROTOCOLS B8). */
export const setScope = (uid: string): string => `set/${uid}`;

export type Scope =
  | { kind: 'Cluster' }
  | { kind: 'Pool'; pool: string }
  | { kind: 'MachineSet'; pool: string; name: string }
  | { kind: 'Set'; uid: string };

/** undefined for a scope that this build does not know. */
export function parseScope(scope: string): Scope | undefined {
  const [kind, first, second] = scope.split('/');
  if (scope === CLUSTER_SCOPE) return { kind: 'Cluster' };
  if (kind === 'pool' && first !== undefined) return { kind: 'Pool', pool: first };
  if (kind === 'machineset' && first !== undefined && second !== undefined) return { kind: 'MachineSet', pool: first, name: second };
  if (kind === 'set' && first !== undefined) return { kind: 'Set', uid: first };
  return undefined;
}
