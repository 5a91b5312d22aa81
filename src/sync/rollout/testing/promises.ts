/** The promises of rollouts, judged by the model's own account and not by the code under test. */
import type { UnitStatus } from '../../../api/cluster.ts';
import { REMOVAL } from '../../records.ts';
import { isGone } from '../../soak.ts';
import { writesIntoCell, type Step } from '../world.ts';
import { ownerIn, SOAK_MS, wantedOn, type FleetState } from './state.ts';

type Apply = Extract<Step, { do: 'Apply' }>;

/** Digest that is there, wholly or in part. */
export function heldIn(record: UnitStatus | undefined): string | undefined {
  return record?.begun === undefined || record.begun === REMOVAL ? record?.digest : record.begun;
}

/** Whether the record stands for a digest: nothing else was begun. */
export function standsIn(record: UnitStatus | undefined, digest: string): boolean {
  return record !== undefined && (record.begun ?? record.digest) === digest;
}

function soakedMs({ accounts, now }: FleetState, cluster: string, digest: string | undefined): number | undefined {
  const { since, heldMs } = accounts[cluster] ?? { since: undefined, heldMs: {} };
  return since === undefined || since.digest !== digest ? undefined : now - since.at + (heldMs[since.digest] ?? 0);
}

/** Since when nothing is left there; without a record nothing ever was. */
function goneMs({ accounts, recorded, now }: FleetState, cluster: string): number | undefined {
  if (recorded[cluster] === undefined) return Infinity;
  const { goneAt } = accounts[cluster] ?? {};
  return goneAt === undefined ? undefined : now - goneAt;
}

/** The first promise that what is decided would break. `isCurrent`: by what is recorded now, so that what is due at once can be asked for. */
export function brokenByDecision(state: FleetState, steps: readonly Step[], isCurrent: boolean): string | undefined {
  for (const step of steps) {
    if (writesIntoCell(step) && !state.declared.includes(step.cluster)) return `E12: ${step.cluster} has left the fleet and is touched`;
    if (step.do === 'Remove') {
      const wanted = wantedOn(state, step.cluster);
      if (wanted !== undefined) return `E5: it is removed from ${step.cluster}, where ${wanted} is wanted`;
      if (standsIn(state.recorded[step.cluster], REMOVAL)) continue;
      if (step.lane === 'Restore' && !isNew(state, step.cluster))
        return `E6: it is taken back at once on ${step.cluster}, where it is not new`;
      const early = step.lane === 'Restore' ? undefined : brokenByForward(state, step.cluster, undefined);
      if (early !== undefined) return early;
    }
    if (step.do !== 'Apply') continue;
    if (standsIn(state.recorded[step.cluster], step.digest)) continue;
    const broken = step.lane === 'Restore' ? brokenByRestore(state, step) : brokenByForward(state, step.cluster, step.digest);
    if (broken !== undefined) return broken;
  }
  return isCurrent
    ? (notAtOnce(state, steps) ?? notTakenAway(state, steps) ?? notRevoked(state, steps) ?? notTakenBack(state, steps))
    : undefined;
}

/**
 * Where anything begins on a cluster that had evidence for it before it had any for what is there, by whichever lane, what is left is revoked with it in every record,
 * but where it is wanted, with evidence: there it is upheld.
 */
