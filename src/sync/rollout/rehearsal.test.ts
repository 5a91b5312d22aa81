import { describe, expect, it } from 'vitest';
import type { Cluster, UnitStatus } from '../../api/cluster.ts';
import { unitDigest } from '../../api/digest.ts';
import { API_VERSION } from '../../api/kind.ts';
import type { NodeRemedier } from '../../api/node-remedier.ts';
import { MANAGERS } from '../../api/names.ts';
import { REHEARSAL_ANNOTATIONS } from '../../api/rehearsal.ts';
import type { Rollout } from '../../api/rollout.ts';
import type { KubeObject, Stored } from '../../api/wire.ts';
import { stamped } from '../apply-unit.ts';
import type { StoredUnit } from '../bundles.ts';
import type { Cell, CellContent } from '../cell/cell.ts';
import { records } from '../records.ts';
import { decide } from './decide.ts';
import { observe } from './observe.ts';
import { asRehearsed, REHEARSAL, rehearsalOf } from './rehearsal.ts';
import type { Step } from './world.ts';

const UNIT = 'NodeRemedier/hung';

function rule(spec: Partial<NodeRemedier['spec']> = {}, terms: { shadowSeconds?: number; maxJobs?: number } = {}): NodeRemedier {
  const annotations = Object.fromEntries(
    Object.entries(terms).map(([key, value]) => [REHEARSAL_ANNOTATIONS[key as keyof typeof terms], String(value)]),
  );
  return {
    apiVersion: API_VERSION,
    kind: 'NodeRemedier',
    metadata: { name: 'hung', ...(Object.keys(terms).length === 0 ? {} : { annotations }) },
    spec: {
      when: { all: [{ fact: 'condition.KernelDeadlock.status', operator: 'equal', value: 'True' }] },
      holdsForSeconds: 30,
      ladder: [{ action: 'Reboot' }, { action: 'Human' }],
      healedWhen: { condition: 'KernelDeadlock', is: 'False', forSeconds: 300 },
      mode: 'Enforce',
      ...spec,
    },
  };
}

/** As the server notes who wrote what: lists are whole, objects field by field. */
function owned(value: object): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(value).map(([key, each]: [string, unknown]) => [
      `f:${key}`,
      each !== null && typeof each === 'object' && !Array.isArray(each) ? owned(each) : {},
    ]),
  );
}

