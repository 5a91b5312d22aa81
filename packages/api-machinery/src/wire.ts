/**
 * The JSON that the Kubernetes API speaks. Times are RFC 3339 strings, never `Date`.
 * Only what KubeNode reads or writes is named here; unknown fields pass through untouched.
 */

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

export interface OwnerReference {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
  controller?: boolean;
  blockOwnerDeletion?: boolean;
}

export interface ManagedFieldsEntry {
  manager: string;
  operation: 'Apply' | 'Update';
  apiVersion: string;
  time?: string;
  fieldsType: 'FieldsV1';
  fieldsV1: JsonObject;
  subresource?: string;
}

export interface ObjectMeta {
  name: string;
  generateName?: string;
  namespace?: string;
  uid?: string;
  resourceVersion?: string;
  generation?: number;
  creationTimestamp?: string;
  deletionTimestamp?: string;
  deletionGracePeriodSeconds?: number;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  finalizers?: string[];
  ownerReferences?: OwnerReference[];
  managedFields?: ManagedFieldsEntry[];
}

/** Any object of the API. */
export interface KubeObject {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
}

/** An object as the server returns it: it has an identity. */
export type Stored<T extends KubeObject> = T & {
  metadata: ObjectMeta & { uid: string; resourceVersion: string; creationTimestamp: string };
};

export interface KubeList<T extends KubeObject = KubeObject> {
  apiVersion: string;
  kind: string;
  metadata: { resourceVersion: string; continue?: string; remainingItemCount?: number };
  items: T[];
}

export interface StatusCause {
  reason?: string;
  message?: string;
  field?: string;
}

/** The Kubernetes `Status` object: the body of every failed request. */
export interface Status {
  apiVersion: 'v1';
  kind: 'Status';
  metadata: Record<string, never> | { continue?: string; resourceVersion?: string };
  status: 'Success' | 'Failure';
  reason?: string;
  message?: string;
  code?: number;
  details?: { name?: string; group?: string; kind?: string; uid?: string; causes?: StatusCause[]; retryAfterSeconds?: number };
}

export type WatchEvent<T extends KubeObject = KubeObject> =
  | { type: 'ADDED' | 'MODIFIED' | 'DELETED'; object: T }
  | {
      type: 'BOOKMARK';
      object: { apiVersion: string; kind: string; metadata: { resourceVersion: string; annotations?: Record<string, string> } };
    }
  | { type: 'ERROR'; object: Status };

export interface Condition {
  type: string;
  status: 'True' | 'False' | 'Unknown';
  reason: string;
  message: string;
  lastTransitionTime: string;
  observedGeneration?: number;
}
