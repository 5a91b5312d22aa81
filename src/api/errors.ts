/**
 * Errors with a code. Each area keeps one table of its codes; callers branch on `code`, people read `message`.
 * A message says what is wrong, where, and what is allowed; `next` is a command or a step that can be taken.
 */
export class CodedError extends Error {
  readonly code: string;
  readonly next: string | undefined;

  constructor(code: string, message: string, options: { cause?: unknown; next?: string } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'CodedError';
    this.code = code;
    this.next = options.next;
  }
}

export function isCoded(error: unknown, ...codes: string[]): error is CodedError {
  return error instanceof CodedError && (codes.length === 0 || codes.includes(error.code));
}

/** The message of anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
