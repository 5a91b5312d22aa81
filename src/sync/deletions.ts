/** What one commit may delete: limits of each cluster, of each stage, and of the whole commit (docs/protocols.md#e9). Pure. */
import { CodedError } from '../api/errors.ts';
import type { Fleet, Stage } from '../api/fleet.ts';
import type { Rollout } from '../api/rollout.ts';
import { goingIn, type CellMachines, type ReplicasByDigest } from './going.ts';

/** What becomes of one unit in one cluster. */
export interface Change {
  unit: string;
  cluster: string;
  /** undefined: it is deleted. */
  digest: string | undefined;
  from: string | undefined;
  /** How many would go. */
  machines: number;
  /** Of these, how many its cell has that the hub did not ask for, as far as it knows. They may be gone, or explained, when the cell reports again. */
  unrecorded: number;
}

export interface HeldBack {
  message: string;
  next: string;
  /** Clusters that it waits for, since it may pass without a commit or another limit: they are not reached, or other machines go there at the time. */
  waitsFor: readonly string[];
  /** Each set that is held back, as the message shows the first of them. */
  all: readonly string[];
}

export interface DeletionsInput {
  fleet: Fleet;
  stages: Rollout['spec']['stages'];
  /** All that differs, and all that does not, of units that the commit or the one before has. */
  changes: readonly Change[];
  replicas: ReplicasByDigest;
  /** By cluster: what a reached cell reports. A cluster that is not in it is not known. */
  machines: ReadonlyMap<string, CellMachines>;
  /** What the hub recorded that it gave a cluster of its units: digests, also of before, and of units that are being removed. */
  given?: (cluster: string) => readonly { unit: string; digests: readonly string[] }[];
}

/** More objects than may go. The commit is refused. */
export class TooManyDeletions extends CodedError {
  /** Each of them, as the message shows the first. */
  readonly all: readonly string[];

  constructor(message: string, next: string, all: readonly string[]) {
    super('PruneBudget', message, { next, verdict: true });
    this.all = all;
  }
}

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

interface Limits {
  stage: string;
  maxDeletions: number;
  maxMachines: string;
}

function limitsOf({ spec }: Fleet, stage: Stage): Limits {
  return {
    stage: stage.name,
    maxDeletions: stage.prune?.maxDeletions ?? spec.prune?.maxDeletions ?? MAX_DELETIONS,
    maxMachines: stage.prune?.maxMachines ?? spec.prune?.maxMachines ?? MAX_MACHINES,
  };
}

/** One limit that is exceeded. */
interface Excess {
  /** As it is written: where, how many, how many may. */
  text: string;
  /** It passes by itself, by what becomes of these clusters. */
  waits: { until: 'Reached' | 'Gone' | 'Reported'; clusters: readonly string[] } | undefined;
  /** What would let it go. */
  raise: Raise | undefined;
}

type Raise =
  | { of: 'Stage'; stage: string; maxDeletions: number | undefined; percent: number | undefined }
  | { of: 'Commit'; maxDeletions: number };

interface Count {
  objects: number;
  machines: number;
  /** Of `machines`: as `Change.unrecorded`. */
  unrecorded: number;
  /** That go already, or will by an earlier commit. */
  already: number;
}

