import type { Construct } from 'constructs';
import type { DefenderPolicy as DefenderPolicyObject } from '../api/defender-policy.ts';
import { KubeNodeObject, type MetadataProps } from './object.ts';
import { outsidePools } from './scope.ts';

type Spec = DefenderPolicyObject['spec'];

/** See the kind DefenderPolicy. */
export interface DefenderPolicyProps extends MetadataProps, Omit<Spec, 'unitDigest'> {}

/**
 * How much of a cluster may be disrupted at once, how often, when, and by which repairs:
 *
 * ```ts
 * new DefenderPolicy(cluster, 'default', {
 *   limits: [
 *     { name: 'zone', scope: 'Zone', maxUnavailable: '10%' },
 *     { name: 'repairs', scope: 'Cluster', classes: ['Repair'], maxConcurrent: 5, maxPerHour: 20, minIntervalSeconds: 3600 },
 *   ],
 *   windows: [{ name: 'nights', timeZone: 'Europe/Berlin', schedule: '0 1 * * 1-5', durationMinutes: 240, classes: ['Change'] }],
 *   freezes: [{ name: 'sale', timeZone: 'Asia/Shanghai', from: '2026-11-09T00:00', until: '2026-11-12T00:00', reason: 'double eleven' }],
 *   actions: [{ selector: { gpu: 'true' }, allowed: ['RestartComponent'] }],
 *   breaker: { scope: 'Rack', unavailableAbove: '30%' },
 * });
 * ```
 */
export class DefenderPolicy extends KubeNodeObject<Spec> {
  constructor(cluster: Construct, name: string, { labels, annotations, ...spec }: DefenderPolicyProps) {
    super(
      outsidePools(cluster, 'DefenderPolicy', name, "limits: [{ scope: 'Pool', pools: ['…'] }]"),
      'DefenderPolicy',
      name,
      { labels, annotations },
      spec,
    );
  }
}
