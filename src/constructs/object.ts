import { ApiObject, type ApiObjectProps } from 'cdk8s';
import type { Construct } from 'constructs';
import { API_VERSION } from '../api/kind.ts';
import { nameMissing } from './errors.ts';

/** What may be declared of any object besides its name. */
export interface MetadataProps {
  labels?: Record<string, string> | undefined;
  annotations?: Record<string, string> | undefined;
}

export interface KubeObjectProps {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: MetadataProps & { name: string; namespace?: string };
  readonly [field: string]: unknown;
}

/**
 * An object of any kind, as it is written in YAML: `new KubeObject(pool, { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a' }, data })`.
 * In a pool it gets the pool's namespace. `addJsonPatch(JsonPatch.add('/spec/x', 1))`, with JsonPatch of cdk8s, changes what no prop reaches.
 */
export class KubeObject extends ApiObject {
  constructor(scope: Construct, props: KubeObjectProps) {
    if (typeof props.metadata?.name !== 'string' || props.metadata.name === '') throw nameMissing(props.kind);
    super(scope, freeID(scope, `${props.kind}:${props.metadata.name}`), props as ApiObjectProps);
  }
}

/**
 * Objects of different kinds may share a name, so an ID contains the kind. Two of one kind and name get two IDs here: that
 * they are the same object is for validation to report, which names the lines of both.
 */
function freeID(scope: Construct, id: string): string {
  let free = id;
  for (let count = 2; scope.node.tryFindChild(free) !== undefined; count++) free = `${id}#${count}`;
  return free;
}

/** An object of one of KubeNode's own kinds. */
export class KubeNodeObject<Spec extends object> extends KubeObject {
  constructor(scope: Construct, kind: string, name: string, { labels, annotations }: MetadataProps, spec: Spec) {
    super(scope, {
      apiVersion: API_VERSION,
      kind,
      metadata: { name, ...(labels === undefined ? {} : { labels }), ...(annotations === undefined ? {} : { annotations }) },
      spec,
    });
  }
}
