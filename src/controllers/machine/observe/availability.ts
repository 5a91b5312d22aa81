import type { Node } from '../../../api/builtin.ts';
import type { Claim } from './claim.ts';
import { DEGRADED, hasForeignCordon, isCordoned, ownerOf } from '../cordon/cordon.ts';

/** Ready=True, and the kubelet's Lease is fresh: the condition alone stays True after a kubelet died until somebody notices. */
export function isNodeReady(node: Node, kubeletAnswers: boolean): boolean {
  return kubeletAnswers && node.status?.conditions?.some((condition) => condition.type === 'Ready' && condition.status === 'True') === true;
}

/** docs/protocols.md#d7. `persistently`: by something that no operation's end will mend. */
export function availabilityOf(claim: Claim, kubeletAnswers: boolean): { unavailable: boolean; persistently: boolean } {
  if (claim.state !== 'Claimed') return { unavailable: true, persistently: true };
  const ready = isNodeReady(claim.node, kubeletAnswers);
  return {
    unavailable: !ready || isCordoned(claim.node),
    persistently: !ready || hasForeignCordon(claim.node) || (isCordoned(claim.node) && ownerOf(claim.node) === DEGRADED),
  };
}
