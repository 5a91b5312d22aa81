import { describe, expect, it } from 'vitest';
import type { Fleet } from '../../api/fleet.ts';
import type { CellMachines } from '../going.ts';
import type { Change, DeletionsInput } from './change.ts';
import { askedIn, countIn, countOf, limitsOf, ofCluster, ofStage, partOf, type Count, type DeletionLimits, type Part } from './limits.ts';

const WEB = 'MachineSet/web/web';
const API = 'MachineSet/api/api';
const LIMITS: DeletionLimits = { stage: 'prod', maxDeletions: 3, maxMachines: '10%' };
const change = (more: Partial<Change> = {}): Change => ({
  unit: WEB,
  cluster: 'a',
  digest: '1',
  from: '4',
  machines: 0,
  unrecorded: 0,
  unmade: 0,
  ...more,
});
const count = (more: Partial<Count> = {}): Count => ({ objects: 0, machines: 0, unrecorded: 0, already: 0, ...more });
const REPLICAS = new Map<string, number | null>([
  ['left out', null],
  ...Array.from({ length: 101 }, (_, replicas): [string, number] => [String(replicas), replicas]),
]);
const inputOf = (more: Partial<DeletionsInput> = {}): DeletionsInput => ({
  fleet: { spec: { stages: [] } } as unknown as Fleet,
  stages: [],
  changes: [],
  replicas: REPLICAS,
  machines: new Map(),
  ...more,
});

describe('E9: the limits of a stage', () => {
  it.each<[string, object, object, DeletionLimits]>([
    [
      'are those of the stage',
      { maxDeletions: 0, maxMachines: '0%' },
      { maxDeletions: 9, maxMachines: '90%' },
      { ...LIMITS, maxDeletions: 0, maxMachines: '0%' },
    ],
    ['else those of the Fleet', {}, { maxDeletions: 9, maxMachines: '90%' }, { ...LIMITS, maxDeletions: 9, maxMachines: '90%' }],
    ['else those that hold where no cell reports any', {}, {}, LIMITS],
    ['each by itself', { maxMachines: '50%' }, { maxDeletions: 9 }, { ...LIMITS, maxDeletions: 9, maxMachines: '50%' }],
  ])('%s', (_what, ofStage, ofFleet, expected) => {
    const stage = { name: 'prod', clusterSelector: {}, prune: ofStage };
    expect(limitsOf({ spec: { stages: [stage], prune: ofFleet } } as unknown as Fleet, stage)).toEqual(expected);
  });
});

describe('E9: what counts', () => {
  it('is a deleted set with each of its machines, and of a changed one the machines alone', () => {
    expect(countOf([change({ digest: undefined, machines: 4, unrecorded: 1 }), change({ unit: API, machines: 2, unrecorded: 2 })])).toEqual(
      {
        objects: 1,
        machines: 6,
        unrecorded: 3,
      },
    );
  });

  const cell: CellMachines = { total: 6, sets: new Map([[WEB, { replicas: 6, wanted: 4, deleting: 1, removing: false }]]) };
  it('is what goes there already, by a number from before or since it is being deleted, but nothing that this commit takes back', () => {
    const machines = new Map([['a', cell]]);
    const loss = change({ digest: '3', machines: 1 });
    expect(countIn([loss], new Set(), inputOf({ machines }), 'a')).toMatchObject({ machines: 1, already: 3 });
    expect(countIn([change({ digest: '6' })], new Set(), inputOf({ machines }), 'a')).toMatchObject({ machines: 0, already: 1 });
  });

  it('is nothing of a set that is held back, which then is as it was', () => {
    const loss = change({ digest: '3', machines: 1, from: '6' });
    expect(countIn([loss], new Set([loss]), inputOf({ machines: new Map([['a', cell]]) }), 'a')).toMatchObject({ machines: 0, already: 1 });
  });

  it('is nothing that goes already where the cluster is not reached', () => {
    expect(countIn([change({ machines: 2 })], new Set(), inputOf(), 'a')).toEqual(count({ machines: 2 }));
  });

  it('is no change that lets nothing go', () => {
    expect(countIn([change({ digest: '9' })], new Set(), inputOf(), 'a')).toEqual(count());
  });
});

