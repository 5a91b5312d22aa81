import { CodedError, content, surroundings, type ErrorTable } from '../../api/errors.ts';
import type { Isolation } from './wall.ts';
import { findingText, type Finding } from './finding.ts';

/** Why a rendering gave nothing. Codes of the constructs (`fleetErrorCodes`) come through as they are. */
export const renderErrorCodes = {
  RenderSyntax: content('a file that is not TypeScript, JavaScript or JSON, or uses TypeScript that needs a compiler'),
  RenderImport: content('an import of something that rendering does not have'),
  RenderNotFound: content('an import of a file that the commit does not have; or the entry itself'),
  RenderThrew: content('fleet code threw'),
  RenderForbidden: content('fleet code reached for files, processes, the network or code made from text'),
  RenderNotRepeatable: content('fleet code asked for something that differs from one rendering to the next'),
  RenderUnstable: content('two renderings of the same files gave different objects'),
  RenderValue: content('a value that JSON or Kubernetes does not have'),
  RenderInvalid: content("a construct's own validation failed, or an object that is in no cluster"),
  RenderEmpty: content('no clusters or no objects'),
  RenderNeverSettles: content('a module waits for something that never comes'),
  RenderTimeout: surroundings('it took too long'),
  RenderMemory: surroundings('it took too much memory'),
  RenderTooLarge: content('too much was rendered or logged, or there are too many files'),
  RenderCrashed: surroundings('the child ended without a result'),
  RenderIsolation: surroundings('the isolation that is asked for is not to be had here'),
} as const satisfies ErrorTable;

export type RenderErrorCode = keyof typeof renderErrorCodes;

/** Why what was rendered is not applied. */
export const findingCodes = {
  KindRefused: content('a kind that a fleet does not have'),
  SchemaInvalid: content('a field that its kind does not have, or a value that it does not allow'),
  FieldRefused: content("a field that is not the fleet's to write"),
  NameInvalid: content('a name that Kubernetes does not allow'),
  LabelInvalid: content('a label or annotation that Kubernetes does not allow'),
  NamespaceWrong: content('a namespace where there must be none, none where there must be one, or a reserved one'),
  PoolMissing: content('a pool that the commit does not declare'),
  SecretInGit: content('secret data'),
  Duplicate: content('one object made twice'),
  ComponentMissing: content('a set that names a version which is not there'),
  ComponentUnused: content('a version that no set names'),
  RequirementMissing: content('a component whose requirement nothing installs'),
  SelectorEmpty: content('a selector that matches nothing'),
  RuleInvalid: content('a repair rule that would never be run: a fact, an operator, a rung or a proof that cannot be'),
  TooCostly: content('objects whose rules cost too much to judge, all together'),
  SetsConflict: content('two sets that select the same machines for one component'),
} as const satisfies ErrorTable;

export type FindingCode = keyof typeof findingCodes;

const ROWS: ErrorTable = { ...findingCodes, ...renderErrorCodes };

/** Whether findings judge the content. Those of the constructs all do: they are errors of fleet code. */
export function isVerdict(findings: readonly Finding[]): boolean {
  return findings.every(({ code }) => ROWS[code]?.verdict ?? true);
}

/** A rendering that gave nothing. What was applied before stays. `code` and `next` are the first finding's. */
export class RenderError extends CodedError {
  readonly findings: readonly [Finding, ...Finding[]];
  readonly log: string;
  readonly isolation: Isolation | undefined;

  constructor(findings: readonly [Finding, ...Finding[]], options: { log?: string; isolation?: Isolation; cause?: unknown } = {}) {
    const [first, ...more] = findings;
    super(first.code, more.length === 0 ? findingText(first) : `${findingText(first)} (and ${more.length} more)`, {
      verdict: isVerdict(findings),
      ...(first.next === undefined ? {} : { next: first.next }),
      ...(options.cause === undefined ? {} : { cause: options.cause }),
    });
    this.name = 'RenderError';
    this.findings = findings;
    this.log = options.log ?? '';
    this.isolation = options.isolation;
  }
}
