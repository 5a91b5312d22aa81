import { isNodeReady } from '../../../kube/liveness.ts';
import type { Claim } from './claim.ts';
import { DEGRADED, hasForeignCordon, isCordoned, ownerOf } from '../cordon/cordon.ts';

/** docs/protocols.md#d7. `persistently`: by something that the end of an operation will not repair. */
export function availabilityOf(claim: Claim, kubeletAnswers: boolean): { unavailable: boolean; persistently: boolean } {
  if (claim.state !== 'Claimed') return { unavailable: true, persistently: true };
  const ready = isNodeReady(claim.node, kubeletAnswers);
  return {
    unavailable: !ready || isCordoned(claim.node),
    persistently: !ready || hasForeignCordon(claim.node) || (isCordoned(claim.node) && ownerOf(claim.node) === DEGRADED),
  };
}
