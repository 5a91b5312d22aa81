import type { ApiRequest } from '@kubenode/api-machinery/transport';

type Verb = 'get' | 'list' | 'watch' | 'create' | 'update' | 'patch' | 'delete' | 'deletecollection';

/** The parts of a resource path. Names are decoded; empty strings stand for absent parts. */
export interface RequestInfo {
  readonly verb: Verb;
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly namespace: string;
  readonly name: string;
  readonly subresource: string;
}

const WORDS: Record<ApiRequest['method'], Verb> = { GET: 'get', POST: 'create', PUT: 'update', PATCH: 'patch', DELETE: 'delete' };

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

export function segmentsOf(path: string): string[] {
  return path
    .split('/')
    .filter((segment) => segment !== '')
    .map(decoded);
}

/** Subresources of a namespace itself; any other third segment is a resource inside it. */
const NAMESPACE_SUBRESOURCES = new Set(['status', 'finalize']);

/**
 * Reads `/api/v1/…` and `/apis/GROUP/VERSION/…`; undefined for every other path, also for those that only name a group
 * or version. The old `/watch/` prefix is understood.
 */
export function requestInfo(
  method: ApiRequest['method'],
  segments: readonly string[],
  query: Readonly<Record<string, string>>,
): RequestInfo | undefined {
  const legacy = segments[0] === 'api';
  if (!legacy && segments[0] !== 'apis') return undefined;
  const rest = segments.slice(legacy ? 2 : 3);
  const group = legacy ? '' : (segments[1] ?? '');
  const version = segments[legacy ? 1 : 2] ?? '';
  const prefixed = rest[0] === 'watch' && method === 'GET' && rest.length > 1;
  if (prefixed) rest.shift();
  if (rest.length === 0) return undefined;
  let namespace = '';
  let parts = rest;
  if (rest[0] === 'namespaces' && rest.length > 2 && !NAMESPACE_SUBRESOURCES.has(rest[2] ?? '')) {
    namespace = rest[1] ?? '';
    parts = rest.slice(2);
  }
  if (parts.length > 3) return undefined;
  const [plural = '', name = '', subresource = ''] = parts;
  let verb = WORDS[method];
  if (verb === 'get' && (name === '' || prefixed)) verb = 'list';
  if (verb === 'delete' && name === '') verb = 'deletecollection';
  const watches = prefixed || query['watch'] === 'true' || query['watch'] === '1';
  if (verb === 'list' && watches) verb = 'watch';
  return { verb, group, version, plural, namespace, name, subresource };
}
