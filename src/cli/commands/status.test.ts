import { describe, expect, test } from 'vitest';
import type { Attention, Cluster } from '../../api/cluster.ts';
import type { Fleet } from '../../api/fleet.ts';
import { API_VERSION } from '../../api/kind.ts';
import type { Rollout } from '../../api/rollout.ts';
import type { Output } from '../output.ts';
import { report } from './status.ts';

const NOW = Date.parse('2026-11-20T01:00:00Z');

const fleet = (clusters: string[] | undefined): Fleet => ({
  apiVersion: API_VERSION,
  kind: 'Fleet',
  metadata: { name: 'main' },
  spec: { source: { path: '/x' }, stages: [{ name: 'all', clusterSelector: {} }] },
  status: {
    ...(clusters === undefined ? {} : { clusters }),
    conditions: [{ type: 'Ready', status: 'True', reason: 'Accepted', message: '', lastTransitionTime: '2026-11-20T00:00:00Z' }],
  },
});
const cluster = (name: string, attention: Attention[] = []): Cluster => ({
  apiVersion: API_VERSION,
  kind: 'Cluster',
  metadata: { name },
  spec: {},
  status: { attention, machines: { total: 4, ready: 3 } },
});
const away = (since: string): Attention => ({
  object: 'MachineSet/web/web',
  type: 'Available',
  reason: 'TooFew',
  message: '3 of 4 machines are available',
  since,
});
const human: Attention = {
  object: 'NodeRemedier/readonly-filesystem',
  type: 'NeedsHuman',
  reason: 'LadderOver',
  message: 'a person is asked for node-a (job j)',
  since: '2026-11-20T00:59:00Z',
};

function status(
  fleets: Fleet[],
  clusters: Cluster[],
  json = false,
  rollouts: Rollout[] = [],
): { code: number; lines: string[]; printed: string } {
  const lines: string[] = [];
  let printed = '';
  const output: Output = {
    print: (text) => void (printed += `${text}\n`),
    report: (word, message) => void lines.push(`${word}: ${message}`),
    live: false,
    plain: true,
  };
  const code = report(fleets, clusters, rollouts, NOW, json, output);
  return { code, lines, printed };
}

test('is 0 and prints nothing more where nothing needs a person', () => {
  expect(status([fleet(['prod'])], [cluster('prod')])).toMatchObject({ code: 0, lines: [] });
});

test('is 1, with a line each, for what a cell reports that needs a person', () => {
  expect(status([fleet(['prod'])], [cluster('prod', [human])])).toMatchObject({
    code: 1,
    lines: ['failed: prod: NodeRemedier/readonly-filesystem: LadderOver: a person is asked for node-a (job j) (for 60s)'],
  });
});

test('machines that are away for a short while need no person, and are reported; after a long time they do', () => {
  const since = (minutes: number): string => new Date(NOW - minutes * 60_000).toISOString();
  expect(status([fleet(['prod'])], [cluster('prod', [away(since(9))])])).toMatchObject({
    code: 0,
    lines: ['waiting: prod: MachineSet/web/web: TooFew: 3 of 4 machines are available (for 9m)'],
  });
  expect(status([fleet(['prod'])], [cluster('prod', [away(since(10))])])).toMatchObject({
    code: 1,
    lines: ['failed: prod: MachineSet/web/web: TooFew: 3 of 4 machines are available (for 10m)'],
  });
});

test('a cluster that no fleet declares is reported as unmanaged, unless what is declared is not known', () => {
  const { code, lines } = status([fleet(['prod'])], [cluster('prod'), cluster('old')]);
  expect(code).toBe(1);
  expect(lines).toEqual([expect.stringMatching(/^failed: cluster\/old: no fleet declares it.*kubectl delete cluster old$/)]);
  expect(status([fleet(['prod']), fleet(undefined)], [cluster('old')])).toMatchObject({ code: 0 });
  expect(status([], [cluster('old')])).toMatchObject({ code: 0 });
});

test('a cluster whose deletion waits is reported as waiting', () => {
  const waiting = cluster('prod');
  waiting.metadata.deletionTimestamp = '2026-11-20T00:00:00Z';
  expect(status([fleet(['prod'])], [waiting])).toMatchObject({
    code: 1,
    lines: ['failed: cluster/prod: its deletion waits; kubectl describe cluster prod shows for what'],
  });
});

test('rollouts are shown that are under way, of fleets that there are', () => {
  const rollout = (fleet: string): Rollout => ({
    apiVersion: API_VERSION,
    kind: 'Rollout',
    metadata: { name: `${fleet}-1` },
    spec: { fleet, commit: 'c', sequence: 1, stages: [], units: [{ unit: 'Namespace/web', clusters: [] }] },
    status: { phase: 'Progressing', units: [{ unit: 'Namespace/web', phase: 'Progressing', lane: 'Forward' }] },
  });
  expect(status([fleet(['prod'])], [], false, [rollout('main')]).printed).toContain('main-1    Namespace/web   Progressing');
  const { printed } = status([fleet(['prod'])], [], false, [rollout('gone')]);
  expect(printed).toContain('No rollout is under way.');
});