/** A hub and one cell, whose remedy controller accepts what it sees at once and counts from then on. */
function world() {
  let now = Date.UTC(2026, 0, 1);
  const units = new Map<string, StoredUnit>();
  let rollouts: Stored<Rollout>[] = [];
  let record: UnitStatus | undefined;
  let live: Stored<NodeRemedier> | undefined;
  let accepting = true;
  const store = { synced: true, get: () => live } as unknown as ReturnType<CellContent['store']>;
  /** How far the clock of the cell's API server is before that of the hub's; undefined: not known. */
  let aheadMs: number | undefined = 0;
  const cellNow = (): number | undefined => (aheadMs === undefined ? undefined : now + aheadMs);
  const content = { name: 'prod', now: cellNow, store: () => store } as unknown as CellContent;
  const cell: Cell = {
    name: 'prod',
    content,
    away: () => undefined,
    isOnTrial: () => false,
    uid: () => 'uid',
    synced: () => true,
    read: (decide) => decide(content),
  };

  const statusOf = (rule: Stored<NodeRemedier>, before: NodeRemedier['status']): NonNullable<NodeRemedier['status']> => ({
    observedGeneration: rule.metadata.generation ?? 0,
    acceptedDigest: rule.spec.unitDigest ?? '',
    counters: before?.counters ?? {
      since: new Date(now + (aheadMs ?? 0)).toISOString(),
      wouldBeJobs: 0,
      jobs: 0,
      succeeded: 0,
      failed: 0,
      needsHuman: 0,
    },
    conditions: [
      {
        type: 'Accepted',
        status: accepting ? 'True' : 'False',
        reason: accepting ? 'Accepted' : 'RuleInvalid',
        message: accepting ? '' : 'spec.when: no such fact',
        lastTransitionTime: iso(),
        observedGeneration: rule.metadata.generation ?? 0,
      },
    ],
  });
  const iso = () => new Date(now).toISOString();

  function carryOut(step: Step): void {
    if (step.do === 'Apply') {
      const unit = units.get(step.digest);
      if (unit === undefined) throw new Error(`no unit ${step.digest}`);
      const due = step.proven ? unit : asRehearsed(unit, step.digest, live, cellNow());
      const object = stamped(
        due.objects.at(-1) as KubeObject,
        true,
        { digest: step.digest, fleet: 'main', lane: step.lane },
        undefined,
      ) as Stored<NodeRemedier>;
      const generation = (live?.metadata.generation ?? 0) + (JSON.stringify(live?.spec) === JSON.stringify(object.spec) ? 0 : 1);
      const { name: _name, ...mine } = object.metadata;
      const managed = { manager: MANAGERS.sync, operation: 'Apply', fieldsType: 'FieldsV1', apiVersion: API_VERSION };
      const managedFields = [{ ...managed, fieldsV1: owned({ metadata: mine, spec: object.spec }) }];
      const metadata = {
        ...object.metadata,
        uid: 'u',
        resourceVersion: '1',
        creationTimestamp: iso(),
        generation,
        managedFields,
      } as Stored<NodeRemedier>['metadata'];
      const next: Stored<NodeRemedier> = { ...object, metadata };
      const same = live !== undefined && JSON.stringify(whole(live)) === JSON.stringify(whole(next));
      live = { ...next, status: statusOf(next, same ? live?.status : undefined) };
      record = records.applied(
        step.digest,
        step.commit,
        step.lane,
        iso(),
        [],
      )(
        records.begin(
          'main',
          { to: step.digest, lane: step.lane, asked: step.asked, revoked: step.revoked },
          step.over,
          [],
          () => true,
        )(record),
      );
    }
    if (step.do === 'RecordHalt') record = records.halted(step.digest, step.halt, iso())(record);
    if (step.do === 'RecordEvidence') record = records.verified(step.digest, step.commit, iso(), step.appliedAt)(record);
    if (step.do === 'Revoke') record = records.revoked(step.digest, step.retry)(record);
  }
  const whole = ({ spec: { unitDigest: _digest, mode: _mode, ...rest } }: NodeRemedier) => rest;

  return {
    commit(object: NodeRemedier): void {
      const unit = { key: UNIT, objects: [object], origins: [undefined] };
      const digest = unitDigest([object]);
      units.set(digest, unit);
      const sequence = rollouts.length + 1;
      rollouts = [
        ...rollouts,
        {
          apiVersion: API_VERSION,
          kind: 'Rollout',
          metadata: { name: `main-${sequence}`, uid: `r${sequence}`, resourceVersion: '1', creationTimestamp: iso(), generation: 1 },
          spec: {
            fleet: 'main',
            commit: `c${sequence}`,
            sequence,
            stages: [{ name: 'prod', clusters: ['prod'], soakSeconds: 0, maxClusters: 1 }],
            units: [{ unit: UNIT, clusters: [{ name: 'prod', digest }] }],
          },
        },
      ];
    },
    /** Observes until nothing is left to do now; reports when it would observe again, seconds from now. */
    settle(): number | undefined {
      for (let turn = 0; turn < 20; turn += 1) {
        const cluster = {
          apiVersion: API_VERSION,
          kind: 'Cluster',
          metadata: { name: 'prod', uid: 'c', resourceVersion: '1', creationTimestamp: iso() },
          spec: {},
          status: { units: record === undefined ? [] : [{ ...record, unit: UNIT }] },
        } satisfies Stored<Cluster>;
        const { steps, statuses, again } = decide(
          observe({
            now,
            fleet: 'main',
            rollouts,
            clusters: [cluster],
            cell: () => cell,
            unit: (digest) => units.get(digest),
            failing: () => undefined,
          }),
        );
        for (const step of steps) carryOut(step);
        rollouts = rollouts.map((each) => ({ ...each, status: statuses.get(each.metadata.name) ?? {} }));
        if (steps.length === 0) return again === undefined ? undefined : (again - now) / 1000;
      }
      throw new Error('it does not settle');
    },
    /** The clock of the cell's API server is this far ahead of the hub's; undefined: it is not known. */
    setCell: (ms: number | undefined) => (aheadMs = ms),
    pass: (seconds: number) => (now += seconds * 1000),
    wouldBeJobs(count: number): void {
      if (live?.status?.counters !== undefined) live.status.counters.wouldBeJobs = count;
    },
    refuseAll: () => (accepting = false),
    edit(spec: Partial<NodeRemedier['spec']>): void {
      if (live !== undefined) live = { ...live, spec: { ...live.spec, ...spec } };
    },
    get mode() {
      return `${live?.spec.mode}${live?.metadata.annotations?.[REHEARSAL] === undefined ? '' : ` for ${live.metadata.annotations[REHEARSAL]}`}`;
    },
    get unit() {
      return rollouts.at(-1)?.status?.units?.[0];
    },
    get message() {
      return this.unit?.clusters?.[0]?.message;
    },
  };
}

