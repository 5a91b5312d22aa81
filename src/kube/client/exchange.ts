import { kubeError } from '../errors.ts';
import { CodedError, messageOf, objectError } from '../../api/errors.ts';
import type { Clock } from '../../api/ports.ts';
import type { ApiRequest, ApiResponse, Transport } from '../../api/transport.ts';
import { failure } from '../failure.ts';
import { jsonMemory } from '../json-memory.ts';
import type { AnswerLimits } from './limits.ts';

/** Requests of one client and their answers, which it reads within limits. */
export interface Exchange {
  readonly transport: Transport;
  readonly limits: AnswerLimits;
  readonly clock: Pick<Clock, 'setTimer'>;
  readonly userAgent: string;
  /** Default for writes that name none. */
  readonly fieldManager: string | undefined;
  /** Bytes of the answers that are being read. */
  underWay: number;
}

/** Limit of an answer that is no success. */
const MAX_FAILURE_BYTES = 1024 ** 2;

export async function send(exchange: Exchange, request: ApiRequest): Promise<ApiResponse> {
  const headers = {
    accept: 'application/json',
    'user-agent': exchange.userAgent,
    ...(request.body === undefined ? {} : { 'content-type': 'application/json' }),
    ...request.headers,
  };
  const response = await answered(request, () => exchange.transport({ ...request, headers }));
  if (response.status >= 200 && response.status < 300) return response;
  throw failure(request, response, await textOf(exchange, request, response, MAX_FAILURE_BYTES));
}

export async function json(exchange: Exchange, request: ApiRequest): Promise<unknown> {
  const { objectBytes, objectMemory } = exchange.limits;
  return decode(request, await text(exchange, request, objectBytes), objectMemory);
}

export async function text(exchange: Exchange, request: ApiRequest, maxBytes: number): Promise<string> {
  return await inTime(exchange, request, async (bounded) => await textOf(exchange, bounded, await send(exchange, bounded), maxBytes));
}

/** The signal ends with the request, or at a deadline of the whole: bytes that arrive slowly delay no caller. */
async function inTime<T>({ limits, clock }: Exchange, request: ApiRequest, work: (request: ApiRequest) => Promise<T>): Promise<T> {
  request.signal?.throwIfAborted();
  const controller = new AbortController();
  const onAbort = (): void => controller.abort(request.signal?.reason);
  request.signal?.addEventListener('abort', onAbort, { once: true });
  const late = (): Error => kubeError('RequestTimeout', `${where(request)}: the answer was not complete after ${limits.answerMs / 1000} s`);
  const cancel = clock.setTimer(limits.answerMs, () => controller.abort(late()));
  try {
    return await work({ ...request, signal: controller.signal });
  } finally {
    cancel();
    request.signal?.removeEventListener('abort', onAbort);
  }
}

/** Leaving the loop early ends the stream. */
async function textOf(exchange: Exchange, request: ApiRequest, response: ApiResponse, maxBytes: number): Promise<string> {
  const { underWayBytes } = exchange.limits;
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const chunk of bodyOf(request, response)) {
      bytes += chunk.length;
      exchange.underWay += chunk.length;
      if (bytes > maxBytes) throw tooLarge(request, `is longer than ${maxBytes} bytes`);
      if (exchange.underWay > underWayBytes)
        throw tooLarge(request, `and others of this server that are under way are longer than ${underWayBytes} bytes`);
      chunks.push(chunk);
    }
    return new TextDecoder().decode(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks));
  } finally {
    exchange.underWay -= bytes;
  }
}

/** What is small as text may be large in memory: it is counted before it is made. */
export function decode(request: ApiRequest, text: string, maxMemory: number): unknown {
  if (Number.isFinite(maxMemory) && jsonMemory(text, maxMemory) > maxMemory)
    throw tooLarge(request, `has so many parts that it would take more than ${maxMemory} bytes of memory`);
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw invalid(request, `no JSON: ${JSON.stringify(text.slice(0, 100))}`, cause);
  }
}

export async function* bodyOf(request: ApiRequest, response: ApiResponse): AsyncGenerator<Uint8Array, void> {
  try {
    yield* response.body;
  } catch (error) {
    throw unreachable(request, error);
  }
}

async function answered<T>(request: ApiRequest, answer: () => Promise<T>): Promise<T> {
  try {
    return await answer();
  } catch (error) {
    throw unreachable(request, error);
  }
}

function unreachable(request: ApiRequest, cause: unknown): unknown {
  if (request.signal?.aborted === true) return request.signal.reason;
  if (cause instanceof CodedError) return cause;
  return kubeError('Unreachable', `${where(request)}: no answer from the API server: ${messageOf(cause)}`, { cause });
}

/** The request, in a message. */
export function where(request: ApiRequest): string {
  return `${request.method} ${request.path}`;
}

export function invalid(request: ApiRequest, what: string, cause?: unknown): CodedError {
  return objectError('InvalidObject', `${where(request)}: the answer is ${what}`, { cause });
}

export function tooLarge(request: ApiRequest, what: string): CodedError {
  return kubeError('AnswerTooLarge', `${where(request)}: the answer ${what}`);
}
