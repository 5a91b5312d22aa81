import { describe, expect, it } from 'vitest';
import type { Cluster, UnitStatus } from '../../api/cluster.ts';
import type { Fleet } from '../../api/fleet.ts';
import { FINALIZERS } from '../../api/names.ts';
import type { Rollout } from '../../api/rollout.ts';
import type { Stored } from '../../api/wire.ts';
import { ApiError } from '../../kube/api-error.ts';
import type { Client } from '../../kube/client.ts';
import { addFinalizer, ClusterKeeper } from './finalizer.ts';

const { signal } = new AbortController();
const UNIT = 'MachineSet/web/web';
const halt = { digest: 'A', message: 'too many failed', since: '2026-11-22T00:00:00Z' };
const record = (more: Partial<UnitStatus> = {}): UnitStatus => ({ unit: UNIT, fleet: 'main', ...more });

interface World {
  units?: UnitStatus[];
  finalizers?: string[];
  isDeleted?: boolean;
  /** What the rollouts in force want in the cluster. */
  wanted?: { name: string; digest?: string }[];
  members?: string[];
  fleets?: string[];
  fails?: Error;
}

async function kept({ units = [], finalizers = [], isDeleted = false, wanted = [], members, fleets = ['main'], fails }: World, passes = 1) {
  const cluster = {
    metadata: {
      name: 'a',
      uid: 'u',
      resourceVersion: '7',
      finalizers,
      ...(isDeleted ? { deletionTimestamp: '2026-11-22T00:00:00Z' } : {}),
    },
    status: { units },
  } as unknown as Stored<Cluster>;
  const patches: unknown[] = [];
  const hub = {
    patch: (_kind: unknown, key: { name: string }, { merge }: { merge: { metadata: object } }) => {
      patches.push({ ...key, ...merge.metadata });
      return fails === undefined ? Promise.resolve(cluster) : Promise.reject(fails);
    },
  } as unknown as Client;
  const fleetOf = (name: string) =>
    ({ metadata: { name }, status: members === undefined ? {} : { clusters: members } }) as unknown as Stored<Fleet>;
  const rollout = { spec: { sequence: 1, units: [{ unit: UNIT, clusters: wanted }] } } as unknown as Stored<Rollout>;
  const events: string[] = [];
  const keeper = new ClusterKeeper({
    // Only these parts of stores are used.
    clusters: { list: () => [cluster] } as never,
    fleets: {
      list: () => fleets.map(fleetOf),
      get: ({ name }: { name: string }) => (fleets.includes(name) ? fleetOf(name) : undefined),
    } as never,
    inForceOf: () => [rollout],
    recorder: {
      event: (_on: unknown, { reason, message }: { reason: string; message: string }) => events.push(`${reason}: ${message}`),
    } as never,
    signal,
  });
  for (let pass = 0; pass < passes; pass += 1) await keeper.keep(hub);
  return { patches, events };
}

const OURS = [FINALIZERS.records];
const added = [{ name: 'a', resourceVersion: '7', finalizers: ['other', FINALIZERS.records] }];
const released = [{ name: 'a', resourceVersion: '7', finalizers: ['other'] }];
const there = { digest: 'A' };

describe('E13: a Cluster', () => {
  it.each<[string, World, unknown[]]>([
    ['with a halt is kept', { units: [record({ halt })] }, added],
    ['with a halt of a Fleet that is gone is not', { units: [record({ halt })], fleets: [] }, []],
    ['without one is not', { units: [record(there)] }, []],
    ['where a commit removes what is there is kept', { units: [record(there)], wanted: [{ name: 'a' }] }, added],
    [
      'where it is gone but for its inventory is kept',
      { units: [record({ inventory: [{ apiVersion: 'v1', kind: 'ConfigMap', name: 'x' }] })], wanted: [{ name: 'a' }] },
      added,
    ],
    ['where it is gone is not', { units: [record({ inventory: [] })], wanted: [{ name: 'a' }] }, []],
    ['where it is removed in another cluster is not', { units: [record(there)], wanted: [{ name: 'b' }] }, []],
    ['where the commit wants it is not', { units: [record(there)], wanted: [{ name: 'a', digest: 'A' }] }, []],
    ['that the Fleet declares is kept for a removal', { units: [record(there)], wanted: [{ name: 'a' }], members: ['a'] }, added],
    ['that the Fleet declares no more is not', { units: [record(there)], wanted: [{ name: 'a' }], members: ['b'] }, []],
    ['that is being deleted takes no new finalizer', { units: [record({ halt })], isDeleted: true }, []],
  ])('%s', async (_what, world, patches) => {
    expect((await kept({ ...world, finalizers: ['other'] })).patches).toEqual(patches);
  });

  it('is released when nothing keeps it any more, conditioned on what was read, and keeps the finalizers of others', async () => {
    expect((await kept({ finalizers: ['other', ...OURS] })).patches).toEqual(released);
    expect((await kept({ finalizers: OURS, units: [record({ halt })] })).patches).toEqual([]);
  });

  it('that is deleted and kept reports once why, and what ends it', async () => {
    const { events, patches } = await kept(
      { finalizers: OURS, isDeleted: true, units: [record({ halt, ...there })], wanted: [{ name: 'a' }] },
      3,
    );
    expect(patches).toEqual([]);
    expect(events).toHaveLength(1);
    expect(events[0]).toMatch(/^DeletionHeld: .*MachineSet\/web\/web.*kubenode rollout retry.*; .*removes.*MachineSet\/web\/web$/);
  });

  it('that another writes at that moment is left to the next pass, and any other failure shows', async () => {
    const conflict = (reason: 'Conflict' | 'NotFound' | 'Forbidden', code: number) => new ApiError(code, { reason, message: reason });
    await expect(kept({ finalizers: OURS, fails: conflict('Conflict', 409) })).resolves.toBeDefined();
    await expect(kept({ finalizers: OURS, fails: conflict('NotFound', 404) })).resolves.toBeDefined();
    await expect(kept({ finalizers: OURS, fails: conflict('Forbidden', 403) })).rejects.toThrow('Forbidden');
  });

  it('reports whether the finalizer was written', async () => {
    const hub = { patch: () => Promise.resolve({}) } as unknown as Client;
    const of = (metadata: object) => ({ metadata: { name: 'a', resourceVersion: '1', ...metadata } }) as unknown as Stored<Cluster>;
    expect(await addFinalizer(hub, of({}), signal)).toBe(true);
    expect(await addFinalizer(hub, of({ finalizers: OURS }), signal)).toBe(false);
    expect(await addFinalizer(hub, of({ deletionTimestamp: 'x' }), signal)).toBe(false);
  });
});
