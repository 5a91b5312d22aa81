import { CodedError, content, type CodeOf, type ErrorTable } from '../api/errors.ts';

/** Every code that declaring a fleet throws. The stack of the error leads to the line of fleet code. */
export const fleetErrorCodes = {
  NameMissing: content('an object without an explicit name'),
  ScopeWrong: content('an object in a scope where its kind cannot be: outside a cluster, inside or outside a pool'),
  ClusterDeclared: content('two clusters of one name'),
  ClusterMissing: content('a selector that matches no cluster of this commit, or an empty one'),
  ClusterOrder: content('clusters declared or selected while clusters are being built'),
  PoolDeclared: content('a pool whose labels are given twice'),
  ReleaseInvalid: content('a release that cannot be: no such version in the lock, no artifacts, a digest of the wrong form'),
  FactUnknown: content('a fact that the catalogue does not have'),
  RuleInvalid: content('a condition or a rung of a repair rule that cannot be'),
  SignatureMissing: content('a component that is not in the file of signatures, or was changed since it was signed'),
  ReleaseConflict: content('two releases of one component and version with different content'),
} as const satisfies ErrorTable;

export type FleetErrorCode = CodeOf<typeof fleetErrorCodes>;

/** A validation error of fleet code that is found while it runs. */
export class FleetError extends CodedError<FleetErrorCode> {
  constructor(code: FleetErrorCode, message: string, next?: string) {
    super(code, message, { verdict: fleetErrorCodes[code].verdict, ...(next === undefined ? {} : { next }) });
    this.name = 'FleetError';
  }
}

export function nameMissing(kind: string): FleetError {
  return new FleetError('NameMissing', `${kind} has no name: \`metadata.name\` must be set, names are never generated`);
}