test('a unit that a cluster refuses, though it answers, needs a person', () => {
  const rollout: Rollout = {
    apiVersion: API_VERSION,
    kind: 'Rollout',
    metadata: { name: 'main-1' },
    spec: { fleet: 'main', commit: 'c', sequence: 1, stages: [], units: [{ unit: 'Namespace/web', clusters: [] }] },
    status: {
      phase: 'Progressing',
      units: [
        {
          unit: 'Namespace/web',
          phase: 'Progressing',
          lane: 'Forward',
          clusters: [{ name: 'prod', phase: 'Blocked', lane: 'Forward', message: 'namespaces are forbidden' }],
        },
      ],
    },
  };
  const reached = (status: 'True' | 'False', paused = false): Cluster => {
    const one = cluster('prod');
    const condition = { type: 'Reachable', status, reason: 'x', message: 'no route', lastTransitionTime: '2026-11-20T00:00:00Z' };
    return { ...one, spec: { ...one.spec, paused }, status: { ...one.status, conditions: [condition] } };
  };
  const line =
    'failed: rollout/main-1: Namespace/web cannot be applied in prod: namespaces are forbidden; next: remove the cause, or commit other content';
  expect(status([fleet(['prod'])], [reached('True')], false, [rollout])).toMatchObject({ code: 1, lines: [line] });
  expect(status([fleet(['prod'])], [reached('True', true)], false, [rollout])).toMatchObject({ code: 0, lines: [] });
  expect(status([fleet(['prod'])], [reached('False')], false, [rollout]).lines).toEqual(['failed: cluster/prod: no route']);
});

test('as JSON it has the same, in fields', () => {
  const { code, printed } = status([fleet(['prod'])], [cluster('prod', [human, away('2026-11-20T00:59:00Z')])], true);
  const parsed = JSON.parse(printed) as { clusters: { attention: Attention[] }[]; trouble: string[] };
  expect(code).toBe(1);
  expect(parsed.clusters[0]?.attention).toEqual([human, away('2026-11-20T00:59:00Z')]);
  expect(parsed.trouble).toHaveLength(1);
});

describe('a halt that the hub has on record', () => {
  const halted = (fleetName = 'main'): Cluster => {
    const one = cluster('prod');
    const halt = { digest: 'd', message: '1 of 40 machines failed', since: '2026-11-20T00:58:00Z' };
    one.status = { ...one.status, units: [{ unit: 'MachineComponentSet/kubelet', fleet: fleetName, digest: 'd', halt }] };
    return one;
  };
  const rollout = (sequence: number, phase: 'Done' | 'Halted'): Rollout => ({
    apiVersion: API_VERSION,
    kind: 'Rollout',
    metadata: { name: `main-${sequence}` },
    spec: { fleet: 'main', commit: 'c', sequence, stages: [], units: [{ unit: 'MachineComponentSet/kubelet', clusters: [] }] },
    status: {
      phase,
      units: [
        {
          unit: 'MachineComponentSet/kubelet',
          phase,
          lane: 'Forward',
          ...(phase === 'Halted' ? { message: 'prod: 1 of 40 machines failed' } : {}),
        },
      ],
    },
  });

  test('is a line with the way out where its rollout was done long ago', () => {
    expect(status([fleet(['prod'])], [halted()], false, [rollout(7, 'Done'), rollout(8, 'Done')])).toMatchObject({
      code: 1,
      lines: ['failed: prod: MachineComponentSet/kubelet is halted for 2m: 1 of 40 machines failed; next: kubenode rollout retry main-8'],
    });
    expect(status([fleet(['prod'])], [halted()])).toMatchObject({
      code: 1,
      lines: [expect.stringContaining('next: a commit that changes it')],
    });
  });

  test('is reported once where a rollout under way reports it, and not for a fleet that is gone', () => {
    expect(status([fleet(['prod'])], [halted()], false, [rollout(8, 'Halted')]).lines).toEqual([
      'failed: rollout/main-8: MachineComponentSet/kubelet: prod: 1 of 40 machines failed',
    ]);
    expect(status([fleet(['prod'])], [halted('gone')])).toMatchObject({ code: 0, lines: [] });
  });
});

test('of a condition that was False for another reason before it reports only how long there was no progress', () => {
  const paused: Attention = {
    object: 'MachineSet/web/web',
    type: 'Progressing',
    reason: 'Paused',
    message: 'spec.paused',
    since: '2026-11-20T00:53:30Z',
  };
  expect(status([fleet(['prod'])], [cluster('prod', [paused])]).lines).toEqual([
    'failed: prod: MachineSet/web/web: Paused: spec.paused (no progress for 6m30s)',
  ]);
});

describe('E17: what bears the label of a Fleet, and nothing on the hub has', () => {
  const withOrphans = (orphans: NonNullable<NonNullable<Cluster['status']>['orphans']>): Cluster => {
    const one = cluster('prod');
    return { ...one, status: { ...one.status, orphans } };
  };

  test('is a line each, with what to do', () => {
    const first = [
      { object: 'MachineSet/web/old', fleet: 'main', reason: 'NotDeclared' as const },
      { object: 'NodeRemedier/hung', fleet: 'gone', reason: 'FleetAbsent' as const },
    ];
    const { code, lines } = status([fleet(['prod'])], [withOrphans({ total: 2, first })]);
    expect(code).toBe(1);
    expect(lines).toEqual([
      expect.stringMatching(/^failed: prod: MachineSet\/web\/old: no commit of Fleet main .*next: declare it in fleet\/, /),
      expect.stringMatching(/^failed: prod: NodeRemedier\/hung: Fleet gone, .* does not exist, .*next: create that Fleet again, /),
    ]);
    const { printed } = status([fleet(['prod'])], [withOrphans({ total: 2, first })], true);
    expect(JSON.parse(printed)).toMatchObject({ clusters: [{ orphans: { total: 2, first } }] });
  });

  test('is counted where there is more than a Cluster names', () => {
    const first = [{ object: 'MachineSet/web/old', fleet: 'main', reason: 'NotDeclared' as const }];
    expect(status([fleet(['prod'])], [withOrphans({ total: 25, first })]).lines[1]).toBe(
      'failed: prod: 24 more objects like these; next: kubectl get machinesets,machinecomponentsets,noderemediers,defenderpolicies -A -l kubenode.io/fleet, there',
    );
  });
});
