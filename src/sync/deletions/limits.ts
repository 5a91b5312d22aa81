/** The limits of a cluster and of a stage, and whether they are exceeded. */
import type { Fleet, Stage } from '../../api/fleet.ts';
import { goingIn } from '../going.ts';
import { isLoss, type Change, type DeletionsInput } from './change.ts';
import { amount, beside, placeText } from './messages.ts';

const MAX_DELETIONS = 3;
const MAX_MACHINES = '10%';
/** One machine may go, however small the share is, where more than half remain. */
const LEAST_FOR_ONE = 3;

/** How many of so many machines may go. Below 100 % never all of them; of an unknown number none. */
export function shareOf(machines: number | undefined, share: string): number {
  const percent = Number.parseInt(share, 10);
  if (percent === 100) return machines ?? Infinity;
  if (machines === undefined || percent === 0) return 0;
  return Math.max(machines >= LEAST_FOR_ONE ? 1 : 0, Math.floor((machines * percent) / 100));
}

export interface DeletionLimits {
  stage: string;
  maxDeletions: number;
  maxMachines: string;
}

export function limitsOf({ spec }: Fleet, stage: Stage): DeletionLimits {
  return {
    stage: stage.name,
    maxDeletions: stage.prune?.maxDeletions ?? spec.prune?.maxDeletions ?? MAX_DELETIONS,
    maxMachines: stage.prune?.maxMachines ?? spec.prune?.maxMachines ?? MAX_MACHINES,
  };
}

/** One limit that is exceeded. */
export interface Excess {
  /** As it is written: where, how many, how many may. */
  text: string;
  /** It passes by itself, by what becomes of these clusters. */
  waits: { until: 'Reached' | 'Gone' | 'Reported'; clusters: readonly string[] } | undefined;
  /** What would let it go. */
  raise: Raise | undefined;
}

export type Raise =
  | { of: 'Stage'; stage: string; maxDeletions: number | undefined; percent: number | undefined }
  | { of: 'Commit'; maxDeletions: number };

export interface Count {
  objects: number;
  machines: number;
  /** Of `machines`: as `Change.unrecorded`. */
  unrecorded: number;
  /** That go already, or will by an earlier commit. */
  already: number;
}

/** A deleted set counts as an object, and each of its machines. */
export function countOf(losses: readonly Change[]): Omit<Count, 'already'> {
  return {
    objects: losses.filter(({ digest }) => digest === undefined).length,
    machines: losses.reduce((sum, { machines }) => sum + machines, 0),
    unrecorded: losses.reduce((sum, { unrecorded }) => sum + unrecorded, 0),
  };
}

export function countIn(
  changes: readonly Change[],
  held: ReadonlySet<Change>,
  { replicas, machines }: DeletionsInput,
  cluster: string,
): Count {
  const losses = changes.filter((change) => isLoss(change) && !held.has(change));
  const cell = machines.get(cluster);
  if (cell === undefined) return { ...countOf(losses), already: 0 };
  const wanted = new Map(
    changes.map((change) => {
      const digest = held.has(change) ? change.from : change.digest;
      return [change.unit, digest === undefined ? 0 : (replicas.get(digest) ?? undefined)];
    }),
  );
  const lost = new Map(losses.map((change) => [change.unit, change.machines]));
  return { ...countOf(losses), already: goingIn(cell, wanted, lost) };
}

