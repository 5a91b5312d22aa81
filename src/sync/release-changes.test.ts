import { describe, expect, it } from 'vitest';
import type { UnitStatus } from '../api/cluster.ts';
import { unitDigest } from '../api/digest.ts';
import { API_VERSION } from '../api/kind.ts';
import type { Rollout } from '../api/rollout.ts';
import type { KubeObject } from '../api/wire.ts';
import { REMOVAL } from './records.ts';
import { refuseReleaseChanges, type ReleasesInput } from './release-changes.ts';

const platform = (digit: string) => ({
  os: 'linux',
  arch: 'amd64',
  artifacts: [{ name: 'a', url: 'https://mirror.example.com/a', sha256: digit.repeat(64) }],
});
function unitOf(name: string, digit: string, spec: object = {}) {
  const release = {
    apiVersion: API_VERSION,
    kind: 'MachineComponent',
    metadata: { name: `kubelet-${name}` },
    spec: { componentName: 'kubelet', version: name, platforms: [platform(digit)], ...spec },
  } as KubeObject;
  const set = {
    apiVersion: API_VERSION,
    kind: 'MachineComponentSet',
    metadata: { name: 'kubelet' },
    spec: { version: name },
  } as KubeObject;
  const objects = [release, set];
  return { key: 'MachineComponentSet/kubelet', digest: unitDigest(objects), objects, origins: ['fleet/components.ts:3:5', undefined] };
}
type Unit = ReturnType<typeof unitOf>;

/** Why a commit with this unit is refused in "p" and "q"; undefined: it is not. */
async function refusal(
  after: Unit,
  record: Partial<UnitStatus>,
  kept: readonly Unit[],
  more: Partial<ReleasesInput> = {},
): Promise<unknown> {
  const records: UnitStatus[] = [{ unit: after.key, fleet: 'main', inventory: [], ...record }];
  const object = (name: string): KubeObject => ({ apiVersion: API_VERSION, kind: 'Cluster', metadata: { name } });
  try {
    await refuseReleaseChanges({
      clusters: ['p', 'q', 'new'].map((name) => ({ name, object: { ...object(name), spec: {} } as never, units: [after] })),
      recorded: new Map([
        ['p', records],
        ['q', records],
      ]),
      wanted: new Map(),
      rollouts: [],
      ...more,
      bundles: { get: async (digest) => kept.find((unit) => unit.digest === digest) },
    });
    return undefined;
  } catch (error) {
    return error;
  }
}

