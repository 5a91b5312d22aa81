/** What the fleet controller decides, as functions of plain values. */
import { canonical, sha256Hex } from '../../api/digest.ts';
import type { Cluster } from '../../api/cluster.ts';
import { isCoded } from '../../api/errors.ts';
import type { Fleet } from '../../api/fleet.ts';
import { API_VERSION } from '../../api/kind.ts';
import type { Random } from '../../api/ports.ts';
import type { Rollout } from '../../api/rollout.ts';
import { halfJitterMs } from '../../kube/backoff.ts';
import type { Plan } from '../plan.ts';

/** What became of the last try at a fleet: in memory only, a restart tries again. */
export interface Tries {
  /** Head that was tried, over which accepted commit, and generation of the Fleet. */
  seen: string;
  /** The content was judged and refused: it waits for another head or another Fleet. */
  refused: boolean;
  failures: number;
  /** By the monotonic clock. */
  notBeforeMs: number;
}

const BACKOFF = { baseMs: 1000, maxMs: 300_000 };

/** What a try is about: another head, or one over another accepted commit, or another Fleet is another matter, and is tried at once. */
export function triedOf({ metadata, status }: Fleet, head: string | undefined): string {
  return `${head ?? ''} ${status?.commit ?? ''} ${metadata.generation ?? 0}`;
}

/** Reason of a Fleet whose commit is in force, but for sets that keep machines (docs/protocols.md#e9). */
export const HELD_BACK = 'HeldBack';

export type Due = { state: 'Accepted' } | { state: 'Refused' } | { state: 'Due' } | { state: 'Later'; afterMs: number };

/** What may have become of an accepted commit since it was judged. */
interface Since {
  /** What held sets back may have passed by itself. */
  waited?: boolean;
  /** A set has more machines than it was judged with, and waits. */
  late?: boolean;
}

export function dueOf(fleet: Fleet, head: string, tries: Tries | undefined, monotonicMs: number, { waited, late }: Since = {}): Due {
  const { status } = fleet;
  const ready =
    status?.conditions?.some(
      ({ type, status, reason }) => type === 'Ready' && (status === 'True' || (reason === HELD_BACK && waited !== true)),
    ) === true;
  const whole = status?.rollout !== undefined && status.clusters !== undefined;
  if (ready && late !== true && whole && status.commit === head && status.observedGeneration === fleet.metadata.generation)
    return { state: 'Accepted' };
  if (tries?.seen !== triedOf(fleet, head)) return { state: 'Due' };
  if (tries.refused) return { state: 'Refused' };
  const afterMs = tries.notBeforeMs - monotonicMs;
  return afterMs > 0 ? { state: 'Later', afterMs } : { state: 'Due' };
}

/** Only a verdict about the content refuses; everything else is tried again, ever more rarely. */
export function failedTry(before: Tries | undefined, seen: string, error: unknown, monotonicMs: number, random: Random): Tries {
  const failures = before?.seen === seen ? before.failures + 1 : 1;
  const refused = isCoded(error) && error.verdict;
  return { seen, refused, failures, notBeforeMs: monotonicMs + halfJitterMs(BACKOFF, failures, random) };
}

/** What these clusters report of their machines, as one text to compare: what held sets back may pass when it changes. */
export function machinesSeen(clusters: readonly Cluster[], names: readonly string[]): string {
  const waitedFor = clusters.filter(({ metadata }) => names.includes(metadata.name));
  const seen = waitedFor.map(({ metadata, status }): [string, unknown, unknown] => [
    metadata.name,
    status?.conditions?.find(({ type }) => type === 'Reachable')?.status,
    status?.machines?.sets,
  ]);
  return sha256Hex(canonical(seen.sort(([a], [b]) => (a < b ? -1 : 1))));
}

/** Whose a commit is, and its first line. A commit that is judged again has no new commits: an earlier Rollout of it has both. */
export function authorship(
  head: string,
  [info]: readonly { subject: string; author: string }[],
  rollouts: readonly Rollout[],
): { subject: string; author: string } | undefined {
  if (info !== undefined) return info;
  const { subject, author } = rollouts.findLast(({ spec }) => spec.commit === head && spec.subject !== undefined)?.spec ?? {};
  return subject === undefined ? undefined : { subject, author: author ?? '' };
}

export function rolloutOf(
  fleet: Fleet,
  info: { subject: string; author: string } | undefined,
  commit: string,
  planned: Plan,
  sequence: number,
): Rollout {
  return {
    apiVersion: API_VERSION,
    kind: 'Rollout',
    metadata: { name: `${fleet.metadata.name}-${sequence}` },
    spec: {
      fleet: fleet.metadata.name,
      commit,
      ...(info === undefined ? {} : { subject: info.subject.slice(0, 200), author: info.author.slice(0, 100) }),
      sequence,
      stages: planned.stages,
      units: planned.units,
    },
  };
}

/** Whether two Rollouts are equal, but for what people steer them by. */
export function isSameRollout(a: Rollout, b: Rollout): boolean {
  const content = ({ spec: { paused: _paused, retry: _retry, ...spec } }: Rollout): string => canonical(spec);
  return content(a) === content(b);
}

const KEPT_ROLLOUTS = 50;

/** Old rollouts that nothing depends on any more, of those in force by ascending sequence. A pause counts for as long as its Rollout is there. */
export function expendable<T extends Rollout>(rollouts: readonly T[]): T[] {
  const named = new Set<string>();
  return rollouts.toReversed().filter((rollout, age) => {
    const owns = rollout.spec.units.some((unit) => !named.has(unit.unit));
    for (const { unit } of rollout.spec.units) named.add(unit);
    return age >= KEPT_ROLLOUTS && !owns && rollout.spec.paused !== true;
  });
}

/** Digests that may be applied again: of all rollouts, and of what clusters have or had. */
export function digestsInUse(rollouts: readonly Rollout[], clusters: readonly Cluster[]): Set<string> {
  const wanted = rollouts.flatMap(({ spec }) => spec.units.flatMap((unit) => unit.clusters.flatMap(({ digest }) => digest ?? [])));
  const records = clusters.flatMap(({ status }) => status?.units ?? []);
  return new Set([
    ...wanted,
    ...records.flatMap(({ digest, verified }) => [
      ...(digest === undefined ? [] : [digest]),
      ...(verified ?? []).map((each) => each.digest),
    ]),
  ]);
}
