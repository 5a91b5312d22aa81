import { App, Chart, type ApiObject } from 'cdk8s';
import type { Construct } from 'constructs';
import type { Cluster as ClusterObject } from '../api/cluster.ts';
import { API_VERSION } from '../api/kind.ts';
import { own } from '../api/own.ts';
import { matchesLabels } from '../api/selector.ts';
import { FleetError, nameMissing } from './errors.ts';
import { KubeObject, type MetadataProps } from './object.ts';
import { originOf } from './origin.ts';

/** What a cluster is declared with; see the kind Cluster. `unitDigest` is written by sync. */
export interface ClusterProps extends MetadataProps, Omit<ClusterObject['spec'], 'unitDigest'> {}

/**
 * cdk8s names an object that has no name after a hash of its path in the tree: moving it would then delete it and make another.
 */
class NamedChart extends Chart {
  override generateObjectName(object: ApiObject): string {
    throw nameMissing(object.kind);
  }
}

// `instanceof` is true for every Chart, since cdk8s replaces it.
const clusters = new WeakSet<object>();

/** One business cluster: what is made in it is applied to it. Each is a cdk8s App of its own. */
export class Cluster extends NamedChart {
  readonly name: string;
  readonly #props: ClusterProps;
  readonly #pools = new Map<string, Pool>();

  /** Made by `fleet.cluster`. */
  constructor(name: string, props: ClusterProps) {
    super(new App(), name);
    clusters.add(this);
    this.name = name;
    this.#props = props;
  }

  /** The cluster that a construct is in. */
  static override of(construct: Construct): Cluster {
    const found = construct.node.scopes.find((scope): scope is Cluster => clusters.has(scope));
    if (found !== undefined) return found;
    throw new FleetError('ScopeWrong', `"${construct.node.path}" is in no cluster`, 'make it inside fleet.clusters(…)');
  }

  /** A label that the cluster was declared with. (`labels` is cdk8s': what a chart puts on all its objects.) */
  label(key: string): string {
    const value = own(this.#props.labels, key);
    if (value !== undefined) return value;
    throw new FleetError(
      'ClusterMissing',
      `cluster "${this.name}" has no label "${key}"`,
      `fleet.cluster('${this.name}', { labels: { … } })`,
    );
  }

  matches(selector: Record<string, string>): boolean {
    return matchesLabels(selector, this.#props.labels);
  }

  /**
   * A pool: one namespace of machines, which a team can be given. Asking again for the same name gives the same pool.
   * A pool has at most 2,000 machines.
   */
  pool(name: string, props: MetadataProps = {}): Pool {
    const known = this.#pools.get(name);
    if (known === undefined) {
      const pool = new Pool(this, name, props);
      this.#pools.set(name, pool);
      return pool;
    }
    if (props.labels === undefined && props.annotations === undefined) return known;
    const first = originOf(known);
    throw new FleetError(
      'PoolDeclared',
      `pool "${name}" was made before${first === undefined ? '' : `, at ${first}`}: give its labels there`,
    );
  }

  /** The object that the hub gets. */
  toObject(): ClusterObject {
    const { labels, annotations, ...spec } = this.#props;
    return {
      apiVersion: API_VERSION,
      kind: 'Cluster',
      metadata: { name: this.name, ...(labels === undefined ? {} : { labels }), ...(annotations === undefined ? {} : { annotations }) },
      spec,
    };
  }
}

/** A Namespace and what is made in it. Made by `cluster.pool`. */
export class Pool extends NamedChart {
  readonly name: string;
  /** In the cluster's chart: in the pool's own it would be given a namespace. */
  readonly namespaceObject: KubeObject;

  constructor(cluster: Cluster, name: string, props: MetadataProps) {
    super(cluster, `pool:${name}`, { namespace: name });
    this.name = name;
    this.namespaceObject = new KubeObject(cluster, { apiVersion: 'v1', kind: 'Namespace', metadata: { name, ...props } });
  }
}

/** For kinds without a namespace: a pool would not confine them, though it would seem so. */
export function outsidePools(scope: Construct, kind: string, name: string, next: string): Construct {
  const { namespace } = Chart.of(scope);
  if (namespace === undefined) return scope;
  throw new FleetError('ScopeWrong', `${kind} "${name}" is for a whole cluster and must not be made in pool "${namespace}"`, next);
}

export function insidePool(scope: Construct, kind: string, name: string): Construct {
  if (Chart.of(scope).namespace !== undefined) return scope;
  throw new FleetError('ScopeWrong', `${kind} "${name}" must be made in a pool`, `new ${kind}(cluster.pool('…'), '${name}', …)`);
}
