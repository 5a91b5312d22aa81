/** Sends the conditioned writes of `guarded-patch.ts`. */
import type { Resource } from '../../api/resource.ts';
import type { KubeObject, Stored } from '../../api/wire.ts';
import { isMet } from '../../defender/guarded-patch.ts';
import { ApiError } from '../../kube/api-error.ts';
import type { Client, JsonPatchOperation } from '../../kube/client.ts';

export interface Sending {
  fieldManager: string;
  signal: AbortSignal;
  subresource?: string | undefined;
}

/** How often a patch is sent again whose conditions are true when the server is asked, though it refused it: what failed may have been so for a moment. */
const SENDINGS = 3;

/** Errors: those of the API, and `Conflict` also where what the patch is conditioned on has changed since it was read. */
export async function patchIfSame<T extends KubeObject>(
  client: Client,
  resource: Resource<T>,
  { metadata: { namespace, name } }: Stored<T>,
  json: JsonPatchOperation[],
  { subresource, ...options }: Sending,
): Promise<Stored<T>> {
  const key = { namespace, name };
  for (let sending = 1; ; sending++) {
    try {
      return await client.patch(resource, key, { json }, subresource === undefined ? options : { ...options, subresource });
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 422) throw error;
      // The server answers alike to a test that fails, a path that is gone and an object that is not valid.
      const live = await client.find(resource, key, { signal: options.signal });
      if (live === undefined || !isMet(json, live))
        throw new ApiError(409, { reason: 'Conflict', message: `${resource.kind} ${name} changed meanwhile` }, { cause: error });
      if (sending === SENDINGS) throw error;
    }
  }
}
