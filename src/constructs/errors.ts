import { CodedError } from '../api/errors.ts';

/** Every code that declaring a fleet throws. The stack of the error leads to the line of fleet code. */
export const fleetErrorCodes = {
  NameMissing: 'an object without an explicit name',
  ScopeWrong: 'an object in a place where its kind cannot be: outside a cluster, inside or outside a pool',
  ClusterDeclared: 'two clusters of one name',
  ClusterMissing: 'a selector that matches no cluster of this commit, or an empty one',
  ClusterOrder: 'clusters declared or selected while clusters are being built',
  PoolDeclared: 'a pool whose labels are given twice',
  ReleaseInvalid: 'a release that cannot be: no such version in the lock, no artifacts, a digest of the wrong form',
  FactUnknown: 'a fact that the catalogue does not have',
  RuleInvalid: 'a condition or a rung of a repair rule that cannot be',
  SignatureMissing: 'a component that is not in the file of signatures, or was changed since it was signed',
  ReleaseConflict: 'two releases of one component and version with different content',
} as const;

export type FleetErrorCode = keyof typeof fleetErrorCodes;

/** A mistake in fleet code that is found while it runs. */
export class FleetError extends CodedError {
  constructor(code: FleetErrorCode, message: string, next?: string) {
    super(code, message, { verdict: true, ...(next === undefined ? {} : { next }) });
    this.name = 'FleetError';
  }
}

export function nameMissing(kind: string): FleetError {
  return new FleetError('NameMissing', `${kind} has no name: \`metadata.name\` must be set, names are never generated`);
}
