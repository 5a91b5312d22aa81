import { atomicList, fields, flag, free, listMap, mapOf, named, setOf, text, time, whole, type Schema } from '../schema/schema.ts';

const ownerReference = named(
  'io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference',
  fields(
    {
      apiVersion: text('API version of the owner.'),
      kind: text('Kind of the owner.'),
      name: text('Name of the owner.'),
      uid: text('UID of the owner.'),
      controller: flag('If true, this reference points to the managing controller.'),
      blockOwnerDeletion: flag('If true, an owner deleted in the foreground stays until this object is gone.'),
    },
    'Identifies an owning object: of the same namespace, or cluster-scoped.',
    ['apiVersion', 'kind', 'name', 'uid'],
  ),
);

const managedFieldsEntry = named(
  'io.k8s.apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry',
  fields(
    {
      apiVersion: text('Version of the resource that this field set applies to.'),
      fieldsType: text('Always "FieldsV1".'),
      fieldsV1: named('io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1', free('The set of fields.')),
      manager: text('Name of the workflow managing these fields.'),
      operation: text('"Apply" or "Update".'),
      subresource: text('Subresource through which the fields were set; empty for the main resource.'),
      time: time('When the set last changed.'),
    },
    'A workflow and the fields that it manages.',
  ),
);

/** ObjectMeta, the same for every kind. */
export const objectMeta: Schema = named(
  'io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta',
  fields(
    {
      annotations: mapOf(text(), 'Unstructured key/value pairs set by tools; not queryable.'),
      creationTimestamp: time('When the server created the object. Set by the server.'),
      deletionGracePeriodSeconds: whole('Seconds allowed to terminate gracefully. Set by the server.'),
      deletionTimestamp: time('When the object is to go. Set by the server on a graceful deletion; it cannot be unset.'),
      finalizers: setOf(text(), 'Must be empty before the object is removed; each entry names who removes it.'),
      generateName: text('Prefix from which the server makes a unique name when name is empty.'),
      generation: whole('Counts changes of the desired state. Set by the server.'),
      labels: mapOf(text(), 'Key/value pairs by which objects are selected.'),
      managedFields: atomicList(managedFieldsEntry, 'Which workflow manages which fields.'),
      name: text('Unique within a namespace; cannot be changed.'),
      namespace: text('The space in which the name is unique; cannot be changed.'),
      ownerReferences: listMap(ownerReference, ['uid'], 'Objects this one depends on; when all are gone it is collected.'),
      resourceVersion: text('Opaque version of the object, for optimistic locking and watches. Set by the server.'),
      selfLink: text('Deprecated; no longer set.'),
      uid: text('Unique in time and space. Set by the server.'),
    },
    'Metadata that all persisted objects have.',
  ),
);

const TYPE_META = {
  apiVersion: text('Versioned schema of this representation of the object.'),
  kind: text('The REST resource that this object represents.'),
};

/** The whole object: type, metadata and what the kind adds. */
export function wholeObject(name: string, description: string, properties: { [name: string]: Schema }, required?: string[]): Schema {
  return named(name, fields({ ...TYPE_META, metadata: objectMeta, ...properties }, description, required));
}

/** metav1.Condition, or with `bare` the older form that some built-in kinds keep. */
export const condition = (more: { [name: string]: Schema } = {}): Schema =>
  fields(
    {
      type: text('Type of the condition.'),
      status: text('True, False or Unknown.'),
      reason: text('Machine-readable reason of the last transition.'),
      message: text('Details of the last transition for people.'),
      lastTransitionTime: time('When the status last changed.'),
      ...more,
    },
    undefined,
    ['type', 'status'],
  );

export const conditions = (more: { [name: string]: Schema } = {}): Schema =>
  listMap(condition(more), ['type'], 'Current state of the object by condition type.');

export const labelSelector: Schema = named('io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector', {
  ...fields(
    {
      matchLabels: mapOf(text(), 'Labels that must all be equal.'),
      matchExpressions: atomicList(
        fields(
          {
            key: text('Label key.'),
            operator: text('In, NotIn, Exists or DoesNotExist.'),
            values: atomicList(text(), 'Values for In and NotIn.'),
          },
          undefined,
          ['key', 'operator'],
        ),
        'Requirements that must all be met.',
      ),
    },
    'A query over labels. Empty selects everything, absent selects nothing.',
  ),
  'x-kubernetes-map-type': 'atomic',
});

export const objectReference: Schema = named('io.k8s.api.core.v1.ObjectReference', {
  ...fields(
    {
      apiVersion: text(),
      fieldPath: text(),
      kind: text(),
      name: text(),
      namespace: text(),
      resourceVersion: text(),
      uid: text(),
    },
    'Enough to find another object.',
  ),
  'x-kubernetes-map-type': 'atomic',
});
