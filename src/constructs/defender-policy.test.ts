import { ApiObject } from 'cdk8s';
import { describe, expect, it } from 'vitest';
import { DefenderPolicies } from '../api/defender-policy.ts';
import { Fleet } from './fleet.ts';
import { DefenderPolicy, type Cluster } from './index.ts';

function made(build: (cluster: Cluster) => void): Record<string, unknown>[] {
  const fleet = new Fleet();
  fleet.cluster('prod');
  fleet.allClusters(build);
  const constructs = fleet.build()[0]?.node.root.node.findAll() ?? [];
  return constructs.filter((each) => ApiObject.isApiObject(each)).map((each) => each.toJson() as Record<string, unknown>);
}

describe('a DefenderPolicy', () => {
  it('has budgets, rates, intervals, windows, freezes, actions and a breaker, and is a valid object', () => {
    const spec = {
      limits: [
        { name: 'zone', scope: 'Zone' as const, maxUnavailable: '10%' },
        {
          name: 'repairs',
          scope: 'Condition' as const,
          conditions: ['KernelDeadlock'],
          maxConcurrent: 5,
          maxPerHour: 20,
          maxPerDay: 50,
          minIntervalSeconds: 3600,
        },
      ],
      windows: [
        {
          name: 'nights',
          timeZone: 'Europe/Berlin',
          schedule: '0 1 * * 1-5',
          durationMinutes: 240,
          classes: ['Change' as const],
          pools: ['web'],
        },
      ],
      freezes: [{ name: 'sale', timeZone: 'Asia/Shanghai', from: '2026-11-09T00:00', until: '2026-11-12T00:00', reason: 'double eleven' }],
      actions: [{ selector: { gpu: 'true' }, allowed: ['RestartComponent' as const] }],
      breaker: { scope: 'Rack' as const, unavailableAbove: '30%' },
    };
    const [object] = made((cluster) => void new DefenderPolicy(cluster, 'default', { labels: { team: 'sre' }, ...spec }));
    expect(object).toMatchObject({ kind: 'DefenderPolicy', metadata: { name: 'default', labels: { team: 'sre' } }, spec });
    expect(DefenderPolicies.validate(object)).toEqual([]);
  });

  it('with a validation error is refused where it is rendered, by the same check as in the cluster', () => {
    const [object] = made(
      (cluster) =>
        void new DefenderPolicy(cluster, 'default', {
          limits: [{ name: 'l', scope: 'Cluster' }],
          windows: [{ name: 'w', timeZone: 'Europe/Berln', schedule: '0 1 * * *', durationMinutes: 60 }],
        }),
    );
    expect(DefenderPolicies.validate(object).map(({ path }) => path)).toEqual(['spec.limits[0]', 'spec.windows[0].timeZone']);
  });
});