export function ofCluster(cluster: string, limits: DeletionLimits, count: Count, total: number | undefined): Excess | undefined {
  const { maxDeletions, maxMachines } = limits;
  const place = placeText(cluster, limits);
  const { objects, machines, already } = count;
  const all = objects + machines + already;
  const share = shareOf(total, maxMachines);
  const isOver = { share: machines + already > share, count: all > maxDeletions };
  if (!isOver.share && !isOver.count) return undefined;
  const raise: Raise = {
    of: 'Stage',
    stage: limits.stage,
    maxDeletions: isOver.count ? all : undefined,
    percent: isOver.share ? percentFor(machines + already, total) : undefined,
  };
  if (total === undefined && isOver.share) {
    const text = `${place}: ${amount(count)} would go, and how many it has is not known, so none may (maxMachines ${maxMachines})`;
    return { text, waits: objects + machines <= maxDeletions ? { until: 'Reached', clusters: [cluster] } : undefined, raise };
  }
  const may =
    isOver.share && (share <= maxDeletions || !isOver.count)
      ? `${share} may (maxMachines ${maxMachines})`
      : `${maxDeletions} may (maxDeletions ${maxDeletions})`;
  // Without those that go already, and without those that it may not have any more, it would be within both.
  const recorded = machines - count.unrecorded;
  const passes = already + count.unrecorded > 0 && recorded <= share && objects + recorded <= maxDeletions;
  const until = count.unrecorded > 0 ? ('Reported' as const) : ('Gone' as const);
  const waits = passes ? { until, clusters: [cluster] } : undefined;
  return { text: `${place}: ${amount(count, total)} would go${beside(already)}, ${may}`, waits, raise };
}

/** What one cluster is for its stage. */
export interface Part {
  total: number;
  machines: number;
  already: number;
  /** It may lose so many of machines that only its cell knows of; no other cluster may. */
  own: number;
}

/** How many machines the hub asked a cell for, as far as it knows. */
interface Asked {
  /** Before this commit. */
  now: number;
  /** Ever: a set counts with the largest of its contents. */
  ever: number;
}

export function askedIn(cluster: string, changes: readonly Change[], { given, replicas }: DeletionsInput): Asked {
  const numberOf = (digest: string | undefined): number => (digest === undefined ? 0 : (replicas.get(digest) ?? 0));
  const ever = new Map(changes.map(({ unit, from }) => [unit, numberOf(from)]));
  // What a cell does not have, so that it does not count as going, gives no room to others either.
  const now = sumOf(changes.map(({ from, unmade }) => Math.max(0, numberOf(from) - unmade)));
  for (const { unit, digests } of given?.(cluster) ?? [])
    ever.set(unit, Math.max(ever.get(unit) ?? 0, ...digests.map((digest) => numberOf(digest))));
  return { now, ever: sumOf(ever.values()) };
}

const sumOf = (numbers: Iterable<number>): number => [...numbers].reduce((sum, each) => sum + each, 0);

/**
 * What a cell reports is not trusted beyond what the hub asked it for. Machines that it should not have any more give no room to other clusters;
 * that they go takes room from them, since it may be true; and beyond all that it was ever asked for, both concern that cluster alone.
 */
export function partOf({ machines, already }: Count, total: number | undefined, asked: Asked, { maxMachines }: DeletionLimits): Part {
  const beyond = Math.max(0, (total ?? 0) - asked.ever);
  const own = Math.floor((beyond * Number.parseInt(maxMachines, 10)) / 100);
  return { total: Math.min(total ?? 0, asked.now), machines, already: Math.min(already, asked.ever), own };
}

export function ofStage(
  { stage, maxMachines }: DeletionLimits,
  clusters: readonly string[],
  parts: readonly Part[],
  cells: DeletionsInput['machines'],
): Excess | undefined {
  const total = sumOf(parts.map((part) => part.total));
  const isKnown = clusters.every((cluster) => cells.has(cluster));
  const share = shareOf(total, maxMachines);
  const going = sumOf(parts.map((part) => Math.max(0, part.machines + part.already - part.own)));
  if (going <= share) return undefined;
  const machines = sumOf(parts.map((part) => Math.max(0, part.machines - part.own)));
  const unknown = isKnown ? '' : ', clusters of which this is not known counted as none';
  const until = machines <= share ? 'Gone' : isKnown ? undefined : 'Reached';
  return {
    text: `stage "${stage}": ${amount({ objects: 0, machines }, total)} would go${beside(going - machines)}, ${share} may (maxMachines ${maxMachines}${unknown})`,
    waits: until === undefined ? undefined : { until, clusters },
    raise: { of: 'Stage', stage, maxDeletions: undefined, percent: percentFor(going, total) },
  };
}

/** The least share that lets so many go, of which there is at least one; of none, or of an unknown number, all. */
function percentFor(machines: number, total: number | undefined): number {
  return total === undefined ? 100 : Math.min(100, Math.ceil((machines * 100) / total));
}
