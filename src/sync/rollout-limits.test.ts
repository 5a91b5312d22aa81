import { describe, expect, it } from 'vitest';
import { unitDigest } from '../api/digest.ts';
import type { Fleet } from '../api/fleet.ts';
import { API_VERSION } from '../api/kind.ts';
import { Rollouts, type Rollout } from '../api/rollout.ts';
import { rolloutOf } from './fleet/decide.ts';
import { plan } from './plan.ts';
import { decide } from './rollout/decide.ts';
import { fitStatus, MOST_BYTES } from './rollout-limits.ts';

const fleet: Fleet = {
  apiVersion: API_VERSION,
  kind: 'Fleet',
  metadata: { name: 'main' },
  spec: { source: { path: '/x' }, stages: [{ name: 'prod', clusterSelector: { stage: 'prod' }, maxClusters: 10 }] },
};
const digestOf = (text: string): string => unitDigest([{ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: text } }]);
const namesOf = (clusters: number): string[] => Array.from({ length: clusters }, (_, index) => `prod-eu-west-${index}`);

/** A commit that changes all units on all clusters. */
function planned(clusters: number, units: number): ReturnType<typeof plan> {
  const names = namesOf(clusters);
  const digests = (version: string) =>
    new Map(Array.from({ length: units }, (_, index) => [`MachineComponentSet/component-${index}`, digestOf(`${version}-${index}`)]));
  const [after, before] = [digests('2'), digests('1')];
  return plan({
    fleet,
    rendered: new Map(names.map((name) => [name, after])),
    wanted: new Map(names.map((name) => [name, before])),
    labels: new Map(names.map((name) => [name, { stage: 'prod' }])),
  });
}

function rolloutFor(clusters: number, units: number): Rollout & { status: NonNullable<Rollout['status']> } {
  const rollout = rolloutOf(fleet, undefined, 'c'.repeat(40), planned(clusters, units), 2);
  const world = { now: Date.now(), fleet: 'main', members: new Set(namesOf(clusters)), rollouts: [rollout], clusters: new Map() };
  return { ...rollout, status: decide(world).statuses.get('main-2') ?? {} };
}

describe('E18: a commit is one Rollout that an API server stores', () => {
  it.each([
    [1, 501, 'it changes 501 units on up to 1 clusters each, 501 (unit, cluster) pairs in all; one Rollout has at most 500 units'],
    [501, 1, 'at most 500 units and 500 clusters of each'],
    [300, 50, 'it changes 50 units on up to 300 clusters each, 15000 (unit, cluster) pairs in all; its Rollout would have up to'],
  ])('a commit that changes on %i clusters %i units is refused by a verdict that reports the limit', (clusters, units, message) => {
    expect(() => planned(clusters, units)).toThrow(
      expect.objectContaining({
        code: 'CommitTooLarge',
        verdict: true,
        message: expect.stringContaining(message) as unknown,
        next: expect.stringContaining('split the commit') as unknown,
      }),
    );
  });

  it('one that is not refused is valid, and has room for its status: here 2,200 pairs', () => {
    const rollout = rolloutFor(220, 10);
    expect(Rollouts.validate(rollout)).toEqual([]);
    expect(JSON.stringify(rollout).length).toBeLessThan(MOST_BYTES);
    expect(Rollouts.validate(rolloutFor(1, 500))).toEqual([]);
  });

  it('messages are cut where the status would not fit, of placements first; what is small stays as it is', () => {
    const rollout = rolloutFor(220, 10);
    const long = 'no route to its API server, "x" '.repeat(32);
    const spoken = {
      ...rollout.status,
      units: (rollout.status.units ?? []).map((unit) => ({
        ...unit,
        message: long,
        clusters: (unit.clusters ?? []).map((placement) => ({ ...placement, message: long })),
      })),
    };
    const fitted = fitStatus(rollout, spoken);
    expect(JSON.stringify({ ...rollout, status: spoken }).length).toBeGreaterThan(MOST_BYTES);
    expect(JSON.stringify({ ...rollout, status: fitted }).length).toBeLessThan(MOST_BYTES);
    expect(fitted.units?.map(({ message }) => message)).toEqual(Array.from({ length: 10 }, () => long));
    expect(fitted.units?.[0]?.clusters?.[0]).toMatchObject({ name: 'prod-eu-west-0', phase: 'Blocked' });
    expect(Rollouts.validate({ ...rollout, status: fitted })).toEqual([]);
    const small = rolloutFor(3, 10);
    expect(fitStatus(small, small.status)).toBe(small.status);
  });
});
