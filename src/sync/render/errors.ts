import { CodedError } from '../../api/errors.ts';
import type { Isolation } from './wall.ts';
import { findingText, type Finding } from './finding.ts';

/** Why a rendering gave nothing. Codes of the constructs (`fleetErrorCodes`) come through as they are. */
export const renderErrorCodes = {
  RenderSyntax: 'a file that is not TypeScript, JavaScript or JSON, or uses TypeScript that needs a compiler',
  RenderImport: 'an import of something that rendering does not have',
  RenderNotFound: 'an import of a file that the commit does not have; or the entry itself',
  RenderThrew: 'fleet code threw',
  RenderForbidden: 'fleet code reached for files, processes, the network or code made from text',
  RenderNotRepeatable: 'fleet code asked for something that differs from one rendering to the next',
  RenderUnstable: 'two renderings of the same files gave different objects',
  RenderValue: 'a value that JSON or Kubernetes cannot hold',
  RenderInvalid: "a construct's own validation failed, or an object that is in no cluster",
  RenderEmpty: 'no clusters or no objects',
  RenderNeverSettles: 'a module waits for something that never comes',
  RenderTimeout: 'it took too long',
  RenderMemory: 'it took too much memory',
  RenderTooLarge: 'too much was rendered or logged, or there are too many files',
  RenderCrashed: 'the child ended without a result',
  RenderIsolation: 'the isolation that is asked for is not to be had here',
} as const;

export type RenderErrorCode = keyof typeof renderErrorCodes;

/** Why what was rendered is not applied. */
export const findingCodes = {
  KindRefused: 'a kind that a fleet does not hold',
  SchemaInvalid: 'a field that its kind does not have, or a value that it does not allow',
  FieldRefused: "a field that is not the fleet's to write",
  NameInvalid: 'a name that Kubernetes does not allow',
  LabelInvalid: 'a label or annotation that Kubernetes does not allow',
  NamespaceWrong: 'a namespace where there must be none, none where there must be one, or a reserved one',
  PoolMissing: 'a pool that the commit does not declare',
  SecretInGit: 'secret data',
  Duplicate: 'one object made twice',
  ComponentMissing: 'a set that names a version which is not there',
  ComponentUnused: 'a version that no set names',
  RequirementMissing: 'a component whose requirement nothing installs',
  SelectorEmpty: 'a selector that matches nothing',
  RuleInvalid: 'a repair rule that would never be run: a fact, an operator, a rung or a proof that cannot be',
  SetsConflict: 'two sets that select the same machines for one component',
} as const;

export type FindingCode = keyof typeof findingCodes;

/** A rendering that gave nothing. What was applied before stays. `code` and `next` are the first finding's. */
export class RenderError extends CodedError {
  readonly findings: readonly [Finding, ...Finding[]];
  readonly log: string;
  readonly isolation: Isolation | undefined;

  constructor(findings: readonly [Finding, ...Finding[]], options: { log?: string; isolation?: Isolation; cause?: unknown } = {}) {
    const [first, ...more] = findings;
    super(first.code, more.length === 0 ? findingText(first) : `${findingText(first)} (and ${more.length} more)`, {
      ...(first.next === undefined ? {} : { next: first.next }),
      ...(options.cause === undefined ? {} : { cause: options.cause }),
    });
    this.name = 'RenderError';
    this.findings = findings;
    this.log = options.log ?? '';
    this.isolation = options.isolation;
  }
}
