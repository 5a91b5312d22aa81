/** Ways to break the decisions of rollouts, each a rule of docs/protocols.md left out. */
import type { UnitStatus } from '../../src/api/cluster.ts';
import { records, REMOVAL } from '../../src/sync/records.ts';
import { decide } from '../../src/sync/rollout/decide.ts';
import type { Decision } from '../../src/sync/rollout/decide.ts';
import { SOAK_MS, type Seams } from '../../src/sync/rollout/testing/state.ts';
import type { ClusterView, Step, World } from '../../src/sync/rollout/world.ts';
import type { RolloutPlan } from './rollouts.ts';
import { head, removing, two } from './rollout-scenarios.ts';

export interface RolloutMutant {
  rule: string;
  seams: Partial<Seams>;
  /** Where it shows. */
  plan: RolloutPlan;
  /** What the explorer must report: a broken promise, or that nothing leads back. */
  caughtBy: RegExp | 'trap';
}

const seeing = (change: (world: World) => World) => ({ decide: (world: World): Decision => decide(change(world)) });

/** Decides on what it is shown of each cluster. */
const showing = (change: (view: ClusterView, world: World) => ClusterView) =>
  seeing((world) => ({ ...world, clusters: new Map([...world.clusters].map(([name, view]) => [name, change(view, world)])) }));

const withRecords = (view: ClusterView, change: (record: UnitStatus) => UnitStatus): ClusterView => ({
  ...view,
  units: new Map([...view.units].map(([unit, record]) => [unit, change(record)])),
});

const doing = (change: (steps: Step[], world: World) => Step[]) => ({
  decide(world: World): Decision {
    const decision = decide(world);
    return { ...decision, steps: change(decision.steps, world) };
  },
});

const aged = (record: UnitStatus, byMs: number): UnitStatus => ({
  ...record,
  verified: (record.verified ?? []).map((entry) => ({ ...entry, at: new Date(Date.parse(entry.at) - byMs).toISOString() })),
});

const LONG_AGO = new Date(0).toISOString();

/** As if the time of the evidence were all that is known. */
const alone = (record: UnitStatus): UnitStatus => ({
  ...record,
  ...(record.appliedAt === undefined || record.evidence === undefined ? {} : { appliedAt: LONG_AGO }),
  verified: (record.verified ?? []).map((entry) => (entry.digest === record.evidence ? entry : { ...entry, at: LONG_AGO })),
});

/** With the times of content that is no longer there as they were. */
const ofBefore = <T extends UnitStatus>(record: T, before: UnitStatus | undefined): T => ({
  ...record,
  ...(record.begun === undefined && before?.begun === undefined && before?.appliedAt !== undefined ? { appliedAt: before.appliedAt } : {}),
  verified: (record.verified ?? []).map((entry) => ({
    ...entry,
    at: before?.verified?.find(({ digest }) => digest === entry.digest)?.at ?? entry.at,
  })),
});

/** As if nothing that was revoked were. */
const unrevoked = (view: ClusterView): ClusterView => withRecords(view, ({ revoked: _revoked, ...record }) => record);

const withoutHalts = (world: World): World => ({
  ...world,
  clusters: new Map(
    [...world.clusters].map(([name, view]) => [
      name,
      {
        ...view,
        live(unit) {
          const live = view.live(unit);
          return live.state === 'Present' ? { ...live, halted: undefined } : live;
        },
      },
    ]),
  ),
});

/** Removes it wherever `isDue`, instead of what was decided there. */
const removingWhere = (isDue: (record: UnitStatus, wanted: string | undefined) => boolean) =>
  doing((steps, { clusters, rollouts }) => {
    const owner = rollouts.at(-1)?.spec;
    const removals = (owner?.units[0]?.clusters ?? []).flatMap(({ name: cluster, digest: wanted }): Step[] => {
      const record = clusters.get(cluster)?.units.get(owner?.units[0]?.unit ?? '');
      if (owner === undefined || record === undefined || !isDue(record, wanted)) return [];
      const { unit, digest, begun } = record;
      return [{ do: 'Remove', unit, cluster, commit: owner.commit, lane: 'Forward', over: { digest, begun }, because: 'a mutant' }];
    });
    const removed = new Set(removals.map(({ cluster }) => cluster));
    return [...steps.filter((step) => !removed.has(step.cluster)), ...removals];
  });

