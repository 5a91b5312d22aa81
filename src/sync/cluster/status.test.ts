import { describe, expect, it } from 'vitest';
import type { Cluster } from '../../api/cluster.ts';
import type { Stored } from '../../api/wire.ts';
import { statusPatch, type CellView } from './status.ts';

const NOW = Date.parse('2026-11-22T00:00:00Z');
const ORPHANS = { total: 1, first: [{ object: 'MachineSet/web/old', fleet: 'main', reason: 'NotDeclared' as const }] };
const reached: CellView = {
  away: undefined,
  content: { attention: [], machines: { total: 1, ready: 1, sets: [{ set: 'web/web', replicas: 1, wanted: 1 }] }, orphans: ORPHANS },
  uid: 'cell-1',
};
const away: CellView = { away: { reason: 'Timeout', message: 'no answer' }, content: undefined, uid: undefined };
const same = <T>(found: T): T => found;
const clusterWith = (status: object | undefined): Stored<Cluster> =>
  ({
    metadata: { name: 'a', uid: 'u', resourceVersion: '1', generation: 2 },
    spec: {},
    ...(status === undefined ? {} : { status }),
  }) as unknown as Stored<Cluster>;

/** As the API server merges it. */
function after(status: object | undefined, view: CellView): Record<string, unknown> {
  const patch = statusPatch(clusterWith(status), view, same, NOW) as Record<string, unknown> | undefined;
  const merged = { ...status, ...patch };
  return Object.fromEntries(Object.entries(merged).filter(([, value]) => value !== null));
}

describe('the status of a Cluster', () => {
  it('is what its cell has, and is written once', () => {
    const first = after(undefined, reached);
    expect(first).toMatchObject({
      cellUID: 'cell-1',
      machines: { total: 1, ready: 1 },
      orphans: ORPHANS,
      conditions: [{ type: 'Reachable', status: 'True', reason: 'Connected', observedGeneration: 2 }],
    });
    const stored = { ...first, machines: { total: 1, ready: 1, sets: [{ set: 'web/web', replicas: 1, wanted: 1 }] } };
    expect(statusPatch(clusterWith(stored), reached, same, NOW + 60_000)).toBeUndefined();
  });

  it('keeps what was reported last while its cell is away', () => {
    const attention = [{ kind: 'MachineSet', name: 'web', reason: 'Stuck', message: 'm' }];
    const stored = { ...after(undefined, reached), attention };
    const found = after(stored, away);
    expect(found).toMatchObject({ cellUID: 'cell-1', attention, machines: { total: 1, ready: 1 }, orphans: ORPHANS });
    expect(found['conditions']).toMatchObject([{ status: 'False', reason: 'Timeout', message: 'no answer' }]);
  });

  it('reports which cluster is reached, also where another one was reached before', () => {
    expect(after({ ...after(undefined, reached) }, { ...reached, uid: 'cell-2' })).toMatchObject({ cellUID: 'cell-2' });
  });

  it('names no orphans that are gone', () => {
    const { content } = reached;
    if (content === undefined) throw new Error('it has content');
    expect(after(after(undefined, reached), { ...reached, content: { ...content, orphans: undefined } })).not.toHaveProperty('orphans');
  });

  it('replaces the list of sets where the cell has too many to list', () => {
    const { content } = reached;
    if (content === undefined) throw new Error('it has content');
    const patch = statusPatch(
      clusterWith(after(undefined, reached)),
      { ...reached, content: { ...content, machines: { total: 9, ready: 9 } } },
      same,
      NOW,
    );
    expect(patch).toMatchObject({ machines: { sets: null, total: 9, ready: 9 } });
  });
});
