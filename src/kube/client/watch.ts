import { apiVersionOf, pathOf } from '../../api/resource.ts';
import type { Resource } from '../../api/resource.ts';
import { plainText } from '../../api/plain-text.ts';
import type { ApiRequest } from '../../api/transport.ts';
import type { KubeObject, Stored, WatchEvent } from '../../api/wire.ts';
import { ApiError } from '../api-error.ts';
import type { WatchOptions } from '../client.ts';
import { isRecord, statusOf } from '../failure.ts';
import { linesOf } from '../lines.ts';
import { bodyOf, decode, invalid, send } from './exchange.ts';
import type { Exchange } from './exchange.ts';
import { MIB } from './limits.ts';
import { queryOf, signalOf } from './request.ts';
import { MAX_IDENTITY, storedObject } from './stored-object.ts';

/** Far above what etcd takes (1.5 MiB an object). */
const MAX_EVENT_BYTES = 16 * MIB;
/** Length of the type of a watch event, in a message: types of Kubernetes have at most eight characters. */
const LONGEST_TYPE = 32;

export async function* watch<T extends KubeObject>(
  exchange: Exchange,
  resource: Resource<T>,
  options: WatchOptions = {},
): AsyncGenerator<Exclude<WatchEvent<Stored<T>>, { type: 'ERROR' }>, void> {
  const { limits } = exchange;
  const request: ApiRequest = {
    method: 'GET',
    path: pathOf(resource, options.namespace),
    query: {
      watch: 'true',
      allowWatchBookmarks: 'true',
      ...queryOf(options, ['labelSelector', 'fieldSelector', 'resourceVersion', 'timeoutSeconds']),
    },
    ...signalOf(options),
  };
  const response = await send(exchange, request);
  options.onOpen?.();
  for await (const lines of linesOf(bodyOf(request, response), Math.min(limits.objectBytes, MAX_EVENT_BYTES))) {
    for (const line of lines) {
      options.onReceived?.(line.length);
      yield watchEvent(resource, decode(request, line, limits.objectMemory), request);
    }
  }
}

function watchEvent<T extends KubeObject>(
  resource: Resource<T>,
  event: unknown,
  request: ApiRequest,
): Exclude<WatchEvent<Stored<T>>, { type: 'ERROR' }> {
  if (!isRecord(event) || !isRecord(event['object'])) throw invalid(request, 'no watch event');
  const { type, object } = event;
  if (type === 'ERROR') throw new ApiError(typeof object['code'] === 'number' ? object['code'] : 500, statusOf(object), request);
  if (type === 'ADDED' || type === 'MODIFIED' || type === 'DELETED') return { type, object: storedObject(resource, object, request) };
  if (type !== 'BOOKMARK')
    throw invalid(
      request,
      `a watch event of unknown type ${typeof type === 'string' ? JSON.stringify(plainText(type, LONGEST_TYPE)) : typeof type}`,
    );
  const metadata = object['metadata'];
  if (!isRecord(metadata) || typeof metadata['resourceVersion'] !== 'string') throw invalid(request, 'a bookmark without resourceVersion');
  if (metadata['resourceVersion'].length > MAX_IDENTITY)
    throw invalid(request, `a bookmark whose resourceVersion is longer than ${MAX_IDENTITY} characters`);
  const annotations = metadata['annotations'];
  return {
    type,
    object: {
      apiVersion: apiVersionOf(resource),
      kind: resource.kind,
      metadata: {
        resourceVersion: metadata['resourceVersion'],
        ...(isRecord(annotations) ? { annotations: annotations as Record<string, string> } : {}),
      },
    },
  };
}
