import type { JsonObject } from '@kubenode/api-machinery/wire';
import { accepted, bodyObject, objectOf, type Call, type Reply } from './call.ts';
import { textAt } from './json.ts';
import { page } from './list.ts';
import { apiVersion } from './kinds/served.ts';
import { badRequest, Refusal } from './refusal.ts';
import { deletedStatus, deleteOptions, remove, type DeleteOptions } from './remove.ts';
import { shaped } from './respond.ts';

async function optionsOf(call: Call): Promise<DeleteOptions> {
  const body = await bodyObject(call);
  if (body !== undefined && body['kind'] !== undefined && body['kind'] !== 'DeleteOptions') {
    throw badRequest('decoded object cannot be converted to DeleteOptions');
  }
  const options = deleteOptions(body, call.query);
  return { ...options, admit: (live) => admitDeletion(call, live, options.dryRun) };
}

function admitDeletion(call: Call, live: JsonObject, dryRun: boolean): void {
  const { world, served, user, warnings } = call;
  world.policies.admit({
    served,
    subresource: '',
    operation: 'DELETE',
    namespace: served.namespaced ? (textAt(live, 'metadata', 'namespace') ?? '') : '',
    name: call.info.name,
    user,
    dryRun,
    object: undefined,
    oldObject: live,
    warn: (text) => void warnings.push(text),
  });
}

export async function deleteOne(call: Call): Promise<Reply> {
  const form = accepted(call);
  const options = await optionsOf(call);
  const { object, gone } = remove(call.world, call.served, call.info.namespace, call.info.name, options);
  if (gone && call.served.strategy.returnsDeleted !== true) {
    const status: JsonObject = { ...deletedStatus(call.served, object) } as unknown as JsonObject;
    return { status: 200, object: status };
  }
  return shaped(call, object, 200, form);
}

/** Deletes what a list would show, and answers with it. */
export async function deleteCollection(call: Call): Promise<Reply> {
  const form = accepted(call);
  const options = await optionsOf(call);
  const { entries, metadata } = page(call);
  for (const entry of entries) {
    try {
      remove(call.world, call.served, entry.namespace, entry.name, options);
    } catch (error) {
      // Gone in the meantime: a dependant of one that was deleted before it.
      if (!(error instanceof Refusal && error.code === 404)) throw error;
    }
  }
  if (form.shape === 'table') {
    return {
      status: 200,
      object: { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', details: { kind: call.served.plural } },
    };
  }
  if (call.served.custom !== undefined) metadata['continue'] ??= '';
  const items = entries.map((entry) => objectOf(call.served, entry));
  return { status: 200, object: { kind: call.served.listKind, apiVersion: apiVersion(call.served), metadata, items } };
}
