import type { ApiRequest, ApiResponse } from '@kubenode/api-machinery/transport';
import type { JsonObject } from '@kubenode/api-machinery/wire';
import { messageOf } from '@kubenode/api-machinery/errors';
import { isJson, mediaRanges, wantsYaml } from './accept.ts';
import { bodyObject, type Call, type Reply } from './call.ts';
import { deleteCollection, deleteOne } from './delete.ts';
import { aggregated, discoveryAt, etagOf, verbsOf } from './discovery.ts';
import { evict } from './eviction.ts';
import { get } from './get.ts';
import type { Served, User } from './kinds/served.ts';
import { list } from './list.ts';
import { openapiDocument, openapiIndex } from './openapi.ts';
import { patch } from './patching.ts';
import { create, put } from './put.ts';
import { badRequest, internalError, methodNotAllowed, noSuchMethod, noSuchPath, notAcceptable, notFound, Refusal } from './refusal.ts';
import { requestInfo, segmentsOf, type RequestInfo } from './request-info.ts';
import { authorize } from './rbac/request.ts';
import { reviewFor } from './reviews.ts';
import { scale } from './scale.ts';
import { requestToken } from './token-request.ts';
import { VERSION } from './version.ts';
import { watch } from './watch.ts';
import type { World } from './world.ts';

const JSON_TYPE = 'application/json';

interface Plain {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: AsyncIterable<Uint8Array>;
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  if (bytes.byteLength > 0) yield bytes;
}

function answer(status: number, text: string, headers: Record<string, string> = {}): Plain {
  const bytes = Buffer.from(text, 'utf8');
  return {
    status,
    headers: { 'content-type': JSON_TYPE, 'content-length': String(bytes.byteLength), 'cache-control': 'no-cache, private', ...headers },
    body: once(bytes),
  };
}

const plainText = (status: number, text: string): Plain => answer(status, text, { 'content-type': 'text/plain; charset=utf-8' });

function quotedWarning(text: string): string {
  return `299 - "${text
    .replaceAll('\\', '\\\\')
    .replaceAll('"', '\\"')
    .replaceAll(/[^\x20-\x7e]/g, ' ')}"`;
}

export function refused(refusal: Refusal, warnings: readonly string[] = []): Plain {
  const retry = refusal.body.details?.retryAfterSeconds;
  return answer(refusal.code, JSON.stringify(refusal.body), {
    ...(retry === undefined ? {} : { 'retry-after': String(retry) }),
    ...warningHeader(warnings),
  });
}

const warningHeader = (warnings: readonly string[]): Record<string, string> =>
  warnings.length === 0 ? {} : { warning: warnings.map(quotedWarning).join(', ') };

/** A document whose content changes rarely: with ETag, and 304 for a client that has it. */
function document(request: ApiRequest, text: string, etag: string, type = JSON_TYPE): Plain {
  const headers = { etag, vary: 'Accept', 'cache-control': 'public' };
  if (request.headers?.['if-none-match'] === etag) return { status: 304, headers, body: once(new Uint8Array()) };
  return answer(200, text, { 'content-type': type, ...headers });
}

function discover(world: World, request: ApiRequest, segments: readonly string[]): Plain | undefined {
  const root = segments[0] === 'api' ? 'api' : 'apis';
  if (segments.length === 1) {
    for (const range of mediaRanges(request.headers?.['accept'])) {
      const { as, g, v } = range.params;
      if (!isJson(range)) continue;
      if (as === undefined) break;
      if (as !== 'APIGroupDiscoveryList' || g !== 'apidiscovery.k8s.io' || (v !== 'v2' && v !== 'v2beta1')) continue;
      const text = JSON.stringify(aggregated(world, root, v));
      return document(request, text, etagOf(text), `application/json;g=apidiscovery.k8s.io;v=${v};as=APIGroupDiscoveryList`);
    }
  }
  const found = discoveryAt(world, segments);
  if (found === undefined && root === 'api') throw noSuchPath();
  return found === undefined ? undefined : answer(200, JSON.stringify(found));
}

function openapi(world: World, request: ApiRequest, segments: readonly string[]): Plain | undefined {
  if (segments[1] !== 'v3') return undefined;
  if (!mediaRanges(request.headers?.['accept']).some(isJson)) throw notAcceptable([JSON_TYPE]);
  const found = segments.length === 2 ? openapiIndex(world) : openapiDocument(world, segments.slice(2).join('/'));
  return found === undefined ? undefined : document(request, found.text, found.etag);
}

/** Everything that is not a resource. */
function document404(): Plain {
  return plainText(404, '404 page not found\n');
}

function other(world: World, request: ApiRequest, segments: readonly string[]): Plain {
  const [root] = segments;
  if (request.method !== 'GET') return document404();
  switch (root) {
    case 'healthz':
    case 'livez':
    case 'readyz':
      return request.query?.['verbose'] === undefined
        ? plainText(200, 'ok')
        : plainText(200, `[+]ping ok\n[+]store ok\n${root} check passed\n`);
    case 'version':
      return answer(200, JSON.stringify(VERSION));
    case 'api':
    case 'apis':
      return discover(world, request, segments) ?? document404();
    case 'openapi':
      return openapi(world, request, segments) ?? document404();
    case undefined:
      return answer(200, JSON.stringify({ paths: ['/api', '/apis', '/healthz', '/livez', '/openapi/v3', '/readyz', '/version'] }));
    default:
      return document404();
  }
}

const notAllowed = (served: Served, verb: string) => (served.custom === undefined ? noSuchMethod() : methodNotAllowed(served, verb));

const nameless = (served: Served, verb: string) =>
  served.custom === undefined ? notAllowed(served, verb) : badRequest('name must be provided');

