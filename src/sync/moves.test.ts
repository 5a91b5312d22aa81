import { describe, expect, test } from 'vitest';
import type { Cluster } from '../api/cluster.ts';
import type { Fleet } from '../api/fleet.ts';
import { API_VERSION } from '../api/kind.ts';
import { refuseMoves } from './moves.ts';

const fleet: Fleet = {
  apiVersion: API_VERSION,
  kind: 'Fleet',
  metadata: { name: 'main' },
  spec: {
    source: { path: '/x' },
    stages: [
      { name: 'test', clusterSelector: { stage: 'test' } },
      { name: 'prod', clusterSelector: { stage: 'prod' } },
      { name: 'far', clusterSelector: { zone: 'far' } },
    ],
  },
};
const HEAD = 'a'.repeat(40);
const records = [{ unit: 'NodeRemedier/r', fleet: 'main', digest: 'd1' }];

function clusterOf(labels: Record<string, string>, rest: Partial<Pick<Cluster, 'spec' | 'status'>> = {}): Cluster {
  return { apiVersion: API_VERSION, kind: 'Cluster', metadata: { name: 'z-good', labels }, spec: {}, ...rest };
}

interface World {
  before: Cluster | undefined;
  after: Cluster;
  accepted?: string;
  isWanted?: boolean;
}

/** Why the commit is refused; undefined: it is not. */
function refusal({
  before,
  after,
  accepted,
  isWanted = false,
  head = HEAD,
}: World & { head?: string }): { code: string; message: string; next: string } | undefined {
  try {
    refuseMoves({
      fleet: { ...fleet, spec: { ...fleet.spec, ...(accepted === undefined ? {} : { acceptMoves: accepted }) } },
      head,
      declared: [after],
      clusters: before === undefined ? [] : [before],
      isWanted: () => isWanted,
    });
    return undefined;
  } catch (error) {
    return error as { code: string; message: string; next: string };
  }
}

describe('E7a: a commit does not choose by which stage a known cluster is judged', () => {
  const before = clusterOf({ stage: 'prod' }, { status: { units: records } });

  test('a cluster that has records stays in its stage, and the refusal names both stages and the command that accepts it', () => {
    expect(refusal({ before, after: clusterOf({ stage: 'test' }) })).toMatchObject({
      code: 'ClusterMoved',
      verdict: true,
      message: 'the commit would move clusters: "z-good" from stage "prod" to stage "test"; nothing was changed',
      next: `check it, and keep them where they are; or accept it: kubectl patch fleet main --type merge -p '{"spec":{"acceptMoves":"${HEAD}"}}'`,
    });
  });

  test('files that are no commit yet cannot be accepted', () => {
    expect(refusal({ before, after: clusterOf({ stage: 'test' }), head: '' })?.next).toBe(
      'keep them where they are; or commit it, and accept that very commit: kubenode plan HEAD prints the command',
    );
  });

  test.each([
    ['to a later stage', { stage: '', zone: 'far' }],
    ['to an earlier stage, by a label more', { stage: 'test', zone: 'far' }],
    ['out of every stage', {}],
  ])('also %s', (_what, labels: Record<string, string>) => {
    expect(refusal({ before, after: clusterOf(labels) })?.code).toBe('ClusterMoved');
  });

  test('also where it was in no stage', () => {
    const lost = clusterOf({ stage: 'lab' }, { status: { units: records } });
    expect(refusal({ before: lost, after: clusterOf({ stage: 'prod' }) })?.message).toContain('from no stage to stage "prod"');
  });

  test('also where a rollout wants something there that nothing is recorded of yet', () => {
    const fresh = clusterOf({ stage: 'prod' });
    expect(refusal({ before: fresh, after: clusterOf({ stage: 'test' }), isWanted: true })?.code).toBe('ClusterMoved');
  });

  test('goes on where the Fleet accepts exactly this head', () => {
    const after = clusterOf({ stage: 'test' });
    expect(refusal({ before, after, accepted: HEAD })).toBeUndefined();
    expect(refusal({ before, after, accepted: 'b'.repeat(40) })?.code).toBe('ClusterMoved');
  });

  test.each<[string, World]>([
    ['a new cluster', { before: undefined, after: clusterOf({ stage: 'test' }) }],
    ['a cluster that nothing was given to', { before: clusterOf({ stage: 'prod' }), after: clusterOf({ stage: 'test' }) }],
    ['labels that select the same stage', { before, after: clusterOf({ stage: 'prod', zone: 'far', more: 'x' }) }],
  ])('is free for %s', (_what, world) => {
    expect(refusal(world)).toBeUndefined();
  });
});