function notTakenBack(state: FleetState, steps: readonly Step[]): string | undefined {
  const { accounts, recorded, declared } = state;
  for (const step of steps) {
    const left = step.do === 'Apply' ? heldIn(recorded[step.cluster]) : undefined;
    if (step.do !== 'Apply' || left === undefined || left === step.digest) continue;
    const { verified = [] } = accounts[step.cluster] ?? {};
    const [to, from] = [verified.indexOf(step.digest), verified.indexOf(left)];
    if (to < 0 || (from >= 0 && from < to)) continue;
    const wanting = declared.filter((name) => wantedOn(state, name) === left);
    const isHaltedToo = wanting.some((name) => isHalted(state, name, left));
    for (const [name, record] of Object.entries(recorded)) {
      if (record === undefined || isGone(record) || record.revoked?.includes(left) === true) continue;
      const isDone = (what: 'Revoke' | 'Uphold'): boolean =>
        steps.some((each) => each.do === what && each.cluster === name && each.digest === left);
      const isKept = wanting.includes(name) && accounts[name]?.since?.digest === left;
      const isUpheld = isDone('Uphold') || record.verified?.some(({ digest, upheld }) => digest === left && upheld === true) === true;
      const what = `E6: ${step.cluster} goes back from ${left} to ${step.digest}, and`;
      if (!isKept && !isDone('Revoke')) return `${what} ${left} is not revoked on ${name}`;
      if (isKept && isDone('Revoke') && !isHaltedToo) return `${what} ${left} is revoked on ${name}, which wants it and has evidence`;
      if (isKept && !isDone('Revoke') && !isUpheld) return `${what} ${left} is not upheld on ${name}, which wants it and has evidence`;
    }
  }
  return undefined;
}

/** Halted where its wanted digest is recorded and has no evidence. */
function isHalted({ cells, recorded, away }: FleetState, cluster: string, wanted: string | undefined): boolean {
  const [live, record] = [cells[cluster], recorded[cluster]];
  const isThere = live?.unitDigest === wanted && record?.digest === wanted && record?.begun === undefined;
  return live?.halted !== undefined && !live.drifted && isThere && record?.evidence === undefined && !away.includes(cluster);
}

/** What went forward and halted is revoked in each record by the very next decision, unless a human asked for another try. */
function notRevoked(state: FleetState, steps: readonly Step[]): string | undefined {
  for (const cluster of state.declared) {
    const wanted = wantedOn(state, cluster);
    const record = state.recorded[cluster];
    if (wanted === undefined || record?.lane !== 'Forward' || !isHalted(state, cluster, wanted)) continue;
    if (state.asked[wanted] !== undefined && state.asked[wanted] !== record.retried) continue;
    for (const [name, other] of Object.entries(state.recorded)) {
      if (isGone(other)) continue;
      const isDone = other?.revoked?.includes(wanted) === true;
      const isDue = steps.some((step) => step.do === 'Revoke' && step.cluster === name && step.digest === wanted);
      if (!isDone && !isDue) return `E6: ${wanted} halted on ${cluster} and is not revoked on ${name}`;
    }
  }
  return undefined;
}

function brokenByRestore({ revoked, upheld, accounts }: FleetState, { cluster, digest }: Apply): string | undefined {
  if (revoked.includes(digest) && !upheld.includes(`${cluster} ${digest}`))
    return `E6: ${digest} is revoked and goes to ${cluster} by the restore lane`;
  if (accounts[cluster]?.verified.includes(digest) !== true)
    return `E6: ${digest} is restored on ${cluster} without ever being verified there`;
  return undefined;
}