/** Which changes are held back; throws where a cluster would lose too many objects. */
export function judgeDeletions(input: DeletionsInput): { held: ReadonlySet<Change>; heldBack: HeldBack | undefined } {
  const byCluster = Map.groupBy(input.changes, ({ cluster }) => cluster);
  const stages = input.fleet.spec.stages.flatMap((stage) => {
    const { clusters = [] } = input.stages.find(({ name }) => name === stage.name) ?? {};
    return [{ limits: limitsOf(input.fleet, stage), clusters }];
  });
  const changesIn = (cluster: string): readonly Change[] => byCluster.get(cluster) ?? [];
  refuseObjects(input, stages, changesIn);

  const held = new Set<Change>();
  const excesses: Excess[] = [];
  const losing = (cluster: string): Change[] => changesIn(cluster).filter((change) => change.machines > 0 && !held.has(change));
  const keptBefore = new Map<string, string>();
  for (const { limits, clusters } of stages) {
    const { stage } = limits;
    for (const cluster of clusters) {
      if (losing(cluster).length === 0) continue;
      const excess = ofCluster(cluster, limits, countIn(changesIn(cluster), held, input, cluster), input.machines.get(cluster)?.total);
      if (excess === undefined) continue;
      excesses.push(excess);
      for (const change of losing(cluster)) held.add(change);
    }
    // What an earlier stage keeps was not tried there.
    const untried = clusters.flatMap(losing).filter(({ unit }) => keptBefore.has(unit));
    for (const [before, its] of Map.groupBy(untried, ({ unit }) => keptBefore.get(unit) ?? '')) {
      for (const change of its) held.add(change);
      excesses.push({ text: `stage "${stage}": what stage "${before}" keeps is kept here too`, waits: undefined, raise: undefined });
    }
    const rest = clusters.flatMap(losing);
    if (rest.length > 0) {
      const parts = clusters.map((cluster): Part => {
        const cell = input.machines.get(cluster);
        return partOf(countIn(changesIn(cluster), held, input, cluster), cell?.total, askedIn(cluster, changesIn(cluster), input), limits);
      });
      const excess = ofStage(limits, clusters, parts, input.machines);
      if (excess !== undefined) {
        excesses.push(excess);
        for (const change of rest) held.add(change);
      }
    }
    for (const { unit } of clusters.flatMap(changesIn).filter((change) => held.has(change)))
      if (!keptBefore.has(unit)) keptBefore.set(unit, stage);
  }
  const most = input.fleet.spec.prune?.maxDeletions;
  const left = input.changes.filter((change) => isLoss(change) && !held.has(change));
  const commit = countOf(left);
  if (most !== undefined && commit.machines > 0 && commit.objects + commit.machines > most) {
    excesses.push({
      text: `the whole commit: ${amount(commit)} would go, ${most} may (spec.prune.maxDeletions)`,
      waits: undefined,
      raise: { of: 'Commit', maxDeletions: commit.objects + commit.machines },
    });
    for (const change of left) if (change.machines > 0) held.add(change);
  }
  return { held, heldBack: held.size === 0 ? undefined : asHeldBack([...held], excesses, input.replicas) };
}

function refuseObjects(
  { fleet, changes, replicas }: DeletionsInput,
  stages: readonly { limits: Limits; clusters: readonly string[] }[],
  changesIn: (cluster: string) => readonly Change[],
): void {
  const isObject = (change: Change): boolean => isLoss(change) && change.machines === 0;
  const excesses: Excess[] = [];
  const over: Change[] = [];
  for (const { limits, clusters } of stages) {
    for (const cluster of clusters) {
      const objects = changesIn(cluster).filter(isObject);
      if (objects.length <= limits.maxDeletions) continue;
      over.push(...objects);
      excesses.push({
        text: `${placeText(cluster, limits)}: ${counted(objects.length, 'object')} would go, ${limits.maxDeletions} may (maxDeletions ${limits.maxDeletions})`,
        waits: undefined,
        raise: { of: 'Stage', stage: limits.stage, maxDeletions: objects.length, percent: undefined },
      });
    }
  }
  const all = changes.filter(isObject);
  const most = fleet.spec.prune?.maxDeletions;
  if (most !== undefined && all.length > most) {
    over.push(...all.filter((change) => !over.includes(change)));
    excesses.push({
      text: `the whole commit: ${counted(all.length, 'object')} would go, ${most} may (spec.prune.maxDeletions)`,
      waits: undefined,
      raise: { of: 'Commit', maxDeletions: all.length },
    });
  }
  if (over.length === 0) return;
  const names = namesOf(over, replicas);
  throw new TooManyDeletions(
    `the commit would delete too much: ${limitsText(excesses)}. These: ${namesText(names)}; nothing was changed`,
    `delete fewer at a time; or, if this is meant, ${raiseText(excesses)}`,
    names,
  );
}

const isLoss = ({ from, digest, machines }: Change): boolean => (from !== undefined && digest === undefined) || machines > 0;

