import type { MachineComponentSet } from '../../api/machine-component-set.ts';
import { keyOf } from '../../api/resource.ts';
import { rfc3339 } from '../../kube/clock.ts';
import { isInEffect, MAX_FAILURES } from '../shared/failure.ts';
import { AGENT_STALE, type Standing } from './standing.ts';

export type FailureRecord = NonNullable<NonNullable<MachineComponentSet['status']>['failures']>[number];

const MESSAGE = 256;

/**
 * docs/protocols.md#b4: the machines that failed at this content, oldest first. A record stays, also when its Machine is gone, until the content or `rolloutID`
 * changes: the replacement of a machine is no reason to try the next one. `all`: every machine that has an entry of this set.
 */
export function failuresOf(
  set: MachineComponentSet,
  revision: { number: number; since: number },
  all: readonly Standing[],
  now: number,
): FailureRecord[] {
  const { rolloutID } = set.spec;
  const failing = new Map(all.filter((each) => each.hasFailed).map((each) => [each.machine.metadata.uid, each]));
  const present = new Set(all.map((each) => each.machine.metadata.uid));
  const kept = (set.status?.failures ?? []).filter(
    ({ uid, setRevision, reason, rolloutID: then }) =>
      uid !== undefined &&
      setRevision !== undefined &&
      isInEffect({ setRevision, ...(then === undefined ? {} : { rolloutID: then }) }, revision, rolloutID) &&
      (reason !== AGENT_STALE || !present.has(uid) || failing.has(uid)),
  );
  const known = new Set(kept.map(({ uid }) => uid));
  const found = [...failing]
    .filter(([uid]) => !known.has(uid))
    .map(([uid, { machine, entry, failure }]): FailureRecord => ({
      machine: keyOf(machine.metadata),
      uid,
      setRevision: entry?.failed?.setRevision ?? revision.number,
      attempt: entry?.failed?.attempt ?? entry?.attempt ?? 1,
      ...(rolloutID === undefined ? {} : { rolloutID }),
      reason: entry?.failed?.reason ?? failure?.reason ?? 'Unknown',
      message: (entry?.failed?.message ?? failure?.message ?? '').slice(0, MESSAGE),
      at: rfc3339(now),
    }))
    .toSorted((a, b) => (a.machine < b.machine ? -1 : 1));
  return [...kept, ...found].slice(0, MAX_FAILURES);
}
