/**
 * How a machine is given back (docs/protocols.md#c14): its Machine is deleted with `deletionPolicy: Orphan`. Nothing is drained, stopped or deleted, so Defender is
 * not asked. What is under way ends first, then the agent leaves by itself, and the Node stays without what KubeNode put on it. Pure.
 */
import type { Node } from '../../../api/builtin.ts';
import type { Machine } from '../../../api/machine.ts';
import { ANNOTATIONS } from '../../../api/names.ts';
import type { Stored } from '../../../api/wire.ts';
import { ownerOf, uncordonedBy } from '../cordon/cordon.ts';
import { nameOf } from '../facts.ts';
import { planNode } from '../node-sync/node-sync.ts';
import type { Decision, MachineView } from '../view.ts';

/** That no agent works there any more: it reports so, none was ever admitted, or a person confirms it. Missing reports prove nothing. */
export function hasLeft({ metadata, status }: Machine): boolean {
  if (status?.bootstrap?.csrUID === undefined && status?.agent === undefined) return true;
  return status.agent?.leaving === true || metadata.annotations?.[ANNOTATIONS.agentIsGone] !== undefined;
}

const isMarked = (node: Node): boolean => node.metadata.annotations?.[ANNOTATIONS.givenBack] !== undefined;

/** The Node without our cordon, and without the labels and taints that are recorded as ours. It is always changed, so that a write that is under way loses. */
export function givenBack(machine: Machine, node: Stored<Node>): Stored<Node> | undefined {
  if (isMarked(node)) return undefined;
  const owner = ownerOf(node);
  const uncordoned = (owner === undefined ? undefined : uncordonedBy(node, owner)) ?? node;
  const bare = { ...machine, spec: {} };
  const stripped = planNode(bare, uncordoned, { kubeletAnswers: true, mayTakePods: false }).node ?? uncordoned;
  const annotations = { ...stripped.metadata.annotations, [ANNOTATIONS.givenBack]: nameOf(machine) };
  return { ...stripped, metadata: { ...stripped.metadata, annotations } };
}

/** Without a reservation. */
export function givingBack({ machine, claim, uncounted }: MachineView): Decision {
  if (machine.spec.hold === true) return { steps: [], waits: { for: 'Defender', why: 'Machine/hold: spec.hold is true' } };
  if (!hasLeft(machine)) return { steps: [], waits: { for: 'Agent', why: 'its agent has not reported that it leaves' } };
  if (uncounted.length > 0)
    return { steps: [], waits: { for: 'SetController', why: `the failure of ${uncounted.join(', ')} is not recorded in its set yet` } };
  if (claim.state === 'Claimed' && !isMarked(claim.node))
    return { steps: [{ do: 'GiveBack', why: 'its agent has left; the Node stays as it is, without what KubeNode put on it' }] };
  return { steps: [{ do: 'Finalize', reservation: undefined, why: 'the machine is given back' }] };
}
