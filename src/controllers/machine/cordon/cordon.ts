/**
 * Cordons on a Node object, pure: each function gives the Node as it should be, or undefined when it is so already.
 *
 * A cordon of ours is `unschedulable` with our owner annotation: a ledger reservation's id, or `Degraded`. We never make a Node schedulable that another client
 * made unschedulable. A reservation evicts only under a cordon that names it: there it adds its id, with a note that the cordon itself is not ours
 * (docs/protocols.md#c4).
 */
import type { Node } from '../../../api/builtin.ts';
import { ANNOTATIONS, MANAGERS } from '../../../api/names.ts';
import type { JsonObject, Stored } from '../../../api/wire.ts';

export const DEGRADED = 'Degraded';

export const ownerOf = (node: Node): string | undefined => node.metadata.annotations?.[ANNOTATIONS.cordonOwner];
export const isCordoned = (node: Node): boolean => node.spec?.unschedulable === true;
export const isCordonedFor = (node: Node, owner: string): boolean => isCordoned(node) && ownerOf(node) === owner;
/**
 * Whether another client made it unschedulable after us: a human who uncordons and cordons leaves our annotation. The server records which
 * manager set the field. Where that is unknown the annotation counts.
 */
function isSetByAnother({ metadata: { managedFields = [] } }: Node): boolean {
  return (
    managedFields.length > 0 && !managedFields.some(({ manager, fieldsV1 }) => manager === MANAGERS.machine && hasUnschedulable(fieldsV1))
  );
}

function hasUnschedulable({ 'f:spec': spec }: JsonObject): boolean {
  return typeof spec === 'object' && spec !== null && 'f:unschedulable' in spec;
}

/** Another client made it unschedulable. */
export const hasForeignCordon = (node: Node): boolean =>
  isCordoned(node) &&
  (ownerOf(node) === undefined || node.metadata.annotations?.[ANNOTATIONS.cordonKept] === 'true' || isSetByAnother(node));

function changed(node: Stored<Node>, unschedulable: boolean, annotations: Record<string, string | undefined>): Stored<Node> {
  const merged = Object.entries({ ...node.metadata.annotations, ...annotations }).filter((entry) => entry[1] !== undefined);
  const { unschedulable: _, ...spec } = node.spec ?? {};
  return {
    ...node,
    metadata: { ...node.metadata, annotations: Object.fromEntries(merged) as Record<string, string> },
    spec: unschedulable ? { ...spec, unschedulable: true } : spec,
  };
}

/** Degraded, or taken over from that by the reservation that owns the cordon now. */
export const wasDegraded = (node: Node): boolean =>
  ownerOf(node) === DEGRADED || node.metadata.annotations?.[ANNOTATIONS.cordonDegraded] === 'true';

/** Cordoned in the name of `owner`; takes over any cordon of ours, and stands beside one of others. */
export function cordonedFor(node: Stored<Node>, owner: string): Stored<Node> | undefined {
  if (isCordonedFor(node, owner)) return undefined;
  return changed(node, true, {
    [ANNOTATIONS.cordonOwner]: owner,
    [ANNOTATIONS.cordonKept]: hasForeignCordon(node) ? 'true' : undefined,
    [ANNOTATIONS.cordonDegraded]: owner !== DEGRADED && wasDegraded(node) ? 'true' : undefined,
  });
}

/** Without the cordon of `owner`; one of another owner stays as it is. */
export function uncordonedBy(node: Stored<Node>, owner: string): Stored<Node> | undefined {
  if (ownerOf(node) !== owner) return undefined;
  return changed(node, hasForeignCordon(node), {
    [ANNOTATIONS.cordonOwner]: undefined,
    [ANNOTATIONS.cordonKept]: undefined,
    [ANNOTATIONS.cordonDegraded]: undefined,
  });
}

export const isFencedFor = (node: Node, reservation: string): boolean =>
  node.metadata.annotations?.[ANNOTATIONS.cordonFence] === reservation && ownerOf(node) !== reservation;

/**
 * Without the cordon of this reservation, and with a mark that makes a late cordon lose. It always changes the object, since a late write does not lose against
 * an equal one. `unhealed`: gives back to Degraded the cordon that the reservation had taken over from it.
 */
export function fencedFor(node: Stored<Node>, reservation: string, unhealed = false): Stored<Node> | undefined {
  if (isFencedFor(node, reservation)) return undefined;
  const cleared =
    (unhealed && ownerOf(node) === reservation && wasDegraded(node) ? cordonedFor(node, DEGRADED) : uncordonedBy(node, reservation)) ??
    node;
  return changed(cleared, isCordoned(cleared), { [ANNOTATIONS.cordonFence]: reservation });
}
