import type { Construct } from 'constructs';
import type { DefenderPolicy as DefenderPolicyObject } from '../api/defenderpolicy.ts';
import { KubeNodeObject, type MetadataProps } from './object.ts';
import { outsidePools } from './scope.ts';

type Spec = DefenderPolicyObject['spec'];

/** See the kind DefenderPolicy. */
export interface DefenderPolicyProps extends MetadataProps, Omit<Spec, 'unitDigest'> {}

/** `new DefenderPolicy(cluster, 'default', { limits: [{ name: 'pool', scope: 'Pool', maxUnavailable: 1 }] })`. */
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
