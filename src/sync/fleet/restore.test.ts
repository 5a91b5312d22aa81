import { describe, expect, test } from 'vitest';
import { Clusters, type UnitStatus } from '../../api/cluster.ts';
import { API_VERSION } from '../../api/kind.ts';
import { REMOVAL } from '../records.ts';
import { restoresIn } from './restore.ts';

const UNIT = 'MachineSet/web/a';
const verified = (...digests: string[]): NonNullable<UnitStatus['verified']> =>
  digests.map((digest, index) => ({ digest, commit: 'c', at: '2026-11-20T00:00:00Z', order: index + 1 }));
/** The typo `B` took the place of `A`, which was proven. */
const TYPO: UnitStatus = { unit: UNIT, fleet: 'main', digest: 'B', verified: verified('A') };
const ADDED: UnitStatus = { unit: UNIT, fleet: 'main', digest: 'B', added: { commit: 'c' } };

function restores(
  record: UnitStatus | undefined,
  digest: string | undefined,
  { paused = false, elsewhere = [] as string[] } = {},
): boolean {
  const clusters = ['prod', 'test'].map((name) =>
    Clusters.parse({ apiVersion: API_VERSION, kind: 'Cluster', metadata: { name }, spec: { paused: paused && name === 'prod' } }),
  );
  const other: UnitStatus = { unit: UNIT, fleet: 'main', digest: 'A', revoked: elsewhere };
  const recorded = new Map([
    ['prod', record === undefined ? [] : [record]],
    ['test', [other]],
  ]);
  return restoresIn('main', clusters, recorded)('prod', UNIT, digest);
}

describe('E9: what takes back at once what was never proven', () => {
  test.each<[string, UnitStatus, string | undefined]>([
    ['to what was proven there', TYPO, 'A'],
    ['while it is being written', { ...TYPO, digest: 'A', begun: 'B' }, 'A'],
    ['of what is new there', ADDED, undefined],
  ])('is a way back %s', (_what, record, digest) => {
    expect(restores(record, digest)).toBe(true);
    expect(restores(record, digest, { paused: true })).toBe(false);
    expect(restores({ ...record, fleet: 'other' }, digest)).toBe(false);
  });
  test.each<[string, UnitStatus | undefined, string | undefined]>([
    ['of what was proven too', { ...TYPO, verified: verified('A', 'B') }, 'A'],
    ['to what was not proven there', TYPO, 'C'],
    ['to what was revoked there', { ...TYPO, revoked: ['A'] }, 'A'],
    ['of what is not there yet', { ...TYPO, digest: 'A' }, 'A'],
    ['of what is being removed', { ...TYPO, begun: REMOVAL }, 'A'],
    ['that nothing is on record of', undefined, 'A'],
    ['that removes what was there before', TYPO, undefined],
    ['that removes what was proven', { ...ADDED, verified: verified('B') }, undefined],
    ['that removes what was proven once', { ...ADDED, added: { commit: 'c', verifiedAt: '2026-11-20T00:00:00Z' } }, undefined],
  ])('is no change %s', (_what, record, digest) => {
    expect(restores(record, digest)).toBe(false);
  });
  test('is none to what was revoked in another cluster', () => {
    expect(restores(TYPO, 'A', { elsewhere: ['A'] })).toBe(false);
  });
});