describe('E2: a repair rule', () => {
  it('in Shadow is verified as soon as its cell has accepted it', () => {
    const hub = world();
    hub.commit(rule({ mode: 'Shadow' }));
    hub.settle();
    expect([hub.mode, hub.unit?.phase]).toEqual(['Shadow', 'Done']);
  });

  it('that is new and to be enforced goes through Shadow first, and the hub observes again when that is over', () => {
    const hub = world();
    hub.commit(rule({}, { shadowSeconds: 60, maxJobs: 1 }));
    expect(hub.settle()).toBe(60);
    expect([hub.mode, hub.unit?.phase, hub.message]).toEqual([
      'Shadow for Enforce',
      'Progressing',
      'in Shadow first, until 2026-01-01T00:01:00.000Z; would-be jobs: 0 of at most 1',
    ]);
    hub.pass(59);
    hub.wouldBeJobs(1);
    expect(hub.settle()).toBe(1);
    hub.pass(1);
    hub.settle();
    expect([hub.mode, hub.unit?.phase]).toEqual(['Enforce', 'Done']);
  });

  it.each([-40 * 60_000, 40 * 60_000, 365 * 86_400_000])(
    'H5: is rehearsed for its time by the clock of its cell, which is %d ms ahead of the hub',
    (aheadMs) => {
      const hub = world();
      hub.setCell(aheadMs);
      hub.commit(rule({}, { shadowSeconds: 60 }));
      expect(hub.settle()).toBe(60);
      hub.pass(59);
      expect(hub.settle()).toBe(1);
      expect(hub.mode).toBe('Shadow for Enforce');
      hub.pass(1);
      hub.settle();
      expect(hub.mode).toBe('Enforce');
    },
  );

  it('H5: is not enforced while the time of its cell is not known', () => {
    const hub = world();
    hub.commit(rule({}, { shadowSeconds: 60 }));
    hub.settle();
    hub.pass(3600);
    hub.setCell(undefined);
    hub.settle();
    expect([hub.mode, hub.message]).toEqual(['Shadow for Enforce', 'in Shadow first; the time of its API server is not known']);
  });

  it('safety 8: a rehearsal is not empty: it takes at least twice the time that its rule must hold', () => {
    const hub = world();
    hub.commit(rule({ holdsForSeconds: 600 }));
    expect(hub.settle()).toBe(1200);
    hub.pass(1199);
    hub.settle();
    expect(hub.mode).toBe('Shadow for Enforce');
    hub.pass(1);
    hub.settle();
    expect(hub.mode).toBe('Enforce');
  });

  it('safety 8: a rehearsal is not empty, whatever its terms and an earlier Shadow report', () => {
    const hub = world();
    hub.commit(rule({ mode: 'Shadow', holdsForSeconds: 600 }));
    hub.settle();
    hub.pass(700);
    hub.commit(rule({ holdsForSeconds: 600 }, { shadowSeconds: 1 }));
    expect(hub.settle()).toBe(500);
    expect(hub.mode).toBe('Shadow for Enforce');
  });

  it('takes ten minutes and three jobs where it does not report', () => {
    const hub = world();
    hub.commit(rule());
    expect(hub.settle()).toBe(600);
    expect(hub.message).toContain('at most 3');
  });

  it('that was in Shadow for long enough is enforced at once', () => {
    const hub = world();
    hub.commit(rule({ mode: 'Shadow' }));
    hub.settle();
    hub.pass(600);
    hub.commit(rule({ mode: 'Enforce' }));
    hub.settle();
    expect([hub.mode, hub.unit?.phase]).toEqual(['Enforce', 'Done']);
  });

  it('that was another rule in Shadow begins again', () => {
    const hub = world();
    hub.commit(rule({ mode: 'Shadow', holdsForSeconds: 5 }));
    hub.settle();
    hub.pass(600);
    hub.commit(rule());
    hub.settle();
    expect(hub.mode).toBe('Shadow for Enforce');
  });

  it('that is enforced and edited is rehearsed again', () => {
    const hub = world();
    hub.commit(rule());
    hub.settle();
    hub.pass(600);
    hub.settle();
    expect(hub.mode).toBe('Enforce');
    hub.commit(rule({ holdsForSeconds: 1 }));
    hub.settle();
    expect(hub.mode).toBe('Shadow for Enforce');
  });

  it('that would have done too much halts its rollout in Shadow, and goes on when it may want more', () => {
    const hub = world();
    hub.commit(rule());
    hub.settle();
    hub.wouldBeJobs(4);
    hub.pass(600);
    hub.settle();
    expect([hub.mode, hub.unit?.phase]).toEqual(['Shadow for Enforce', 'Halted']);
    expect(hub.message).toContain('it would have made 4 jobs in Shadow since 2026-01-01T00:00:00.000Z, and may want 3');
    hub.commit(rule({}, { maxJobs: 4 }));
    hub.settle();
    expect([hub.mode, hub.unit?.phase]).toEqual(['Enforce', 'Done']);
  });

  it('that was enforced and verified before is enforced at once when it is put back', () => {
    const hub = world();
    hub.commit(rule());
    hub.settle();
    hub.pass(600);
    hub.settle();
    hub.commit(rule({ holdsForSeconds: 1 }));
    hub.settle();
    hub.commit(rule());
    hub.settle();
    expect([hub.mode, hub.unit?.lane, hub.unit?.phase]).toEqual(['Enforce', 'Restore', 'Done']);
  });

  it('that a user enforces by hand during its rehearsal goes back to Shadow, and one that is verified to Enforce', () => {
    const hub = world();
    hub.commit(rule());
    hub.settle();
    hub.edit({ mode: 'Enforce' });
    hub.settle();
    expect(hub.mode).toBe('Shadow for Enforce');
    hub.pass(600);
    hub.settle();
    hub.edit({ mode: 'Shadow' });
    hub.settle();
    expect(hub.mode).toBe('Enforce');
  });

  it('that its cell does not accept halts its rollout', () => {
    const hub = world();
    hub.refuseAll();
    hub.commit(rule());
    hub.settle();
    expect([hub.mode, hub.unit?.phase, hub.message]).toEqual(['Shadow for Enforce', 'Halted', 'RuleInvalid: spec.when: no such fact']);
  });
});

