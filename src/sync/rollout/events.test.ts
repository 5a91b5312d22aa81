import { expect, it } from 'vitest';
import { API_VERSION } from '../../api/kind.ts';
import type { Rollout, RolloutUnitStatus } from '../../api/rollout.ts';
import { eventsOf } from './events.ts';

type Status = NonNullable<Rollout['status']>;
type ReportedPlacement = NonNullable<RolloutUnitStatus['clusters']>[number];

const UNIT = 'MachineComponentSet/kubelet';
const unit = (status: Partial<RolloutUnitStatus>): RolloutUnitStatus => ({ unit: UNIT, phase: 'Progressing', lane: 'Forward', ...status });
const on = (name: string, phase: ReportedPlacement['phase'], more: Partial<ReportedPlacement> = {}): ReportedPlacement => ({
  name,
  phase,
  lane: 'Forward',
  ...more,
});

function eventsBetween(before: RolloutUnitStatus[] | undefined, after: RolloutUnitStatus[] | undefined): string[] {
  const rollout: Rollout = {
    apiVersion: API_VERSION,
    kind: 'Rollout',
    metadata: { name: 'main-1' },
    spec: { fleet: 'main', commit: 'c1', sequence: 1, stages: [], units: [] },
    ...(before === undefined ? {} : { status: { units: before } }),
  };
  const next: Status = after === undefined ? {} : { units: after };
  return eventsOf(rollout, next).map(({ type, reason, message }) => `${type} ${reason} ${message}`);
}

it.each<[string, RolloutUnitStatus[] | undefined, RolloutUnitStatus[] | undefined, string[]]>([
  [
    'a halt, with why',
    [unit({})],
    [unit({ phase: 'Halted', message: 'test: MaxFailed' })],
    [`Warning UnitHalted ${UNIT}: test: MaxFailed`],
  ],
  ['a halt that reports nothing', [unit({})], [unit({ phase: 'Halted' })], [`Warning UnitHalted ${UNIT}: halted`]],
  ['a halt that is the first that is known', undefined, [unit({ phase: 'Halted' })], [`Warning UnitHalted ${UNIT}: halted`]],
  ['a halt, once', [unit({ phase: 'Halted' })], [unit({ phase: 'Halted', message: 'another' })], []],
  [
    'the end, with the number of clusters',
    [unit({ phase: 'Soaking' })],
    [unit({ phase: 'Done', clusters: [on('test', 'Verified'), on('pre', 'Left')] })],
    [`Normal UnitDone ${UNIT} is done on 2 clusters`],
  ],
  ['the end of what was removed nowhere', [unit({})], [unit({ phase: 'Done' })], [`Normal UnitDone ${UNIT} is done on 0 clusters`]],
  ['no end of what had nothing to do', undefined, [unit({ phase: 'Done', clusters: [on('test', 'Verified')] })], []],
  [
    'that a newer commit took it',
    [unit({})],
    [unit({ phase: 'Superseded', message: 'a newer commit' })],
    [`Normal UnitSuperseded ${UNIT}: a newer commit`],
  ],
  ['that a newer commit took it, and nothing more', [unit({})], [unit({ phase: 'Superseded' })], [`Normal UnitSuperseded ${UNIT}: `]],
  ['nothing of a unit that soaks', [unit({})], [unit({ phase: 'Soaking', message: 'x' })], []],
  ['nothing where nothing is known any more', [unit({ phase: 'Halted' })], undefined, []],
  [
    'evidence on one cluster, by the lane that it came by',
    [unit({ clusters: [on('test', 'Waiting'), on('pre', 'Waiting'), on('prod', 'Verified')] })],
    [unit({ clusters: [on('test', 'Verified'), on('pre', 'Verified', { lane: 'Restore' }), on('prod', 'Verified')] })],
    [`Normal UnitVerified ${UNIT} on test`, `Normal UnitRestored ${UNIT} on pre`],
  ],
  ['no evidence of what was there from the start', [unit({ clusters: [] })], [unit({ clusters: [on('test', 'Verified')] })], []],
  [
    'that a cluster is blocked, also from the start, and once',
    [unit({ clusters: [on('pre', 'Waiting'), on('prod', 'Blocked')] })],
    [
      unit({
        clusters: [on('test', 'Blocked', { message: 'no answer' }), on('pre', 'Blocked'), on('prod', 'Blocked', { message: 'another' })],
      }),
    ],
    [`Warning ClusterBlocked ${UNIT} on test: no answer`, `Warning ClusterBlocked ${UNIT} on pre: `],
  ],
  ['nothing of a cluster that waits', [unit({ clusters: [on('test', 'Pending')] })], [unit({ clusters: [on('test', 'Waiting')] })], []],
  [
    'each unit by its own past',
    [unit({ phase: 'Halted' }), unit({ unit: 'B' })],
    [unit({ phase: 'Halted' }), unit({ unit: 'B', phase: 'Halted' })],
    ['Warning UnitHalted B: halted'],
  ],
])('report %s', (_what, before, after, expected) => {
  expect(eventsBetween(before, after)).toEqual(expected);
});
