/**
 * How long a repair rule is to have run in Shadow in a cluster before it is enforced there, and how many jobs it may have wanted to make.
 * Said in annotations of the NodeRemedier and not in its spec: another number is not another rule, so that what was counted stays.
 */
import type { ObjectMeta } from './wire.ts';

export const REHEARSAL_ANNOTATIONS = {
  shadowSeconds: 'kubenode.io/enforce-after-shadow-seconds',
  maxJobs: 'kubenode.io/enforce-up-to-would-be-jobs',
} as const;

/** What holds where a rule does not say. */
export const REHEARSAL_DEFAULTS = { shadowSeconds: 600, maxJobs: 3 } as const;

export interface RehearsalTerms {
  shadowSeconds: number;
  maxJobs: number;
}

/** What holds for a rule. Throws nothing: what is not a whole number is told by `wrongTerms`, and counts as not said. */
export function rehearsalTerms({ annotations }: Pick<ObjectMeta, 'annotations'>): RehearsalTerms {
  const read = (key: keyof RehearsalTerms): number => {
    const text = annotations?.[REHEARSAL_ANNOTATIONS[key]];
    return text === undefined || !isCount(text) ? REHEARSAL_DEFAULTS[key] : Number(text);
  };
  return { shadowSeconds: read('shadowSeconds'), maxJobs: read('maxJobs') };
}

/** Names of the annotations whose values mean nothing. */
export function wrongTerms({ annotations }: Pick<ObjectMeta, 'annotations'>): string[] {
  return Object.values(REHEARSAL_ANNOTATIONS).filter((name) => annotations?.[name] !== undefined && !isCount(annotations[name]));
}

const isCount = (text: string): boolean => /^\d{1,9}$/.test(text);
