import type { ObjectKey, Resource } from '../api/resource.ts';
import type { Clock } from '../api/ports.ts';
import type { ApiRequest, Transport } from '../api/transport.ts';
import type { KubeObject, Stored } from '../api/wire.ts';
import { hasReason } from './api-error.ts';
import type { Client } from './client.ts';
import { json } from './client/exchange.ts';
import type { Exchange } from './client/exchange.ts';
import { OWN_SERVER_LIMITS } from './client/limits.ts';
import type { AnswerLimits } from './client/limits.ts';
import { list, listAll } from './client/list.ts';
import { objectPath, signalOf } from './client/request.ts';
import { storedObject } from './client/stored-object.ts';
import { watch } from './client/watch.ts';
import { apply, create, patch, remove, update } from './client/write.ts';
import { systemClock } from './clock.ts';

export { AGENT_LIMITS, CELL_LIMITS } from './client/limits.ts';
export type { AnswerLimits } from './client/limits.ts';

export interface ClientOptions {
  /** Default for writes that name none. */
  fieldManager?: string;
  userAgent?: string;
  /** Default: as much as a server of one's own may need. */
  limits?: Partial<AnswerLimits>;
  /** Clock for the deadline of requests. */
  clock?: Pick<Clock, 'setTimer'>;
}

export function createClient(transport: Transport, options: ClientOptions = {}): Client {
  const exchange: Exchange = {
    transport,
    limits: { ...OWN_SERVER_LIMITS, ...options.limits },
    clock: options.clock ?? systemClock(),
    userAgent: options.userAgent ?? 'kubenode',
    fieldManager: options.fieldManager,
    underWay: 0,
  };
  return {
    get: (resource, key, get) => getObject(exchange, resource, key, get),
    find: (resource, key, get) => findObject(exchange, resource, key, get),
    list: (resource, select) => list(exchange, resource, select),
    listAll: (resource, select) => listAll(exchange, resource, select),
    watch: (resource, select) => watch(exchange, resource, select),
    create: (resource, object, write) => create(exchange, resource, object, write),
    update: (resource, object, write) => update(exchange, resource, object, write),
    patch: (resource, key, change, write) => patch(exchange, resource, key, change, write),
    apply: (resource, object, write) => apply(exchange, resource, object, write),
    delete: (resource, key, write) => remove(exchange, resource, key, write),
    post: (path, body, post = {}) => json(exchange, { method: 'POST', path, body: JSON.stringify(body), ...signalOf(post) }),
    request: (request) => json(exchange, request),
  };
}

async function getObject<T extends KubeObject>(
  exchange: Exchange,
  resource: Resource<T>,
  key: ObjectKey,
  options: { signal?: AbortSignal } = {},
): Promise<Stored<T>> {
  const request: ApiRequest = { method: 'GET', path: objectPath(resource, key), ...signalOf(options) };
  return storedObject(resource, await json(exchange, request), request);
}

async function findObject<T extends KubeObject>(
  exchange: Exchange,
  resource: Resource<T>,
  key: ObjectKey,
  options?: { signal?: AbortSignal },
): Promise<Stored<T> | undefined> {
  try {
    return await getObject(exchange, resource, key, options);
  } catch (error) {
    // Without a name it is the kind that the server does not have, which proves nothing about the object.
    if (hasReason(error, 'NotFound') && error.details?.name !== undefined) return undefined;
    throw error;
  }
}
