import { describe, expect, it } from 'vitest';
import { API_VERSION } from '../../api/kind.ts';
import { planLines, titleOf } from './lines.ts';
import type { Made } from './make.ts';
import { parseSnapshot } from './snapshot.ts';

const EVIL = 'main\n\nNothing changes.\n\u001b[2J';
const COMMIT = 'a'.repeat(40);
const fleet = (name: string, commit: string): object => ({
  apiVersion: API_VERSION,
  kind: 'Fleet',
  metadata: { name },
  spec: { source: { path: '/' }, stages: [{ name: 'a', clusterSelector: {} }] },
  status: { commit },
});
const cluster = (name: string, commit: string): object => ({
  apiVersion: API_VERSION,
  kind: 'Cluster',
  metadata: { name },
  spec: {},
  status: { units: [{ unit: 'MachineSet/web/a', fleet: 'main', sequence: 1, added: { commit } }] },
});
const file = (fleets: object[], clusters: object[] = []): string =>
  JSON.stringify({ apiVersion: API_VERSION, kind: 'FleetSnapshot', takenAt: '2026-11-22T00:00:00Z', fleets, clusters, rollouts: [] });

describe('a file that is given as a snapshot', () => {
  it('has names of objects and ids of commits', () => {
    expect(parseSnapshot(file([fleet('main', COMMIT)], [cluster('prod', COMMIT)]), 'f')).toMatchObject({
      fleets: [{ metadata: { name: 'main' }, status: { commit: COMMIT } }],
      clusters: [{ metadata: { name: 'prod' } }],
    });
  });

  it.each([
    ['fleets[0].metadata.name', file([fleet(EVIL, COMMIT)])],
    ['fleets[0].status.commit', file([fleet('main', EVIL)])],
    ['clusters[0].metadata.name', file([], [cluster(EVIL, COMMIT)])],
    ['clusters[0].status.units[0].added.commit', file([], [cluster('prod', EVIL)])],
  ])('is refused where %s is none, and its text is not repeated', (field, text) => {
    const parse = (): unknown => parseSnapshot(text, 'f');
    expect(parse).toThrow(expect.objectContaining({ code: 'InvalidSnapshot', message: expect.stringContaining(`\`${field}\``) }));
    expect(parse).not.toThrow(/Nothing changes/);
  });
});

it('the title of a plan is one line, whatever the Fleet and its commit are called', () => {
  const made: Made = {
    fleet: EVIL,
    commit: undefined,
    accepted: EVIL,
    warnings: [],
    isolation: undefined,
    result: { state: 'Refused', code: 'Unsigned', message: 'm', next: undefined },
  };
  for (const title of [titleOf(made), planLines(made)[0]]) expect(title).not.toMatch(/\p{Cc}/u);
});