/** `digest`: undefined where the unit is removed. */
function brokenByForward(state: FleetState, cluster: string, digest: string | undefined): string | undefined {
  const { rollouts, declared, stageOf } = state;
  const what = digest ?? 'the removal';
  const pause = rollouts.find(
    ({ spec }) => spec.paused === true && spec.units[0]?.clusters.some((each) => each.digest === digest) === true,
  );
  if (pause !== undefined) return `E12: ${what} begins on ${cluster} though ${pause.metadata.name} is paused`;
  const halted = declared.find((name) => isHalted(state, name, wantedOn(state, name)));
  if (halted !== undefined) return `E13: ${what} begins on ${cluster} while ${halted} is halted`;
  const stop = state.stopped.find((each) => {
    const [name = '', stopped] = each.split(' ');
    return stopped === digest && (!declared.includes(name) || wantedOn(state, name) === digest);
  });
  if (stop !== undefined) return `E13: ${what} begins on ${cluster}, it halted on ${stop.split(' ')[0]} and no human asked for another try`;
  for (const { name, clusters } of ownerIn(state)?.spec.stages ?? []) {
    if (name === stageOf[cluster]) break;
    for (const earlier of clusters.filter((each) => declared.includes(each))) {
      const wanted = wantedOn(state, earlier);
      const soaked = wanted === undefined ? goneMs(state, earlier) : soakedMs(state, earlier, wanted);
      if (soaked === undefined)
        return `E5: ${what} begins on ${cluster}, and ${earlier} of an earlier stage ${wanted === undefined ? 'has it still' : 'has no evidence'}`;
      if (soaked < SOAK_MS) return `E5: ${what} begins on ${cluster}, and ${earlier} of an earlier stage has not soaked`;
    }
  }
  return undefined;
}

/** What came with a commit that has yet to be proven on this cluster, or was proven there less than a soak ago, is new there, also where it is proven elsewhere. */
function isNew({ accounts, now }: FleetState, cluster: string): boolean {
  const { added } = accounts[cluster] ?? {};
  return added !== undefined && (added.at === undefined || now - added.at < SOAK_MS);
}

/** What is new and wanted no more is taken back by the very next decision, wherever it came. */
function notTakenAway(state: FleetState, steps: readonly Step[]): string | undefined {
  for (const cluster of state.declared) {
    const record = state.recorded[cluster];
    if (record === undefined || isGone(record) || wantedOn(state, cluster) !== undefined || state.away.includes(cluster)) continue;
    if (standsIn(record, REMOVAL) || !isNew(state, cluster)) continue;
    if (!steps.some((step) => step.do === 'Remove' && step.cluster === cluster))
      return `E6: it is new on ${cluster}, wanted no more, and not taken back at once`;
  }
  return undefined;
}

/** What was verified, is wanted again and revoked nowhere is restored by the very next decision. */
function notAtOnce(state: FleetState, steps: readonly Step[]): string | undefined {
  const isRevoked = (digest: string): boolean =>
    state.revoked.includes(digest) ||
    Object.values(state.recorded).some((record) => record?.revoked?.includes(digest) === true) ||
    steps.some((step) => step.do === 'Revoke' && step.digest === digest);
  for (const cluster of state.declared) {
    const wanted = wantedOn(state, cluster);
    if (wanted === undefined || state.away.includes(cluster) || isRevoked(wanted)) continue;
    if (state.accounts[cluster]?.verified.includes(wanted) !== true || standsIn(state.recorded[cluster], wanted)) continue;
    // Of what is half removed it is not known what is left.
    if (state.recorded[cluster]?.digest === undefined) continue;
    const begins = steps.some(
      (step) => step.do === 'Apply' && step.cluster === cluster && step.digest === wanted && step.lane === 'Restore',
    );
    if (!begins) return `E6: ${wanted} was verified on ${cluster}, is wanted again, and is not restored at once`;
  }
  return undefined;
}

/** The promises of a record that is about to be written. */
export function brokenByRecord(state: FleetState, step: Step, before: UnitStatus | undefined): string | undefined {
  if ((step.do === 'Apply' || step.do === 'Remove') && (before?.digest !== step.over.digest || before?.begun !== step.over.begun))
    return `E14: ${step.do === 'Apply' ? step.digest : 'the removal'} begins on ${step.cluster} over what its hub did not see`;
  if (step.do === 'Apply' && !step.revoked && before?.revoked?.includes(step.digest) === true)
    return `E6: ${step.digest} begins on ${step.cluster}, and its hub did not know that it is revoked there`;
  if (step.do === 'RecordEvidence' && state.accounts[step.cluster]?.proved !== true)
    return `E5: ${step.cluster} has evidence for ${step.digest} from before it was applied`;
  return undefined;
}