describe('E19: a release is immutable', () => {
  const before = unitOf('1.1.0', 'a');
  const changed = unitOf('1.1.0', 'b');
  const later = unitOf('1.1.0', 'a', { fieldOfLater: 1 });

  it.each(['digest', 'begun'])('a commit that changes one is refused with its line, its clusters and what to do: %s', async (field) => {
    expect(await refusal(unitOf('1.1.0', 'b'), { [field]: before.digest }, [before])).toMatchObject({
      code: 'ImmutableChanged',
      verdict: true,
      message: expect.stringContaining('fleet/components.ts:3:5: MachineComponent/kubelet-1.1.0 in p, q') as unknown,
      next: expect.stringContaining('new version') as unknown,
    });
  });

  const left = unitOf('1.0.0', 'a');
  const proven = ({ digest }: Unit): NonNullable<UnitStatus['verified']>[number] => ({ digest, commit: 'c', at: '2026-11-20T00:00:00Z' });
  const naming = (...units: Unit[]): Rollout[] =>
    units.map(({ key, digest }, index) => ({
      apiVersion: API_VERSION,
      kind: 'Rollout',
      metadata: { name: `main-${index}` },
      spec: {
        fleet: 'main',
        commit: 'c',
        sequence: index + 1,
        stages: [],
        units: [{ unit: key, clusters: ['p', 'q'].map((name) => ({ name, digest })) }],
      },
    }));

  it.each<[string, Partial<UnitStatus>, Rollout[]]>([
    ['has left the cluster, where sync never removes it', { digest: left.digest, verified: [proven(left), proven(before)] }, []],
    ['has left it with its set', { verified: [proven(before)] }, []],
    ['a halt or a restore left', { digest: left.digest, revoked: [before.digest] }, []],
    ['began, and a Rollout named', { digest: left.digest, begun: before.digest }, naming(before)],
  ])('a commit that changes one is refused that %s', async (_what, record, rollouts) => {
    expect(await refusal(changed, record, [left, before], { rollouts })).toMatchObject({ code: 'ImmutableChanged' });
  });

  const another = unitOf('1.1.0', 'c');
  const other = unitOf('1.1.0', 'a', { healthDeadlineSeconds: 600 });
  it.each<[string, Unit, Partial<UnitStatus>, Partial<ReleasesInput>]>([
    [
      'content that is there, where other content began and was refused there',
      unitOf('1.1.0', 'a', { signatures: [] }),
      { digest: left.digest, begun: changed.digest, verified: [proven(left), proven(before)] },
      {},
    ],
    ['what only a Rollout named, and may never have begun', changed, { digest: left.digest }, { rollouts: naming(before) }],
    [
      'content that a Rollout named before the one which began',
      unitOf('1.1.0', 'a', { signatures: [] }),
      { digest: left.digest, begun: changed.digest },
      { rollouts: naming(before, changed) },
    ],
    [
      'any, where what began and what a Rollout named differ',
      another,
      { digest: left.digest, begun: changed.digest },
      { rollouts: naming(before, changed) },
    ],
    [
      'what was accepted before, and waits',
      changed,
      { digest: left.digest, verified: [proven(before)] },
      { wanted: new Map(['p', 'q'].map((name) => [name, new Map([[changed.key, { digest: changed.digest, commit: 'c' }]])])) },
    ],
    [
      'both of two contents that were there, one after the other',
      unitOf('1.1.0', 'a', { healthDeadlineSeconds: 600, signatures: [] }),
      { digest: before.digest, verified: [proven(before), proven(other)] },
      {},
    ],
  ])('passes %s', async (_what, after, record, more) => {
    expect(await refusal(after, record, [left, before, changed, another, other], more)).toBeUndefined();
  });

  it('asks for nothing of before where no release is another than what is there', async () => {
    const asked: string[] = [];
    const set = {
      ...before,
      objects: before.objects.with(1, { ...before.objects[1], metadata: { name: 'kubelet', labels: {} } } as KubeObject),
    };
    const after = { ...set, digest: unitDigest(set.objects) };
    const bundles = { get: async (digest: string) => (asked.push(digest), before.digest === digest ? before : undefined) };
    const records: UnitStatus[] = [
      { unit: before.key, fleet: 'main', inventory: [], digest: before.digest, verified: [proven(before), proven(left)] },
    ];
    const clusters = [
      { name: 'p', object: { apiVersion: API_VERSION, kind: 'Cluster', metadata: { name: 'p' }, spec: {} } as never, units: [after] },
    ];
    await refuseReleaseChanges({ clusters, recorded: new Map([['p', records]]), wanted: new Map(), rollouts: naming(changed), bundles });
    expect(asked).toEqual([before.digest]);
  });

  it.each<[string, Unit, Partial<UnitStatus>, Unit[]]>([
    ['another version', unitOf('1.2.0', 'b'), { digest: before.digest }, [before]],
    ['other signatures', unitOf('1.1.0', 'a', { signatures: [] }), { digest: before.digest }, [before]],
    ['a default that is written out', unitOf('1.1.0', 'a', { healthDeadlineSeconds: 300 }), { digest: before.digest }, [before]],
    [
      'a revert of a change that the cell refused',
      unitOf('1.1.0', 'a', { healthDeadlineSeconds: 300 }),
      { digest: before.digest, begun: changed.digest },
      [before, changed],
    ],
    ['one that no cluster has yet', unitOf('1.1.0', 'b'), {}, [before]],
    ['one whose removal has begun, and is not kept', unitOf('1.1.0', 'b'), { begun: REMOVAL }, []],
    ['one with a field of another version of the hub', unitOf('1.1.0', 'b'), { digest: later.digest }, [later]],
    ['one whose content is not kept here', unitOf('1.1.0', 'b'), { digest: before.digest }, []],
  ])('passes %s', async (_what, after, record, kept) => {
    expect(await refusal(after, record, kept)).toBeUndefined();
  });
});

it('E19: the content of a release is made once a unit, and all else has its turn in between', async () => {
  let reads = 0;
  const units = (digit: string): Unit[] =>
    Array.from({ length: 20 }, (_, index) => {
      const unit = unitOf(`1.0.${index}`, digit);
      const [release, set] = unit.objects;
      const spec = (release as { spec?: unknown }).spec;
      const watched = Object.defineProperty({ ...release }, 'spec', { get: () => ((reads += 1), spec) }) as KubeObject;
      return { ...unit, key: `MachineComponentSet/kubelet-${index}`, objects: [watched, ...(set === undefined ? [] : [set])] };
    });
  const [before, after] = [units('a'), units('b')];
  const names = Array.from({ length: 10 }, (_, index) => `c${index}`);
  const records = before.map(({ key, digest }): UnitStatus => ({ unit: key, fleet: 'main', inventory: [], digest }));
  let turns = 0;
  let isOver = false;
  const other = (): void => {
    turns += 1;
    if (!isOver) setImmediate(other);
  };
  setImmediate(other);
  const cluster = (name: string): never => ({ apiVersion: API_VERSION, kind: 'Cluster', metadata: { name }, spec: {} }) as never;
  await expect(
    refuseReleaseChanges({
      clusters: names.map((name) => ({ name, object: cluster(name), units: after })),
      recorded: new Map(names.map((name) => [name, records])),
      wanted: new Map(),
      rollouts: [],
      bundles: { get: async (digest) => before.find((unit) => unit.digest === digest) },
    }),
  ).rejects.toMatchObject({ code: 'ImmutableChanged' });
  isOver = true;
  expect(reads).toBe(40);
  expect(turns).toBeGreaterThanOrEqual(40);
});
