/** How the hub sees a cluster: whether it answers, what each unit there waits for, and what needs a person. */
import type { Cluster } from '../../api/cluster.ts';
import type { Stored } from '../../api/wire.ts';
import { age } from '../output.ts';
import { ago, because, conditionLines } from './words.ts';

export function clusterLines(cluster: Stored<Cluster>, nowMs: number): string[] {
  const { metadata, status } = cluster;
  const reachable = status?.conditions?.find(({ type }) => type === 'Reachable');
  const attention = status?.attention ?? [];
  const units = status?.units ?? [];
  const orphans = status?.orphans;
  return [
    `cluster/${metadata.name}  ${reachable === undefined ? 'not reported yet: does the hub controller run?' : because(reachable)}`,
    ...(metadata.deletionTimestamp === undefined
      ? []
      : [
          `  it was deleted ${ago(metadata.deletionTimestamp, nowMs)}; it waits for ${(metadata.finalizers ?? []).join(', ') || 'nothing'}`,
        ]),
    '',
    'NEEDS A PERSON',
    ...(attention.length === 0 ? ['  nothing'] : []),
    ...attention.map(({ object, reason, message, since }) => `  ${object}: ${reason}: ${message} (for ${age(nowMs - Date.parse(since))})`),
    ...(orphans === undefined ? [] : ['', `NOT DECLARED (${orphans.total})`]),
    ...(orphans?.first ?? []).map(
      ({ object, fleet, reason }) => `  ${object}: ${reason}: has the label of Fleet ${fleet}, and nothing on the hub has it`,
    ),
    '',
    'UNITS',
    ...(units.length === 0 ? ['  none was applied by the hub'] : []),
    ...units.map(({ unit, begun, digest, evidence, halt, appliedAt }) => {
      const state =
        halt !== undefined
          ? `halted: ${halt.message}`
          : begun === 'Removal'
            ? 'is being removed'
            : begun !== undefined
              ? 'is being applied'
              : digest === undefined
                ? 'removed'
                : evidence === digest
                  ? 'verified'
                  : 'applied, not verified yet';
      return `  ${unit}  ${state}${appliedAt === undefined ? '' : `; applied ${ago(appliedAt, nowMs)}`}`;
    }),
    ...conditionLines(status?.conditions, nowMs),
  ];
}
