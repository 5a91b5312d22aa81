export interface ErrorOptions {
  cause?: unknown;
  /** A command or a step that can be taken. */
  next?: string;
}

/**
 * Errors with a code. Each area keeps one table of its codes, which `errorsOf` makes errors of; callers branch on `code`, people read `message`. Only this
 * file and subclasses construct one (`kubenode/codes-of-tables` of the linter).
 * A message names what is wrong, where, and what is allowed; `next` is a command or a step that can be taken.
 */
export class CodedError<Code extends string = string> extends Error {
  readonly code: Code;
  readonly next: string | undefined;
  /**
   * Whether this is a verdict about content: the same content gets it again, for everyone and at any time. Only such an error may refuse a commit; all
   * others are tried again.
   */
  readonly verdict: boolean;

  constructor(code: Code, message: string, options: ErrorOptions & { verdict?: boolean } = {}) {
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

/** The codes of one area. */
export type ErrorTable = Readonly<Record<string, ErrorRow>>;
export type CodeOf<Table extends ErrorTable> = keyof Table & string;

/** Makes errors of a table. */
export function errorsOf<Table extends ErrorTable>(table: Table) {
  return <Code extends CodeOf<Table>>(code: Code, message: string, options: ErrorOptions = {}): CodedError<Code> =>
    new CodedError(code, message, { ...options, verdict: table[code]?.verdict ?? false });
}

/** The error again with another message, and with another `next` where that is given: same code, same verdict. Its cause is only what `options` name. */
export function reworded<Code extends string>(error: CodedError<Code>, message: string, options: ErrorOptions = {}): CodedError<Code> {
  const next = options.next ?? error.next;
  return new CodedError(error.code, message, { ...options, ...(next === undefined ? {} : { next }), verdict: error.verdict });
}

/** Whether it has a code: any, any of the table, or one of those that are named. */
export function isCoded(error: unknown): error is CodedError;
export function isCoded<Table extends ErrorTable, Code extends CodeOf<Table> = CodeOf<Table>>(
  error: unknown,
  table: Table,
  ...codes: Code[]
): error is CodedError<Code>;
export function isCoded(error: unknown, table?: ErrorTable, ...codes: string[]): boolean {
  if (!(error instanceof CodedError)) return false;
  if (codes.length > 0) return codes.includes(error.code);
  return table === undefined || Object.hasOwn(table, error.code);
}

/** The message of anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