describe('E9: how many machines the hub asked a cell for', () => {
  it('is now what the commit before reported, without what its cell has not made', () => {
    expect(askedIn('a', [change({ from: '10', unmade: 4 }), change({ unit: API, from: '5' })], inputOf())).toEqual({ now: 11, ever: 15 });
  });

  it('is no less than none of a set, whatever is not made', () => {
    expect(askedIn('a', [change({ from: '3', unmade: 9 }), change({ unit: API, from: '5' })], inputOf()).now).toBe(5);
  });

  it('is none of a new set, of one whose number Git leaves out, and of one that is not known', () => {
    for (const from of [undefined, 'left out', 'lost']) expect(askedIn('a', [change({ from })], inputOf())).toEqual({ now: 0, ever: 0 });
  });

  it('is ever the largest of what was given, also of sets that no commit has any more', () => {
    const given = (cluster: string) =>
      cluster === 'a'
        ? [
            { unit: WEB, digests: ['7', '20', 'lost'] },
            { unit: API, digests: ['8'] },
            { unit: 'MachineSet/x/x', digests: [] },
          ]
        : [];
    const changes = [change({ from: '4' }), change({ unit: API, from: '9' })];
    expect(askedIn('a', changes, inputOf({ given }))).toEqual({ now: 13, ever: 29 });
    expect(askedIn('b', changes, inputOf({ given }))).toEqual({ now: 13, ever: 13 });
  });
});

describe('E9: what a cell counts for its stage', () => {
  it.each<[string, Partial<Count>, number | undefined, { now: number; ever: number }, Part]>([
    ['its machines', { machines: 2, already: 1 }, 10, { now: 10, ever: 10 }, { total: 10, machines: 2, already: 1, own: 0 }],
    ['no more than the hub asks it for now', {}, 30, { now: 10, ever: 30 }, { total: 10, machines: 0, already: 0, own: 0 }],
    [
      'no more that go than it was ever asked for',
      { already: 50 },
      10,
      { now: 10, ever: 20 },
      { total: 10, machines: 0, already: 20, own: 0 },
    ],
    ['of those beyond all that, a share for itself alone', {}, 60, { now: 10, ever: 20 }, { total: 10, machines: 0, already: 0, own: 4 }],
    ['none where it is not known', { machines: 2 }, undefined, { now: 10, ever: 10 }, { total: 0, machines: 2, already: 0, own: 0 }],
  ])('is %s', (_what, its, total, asked, expected) => {
    expect(partOf(count(its), total, asked, LIMITS)).toEqual(expected);
  });
});

describe('E9: a limit of a stage', () => {
  const part = (more: Partial<Part> = {}): Part => ({ total: 10, machines: 0, already: 0, own: 0, ...more });
  const cells = (...names: string[]) => new Map(names.map((name): [string, CellMachines] => [name, { total: 10, sets: new Map() }]));

  it('is the share of the machines of all its clusters', () => {
    expect(ofStage(LIMITS, ['a', 'b'], [part({ machines: 2 }), part()], cells('a', 'b'))).toBeUndefined();
    expect(ofStage(LIMITS, ['a', 'b'], [part({ machines: 3 }), part()], cells('a', 'b'))).toEqual({
      text: 'stage "prod": 3 of its 20 machines would go, 2 may (maxMachines 10%)',
      waits: undefined,
      raise: { of: 'Stage', stage: 'prod', maxDeletions: undefined, percent: 15 },
    });
  });

  it('counts those that go already, and waits for these where the commit alone is within it', () => {
    expect(ofStage(LIMITS, ['a', 'b'], [part({ machines: 2, already: 1 }), part()], cells('a', 'b'))).toMatchObject({
      text: expect.stringContaining('2 of its 20 machines would go beside 1 that goes already') as string,
      waits: { until: 'Gone', clusters: ['a', 'b'] },
    });
  });

  it('waits until all of its clusters are reached, and counts those that are not as none', () => {
    expect(ofStage(LIMITS, ['a', 'b'], [part({ machines: 2 }), part({ total: 0 })], cells('a'))).toMatchObject({
      text: expect.stringContaining('clusters of which this is not known counted as none') as string,
      waits: { until: 'Reached', clusters: ['a', 'b'] },
    });
  });

  it('counts what a cell has beyond all that it was asked for in no other cluster', () => {
    expect(ofStage(LIMITS, ['a', 'b'], [part({ machines: 4, own: 2 }), part()], cells('a', 'b'))).toBeUndefined();
    expect(ofStage(LIMITS, ['a', 'b'], [part({ machines: 1, own: 9 }), part({ machines: 3 })], cells('a', 'b'))).toMatchObject({
      text: expect.stringContaining('3 of its 20') as string,
    });
  });
});

