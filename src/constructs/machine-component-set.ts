import type { Construct } from 'constructs';
import { canonical } from '../api/digest.ts';
import type { MachineComponentSet as MachineComponentSetObject } from '../api/machine-component-set.ts';
import { FleetError } from './errors.ts';
import { KubeNodeObject, type MetadataProps } from './object.ts';
import { originOf, rememberOrigin } from './origin.ts';
import { Release } from './release.ts';
import { Cluster, outsidePools, type Pool } from './scope.ts';

type Spec = MachineComponentSetObject['spec'];

/**
 * See the kind MachineComponentSet. `ceiling` is written by rollouts and `unitDigest` by sync. `paused` and `rolloutID` belong
 * to humans: leave them out and sync does not touch them.
 */
export interface MachineComponentSetProps
  extends MetadataProps, Omit<Spec, 'componentName' | 'version' | 'pools' | 'canary' | 'unitDigest' | 'ceiling'> {
  component: Release;
  /** Absent: every machine of the cluster. */
  pools?: readonly (Pool | string)[];
  /** Machines of the set that get another release or other values first. */
  canary?: { selector: Record<string, string>; component?: Release; values?: Record<string, unknown> };
}

/**
 * `new MachineComponentSet(cluster, 'kubelet', { component: kubelet, batches: [1, '10%', '100%'], soakSeconds: 300 })`:
 * which machines get which release, in which batches. Makes the MachineComponents of the releases it names, too.
 */
export class MachineComponentSet extends KubeNodeObject<Spec> {
  constructor(cluster: Construct, name: string, props: MachineComponentSetProps) {
    const { labels, annotations, component, pools, canary, ...rest } = props;
    const scope = outsidePools(cluster, 'MachineComponentSet', name, "pools: ['…']");
    if (!(component instanceof Release))
      throw new FleetError('ReleaseInvalid', `\`component\` of "${name}" must be a release`, 'release(…)');
    if (canary?.component !== undefined && canary.component.component !== component.component)
      throw new FleetError(
        'ReleaseInvalid',
        `the canary of "${name}" must be a release of ${component.component}, got one of ${canary.component.component}`,
      );
    makeComponent(scope, component);
    if (canary?.component !== undefined) makeComponent(scope, canary.component);
    super(
      scope,
      'MachineComponentSet',
      name,
      { labels, annotations },
      {
        componentName: component.component,
        version: component.version,
        ...rest,
        ...(pools === undefined ? {} : { pools: pools.map((pool) => (typeof pool === 'string' ? pool : pool.name)) }),
        ...(canary === undefined
          ? {}
          : {
              canary: {
                selector: canary.selector,
                version: (canary.component ?? component).version,
                ...(canary.values === undefined ? {} : { values: canary.values }),
              },
            }),
      },
    );
  }
}

const releases = new WeakMap<Cluster, Map<string, Release>>();

/** Sets may name the same release; a cluster has its MachineComponent once. */
function makeComponent(scope: Construct, release: Release): void {
  const cluster = Cluster.of(scope);
  const made = releases.get(cluster) ?? new Map<string, Release>();
  releases.set(cluster, made);
  const name = release.objectName;
  const known = made.get(name);
  if (known === undefined) {
    made.set(name, release);
    rememberOrigin(new KubeNodeObject(cluster, 'MachineComponent', name, {}, release.spec), originOf(release));
    return;
  }
  if (known === release || canonical(known.spec) === canonical(release.spec)) return;
  const first = originOf(known);
  throw new FleetError(
    'ReleaseConflict',
    `${release.component} ${release.version} is two different releases${first === undefined ? '' : `, the other made at ${first}`}: a version has one content`,
    'give one of them another version, or put what varies into `values` of the set',
  );
}
