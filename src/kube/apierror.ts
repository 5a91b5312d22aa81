import { CodedError } from '../api/errors.ts';
import type { Status, StatusCause } from '../api/wire.ts';

/** An answer of the API server that is not 2xx. `reason` is the Kubernetes reason: NotFound, Conflict, AlreadyExists, Invalid, Expired … */
export class ApiError extends CodedError {
  readonly status: number;
  readonly reason: string;
  readonly causes: StatusCause[];
  readonly retryAfterSeconds: number | undefined;

  constructor(status: number, body: Partial<Status>, options: { cause?: unknown } = {}) {
    super(body.reason ?? 'Unknown', body.message ?? `the server answered ${status}`, options);
    this.name = 'ApiError';
    this.status = status;
    this.reason = body.reason ?? 'Unknown';
    this.causes = body.details?.causes ?? [];
    this.retryAfterSeconds = body.details?.retryAfterSeconds;
  }
}

export function hasReason(error: unknown, ...reasons: string[]): error is ApiError {
  return error instanceof ApiError && reasons.includes(error.reason);
}
