/** What one commit may delete: limits of each cluster, of each stage, and of the whole commit (docs/protocols.md#e9). Pure. */
import { CodedError, type CodeOf } from '../../api/errors.ts';
import type { syncErrorCodes } from '../errors.ts';
import { isLoss, type Change, type DeletionsInput, type HeldBack } from './change.ts';
import { askedIn, countIn, countOf, limitsOf, ofCluster, ofStage, partOf, type Excess, type DeletionLimits, type Part } from './limits.ts';
import { amount, asHeldBack, counted, limitsText, namesOf, namesText, placeText, raiseText } from './messages.ts';

/** More objects than may go. The commit is refused. */
export class TooManyDeletions extends CodedError<CodeOf<typeof syncErrorCodes>> {
  /** Each of them, as the message shows the first. */
  readonly all: readonly string[];

  constructor(message: string, next: string, all: readonly string[]) {
    super('PruneBudget', message, { next, verdict: true });
    this.all = all;
  }
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
  stages: readonly { limits: DeletionLimits; clusters: readonly string[] }[],
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
