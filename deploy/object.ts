/** Any object, as it is written in YAML, under an ID of its own. */
import { ApiObject } from 'cdk8s';
import type { Construct } from 'constructs';

export interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace?: string; labels?: Record<string, string> };
  [field: string]: unknown;
}

export function object(scope: Construct, manifest: Manifest): ApiObject {
  const { kind, metadata } = manifest;
  return new ApiObject(scope, `${kind}:${metadata.namespace ?? ''}:${metadata.name}`, manifest);
}
