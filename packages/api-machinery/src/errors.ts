/**
 * Errors with a code. Each area keeps one table of its codes; callers branch on `code`, people read `message`.
 * A message names what is wrong, where, and what is allowed; `next` is a command or a step that can be taken.
 */
export class CodedError extends Error {
  readonly code: string;
  readonly next: string | undefined;
  /**
   * Whether this is a verdict about content: the same content gets it again, for everyone and at any time. Only such an error may refuse a commit; all
   * others are tried again.
   */
  readonly verdict: boolean;

  constructor(code: string, message: string, options: { cause?: unknown; next?: string; verdict?: boolean } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'CodedError';
    this.code = code;
    this.next = options.next;
    this.verdict = options.verdict ?? false;
  }
}

/** A row of a table of codes: what the code means, and whether it is a verdict about content. */
export interface ErrorRow {
  readonly means: string;
  readonly verdict: boolean;
}

/** The content is at fault. */
export const content = (means: string): ErrorRow => ({ means, verdict: true });
/** Something around it is, or nothing could be judged: trying again may help. */
export const surroundings = (means: string): ErrorRow => ({ means, verdict: false });

export function isCoded(error: unknown, ...codes: string[]): error is CodedError {
  return error instanceof CodedError && (codes.length === 0 || codes.includes(error.code));
}

/** The message of anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