describe('E9: a limit of a cluster', () => {
  const ofA = (its: Partial<Count>, total: number | undefined, limits: Partial<DeletionLimits> = {}) =>
    ofCluster('a', { ...LIMITS, ...limits }, count(its), total);

  it.each<[string, Partial<Count>, number | undefined]>([
    ['a share', { machines: 1 }, 10],
    ['so many objects', { objects: 3 }, 10],
    ['both', { objects: 2, machines: 1 }, 10],
    ['nothing, where it is not known how many it has', { objects: 3 }, undefined],
  ])('lets %s go', (_what, its, total) => {
    expect(ofA(its, total)).toBeUndefined();
  });

  it.each<[string, Partial<Count>, number | undefined, Partial<DeletionLimits>, string, object]>([
    ['more than the share', { machines: 2 }, 10, {}, '1 may (maxMachines 10%)', { maxDeletions: undefined, percent: 20 }],
    ['more than so many', { machines: 4 }, 100, {}, '3 may (maxDeletions 3)', { maxDeletions: 4, percent: undefined }],
    ['more than both, the share being less', { machines: 4 }, 10, {}, '1 may (maxMachines 10%)', { maxDeletions: 4, percent: 40 }],
    ['more than both, the share being more', { machines: 6 }, 50, {}, '3 may (maxDeletions 3)', { maxDeletions: 6, percent: 12 }],
    ['more than both, which are the same', { machines: 6 }, 30, {}, '3 may (maxMachines 10%)', { maxDeletions: 6, percent: 20 }],
    [
      'more with those that go already',
      { machines: 1, already: 1 },
      10,
      {},
      'beside 1 that goes already, 1 may',
      { maxDeletions: undefined, percent: 20 },
    ],
  ])('lets not %s go', (_what, its, total, limits, text, raise) => {
    const found = ofA(its, total, limits);
    expect(found?.text).toContain(text);
    expect(found?.raise).toMatchObject({ of: 'Stage', stage: 'prod', ...raise });
  });

  it('lets none go where it is not known how many it has, until it is reached, unless its number is too high anyway', () => {
    expect(ofA({ machines: 1 }, undefined)).toMatchObject({
      text: expect.stringContaining('how many it has is not known, so none may') as string,
      waits: { until: 'Reached', clusters: ['a'] },
      raise: { percent: 100 },
    });
    expect(ofA({ machines: 3 }, undefined)?.waits).toBeDefined();
    expect(ofA({ machines: 4 }, undefined)?.waits).toBeUndefined();
  });

  it('waits for those that go already, or for what its cell reports, where it would be within it without these', () => {
    expect(ofA({ machines: 1, already: 1 }, 10)?.waits).toEqual({ until: 'Gone', clusters: ['a'] });
    expect(ofA({ machines: 2, unrecorded: 1 }, 10)?.waits).toEqual({ until: 'Reported', clusters: ['a'] });
    expect(ofA({ machines: 2, already: 1 }, 10)?.waits).toBeUndefined();
    expect(ofA({ machines: 3, unrecorded: 1 }, 10)?.waits).toBeUndefined();
    expect(ofA({ objects: 3, machines: 1, already: 1 }, 10)?.waits).toBeUndefined();
    expect(ofA({ objects: 2, machines: 1, already: 1 }, 10)?.waits).toEqual({ until: 'Gone', clusters: ['a'] });
    expect(ofA({ objects: 4 }, 10)?.waits).toBeUndefined();
  });
});
