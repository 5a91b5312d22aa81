import { describe, expect, it } from 'vitest';
import type { UnitStatus } from '../api/cluster.ts';
import { unitDigest } from '../api/digest.ts';
import { API_VERSION } from '../api/kind.ts';
import type { KubeObject } from '../api/wire.ts';
import { REMOVAL } from './records.ts';
import { refuseReleaseChanges } from './release-changes.ts';

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
async function refusal(after: Unit, record: Partial<UnitStatus>, kept: readonly Unit[]): Promise<unknown> {
  const records: UnitStatus[] = [{ unit: after.key, fleet: 'main', inventory: [], ...record }];
  const object = (name: string): KubeObject => ({ apiVersion: API_VERSION, kind: 'Cluster', metadata: { name } });
  try {
    await refuseReleaseChanges({
      clusters: ['p', 'q', 'new'].map((name) => ({ name, object: { ...object(name), spec: {} } as never, units: [after] })),
      recorded: new Map([
        ['p', records],
        ['q', records],
      ]),
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
      bundles: { get: async (digest) => before.find((unit) => unit.digest === digest) },
    }),
  ).rejects.toMatchObject({ code: 'ImmutableChanged' });
  isOver = true;
  expect(reads).toBe(40);
  expect(turns).toBeGreaterThanOrEqual(40);
});
