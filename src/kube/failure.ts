import type { ApiRequest, ApiResponse } from '../api/transport.ts';
import type { Status } from '../api/wire.ts';
import { LONGEST_CONDITION_MESSAGE, plainText } from '../api/plain-text.ts';
import { ApiError } from './api-error.ts';

export function isRecord(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}

/** Reasons for answers that are no Status: proxies, load balancers, a server that is starting. */
const REASONS: Record<number, string> = {
  400: 'BadRequest',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
  405: 'MethodNotAllowed',
  409: 'Conflict',
  410: 'Gone',
  413: 'RequestEntityTooLarge',
  415: 'UnsupportedMediaType',
  422: 'Invalid',
  429: 'TooManyRequests',
  500: 'InternalError',
  503: 'ServiceUnavailable',
  504: 'Timeout',
};

/** An answer that is not 2xx, with its body. */
export function failure(request: ApiRequest, response: ApiResponse, text: string): ApiError {
  const status = inWords(request, response.status, statusObject(text)) ?? {
    reason: REASONS[response.status] ?? 'Unknown',
    message: excerpt(response.status, text),
  };
  const retryAfter = Number(response.headers['retry-after']);
  const body: Partial<Status> =
    status.details?.retryAfterSeconds === undefined && Number.isFinite(retryAfter) && retryAfter > 0
      ? { ...status, details: { ...status.details, retryAfterSeconds: retryAfter } }
      : status;
  return new ApiError(response.status, body, request);
}

/** A plain message for a Status of one word, or for an answer that is no Status. */
function inWords(request: ApiRequest, status: number, given: Partial<Status> | undefined): Partial<Status> | undefined {
  // oxlint-disable-next-line kubenode/no-sentence-decisions -- the one word of a real server
  if (status === 401 && (given === undefined || given.message === 'Unauthorized'))
    return { ...given, reason: 'Unauthorized', message: 'Unauthorized: the server does not accept these credentials' };
  // No Status: it is not the object that is absent, but the path.
  const kind =
    given === undefined && status === 404 ? /^\/(?:api|apis\/[^/]+)\/[^/]+\/(?:namespaces\/[^/]+\/)?([^/]+)/.exec(request.path) : null;
  const group = request.path.startsWith('/api/') ? 'v1' : request.path.split('/').slice(2, 4).join('/');
  return kind === null ? given : { reason: 'NotFound', message: `this API server does not serve ${kind[1]} of ${group}` };
}

function excerpt(status: number, text: string): string {
  const words = text.replaceAll(/\s+/g, ' ').trim().slice(0, 200);
  return words === '' ? `the server answered ${status}` : `the server answered ${status}: ${words}`;
}

function statusObject(text: string): Partial<Status> | undefined {
  try {
    const body: unknown = JSON.parse(text);
    return isRecord(body) && body['kind'] === 'Status' ? statusOf(body) : undefined;
  } catch {
    return undefined;
  }
}

/** Length of a reason, and of a name. Kubernetes' own are shorter. */
const LONGEST_WORD = 512;
const MOST_CAUSES = 100;

/** What of a Status is well-formed. Its texts become parts of messages, which are logged, recorded and copied: they are cut here. */
export function statusOf(body: Record<string, unknown>): Partial<Status> {
  const { reason, message, details } = body;
  return {
    ...(typeof reason === 'string' && reason !== '' ? { reason: cut(reason, LONGEST_WORD) } : {}),
    ...(typeof message === 'string' ? { message: cut(message, LONGEST_CONDITION_MESSAGE) } : {}),
    ...(isRecord(details) ? { details: detailsOf(details) } : {}),
  };
}

/** Also where a person reads it, of many lines: the length of a condition is enough. The code that shows it makes it plain. */
function cut(text: string, limit: number): string {
  return text.length <= limit ? text : plainText(text, limit);
}

function detailsOf(details: Record<string, unknown>): NonNullable<Status['details']> {
  const { retryAfterSeconds, causes } = details;
  return {
    ...cutAll(strings(details, ['name', 'group', 'kind', 'uid']), LONGEST_WORD),
    ...(typeof retryAfterSeconds === 'number' ? { retryAfterSeconds } : {}),
    ...(Array.isArray(causes)
      ? {
          causes: causes
            .slice(0, MOST_CAUSES)
            .filter(isRecord)
            .map((cause) => cutAll(strings(cause, ['reason', 'message', 'field']), LONGEST_CONDITION_MESSAGE)),
        }
      : {}),
  };
}

function cutAll<Texts extends Partial<Record<string, string>>>(texts: Texts, limit: number): Texts {
  return Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, cut(text ?? '', limit)])) as Texts;
}

/** The members of these names that are strings. */
export function strings<Name extends string>(from: Record<string, unknown>, names: Name[]): Partial<Record<Name, string>> {
  const entries = names.flatMap((name) => (typeof from[name] === 'string' ? [[name, from[name]] as const] : []));
  return Object.fromEntries(entries) as Partial<Record<Name, string>>;
}
