/** The forward lane of one unit through the stages (docs/protocols.md#e5). Pure. */
import type { Rollout, RolloutUnitStatus } from '../../api/rollout.ts';
import { isStoppedBy, lateHalt, type Stop } from './halts.ts';
import { isProven, type UnitPlacement } from './placement.ts';
import type { Step, World } from './world.ts';

type Stage = Rollout['spec']['stages'][number];

export interface Advance {
  steps: Step[];
  phase: RolloutUnitStatus['phase'];
  stage?: string | undefined;
  soakUntil?: number | undefined;
  pausedBy?: string | undefined;
  reason?: string;
  message?: string | undefined;
  /** Whose message it is. */
  cluster?: string;
}

/** The forward lane: stages in order, inside a stage `maxClusters` at once. Nothing begins while the unit is halted anywhere, also while that is tried again. */
export function advance(world: World, rollout: Rollout, placements: UnitPlacement[], ofLeft: readonly Stop[]): Advance {
  const halted =
    placements.find((placement) => placement.phase === 'Halted' && placement.retry === undefined) ??
    placements.find((placement) => placement.phase === 'Halted');
  if (halted !== undefined) {
    const retrying = halted.retry !== undefined;
    return {
      steps: [],
      phase: retrying ? 'Progressing' : 'Halted',
      stage: stageOf(rollout, halted.cluster)?.name,
      reason: retrying ? 'Retrying' : 'Halted',
      message: `${halted.cluster}: ${halted.message ?? 'halted'}`,
      ...(halted.message === undefined ? {} : { cluster: halted.cluster }),
    };
  }
  const stops = [...ofLeft, ...placements.flatMap(lateHalt)];
  const due = placements.filter(({ lane, phase, begun }) => lane === 'Forward' && (phase === 'Pending' || (phase === 'Blocked' && !begun)));
  const stopped = new Map<UnitPlacement, Stop>();
  for (const placement of due) {
    const stop = stops.find((each) => isStoppedBy(world, each, placement));
    if (stop !== undefined) stopped.set(placement, stop);
  }
  const found = throughStages(world, rollout, placements, stopped);
  const [stop] = stopped.values();
  if (stop === undefined) return found;
  const { soakUntil: _soakUntil, cluster: _cluster, ...rest } = found;
  const stage = stageOf(rollout, stop.cluster)?.name ?? found.stage;
  const status = stop.retrying ? { phase: 'Progressing' as const, reason: 'Retrying' } : { phase: 'Halted' as const, reason: 'Halted' };
  return { ...rest, ...status, stage, message: `${stop.cluster}: ${stop.message}` };
}

/** `stopped`: where nothing may begin. */
function throughStages(world: World, rollout: Rollout, placements: UnitPlacement[], stopped: ReadonlyMap<UnitPlacement, Stop>): Advance {
  for (const stage of rollout.spec.stages) {
    const members = stage.clusters.flatMap((name) => placements.filter((placement) => placement.cluster === name));
    const open = members.filter((placement) => placement.phase !== 'Verified');
    if (open.length > 0) return fill(rollout, stage, open, stopped);
    const soakUntil = soakOf(members, stage);
    const later = placements.some((placement) => placement.phase !== 'Verified' && !members.includes(placement));
    if (soakUntil > world.now && later) return { steps: [], phase: 'Soaking', stage: stage.name, soakUntil, reason: 'Soaking' };
    const unseen = later ? members.find(isUnseen) : undefined;
    if (unseen !== undefined) {
      const { cluster } = unseen;
      return {
        steps: [],
        phase: 'Progressing',
        stage: stage.name,
        reason: 'Progressing',
        message: `${cluster}: not observed yet`,
        cluster,
      };
    }
  }
  const stray = placements.find((placement) => placement.phase !== 'Verified');
  if (stray !== undefined) return { steps: [], phase: 'Progressing', reason: 'Blocked', message: `${stray.cluster} is in no stage` };
  return { steps: [], phase: 'Done' };
}

/** Only its record proves that it passed, and its cell, which answers, may report otherwise in a moment: it may have what a hub gave it that knew more (docs/protocols.md#e17). */
function isUnseen({ live }: UnitPlacement): boolean {
  return live.state === 'Unknown' && live.syncs === true;
}

/** Soak counts from the evidence of the last cluster, whichever rollout brought the digest there. */
function soakOf(members: UnitPlacement[], stage: Stage): number {
  return Math.max(0, ...members.map(({ soaksFrom }) => (soaksFrom === undefined ? 0 : soaksFrom + stage.soakSeconds * 1000)));
}

/** A cluster where nothing has begun does not count toward `maxClusters`, also when it cannot be reached; what has begun goes on first. */
function fill(rollout: Rollout, stage: Stage, open: UnitPlacement[], stopped: ReadonlyMap<UnitPlacement, Stop>): Advance {
  const forward = open.filter((placement) => placement.lane === 'Forward');
  const blocked = open.find((placement) => placement.phase === 'Blocked');
  const waiting = open.find((placement) => placement.phase === 'Waiting');
  const reported = blocked ?? waiting;
  const repeated =
    reported?.message === undefined ? {} : { message: `${reported.cluster}: ${reported.message}`, cluster: reported.cluster };
  const paused = forward.find((placement) => placement.pausedBy !== undefined);
  const pending = forward.filter(
    (placement) => placement.phase === 'Pending' && placement.pausedBy === undefined && !stopped.has(placement),
  );
  const room = Math.max(0, stage.maxClusters - forward.filter((placement) => placement.begun).length);
  const next = [...pending.filter((placement) => placement.begun), ...pending.filter((placement) => !placement.begun).slice(0, room)];
  const steps = next.flatMap((placement) => begin(placement, `stage ${stage.name} is open`));
  if (paused?.pausedBy !== undefined) {
    const message =
      paused.pausedBy === rollout.metadata.name ? 'the rollout is paused' : `rollout ${paused.pausedBy} is paused, of the same content`;
    return { steps, phase: 'Progressing', stage: stage.name, reason: 'Paused', pausedBy: paused.pausedBy, message };
  }
  return { steps, phase: 'Progressing', stage: stage.name, ...repeated, reason: blocked === undefined ? 'Progressing' : 'Blocked' };
}

function stageOf(rollout: Rollout, cluster: string): Stage | undefined {
  return rollout.spec.stages.find((stage) => stage.clusters.includes(cluster));
}

export function begin(placement: UnitPlacement, because: string): Step[] {
  const { unit, cluster, target, commit, lane, over, asked, revoked, atMost, live } = placement;
  const { writtenAt, given }: { writtenAt?: string | undefined; given?: number | undefined } = live.state === 'Present' ? live : {};
  const few = atMost === undefined ? {} : { atMost, given };
  if (target === undefined) return [{ do: 'Remove', unit, cluster, commit, lane, over, ...few, writtenAt, because }];
  return [
    {
      do: 'Apply',
      unit,
      cluster,
      digest: target,
      commit,
      lane,
      proven: isProven(placement),
      over,
      asked,
      revoked,
      found: live.state === 'Present',
      ...few,
      writtenAt,
      because,
    },
  ];
}
