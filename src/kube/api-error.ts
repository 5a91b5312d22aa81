import { CodedError } from '../api/errors.ts';
import type { Status, StatusCause } from '../api/wire.ts';

/** An answer of the API server that is not 2xx; never a verdict about a commit. `reason` is the Kubernetes reason: NotFound, Conflict, AlreadyExists, Invalid, Expired … */
export class ApiError extends CodedError {
  readonly status: number;
  readonly reason: string;
  readonly causes: StatusCause[];
  readonly retryAfterSeconds: number | undefined;
  readonly details: Status['details'];
  /** Method of the request with this answer, where it is known. */
  readonly method: string | undefined;
  readonly path: string | undefined;

  constructor(status: number, body: Partial<Status>, options: { cause?: unknown; method?: string; path?: string } = {}) {
    const message = body.message ?? `the server answered ${status}`;
    super(body.reason ?? 'Unknown', options.path === undefined ? message : `${options.method} ${options.path}: ${message}`, options);
    this.name = 'ApiError';
    this.status = status;
    this.reason = body.reason ?? 'Unknown';
    this.causes = body.details?.causes ?? [];
    this.retryAfterSeconds = body.details?.retryAfterSeconds;
    this.details = body.details;
    this.method = options.method;
    this.path = options.path;
  }
}

export function hasReason(error: unknown, ...reasons: string[]): error is ApiError {
  return error instanceof ApiError && reasons.includes(error.reason);
}

/** The server, or a policy or webhook in it, does not take what was sent, and would not take it again. A webhook need not give a reason. */
export function isRefusal(error: unknown): error is ApiError {
  return error instanceof ApiError && [400, 403, 422].includes(error.status);
}

const LONGEST_ASKED_MS = 300_000;

/** How long the server asked to be left alone, at most five minutes; 0 where it named none. */
export function askedMsOf(error: unknown): number {
  return error instanceof ApiError ? Math.min(LONGEST_ASKED_MS, Math.max(0, error.retryAfterSeconds ?? 0) * 1000) : 0;
}

/** The history asked for is gone: a watch or a continued list must start again with a new list. */
export function isExpired(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 410 || error.reason === 'Expired' || error.reason === 'Gone');
}

/** The server does not know this resourceVersion yet, or never will (restored from a backup). */
export function isFromTheFuture(error: unknown): boolean {
  return error instanceof ApiError && error.causes.some((cause) => cause.reason === 'ResourceVersionTooLarge');
}
