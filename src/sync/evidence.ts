import type { MachineComponentSet } from '../api/machine-component-set.ts';
import { UNMAKEABLE, wantedReplicas, type MachineSet } from '../api/machine-set.ts';
import { API_VERSION } from '../api/kind.ts';
import type { NodeRemedier } from '../api/node-remedier.ts';
import type { Condition, KubeObject, Stored } from '../api/wire.ts';

export interface Evidence {
  evidence: boolean;
  halted: string | undefined;
  /** It is halted for a reason that may pass without another try: the cell refuses it. */
  refused?: boolean;
  progress: string | undefined;
}

/**
 * Each kind's own rule (docs/protocols.md#e2), for the digest that the object carries now. Everything is asked of this very
 * generation: a status of an older one proves nothing, nor does a missing status.
 */
export function evidenceOf(object: Stored<KubeObject>, digest: string): Evidence {
  if (object.apiVersion === API_VERSION && object.kind === 'MachineComponentSet')
    return ofComponentSet(object as Stored<MachineComponentSet>, digest);
  if (object.apiVersion === API_VERSION && object.kind === 'MachineSet') return ofMachineSet(object as Stored<MachineSet>);
  if (object.apiVersion === API_VERSION && object.kind === 'NodeRemedier') return ofRule(object as Stored<NodeRemedier>, digest);
  if (object.apiVersion === API_VERSION) return ofConditions(object, ['Accepted', 'Ready']);
  return ofConditions(object, []);
}

type WithStatus = { status?: { observedGeneration?: number; conditions?: Condition[] } };

function observed(object: Stored<KubeObject>): boolean {
  const { status } = object as WithStatus;
  return object.metadata.generation !== undefined && status?.observedGeneration === object.metadata.generation;
}

function condition(object: KubeObject, type: string): Condition | undefined {
  return (object as WithStatus).status?.conditions?.find((each) => each.type === type);
}

function ofComponentSet(set: Stored<MachineComponentSet>, digest: string): Evidence {
  const { status } = set;
  const halted = condition(set, 'Halted');
  const conflict = condition(set, 'Conflict');
  const stopped = [halted, conflict].find((each) => each?.status === 'True');
  const progress =
    status?.progress === undefined
      ? undefined
      : `${status.progress} machines${condition(set, 'Progressing')?.message ? `, ${condition(set, 'Progressing')?.message}` : ''}${soakOf(set)}`;
  if (!observed(set)) return { evidence: false, halted: undefined, progress };
  return {
    evidence: stopped === undefined && status?.evidence?.unitDigest === digest,
    halted: stopped === undefined ? undefined : `${stopped.reason}: ${stopped.message}${firstFailure(set)}`,
    ...(stopped !== undefined && stopped === conflict ? { refused: true } : {}),
    progress,
  };
}

/** What its cell waits for while nothing else moves. The instant and not the time left: the words stay the same until it is over. */
function soakOf(set: MachineComponentSet): string {
  const endsMs = Date.parse(set.status?.soakUntil ?? '');
  if (Number.isNaN(endsMs) || condition(set, 'Progressing')?.reason !== 'Soaking') return '';
  return `, soaks there until ${new Date(endsMs).toISOString()}`;
}

function ofMachineSet(set: Stored<MachineSet>): Evidence {
  const wanted = wantedReplicas(set);
  const available = set.status?.availableReplicas ?? 0;
  const current = set.status?.replicas ?? 0;
  const code = set.status?.createFailure;
  const unwritten = condition(set, 'WriteFailed');
  const isUnmakeable = observed(set) && code !== undefined && Object.hasOwn(UNMAKEABLE, code);
  return {
    evidence: observed(set) && !isUnmakeable && unwritten?.status !== 'True' && current === wanted && available === wanted,
    // It has all its machines, maybe, and will never make another one.
    halted: isUnmakeable ? (condition(set, 'Progressing')?.message ?? code) : undefined,
    progress: `${available}/${wanted} machines available${unwritten?.status === 'True' ? `, ${unwritten.message}` : ''}`,
  };
}

/**
 * Accepted by the cell, for this digest. That is all in Shadow, where a rule only reports what it would do; how one comes to be enforced is in
 * `rehearsalOf`.
 */
function ofRule(rule: Stored<NodeRemedier>, digest: string): Evidence {
  const accepted = ofConditions(rule, ['Accepted']);
  return { ...accepted, evidence: accepted.evidence && observed(rule) && rule.status?.acceptedDigest === digest };
}

/** The named conditions that the kind has must be True; a kind of ours without any of them has not been reconciled yet. */
function ofConditions(object: Stored<KubeObject>, types: string[]): Evidence {
  if (types.length === 0) return { evidence: true, halted: undefined, progress: undefined };
  const found = types.flatMap((type) => condition(object, type) ?? []);
  const bad = found.find((each) => each.status !== 'True');
  const fresh = found.length > 0 && found.every((each) => each.observedGeneration === object.metadata.generation);
  return {
    evidence: fresh && bad === undefined,
    halted: fresh && bad?.status === 'False' ? `${bad.reason}: ${bad.message}` : undefined,
    progress: bad === undefined ? undefined : `${bad.type} is ${bad.status}: ${bad.message}`,
  };
}

/** What went wrong on the first machine: what the reader of the halt wants to know next. */
function firstFailure({ status }: MachineComponentSet): string {
  const failure = status?.failures?.[0];
  return failure === undefined ? '' : ` (${failure.machine}: ${failure.reason}: ${failure.message})`;
}
