/** What sync writes around its apply of an object, so that the object has then exactly what Git gives. */
import { API_VERSION } from '../api/kind.ts';
import type { MachineSet } from '../api/machine-set.ts';
import { MANAGERS } from '../api/names.ts';
import type { Resource } from '../api/resource.ts';
import type { KubeObject, ManagedFieldsEntry, Stored } from '../api/wire.ts';
import { hasReason } from '../kube/api-error.ts';
import type { Client } from '../kube/client.ts';
import { wholeContent, type WholeContent } from './content.ts';
import { extraFields } from './extra-fields.ts';
import { areSame, given, taken, withoutUpdates, withUpdates } from './field-records.ts';
import { isLeftOver, leavesReplicasOut } from './replicas-owner.ts';

/** What is written by rollouts and people in objects that sync applies. */
const NOT_SYNCS = ['ceiling', 'rolloutID'];

/**
 * An apply removes what its record in managedFields names and it has no more. That record may name what sync never applied, where a user wrote it by
 * hand: then it is taken out of the record first (docs/protocols.md#e4). What Git does not give, and another manager or none owns, is put into the record, so that the
 * apply removes it together with all else that it changes (#e3). Where the apply leaves `replicas` out, a number that let no machine go before, or that a removal wrote, is
 * taken out of the set first, so that it keeps its machines (#c8e). Conditioned on the object as it was read.
 *
 * Where an apply takes the last member out of a map or a list, it leaves null in its place, even where it gives that as empty; most schemas refuse it. There the whole
 * content is written by an update, in one change as well, and the apply that follows only records whose it is.
 */
export async function prepared(
  client: Client,
  resource: Resource,
  stored: Stored<KubeObject>,
  desired: KubeObject,
  signal: AbortSignal,
): Promise<Stored<KubeObject>> {
  if (stored.apiVersion !== API_VERSION) return stored;
  const { spec = {} } = desired as { spec?: object };
  const records = stored.metadata.managedFields ?? [];
  const own = given(
    withUpdates(records, { givesReplicas: !leavesReplicasOut(desired) }),
    NOT_SYNCS.filter((field) => !(field in spec)),
  );
  const extra = extraFields(stored, desired);
  const managedFields = taken(own, extra);
  const isOwn = areSame(records, managedFields);
  const isLeft = leavesReplicasOut(desired) && isLeftOver(stored as Stored<MachineSet>);
  if (extra.some(({ inEmpty }) => inEmpty)) {
    const content = wholeContent(stored, desired, own);
    if (isLeft) delete content.spec['replicas'];
    return await replaced(client, resource, stored, content, own, signal);
  }
  if (isOwn && !isLeft) return stored;
  const { uid, resourceVersion, name, namespace } = stored.metadata;
  const merge = {
    metadata: { uid, resourceVersion, ...(isOwn ? {} : { managedFields }) },
    ...(isLeft ? { spec: { replicas: null } } : {}),
  };
  return await client.patch(resource, { name, namespace }, { merge }, { fieldManager: MANAGERS.sync, signal });
}

/** The server takes out of the records what the update removes. */
async function replaced(
  client: Client,
  resource: Resource,
  { metadata: { uid, resourceVersion, name, namespace } }: Stored<KubeObject>,
  { spec, labels, annotations }: WholeContent,
  managedFields: readonly ManagedFieldsEntry[],
  signal: AbortSignal,
): Promise<Stored<KubeObject>> {
  const content = {
    '/metadata/uid': uid,
    '/metadata/resourceVersion': resourceVersion,
    ...(managedFields.length === 0 ? {} : { '/metadata/managedFields': managedFields }),
    '/metadata/labels': labels,
    '/metadata/annotations': annotations,
    '/spec': spec,
  };
  const json = Object.entries(content).map(([path, value]) => ({ op: 'add' as const, path, value }));
  return await client.patch(resource, { name, namespace }, { json }, { fieldManager: MANAGERS.sync, signal });
}

/** What an update wrote is on the record of the apply by now, and on no other of sync. Where another has written since, or this dies, it is drift (`isDrifted`). */
export async function settled(
  client: Client,
  resource: Resource,
  stored: Stored<KubeObject>,
  desired: KubeObject,
  signal: AbortSignal,
): Promise<void> {
  if (stored.apiVersion !== API_VERSION) return;
  const { uid, resourceVersion, name, namespace, managedFields: records = [] } = stored.metadata;
  const managedFields = withoutUpdates(records, { givesReplicas: !leavesReplicasOut(desired) });
  if (areSame(records, managedFields)) return;
  const merge = { metadata: { uid, resourceVersion, managedFields } };
  await client.patch(resource, { name, namespace }, { merge }, { fieldManager: MANAGERS.sync, signal }).catch((error: unknown) => {
    if (!hasReason(error, 'NotFound', 'Conflict')) throw error;
  });
}
