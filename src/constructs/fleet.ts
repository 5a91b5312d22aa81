import { selectorText } from '../api/selector.ts';
import { FleetError } from './errors.ts';
import { originOf } from './origin.ts';
import { Cluster, type ClusterProps } from './scope.ts';
import { putSignatures, type Signatures } from './signatures.ts';

/** What to make in a cluster. Runs once for each cluster that is selected. */
export type Build = (cluster: Cluster) => void;

interface Selection {
  selector: Record<string, string> | undefined;
  build: Build;
  /** Where it was written: validation errors that show later lead there. */
  stack: string | undefined;
}

/**
 * The fleet that one commit declares. Selections see the clusters of the same commit, wherever in it they are declared, and
 * never a live one: the same commit always gives the same objects.
 */
export class Fleet {
  readonly #clusters = new Map<string, Cluster>();
  readonly #selections: Selection[] = [];
  #building = false;
  #signatures: { lock: Signatures; stack: string | undefined } | undefined;
  #unsigned: readonly FleetError[] = [];

  /** Declares a business cluster. Stages of the Fleet object in the hub select clusters by these labels. */
  cluster(name: string, props: ClusterProps = {}): Cluster {
    this.#refuseWhileBuilding(`cluster "${name}" must be declared`);
    const known = this.#clusters.get(name);
    if (known !== undefined) {
      const first = originOf(known);
      throw new FleetError('ClusterDeclared', `cluster "${name}" is declared twice${first === undefined ? '' : `, first at ${first}`}`);
    }
    const cluster = new Cluster(name, props);
    this.#clusters.set(name, cluster);
    return cluster;
  }

  /** Makes something in each cluster whose labels equal all of `selector`. One that matches no declared cluster is an error. */
  clusters(selector: Record<string, string>, build: Build): void {
    if (Object.keys(selector).length === 0)
      throw new FleetError('ClusterMissing', 'an empty selector matches nothing', 'fleet.allClusters(…)');
    this.#select(selector, build);
  }

  /** Makes something in every cluster of the commit. */
  allClusters(build: Build): void {
    this.#select(undefined, build);
  }

  /**
   * Signatures of the components: `fleet.signatures(signatures)`, of the file that `kubenode component sign` writes. Once it contains one, a component
   * that is not signed, or was changed since, is an error.
   */
  signatures(lock: Signatures): void {
    this.#signatures = { lock, stack: new Error('signatures').stack };
  }

  #select(selector: Record<string, string> | undefined, build: Build): void {
    this.#refuseWhileBuilding('clusters must be selected');
    this.#selections.push({ selector, build, stack: new Error('selection').stack });
  }

  #refuseWhileBuilding(what: string): void {
    if (this.#building)
      throw new FleetError(
        'ClusterOrder',
        `${what} outside of fleet.clusters(…): which clusters there are must not depend on what is in them`,
      );
  }

  /** Runs the selections. Called once, by what renders the fleet, after all modules have run. Clusters by name. */
  build(): Cluster[] {
    const clusters = [...this.#clusters.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1));
    this.#building = true;
    for (const { selector, build, stack } of this.#selections) {
      const selected = clusters.filter((cluster) => selector === undefined || cluster.matches(selector));
      if (selected.length === 0) throw at(stack, unmatched(selector, clusters));
      for (const cluster of selected) {
        const result: unknown = build(cluster);
        if (result instanceof Promise)
          throw at(stack, new FleetError('ClusterOrder', 'what builds a cluster must not be async: nothing waits for it'));
      }
    }
    if (this.#signatures !== undefined) this.#sign(clusters, this.#signatures);
    return clusters;
  }

  /** After `build`: an error for each component that must be signed and is not. Rendering refuses the fleet for one. */
  unsigned(): readonly FleetError[] {
    return this.#unsigned;
  }

  #sign(clusters: readonly Cluster[], { lock, stack }: { lock: Signatures; stack: string | undefined }): void {
    const found = new Map(clusters.flatMap((cluster) => putSignatures(cluster, lock)).map((error) => [error.message, at(stack, error)]));
    this.#unsigned = [...found.values()];
  }
}

function unmatched(selector: Record<string, string> | undefined, clusters: readonly Cluster[]): FleetError {
  const wanted = selector === undefined ? '' : ` with the labels ${selectorText(selector)}`;
  const declared = clusters.length === 0 ? 'none is declared' : `declared: ${clusters.map((cluster) => cluster.name).join(', ')}`;
  return new FleetError('ClusterMissing', `there is no cluster${wanted} in this commit; ${declared}`, 'fleet.cluster(name, { labels })');
}

function at(stack: string | undefined, error: FleetError): FleetError {
  if (stack !== undefined) error.stack = stack;
  return error;
}

/** The fleet of this commit. */
export const fleet = new Fleet();
