/**
 * A repair rule that is to be enforced goes through Shadow first, in each cluster: what goes forward is applied in Shadow, with an annotation
 * that reports so, and enforced when it has run there for `shadowSeconds` and would have made no more than `maxJobs` jobs (docs/protocols.md#e2). Since
 * when it runs its cell has written, and by the time of that cell's API server it is judged (#h5).
 * What was verified there (the restore lane, drift) is applied as it is.
 */
import { canonical } from '../../api/digest.ts';
import { API_VERSION } from '../../api/kind.ts';
import { NodeRemediers, type NodeRemedier } from '../../api/node-remedier.ts';
import { plainText } from '../../api/plain-text.ts';
import { rehearsalTerms } from '../../api/rehearsal.ts';
import type { KubeObject, Stored } from '../../api/wire.ts';
import type { StoredUnit } from '../bundles.ts';

/** On the rule while it is rehearsed: the mode that it will have. */
export const REHEARSAL = 'kubenode.io/rehearsed-for';

export type Rehearsal =
  | { state: 'None' }
  /** `leftMs`: how long it still takes, where that is known. */
  | { state: 'Running'; why: string; leftMs: number | undefined }
  /** It wanted more than it may. */
  | { state: 'Failed'; why: string }
  | { state: 'Over' };

/** How far a live rule is, by what its cell has counted. `now`: the time of the cell's API server; undefined while it is not known. */
export function rehearsalOf(live: KubeObject, now: number | undefined): Rehearsal {
  if (!isRule(live) || live.metadata.annotations?.[REHEARSAL] === undefined) return { state: 'None' };
  return shadowOf(live, now);
}

function shadowOf(rule: NodeRemedier, now: number | undefined): Rehearsal {
  const { shadowSeconds, maxJobs } = rehearsalTerms(rule);
  const { status } = rule;
  const accepted = status?.conditions?.find((each) => each.type === 'Accepted');
  const current = rule.metadata.generation !== undefined && status?.observedGeneration === rule.metadata.generation;
  if (!current || accepted?.status !== 'True' || status?.acceptedDigest !== rule.spec.unitDigest || status?.counters === undefined)
    return { state: 'Running', why: 'in Shadow first; the cell has not accepted it yet', leftMs: undefined };
  const { since, wouldBeJobs } = status.counters;
  if (wouldBeJobs > maxJobs)
    return {
      state: 'Failed',
      why: `it would have made ${wouldBeJobs} ${wouldBeJobs === 1 ? 'job' : 'jobs'} in Shadow since ${plainText(since, 64)}, and may want ${maxJobs}: it is not enforced; narrow its conditions, or raise enforceAfter.maxJobs`,
    };
  const endsAt = new Date(Date.parse(since) + shadowSeconds * 1000);
  // What a cell reports is not trusted.
  if (Number.isNaN(endsAt.getTime()))
    return {
      state: 'Running',
      why: `in Shadow first; the cell reports that it runs since "${plainText(since, 64)}", which is no time`,
      leftMs: undefined,
    };
  if (now === undefined) return { state: 'Running', why: 'in Shadow first; the time of its API server is not known', leftMs: undefined };
  if (now >= endsAt.getTime()) return { state: 'Over' };
  return {
    state: 'Running',
    why: `in Shadow first, until ${endsAt.toISOString()}; would-be jobs: ${wouldBeJobs} of at most ${maxJobs}`,
    leftMs: endsAt.getTime() - now,
  };
}

/** What is to be applied now under a digest: the unit as it is, or as its rehearsal. `live` is the object that is there. */
export function asRehearsed(unit: StoredUnit, digest: string, live: Stored<KubeObject> | undefined, now: number | undefined): StoredUnit {
  const top = unit.objects.at(-1);
  if (top === undefined || !isRule(top) || top.spec.mode !== 'Enforce' || isRehearsed(top, digest, live, now)) return unit;
  return { ...unit, objects: [...unit.objects.slice(0, -1), inShadow(top)] };
}

/** Whether it is enforced there already, or the very same rule has been in Shadow there for long enough, by the terms that it has now. */
function isRehearsed(wanted: NodeRemedier, digest: string, live: Stored<KubeObject> | undefined, now: number | undefined): boolean {
  if (live === undefined || !isRule(live) || !sameRule(wanted, live)) return false;
  if (live.spec.mode === 'Enforce') return live.spec.unitDigest === digest && live.metadata.annotations?.[REHEARSAL] === undefined;
  const { annotations } = wanted.metadata;
  return shadowOf({ ...live, metadata: { ...live.metadata, annotations: annotations ?? {} } }, now).state === 'Over';
}

function sameRule(a: NodeRemedier, b: NodeRemedier): boolean {
  const rule = ({ unitDigest: _digest, mode: _mode, ...spec }: NodeRemedier['spec']) => canonical(spec);
  return rule(a.spec) === rule(b.spec);
}

function inShadow(rule: NodeRemedier): NodeRemedier {
  return {
    ...rule,
    metadata: { ...rule.metadata, annotations: { ...rule.metadata.annotations, [REHEARSAL]: 'Enforce' } },
    spec: { ...rule.spec, mode: 'Shadow' },
  };
}

function isRule(object: KubeObject): object is NodeRemedier {
  return object.kind === NodeRemediers.kind && object.apiVersion === API_VERSION;
}