describe('E2: a rehearsal', () => {
  const NOW = Date.UTC(2026, 0, 1);
  const shadowed = (status: Partial<NonNullable<NodeRemedier['status']>> = {}, generation: number | undefined = 2): NodeRemedier => ({
    ...rule({ mode: 'Shadow', unitDigest: 'A' }),
    metadata: { name: 'hung', annotations: { [REHEARSAL]: 'Enforce' }, ...(generation === undefined ? {} : { generation }) },
    status: {
      observedGeneration: 2,
      acceptedDigest: 'A',
      counters: { since: new Date(NOW - 3_600_000).toISOString(), wouldBeJobs: 0, jobs: 0, succeeded: 0, failed: 0, needsHuman: 0 },
      conditions: [{ type: 'Accepted', status: 'True', reason: 'Accepted', message: '', lastTransitionTime: '2026-01-01T00:00:00Z' }],
      ...status,
    },
  });
  const { status, ...without } = shadowed();
  const { counters: _counters, ...uncounted } = status ?? {};
  const { observedGeneration: _observed, ...unobserved } = status ?? {};
  const { metadata, ...rest } = shadowed();
  const { generation: _generation, ...unnumbered } = metadata;

  it.each(['soon', '', '9'.repeat(40), '+275760-09-13T00:00:00Z'])(
    'that runs since %j, which is no time, is not over, and throws nothing',
    (since) => {
      const counters = { since, wouldBeJobs: 0, jobs: 0, succeeded: 0, failed: 0, needsHuman: 0 };
      const found = rehearsalOf(shadowed({ counters }), NOW);
      expect(found).toMatchObject({ state: 'Running', why: expect.stringContaining('which is no time') as string });
      expect(found.state === 'Running' && found.leftMs).toBeUndefined();
    },
  );

  it.each<[string, NodeRemedier]>([
    ['without a status', without],
    ['of another generation', shadowed({ observedGeneration: 1 })],
    ['of no generation', { ...rest, metadata: unnumbered, status: unobserved }],
    [
      'that is not accepted',
      shadowed({
        conditions: [{ type: 'Accepted', status: 'False', reason: 'x', message: '', lastTransitionTime: '2026-01-01T00:00:00Z' }],
      }),
    ],
    [
      'of which another condition is True',
      shadowed({ conditions: [{ type: 'Ready', status: 'True', reason: 'x', message: '', lastTransitionTime: '2026-01-01T00:00:00Z' }] }),
    ],
    ['of other content', shadowed({ acceptedDigest: 'B' })],
    ['that counts nothing yet', { ...without, status: uncounted }],
  ])('%s is not over, however long it took', (_what, live) => {
    expect(rehearsalOf(live, NOW)).toEqual({
      state: 'Running',
      why: 'in Shadow first; the cell has not accepted it yet',
      leftMs: undefined,
    });
  });

  it('is over when all of that is there', () => {
    expect(rehearsalOf(shadowed(), NOW)).toEqual({ state: 'Over' });
    const { annotations: _annotations, ...bare } = shadowed().metadata;
    expect(rehearsalOf({ ...shadowed(), metadata: bare }, NOW)).toEqual({ state: 'None' });
  });

  it('changes the rule alone, and not what is enforced with the same content already', () => {
    const first: KubeObject = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'first' } };
    const unit: StoredUnit = { key: UNIT, objects: [first, rule()], origins: [undefined, undefined] };
    const live = (digest: string): Stored<KubeObject> => ({
      ...rule({ unitDigest: digest }),
      metadata: { name: 'hung', uid: 'u', resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z' },
    });
    const shadow = asRehearsed(unit, 'A', undefined, NOW);
    expect(shadow.objects).toMatchObject([first, { spec: { mode: 'Shadow' }, metadata: { annotations: { [REHEARSAL]: 'Enforce' } } }]);
    expect(shadow.objects).toHaveLength(2);
    expect(asRehearsed(unit, 'A', live('A'), NOW)).toBe(unit);
    expect(asRehearsed(unit, 'A', live('B'), NOW)).toEqual(shadow);
    expect(asRehearsed({ ...unit, objects: [rule(), first] }, 'A', undefined, NOW).objects).toEqual([rule(), first]);
    const annotated = live('A');
    expect(
      asRehearsed(unit, 'A', { ...annotated, metadata: { ...annotated.metadata, annotations: { [REHEARSAL]: 'Enforce' } } }, NOW),
    ).toEqual(shadow);
  });
});
