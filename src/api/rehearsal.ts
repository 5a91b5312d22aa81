/**
 * How long a repair rule is to have run in Shadow in a cluster before it is enforced there, and how many jobs it may have wanted to make.
 * Set by annotations of the NodeRemedier and not in its spec: another number is not another rule, so that what was counted stays.
 */
import type { NodeRemedier } from './node-remedier.ts';
import type { ObjectMeta } from './wire.ts';

export const REHEARSAL_ANNOTATIONS = {
  shadowSeconds: 'kubenode.io/enforce-after-shadow-seconds',
  maxJobs: 'kubenode.io/enforce-up-to-would-be-jobs',
} as const;

/** The defaults where a rule sets nothing. */
export const REHEARSAL_DEFAULTS = { shadowSeconds: 600, maxJobs: 3 } as const;

export interface RehearsalTerms {
  shadowSeconds: number;
  maxJobs: number;
}

/** A rehearsal must be able to see its rule make a job: a match that begins in its first half has lasted long enough before it ends. */
export const leastShadowSeconds = ({ holdsForSeconds }: Pick<NodeRemedier['spec'], 'holdsForSeconds'>): number => 2 * holdsForSeconds;

/**
 * The terms of a rule; its Shadow is never shorter than `leastShadowSeconds`. Throws nothing: `wrongTerms` finds what is not a whole number, which
 * counts as absent.
 */
export function rehearsalTerms({ metadata: { annotations }, spec }: Pick<NodeRemedier, 'metadata' | 'spec'>): RehearsalTerms {
  const read = (key: keyof RehearsalTerms): number => {
    const text = annotations?.[REHEARSAL_ANNOTATIONS[key]];
    return text === undefined || !isCount(text) ? REHEARSAL_DEFAULTS[key] : Number(text);
  };
  return { shadowSeconds: Math.max(read('shadowSeconds'), leastShadowSeconds(spec)), maxJobs: read('maxJobs') };
}

/** Names of the annotations whose values mean nothing. */
export function wrongTerms({ annotations }: Pick<ObjectMeta, 'annotations'>): string[] {
  return Object.values(REHEARSAL_ANNOTATIONS).filter((name) => annotations?.[name] !== undefined && !isCount(annotations[name]));
}

/** The Shadow that a rule asks for where that is too short to see it make a job; undefined where it is long enough, or absent. */
export function emptyShadowSeconds({ metadata: { annotations }, spec }: Pick<NodeRemedier, 'metadata' | 'spec'>): number | undefined {
  const text = annotations?.[REHEARSAL_ANNOTATIONS.shadowSeconds];
  if (text === undefined || !isCount(text)) return undefined;
  return Number(text) < leastShadowSeconds(spec) ? Number(text) : undefined;
}

const isCount = (text: string): boolean => /^\d{1,9}$/.test(text);
