import type { Construct } from 'constructs';
import type { MachineSet as MachineSetObject } from '../api/machine-set.ts';
import { KubeNodeObject, type MetadataProps } from './object.ts';
import { insidePool } from './scope.ts';

type Spec = MachineSetObject['spec'];

/**
 * See the kind MachineSet. `provider` may be its name alone. `replicas` and `paused` belong to humans and autoscalers:
 * leave them out and sync does not touch them; set them and Git decides.
 */
export interface MachineSetProps extends MetadataProps, Omit<Spec, 'unitDigest' | 'provider'> {
  provider: string | Spec['provider'];
}

/** `new MachineSet(pool, 'web', { replicas: 4, provider: 'local' })`: N machines of one template, in the pool. */
export class MachineSet extends KubeNodeObject<Spec> {
  constructor(pool: Construct, name: string, { labels, annotations, provider, ...spec }: MachineSetProps) {
    super(
      insidePool(pool, 'MachineSet', name),
      'MachineSet',
      name,
      { labels, annotations },
      {
        ...spec,
        provider: typeof provider === 'string' ? { name: provider } : provider,
      },
    );
  }
}
