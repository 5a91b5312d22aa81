/** What a person reads of deletions that are refused or held back. */
import type { ReplicasByDigest } from '../going.ts';
import type { Change, HeldBack } from './change.ts';
import type { Count, Excess, DeletionLimits } from './limits.ts';

const SHOWN = 20;
/** Limits that are exceeded, with their numbers. */
const SHOWN_LIMITS = 5;

export function asHeldBack(held: readonly Change[], excesses: readonly Excess[], replicas: ReplicasByDigest): HeldBack {
  const names = namesOf(held, replicas);
  const waits = excesses.flatMap((each) => each.waits ?? []);
  const passes = [
    ...(waits.some(({ until }) => until === 'Reached') ? ['it is judged again when the cluster is reached'] : []),
    ...(waits.some(({ until }) => until === 'Reported') ? ['it is judged again when its cell reports other numbers'] : []),
    ...(waits.some(({ until }) => until === 'Gone') ? ['it is judged again when those that go already are gone'] : []),
  ];
  return {
    message: `it would let too many machines go: ${limitsText(excesses)}. Held back: ${namesText(names)}. Of these sets nothing is changed there, all else goes on`,
    next: [...passes, `let them go: ${raiseText(excesses)}`, 'or keep them: commit the sets with `replicas` as they are now'].join('; '),
    waitsFor: [...new Set(waits.flatMap(({ clusters }) => clusters))],
    all: names,
  };
}

export function namesOf(changes: readonly Change[], replicas: ReplicasByDigest): string[] {
  return changes
    .map(({ unit, cluster, from, digest, machines, unrecorded }) => {
      if (machines === 0) return `${unit} in ${cluster}`;
      const to = digest === undefined ? 0 : replicas.get(digest);
      const before = unrecorded > 0 && typeof to === 'number' ? String(to + machines) : replicasText(from, replicas);
      return `${unit} in ${cluster}: ${before} → ${replicasText(digest, replicas)}`;
    })
    .sort();
}

/** How many machines a digest wants. */
function replicasText(digest: string | undefined, replicas: ReplicasByDigest): string {
  if (digest === undefined) return '0';
  return String(replicas.get(digest) ?? 'unknown');
}

export function namesText(names: readonly string[]): string {
  const more = names.length - SHOWN;
  return `${names.slice(0, SHOWN).join(', ')}${more > 0 ? `, and ${more} more (the log of the hub names all)` : ''}`;
}

export function limitsText(excesses: readonly Excess[]): string {
  const texts = excesses.map(({ text }) => text);
  const more = texts.length - SHOWN_LIMITS;
  return `${texts.slice(0, SHOWN_LIMITS).join('; ')}${more > 0 ? `; and ${more} more limits` : ''}`;
}

/** What to write into the Fleet; each stage once, with the highest that it needs. */
export function raiseText(excesses: readonly Excess[]): string {
  const raises = excesses.flatMap(({ raise }) => raise ?? []);
  const ofStages = raises.flatMap((raise) => (raise.of === 'Stage' ? [raise] : []));
  const highest = (numbers: readonly (number | undefined)[]): number | undefined => {
    const known = numbers.flatMap((each) => each ?? []);
    return known.length === 0 ? undefined : known.reduce((a, b) => Math.max(a, b));
  };
  const texts = [...Map.groupBy(ofStages, ({ stage }) => stage)].map(([stage, its]) => {
    const maxDeletions = highest(its.map((each) => each.maxDeletions));
    const percent = highest(its.map((each) => each.percent));
    const fields = [
      ...(maxDeletions === undefined ? [] : [`maxDeletions: ${maxDeletions}`]),
      ...(percent === undefined ? [] : [`maxMachines: "${percent}%"`]),
    ];
    return `set prune: { ${fields.join(', ')} } for stage "${stage}" of the Fleet`;
  });
  const most = highest(raises.map((raise) => (raise.of === 'Commit' ? raise.maxDeletions : undefined)));
  const commit = most === undefined ? [] : [`raise spec.prune.maxDeletions of the Fleet to at least ${most}, or leave it out`];
  return [...texts, ...commit].join(', and ');
}

export const placeText = (cluster: string, { stage }: DeletionLimits): string => `cluster "${cluster}" of stage "${stage}"`;
export const counted = (number: number, what: string): string => `${number} ${what}${number === 1 ? '' : 's'}`;
export const beside = (already: number): string =>
  already === 0 ? '' : ` beside ${already} that ${already === 1 ? 'goes' : 'go'} already`;

export function amount({ objects, machines }: Pick<Count, 'objects' | 'machines'>, total?: number): string {
  const ofThem = total === undefined ? counted(machines, 'machine') : `${machines} of its ${counted(total, 'machine')}`;
  return [...(objects === 0 ? [] : [counted(objects, 'object')]), ...(machines === 0 ? [] : [ofThem])].join(' and ');
}