export const ROLLOUT_MUTANTS: RolloutMutant[] = [
  {
    rule: 'E5: a removal goes on in all stages at once',
    seams: removingWhere(({ digest }, wanted) => wanted === undefined && digest !== undefined),
    plan: removing({ commit: 1 }),
    caughtBy: /E5: the removal begins on p1, and t1 of an earlier stage has it still/,
  },
  {
    rule: 'E5: a stage is passed without the soak of a removal',
    seams: showing((view) =>
      withRecords(view, ({ removal, ...record }) =>
        removal === undefined
          ? record
          : { ...record, removal: { ...removal, ...(removal.at === undefined ? {} : { at: LONG_AGO, after: LONG_AGO }) } },
      ),
    ),
    plan: removing({ commit: 1 }),
    caughtBy: /E5: the removal begins on p1, and t1 of an earlier stage has not soaked/,
  },
  {
    rule: 'E5: a removal goes on after it was taken back',
    seams: removingWhere(({ begun }, wanted) => begun === REMOVAL && wanted !== undefined),
    plan: removing({ commit: 2 }),
    caughtBy: /E5: it is removed from t1, where A is wanted/,
  },
  {
    rule: 'E6: what was just added goes stage by stage',
    seams: showing((view) => withRecords(view, ({ added: _added, ...record }) => record)),
    plan: removing({ commit: 1 }, { settled: false, additions: true }),
    caughtBy: /E6: it is new on p1, wanted no more, and not taken back at once/,
  },
  {
    rule: 'E6: what is there for long goes at once',
    seams: showing((view) => withRecords(view, (record) => ({ ...record, added: { commit: 'c1' } }))),
    plan: removing({ commit: 1 }),
    caughtBy: /E6: it is taken back at once on (t1|p1), where it is not new/,
  },
  {
    rule: 'E9: what was asked to go counts as gone',
    seams: { records: { ...records, removed: (_removal, at) => records.removed({ left: [], empties: false }, at) } },
    plan: removing({ commit: 1, drift: 1 }),
    caughtBy: 'trap',
  },
  {
    rule: 'E14: what is removed is not read again before it is deleted',
    seams: { confirms: false },
    plan: removing({ commit: 2, takeover: 1 }, { clusters: ['t1'], terms: false }),
    caughtBy: /E14: it is deleted on t1 where another has begun/,
  },
  {
    rule: 'E14: a deletion is not conditioned on the object that was read',
    seams: { conditioned: false },
    plan: removing({ commit: 1, drift: 1 }),
    caughtBy: /E14: it is deleted on t1 over what another wrote/,
  },
  {
    rule: 'E5: a stage is passed without a soak',
    seams: showing((view) => withRecords(view, (record) => aged(record, SOAK_MS))),
    plan: two({ commit: 1 }),
    caughtBy: /E5/,
  },
  {
    rule: 'E5: a soak is counted from a time that others contradict',
    seams: showing((view) => withRecords(view, alone)),
    plan: two({ commit: 1, clock: 1 }),
    caughtBy: /E5/,
  },
  {
    rule: 'E5: a soak that began in the future is waited for',
    seams: doing((steps) => steps.filter((step) => step.do !== 'SoakAgain')),
    plan: two({ commit: 1, clock: 1 }),
    caughtBy: 'trap',
  },
  {
    rule: 'E5: what is left counts from a time that others contradict',
    seams: {
      records: {
        ...records,
        applied:
          (...input) =>
          (record) =>
            ofBefore(records.applied(...input)(record === undefined ? record : alone(record)), record),
      },
    },
    plan: two({ commit: 3, clock: 1 }, { clusters: ['t1', 'p1'], heads: [head('A'), head('B'), head('C')] }),
    caughtBy: /E5/,
  },
  {
    rule: 'E12: soak is counted by the Rollout that brought the digest',
    seams: showing((view, { rollouts }) =>
      withRecords(view, (record) => (record.commit === rollouts.at(-1)?.spec.commit ? record : aged(record, SOAK_MS))),
    ),
    plan: two({ commit: 2 }, { heads: [head('A'), head('B'), head('B', { p1: 'C' })] }),
    caughtBy: /E5/,
  },
  {
    rule: 'E12: a pause ends with the next Rollout',
    seams: seeing((world) => ({
      ...world,
      rollouts: world.rollouts.map((rollout, index) =>
        index === world.rollouts.length - 1 ? rollout : { ...rollout, spec: { ...rollout.spec, paused: false } },
      ),
    })),
    plan: two({ commit: 2, pause: 1 }, { heads: [head('A'), head('B'), head('B', { p1: 'C' })] }),
    caughtBy: /E12/,
  },
  {
    rule: 'E6: evidence lifts a revocation',
    seams: {
      records: {
        ...records,
        verified(...input) {
          const change = records.verified(...input);
          return (record) => {
            const after = change(record);
            return after === record || after?.revoked === undefined
              ? after
              : { ...after, revoked: after.revoked.filter((digest) => digest !== input[0]) };
          };
        },
      },
    },
    plan: two({ commit: 5 }, { clusters: ['t1'], heads: [head('A'), head('B'), head('C')] }),
    caughtBy: /E6/,
  },
  {
    rule: 'E6: what is left by a restore is not revoked',
    seams: doing((steps) => steps.filter((step) => step.do !== 'Revoke')),
    plan: two({ commit: 3 }),
    caughtBy: /E6/,
  },
  {
    rule: 'E6: what is left by a way back that is Forward is not revoked',
    seams: doing((steps, { clusters }) =>
      steps.filter(
        (step) =>
          step.do !== 'Revoke' ||
          !steps.some(
            (each) =>
              each.do === 'Apply' && each.lane === 'Forward' && clusters.get(each.cluster)?.units.get(each.unit)?.digest === step.digest,
          ),
      ),
    ),
    plan: two({ commit: 4 }, { clusters: ['t1'], heads: [head('A'), head('B'), head('C')] }),
    caughtBy: /E6.*goes back.*is not revoked/,
  },
  {
    rule: 'E6: what others go back from is upheld nowhere',
    seams: doing((steps) => steps.filter((step) => step.do !== 'Uphold')),
    plan: two({ commit: 2 }, { heads: [head('A'), head('B'), head('A', { p1: 'B' })] }),
    caughtBy: /E6.*is not upheld/,
  },
  {
    rule: 'E6: what is upheld is revoked with all others',
    seams: {
      decide(world) {
        const decision = decide(world);
        const left = new Set(decision.steps.flatMap((step) => (step.do === 'Revoke' ? step.digest : [])));
        return {
          ...decision,
          steps: decision.steps.map((step): Step =>
            step.do === 'Uphold' && left.has(step.digest) ? { ...step, do: 'Revoke', retry: undefined } : step,
          ),
        };
      },
    },
    plan: two({ commit: 2 }, { heads: [head('A'), head('B'), head('A', { p1: 'B' })] }),
    caughtBy: /E6.*is revoked on p1/,
  },
  {
    rule: 'E6: what halted is not revoked',
    seams: doing((steps) => (steps.some((step) => step.do === 'Apply') ? steps : steps.filter((step) => step.do !== 'Revoke'))),
    plan: two({ commit: 1, halt: 1 }),
    caughtBy: /E6/,
  },
  {
    rule: 'E6: a restore waits for its stage',
    seams: doing((steps, { clusters }) =>
      steps.filter((step) => {
        const first = clusters.get('t1')?.units.get(step.unit);
        return step.do !== 'Apply' || step.lane !== 'Restore' || step.cluster === 't1' || first?.evidence === step.digest;
      }),
    ),
    plan: two({ commit: 2 }),
    caughtBy: /E6/,
  },
  {
    rule: 'E12: a cluster that left is touched',
    seams: seeing((world) => ({ ...world, members: undefined })),
    plan: two({ commit: 1, drop: 1 }),
    caughtBy: /E12/,
  },
  {
    rule: 'E12: a cluster that left is waited for',
    seams: {
      decide: (world) =>
        decide({
          ...world,
          members: undefined,
          clusters: new Map(
            [...world.clusters].map(([name, view]) => [name, world.members?.has(name) === false ? { ...view, blocked: 'left' } : view]),
          ),
        }),
    },
    plan: two({ commit: 1, drop: 1 }),
    caughtBy: 'trap',
  },
  {
    rule: 'E13: what is halted blocks nothing',
    seams: doing((steps, world) => [
      ...steps.filter((step) => step.do === 'Revoke'),
      ...decide(withoutHalts(world)).steps.filter((step) => step.do !== 'Revoke'),
    ]),
    plan: two({ commit: 1, halt: 1, away: 1 }, { clusters: ['t1', 't2'], maxClusters: 2 }),
    caughtBy: /E13/,
  },
  {
    rule: 'E13: a halt lasts as long as its cluster shows it',
    seams: showing((view) => withRecords(view, ({ halt: _halt, ...record }) => record)),
    plan: two({ commit: 1, halt: 1, drop: 1 }),
    caughtBy: /E13.*it halted on t1/,
  },
  {
    rule: 'E13: a retry counts as carried out before the cell shows it',
    seams: doing((steps) => steps.filter((step) => step.do !== 'TryAgain')),
    plan: two({ commit: 1, halt: 1 }),
    caughtBy: 'trap',
  },
  {
    rule: 'E14: a term decides before its number is on the Clusters',
    seams: { fences: false },
    plan: two({ commit: 1, takeover: 1, pause: 1 }),
    caughtBy: /E14.*by a hub whose successor decides already/,
  },
  {
    rule: 'E14: what has begun is not conditioned on what the decision saw',
    seams: {
      records: {
        ...records,
        begin: (fleet, aim, _over, inventory, same) => (record) =>
          records.begin(fleet, aim, { digest: record?.digest, begun: record?.begun }, inventory, same)(record),
      },
    },
    plan: two({ commit: 2, takeover: 1 }, { terms: false }),
    caughtBy: /E14/,
  },
  {
    rule: 'E14: what has begun is not conditioned on what is revoked since',
    seams: {
      records: {
        ...records,
        begin:
          (fleet, aim, ...rest) =>
          (record) =>
            records.begin(fleet, { ...aim, revoked: aim.revoked === true || record?.revoked?.includes(aim.to) === true }, ...rest)(record),
      },
    },
    plan: two({ commit: 2, takeover: 1 }, { terms: false }),
    caughtBy: /E6.*did not know that it is revoked/,
  },
  {
    rule: 'E14: the record is not read again before a write',
    seams: { confirms: false },
    plan: two({ commit: 2, takeover: 1 }, { terms: false }),
    caughtBy: /E14/,
  },
  {
    rule: 'E14: a write is not conditioned on what was read',
    seams: { conditioned: false },
    plan: two({ commit: 2, takeover: 1 }, { terms: false }),
    caughtBy: /E14/,
  },
  {
    rule: 'E14: a write is not conditioned on that nothing is there',
    seams: { conditionedOnNothing: false },
    plan: two({ commit: 1, takeover: 1 }, { terms: false, clusters: ['t1'], settled: false }),
    caughtBy: /E14.*over what another wrote/,
  },
  {
    rule: 'E14: a write makes again what was removed',
    seams: { conditionedOnUID: false },
    plan: two({ commit: 1, takeover: 1, erase: 1 }, { terms: false, clusters: ['t1'] }),
    caughtBy: /E14.*was removed since/,
  },
  {
    rule: 'E14: the record is not read again before a ceiling',
    seams: { checksBeforePatch: false },
    plan: two({ commit: 2, takeover: 1, pause: 1 }, { terms: false, clusters: ['t1'] }),
    caughtBy: /E14: a ceiling .* where another has begun/,
  },
  {
    rule: 'E14: a ceiling is not conditioned on what the decision saw',
    seams: { conditionsPatch: false },
    plan: two({ commit: 1, takeover: 1, pause: 1 }, { terms: false, clusters: ['t1'] }),
    caughtBy: /E14: a ceiling .* over what another wrote/,
  },
  {
    rule: 'E14: a retry is not conditioned on what the decision saw',
    seams: { conditionsPatch: false },
    plan: two({ commit: 1, takeover: 1, halt: 1, retry: 1 }, { terms: false, clusters: ['t1'] }),
    caughtBy: /E14: a retry .* over what another wrote/,
  },
  {
    rule: 'E14, E5: what is written is decided by a late store of Clusters',
    seams: { decidesAgain: false },
    plan: two({ commit: 3, lag: 1 }, { stores: ['records'] }),
    caughtBy: /E5/,
  },
  {
    rule: 'E14, E12: what is written is decided by a late store of Rollouts',
    seams: { decidesAgain: false },
    plan: two({ commit: 1, lag: 1, pause: 1 }, { stores: ['rollouts'] }),
    caughtBy: /E12.*is paused/,
  },
  {
    rule: 'E14, E12: what is written is decided by a late store of Fleets',
    seams: { decidesAgain: false },
    plan: two({ commit: 1, lag: 1, drop: 1 }, { stores: ['members'] }),
    caughtBy: /E12.*has left the fleet/,
  },
  {
    rule: 'E2: evidence is recorded as a late store of the cell shows it',
    seams: { readsEvidence: false },
    plan: two({ commit: 2, lag: 1 }, { stores: ['cells'], clusters: ['t1'] }),
    caughtBy: /E5.*from before it was applied/,
  },
  {
    rule: 'E6: what is left by a restore is not revoked, where a store of Clusters is late',
    seams: doing((steps) => steps.filter((step) => step.do !== 'Revoke')),
    plan: two({ commit: 2, lag: 1 }, { stores: ['records'] }),
    caughtBy: /E6/,
  },
  {
    rule: 'E6: what halted is not revoked, where a store of the cell is late',
    seams: doing((steps) => (steps.some((step) => step.do === 'Apply') ? steps : steps.filter((step) => step.do !== 'Revoke'))),
    plan: two({ commit: 1, halt: 1, lag: 1 }, { stores: ['cells'], clusters: ['t1'] }),
    caughtBy: /E6/,
  },
  {
    rule: 'E5: a cluster that is declared again is carried by no rollout',
    seams: { carried: () => () => true },
    plan: two({ commit: 2, drop: 1, rejoin: 1 }),
    caughtBy: 'trap',
  },
  {
    rule: 'E6: a revocation counts nowhere, where a Cluster may be deleted',
    seams: seeing((world) => ({ ...world, clusters: new Map([...world.clusters].map(([name, view]) => [name, unrevoked(view)])) })),
    plan: two({ commit: 3, drop: 1, forget: 1 }, { clusters: ['t1', 'p1'] }),
    caughtBy: /E6/,
  },
  {
    rule: 'E5: evidence of what was replaced since counts',
    seams: {
      records: {
        ...records,
        verified: (digest, commit, at) => (record) => records.verified(digest, commit, at, record?.appliedAt)(record),
      },
    },
    plan: two({ commit: 3, takeover: 1 }, { terms: false, clusters: ['t1'] }),
    caughtBy: /E5/,
  },
];
