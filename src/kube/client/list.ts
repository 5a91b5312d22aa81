import { apiVersionOf, pathOf } from '../../api/resource.ts';
import type { Resource } from '../../api/resource.ts';
import type { ApiRequest } from '../../api/transport.ts';
import type { KubeList, KubeObject, Stored } from '../../api/wire.ts';
import type { ListOptions } from '../client.ts';
import { isRecord } from '../failure.ts';
import { decode, invalid, text, tooLarge } from './exchange.ts';
import type { Exchange } from './exchange.ts';
import { queryOf, signalOf } from './request.ts';
import { MAX_IDENTITY, storedObject } from './stored-object.ts';

const PAGE = 500;
/** Length of the token of a next page, which goes into a URL. Tokens of Kubernetes contain a key. */
const MAX_TOKEN = 16_384;

export async function list<T extends KubeObject>(
  exchange: Exchange,
  resource: Resource<T>,
  options: ListOptions = {},
): Promise<KubeList<Stored<T>>> {
  return (await page(exchange, resource, options, exchange.limits.answerBytes)).list;
}

export async function listAll<T extends KubeObject>(
  exchange: Exchange,
  resource: Resource<T>,
  options: ListOptions = {},
): Promise<KubeList<Stored<T>>> {
  const { limits } = exchange;
  const request: ApiRequest = { method: 'GET', path: pathOf(resource, options.namespace) };
  let length = 0;
  const next = async (more: ListOptions): Promise<KubeList<Stored<T>>> => {
    const found = await page(exchange, resource, { limit: PAGE, ...more }, Math.min(limits.answerBytes, limits.listBytes - length));
    length += found.length;
    return found.list;
  };
  const first = await next(options);
  const pages = [first.items];
  let last = first;
  while (last.metadata.continue !== undefined) {
    if (pages.length >= limits.pages) throw tooLarge(request, `has more than ${limits.pages} pages`);
    // The token carries the resourceVersion; naming one again is an error.
    const { resourceVersion: _version, resourceVersionMatch: _match, ...rest } = options;
    last = await next({ ...rest, continue: last.metadata.continue });
    pages.push(last.items);
  }
  return { ...first, metadata: { resourceVersion: last.metadata.resourceVersion }, items: pages.flat() };
}

/** `length`: of its text, in characters. */
async function page<T extends KubeObject>(
  exchange: Exchange,
  resource: Resource<T>,
  options: ListOptions,
  maxBytes: number,
): Promise<{ list: KubeList<Stored<T>>; length: number }> {
  const request: ApiRequest = {
    method: 'GET',
    path: pathOf(resource, options.namespace),
    query: queryOf(options, ['labelSelector', 'fieldSelector', 'limit', 'continue', 'resourceVersion', 'resourceVersionMatch']),
    ...signalOf(options),
  };
  const answer = await text(exchange, request, maxBytes);
  options.onReceived?.(answer.length);
  return { list: listOf(resource, decode(request, answer, exchange.limits.answerMemory), request), length: answer.length };
}

/** Gives what the server sent its type. */
function listOf<T extends KubeObject>(resource: Resource<T>, body: unknown, request: ApiRequest): KubeList<Stored<T>> {
  if (!isRecord(body) || !isRecord(body['metadata']) || typeof body['metadata']['resourceVersion'] !== 'string') {
    throw invalid(request, `not a list of ${resource.kind}: it has no metadata.resourceVersion`);
  }
  // Go writes an empty list as null where it was never made.
  const items: unknown = body['items'] ?? [];
  if (!Array.isArray(items)) throw invalid(request, `not a list of ${resource.kind}: its items are no list`);
  const token = body['metadata']['continue'];
  if (body['metadata']['resourceVersion'].length > MAX_IDENTITY)
    throw invalid(request, `not a list of ${resource.kind}: its metadata.resourceVersion is longer than ${MAX_IDENTITY} characters`);
  if (typeof token === 'string' && token.length > MAX_TOKEN)
    throw invalid(request, `not a list of ${resource.kind}: its metadata.continue is longer than ${MAX_TOKEN} characters`);
  const remaining = body['metadata']['remainingItemCount'];
  return {
    apiVersion: apiVersionOf(resource),
    kind: `${resource.kind}List`,
    metadata: {
      resourceVersion: body['metadata']['resourceVersion'],
      ...(typeof token === 'string' && token !== '' ? { continue: token } : {}),
      ...(typeof remaining === 'number' ? { remainingItemCount: remaining } : {}),
    },
    items: items.map((item: unknown) => {
      // A real server leaves kind and apiVersion out of the items of built-in lists.
      if (isRecord(item)) {
        item['apiVersion'] ??= apiVersionOf(resource);
        item['kind'] ??= resource.kind;
      }
      return storedObject(resource, item, request);
    }),
  };
}
