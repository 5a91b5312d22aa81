/** How a machine counts where disruption is limited: its scopes, and whether it is there. Pure. */
import type { Node } from '../../../api/builtin.ts';
import type { Machine } from '../../../api/machine.ts';
import { LABELS } from '../../../api/names.ts';
import type { Stored } from '../../../api/wire.ts';
import type { IndexedMachine } from '../../../defender/availability-index.ts';
import { topologyIn, rackScope, zoneScope } from '../../../defender/scopes.ts';
import { nameOf, scopesOf, type SetFacts } from '../reservation/ask.ts';
import { isNodeReady } from '../../../kube/liveness.ts';
import { DEGRADED, hasForeignCordon, isCordoned, ownerOf } from '../cordon/cordon.ts';
import { claimOf, type Claim } from './claim.ts';
import { wasReady } from '../facts.ts';

/** The scopes with zone and rack by the machine's labels or, where it has none, its Node's. */
export function withTopology(scopes: readonly string[], machine: Machine, node: Node | undefined): readonly string[] {
  const label = (name: string): string | undefined =>
    machine.metadata.labels?.[name] ?? machine.spec.labels?.[name] ?? node?.metadata.labels?.[name];
  const zone = label(LABELS.zone);
  const rack = label(LABELS.rack);
  const more = [
    ...(zone === undefined || topologyIn(scopes, 'Zone') !== undefined ? [] : [zoneScope(zone)]),
    ...(rack === undefined || topologyIn(scopes, 'Rack') !== undefined ? [] : [rackScope(rack)]),
  ];
  return more.length === 0 ? scopes : [...scopes, ...more];
}

function symptomsOf(claim: Claim, kubeletAnswers: boolean): string[] {
  if (claim.state !== 'Claimed') return ['NodeAbsent'];
  const types = (claim.node.status?.conditions ?? [])
    .filter(({ type, status }) => type !== 'Ready' && status === 'True')
    .map(({ type }) => type);
  return [...(kubeletAnswers ? [] : ['KubeletStale']), ...(isNodeReady(claim.node, true) ? [] : ['NotReady']), ...types];
}

/** docs/protocols.md#d7. `persistently`: by something that the end of an operation will not repair. */
export function availabilityOf(claim: Claim, kubeletAnswers: boolean): { unavailable: boolean; persistently: boolean } {
  if (claim.state !== 'Claimed') return { unavailable: true, persistently: true };
  const ready = isNodeReady(claim.node, kubeletAnswers);
  return {
    unavailable: !ready || isCordoned(claim.node),
    persistently: !ready || hasForeignCordon(claim.node) || (isCordoned(claim.node) && ownerOf(claim.node) === DEGRADED),
  };
}

/** `node`: the Node with the machine's name; `kubeletAnswers`: whether that Node's kubelet answers. */
export function countedAs(
  machine: Stored<Machine>,
  node: Stored<Node> | undefined,
  kubeletAnswers: boolean,
  sets: ReadonlyMap<string, SetFacts>,
): IndexedMachine {
  const claim = claimOf(machine, machine.status?.providerID, node);
  const isNew = !wasReady(machine);
  const availability = isNew ? { unavailable: false, persistently: false } : availabilityOf(claim, kubeletAnswers);
  return {
    uid: machine.metadata.uid,
    name: nameOf(machine),
    scopes: withTopology(scopesOf(machine, sets), machine, claim.state === 'Claimed' ? claim.node : undefined),
    ...availability,
    ...(isNew ? { isNew } : {}),
    ...(availability.persistently && (claim.state === 'Claimed' || claim.state === 'Lost')
      ? { symptoms: symptomsOf(claim, kubeletAnswers) }
      : {}),
  };
}