describe('E15, E7a: a commit does not choose by which records a cell is judged', () => {
  const before = clusterOf({ stage: 'prod' }, { status: { units: records, cellUID: 'u1' } });

  test('a known cluster that would stand for another cell waits for a person', () => {
    const after = clusterOf({ stage: 'prod' }, { spec: { cellUID: 'u2' } });
    expect(refusal({ before, after })?.message).toBe(
      'the commit would move clusters: "z-good" from cell u1 to cell u2; nothing was changed',
    );
    expect(refusal({ before, after, accepted: HEAD })).toBeUndefined();
  });

  test('what was accepted is not asked for again, also while that cell was not reached yet', () => {
    const accepted = clusterOf({ stage: 'prod' }, { spec: { cellUID: 'u2' }, status: { units: records, cellUID: 'u1' } });
    expect(refusal({ before: accepted, after: clusterOf({ stage: 'prod' }, { spec: { cellUID: 'u2' } }) })).toBeUndefined();
    expect(refusal({ before: accepted, after: clusterOf({ stage: 'prod' }) })?.message).toContain('from cell u2 to cell u1');
  });

  test('the cell that was reached may be named, and no more be named', () => {
    const named = clusterOf({ stage: 'prod' }, { spec: { cellUID: 'u1' } });
    expect(refusal({ before, after: named })).toBeUndefined();
    expect(
      refusal({ before: { ...before, ...named, status: { units: records, cellUID: 'u1' } }, after: clusterOf({ stage: 'prod' }) }),
    ).toBeUndefined();
  });
});

describe('E7a: a commit does not choose by which name a cell is known', () => {
  const secret = (name: string, namespace?: string): Cluster['spec'] => ({
    kubeconfigSecret: { name, ...(namespace === undefined ? {} : { namespace }) },
  });
  const named = (name: string, spec: Cluster['spec'] = {}): Cluster => ({
    ...clusterOf({ stage: 'prod' }, { spec }),
    metadata: { name, labels: { stage: 'test' } },
  });
  const before = clusterOf({ stage: 'prod' }, { status: { units: records } });
  const judged = (declared: Cluster[], clusters: Cluster[] = [before], accepted?: string): string | undefined => {
    try {
      const spec = { ...fleet.spec, ...(accepted === undefined ? {} : { acceptMoves: accepted }) };
      refuseMoves({ fleet: { ...fleet, spec }, head: HEAD, declared, clusters, isWanted: () => false });
      return undefined;
    } catch (error) {
      return (error as Error).message;
    }
  };

  test('a new name with the kubeconfig of a known cluster waits for a person, whether that one is still declared or not', () => {
    const renamed = named('y-good', secret('cluster-z-good'));
    const message =
      'the commit would move clusters: "y-good" to Secret kubenode-system/cluster-z-good, which is that of "z-good"; nothing was changed';
    expect([judged([renamed]), judged([before, renamed])]).toEqual([message, message]);
    expect(judged([named('y-good', secret('cluster-z-good', 'kubenode-system'))])).toBe(message);
    expect(judged([renamed], [before], HEAD)).toBeUndefined();
    expect(judged([named('cluster', secret('other'))])).toBeUndefined();
  });

  test('so does one that a commit declares beside another new one', () => {
    expect(judged([named('a'), named('b', secret('cluster-a'))], [])).toContain(
      '"b" to Secret kubenode-system/cluster-a, which is that of "a"',
    );
  });

  test('a known cluster does not give its kubeconfig free by naming another one', () => {
    expect(judged([{ ...before, spec: secret('none') }])).toContain(
      '"z-good" from Secret kubenode-system/cluster-z-good to Secret kubenode-system/none',
    );
    expect(judged([{ ...before, spec: secret('cluster-z-good') }])).toBeUndefined();
  });

  test('what was accepted is not asked for again', () => {
    const renamed = named('y-good', secret('cluster-z-good'));
    expect(judged([renamed], [before, renamed])).toBeUndefined();
  });
});

test('all that moves is named, the first twenty', () => {
  const many = Array.from({ length: 22 }, (_, index) => {
    const metadata = { name: `c${index}`, labels: { stage: 'prod' } };
    return { ...clusterOf({}), metadata, status: { units: records } };
  });
  const declared = many.map((each) => ({ ...each, metadata: { ...each.metadata, labels: { stage: 'test' } } }));
  const all = (): void => refuseMoves({ fleet, head: HEAD, declared, clusters: many, isWanted: () => false });
  expect(all).toThrow('"c19" from stage "prod" to stage "test", and 2 more; nothing was changed');
});