function subresource(call: Call): Promise<Reply> | Reply {
  const { info, served } = call;
  const { verb } = info;
  if (!served.subresources.has(info.subresource)) throw served.custom === undefined ? noSuchPath() : notFound(served, info.name);
  if (info.subresource === 'eviction' || info.subresource === 'token') {
    if (verb !== 'create') throw notAllowed(served, verb);
    return info.subresource === 'eviction' ? evict(call) : requestToken(call);
  }
  if (info.subresource === 'scale' && served.scale !== undefined) return scale(call, served.scale);
  if (verb === 'get') return get(call);
  if (verb === 'update') return put(call);
  if (verb === 'patch') return patch(call);
  throw notAllowed(served, verb);
}

function act(call: Call): Promise<Reply> | Reply {
  const { info, served } = call;
  if (info.subresource !== '') return subresource(call);
  if (!verbsOf(served).includes(info.verb)) throw notAllowed(served, info.verb);
  switch (info.verb) {
    case 'get':
      return get(call);
    case 'list':
      return list(call);
    case 'watch':
      return watch(call);
    case 'create':
      if (info.name !== '' && served.custom === undefined) throw noSuchMethod();
      return create(call);
    case 'update':
      if (info.name === '') throw nameless(served, 'update');
      return put(call);
    case 'patch':
      if (info.name === '') throw nameless(served, 'patch');
      return patch(call);
    case 'delete':
      return deleteOne(call);
    case 'deletecollection':
      return deleteCollection(call);
    default:
      return info.verb satisfies never;
  }
}

async function review(world: World, user: User, info: RequestInfo, request: ApiRequest): Promise<Plain | undefined> {
  const found = reviewFor(info.group, info.version, info.plural);
  if (found === undefined || info.name !== '') return undefined;
  if (request.method !== 'POST') throw methodNotAllowed({ group: found.group, plural: found.plural }, info.verb);
  const body = (await bodyObject({ request, headers: request.headers ?? {} })) ?? {};
  if (body['kind'] !== undefined && body['kind'] !== found.kind) throw badRequest(`the body is not a ${found.kind}`);
  const object: JsonObject = { kind: found.kind, apiVersion: `${found.group}/${found.version}`, ...found.answer(world, user, body) };
  return answer(201, JSON.stringify(object));
}

function sent(reply: Reply, warnings: readonly string[]): Plain {
  const headers = warningHeader(warnings);
  if ('stream' in reply) {
    return {
      status: reply.status,
      headers: { 'content-type': JSON_TYPE, 'cache-control': 'no-cache, private', ...headers },
      body: reply.stream,
    };
  }
  return answer(reply.status, 'text' in reply ? reply.text : JSON.stringify(reply.object), headers);
}

/** Whether the path has a namespace where the resource has one; lists and watches may span all. */
function reaches(served: Served, { namespace, verb }: RequestInfo): boolean {
  if (!served.namespaced) return namespace === '';
  return namespace !== '' || verb === 'list' || verb === 'watch';
}

async function route(world: World, user: User, request: ApiRequest): Promise<Plain> {
  const segments = segmentsOf(request.path);
  const query = request.query ?? {};
  authorize(world, user, request);
  const info = requestInfo(request.method, segments, query);
  if (info === undefined) return other(world, request, segments);
  const warnings: string[] = [];
  const base = { world, user, info, request, query, headers: request.headers ?? {}, warnings };
  const answered = await review(world, user, info, request);
  if (answered !== undefined) return answered;
  const served = world.registry.find(info.group, info.version, info.plural);
  if (served === undefined || !reaches(served, info)) {
    const builtin = world.registry
      .all()
      .some((item) => item.custom === undefined && item.group === info.group && item.version === info.version);
    if (!builtin && info.group !== '') return document404();
    throw noSuchPath();
  }
  if (served.custom?.deprecationWarning !== undefined) warnings.push(served.custom.deprecationWarning);
  try {
    return sent(await act({ ...base, served }), warnings);
  } catch (error) {
    if (error instanceof Refusal) return refused(error, warnings);
    throw error;
  }
}

/** What JSON there is of an answer, in YAML. */
async function inYaml(plain: Plain): Promise<Plain> {
  if (plain.headers['content-type'] !== JSON_TYPE || plain.headers['content-length'] === undefined) return plain;
  const chunks: Uint8Array[] = [];
  for await (const chunk of plain.body) chunks.push(chunk);
  const { stringify } = await import('yaml');
  const value: unknown = JSON.parse(Buffer.concat(chunks).toString('utf8'));
  const text = stringify(value, { sortMapEntries: true, lineWidth: 0, aliasDuplicateObjects: false, compat: 'yaml-1.1' });
  return answer(plain.status, text, {
    ...plain.headers,
    'content-type': 'application/yaml',
    'content-length': String(Buffer.byteLength(text)),
  });
}

/**
 * Answers one request of an authenticated user. Always resolves, but a watch's body rejects when the request's
 * signal is aborted.
 */
export async function handle(world: World, user: User, request: ApiRequest, onError: (error: unknown) => void): Promise<ApiResponse> {
  const plain = await answered(world, user, request, onError);
  return wantsYaml(request.headers?.['accept']) ? await inYaml(plain) : plain;
}

async function answered(world: World, user: User, request: ApiRequest, onError: (error: unknown) => void): Promise<Plain> {
  try {
    return await route(world, user, request);
  } catch (error) {
    if (error instanceof Refusal) return refused(error);
    // Upstream's decoders refuse such depth too; ours runs out of stack.
    if (error instanceof RangeError) return refused(badRequest('the body is nested too deeply'));
    onError(error);
    return refused(internalError(messageOf(error)));
  }
}