/** A deleted set counts as an object, and each of its machines. */
function countOf(losses: readonly Change[]): Omit<Count, 'already'> {
  return {
    objects: losses.filter(({ digest }) => digest === undefined).length,
    machines: losses.reduce((sum, { machines }) => sum + machines, 0),
    unrecorded: losses.reduce((sum, { unrecorded }) => sum + unrecorded, 0),
  };
}

function countIn(changes: readonly Change[], held: ReadonlySet<Change>, { replicas, machines }: DeletionsInput, cluster: string): Count {
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

function ofCluster(cluster: string, limits: Limits, count: Count, total: number | undefined): Excess | undefined {
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
interface Part {
  total: number;
  machines: number;
  already: number;
  /** It may lose so many of machines that only its cell knows of; nobody else may. */
  own: number;
}

/** How many machines the hub asked a cell for, as far as it knows. */
interface Asked {
  /** Before this commit. */
  now: number;
  /** Ever: a set counts with the largest of its contents. */
  ever: number;
}

function askedIn(cluster: string, changes: readonly Change[], { given, replicas }: DeletionsInput): Asked {
  const numberOf = (digest: string | undefined): number => (digest === undefined ? 0 : (replicas.get(digest) ?? 0));
  const ever = new Map(changes.map(({ unit, from }) => [unit, numberOf(from)]));
  const now = sumOf(ever.values());
  for (const { unit, digests } of given?.(cluster) ?? [])
    ever.set(unit, Math.max(ever.get(unit) ?? 0, ...digests.map((digest) => numberOf(digest))));
  return { now, ever: sumOf(ever.values()) };
}

const sumOf = (numbers: Iterable<number>): number => [...numbers].reduce((sum, each) => sum + each, 0);

/**
 * What a cell reports is not trusted beyond what the hub asked it for. Machines that it should not have any more give no room to other clusters;
 * that they go takes room from them, since it may be true; and beyond all that it was ever asked for, both concern that cluster alone.
 */
function partOf({ machines, already }: Count, total: number | undefined, asked: Asked, { maxMachines }: Limits): Part {
  const beyond = Math.max(0, (total ?? 0) - asked.ever);
  const own = Math.floor((beyond * Number.parseInt(maxMachines, 10)) / 100);
  return { total: Math.min(total ?? 0, asked.now), machines, already: Math.min(already, asked.ever), own };
}

function ofStage(
  { stage, maxMachines }: Limits,
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

const SHOWN = 20;
/** Limits that are exceeded, with their numbers. */
const SHOWN_LIMITS = 5;

function asHeldBack(held: readonly Change[], excesses: readonly Excess[], replicas: ReplicasByDigest): HeldBack {
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

function namesOf(changes: readonly Change[], replicas: ReplicasByDigest): string[] {
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

function namesText(names: readonly string[]): string {
  const more = names.length - SHOWN;
  return `${names.slice(0, SHOWN).join(', ')}${more > 0 ? `, and ${more} more (the log of the hub names all)` : ''}`;
}

function limitsText(excesses: readonly Excess[]): string {
  const texts = excesses.map(({ text }) => text);
  const more = texts.length - SHOWN_LIMITS;
  return `${texts.slice(0, SHOWN_LIMITS).join('; ')}${more > 0 ? `; and ${more} more limits` : ''}`;
}

/** What to write into the Fleet; each stage once, with the highest that it needs. */
function raiseText(excesses: readonly Excess[]): string {
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

const placeText = (cluster: string, { stage }: Limits): string => `cluster "${cluster}" of stage "${stage}"`;
const counted = (number: number, what: string): string => `${number} ${what}${number === 1 ? '' : 's'}`;
const beside = (already: number): string => (already === 0 ? '' : ` beside ${already} that ${already === 1 ? 'goes' : 'go'} already`);

function amount({ objects, machines }: Pick<Count, 'objects' | 'machines'>, total?: number): string {
  const ofThem = total === undefined ? counted(machines, 'machine') : `${machines} of its ${counted(total, 'machine')}`;
  return [...(objects === 0 ? [] : [counted(objects, 'object')]), ...(machines === 0 ? [] : [ofThem])].join(' and ');
}
