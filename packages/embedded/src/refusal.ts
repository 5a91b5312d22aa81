import type { Status, StatusCause } from '@kubenode/api-machinery/wire';
import { aggregate, causesOf, type FieldProblem } from './field-error.ts';

/** A request that is answered with a Status of kind Failure. The words are kube-apiserver's: clients and people match on them. */
export class Refusal extends Error {
  readonly code: number;
  readonly body: Status;

  constructor(code: number, reason: string | undefined, message: string, details?: Status['details'], metadata: Status['metadata'] = {}) {
    super(message);
    this.name = 'Refusal';
    this.code = code;
    this.body = {
      kind: 'Status',
      apiVersion: 'v1',
      metadata,
      status: 'Failure',
      message,
      ...(reason === undefined ? {} : { reason }),
      ...(details === undefined ? {} : { details }),
      code,
    };
  }

  get reason(): string | undefined {
    return this.body.reason;
  }
}

/** Group and plural, `machines.kubenode.io`; the core group has no suffix. */
interface GroupResource {
  readonly group: string;
  readonly plural: string;
}

export function qualified({ group, plural }: GroupResource): string {
  return group === '' ? plural : `${plural}.${group}`;
}

const details = (resource: GroupResource, name?: string) => ({
  ...(name === undefined || name === '' ? {} : { name }),
  ...(resource.group === '' ? {} : { group: resource.group }),
  kind: resource.plural,
});

const quote = (text: string) => JSON.stringify(text);

export const notFound = (resource: GroupResource, name: string) =>
  new Refusal(404, 'NotFound', `${qualified(resource)} ${quote(name)} not found`, details(resource, name));

/** For paths that lead nowhere. */
export const noSuchPath = () => new Refusal(404, 'NotFound', 'the server could not find the requested resource', {});

export const alreadyExists = (resource: GroupResource, name: string, deleting = false) =>
  new Refusal(
    409,
    'AlreadyExists',
    `${deleting ? 'object is being deleted: ' : ''}${qualified(resource)} ${quote(name)} already exists`,
    details(resource, name),
  );

export const nameNotGenerated = (resource: GroupResource, name: string) =>
  new Refusal(
    409,
    'AlreadyExists',
    `${qualified(resource)} ${quote(name)} already exists, the server was not able to generate a unique name for the object`,
    { ...details(resource, name), retryAfterSeconds: 1 },
  );

export const conflict = (resource: GroupResource, name: string, why: string) =>
  new Refusal(409, 'Conflict', `Operation cannot be fulfilled on ${qualified(resource)} ${quote(name)}: ${why}`, details(resource, name));

export const OUTDATED = 'the object has been modified; please apply your changes to the latest version and try again';

export const forbiddenObject = (resource: GroupResource, name: string, why: string, causes?: StatusCause[]) =>
  new Refusal(403, 'Forbidden', `${qualified(resource)}${name === '' ? '' : ` ${quote(name)}`} is forbidden: ${why}`, {
    ...details(resource, name),
    ...(causes === undefined ? {} : { causes }),
  });

export const unauthorized = () => new Refusal(401, 'Unauthorized', 'Unauthorized');

export const badRequest = (message: string) => new Refusal(400, 'BadRequest', message);

export const methodNotAllowed = (resource: GroupResource, action: string) =>
  new Refusal(405, 'MethodNotAllowed', `${action} is not supported on resources of kind ${quote(qualified(resource))}`, details(resource));

/** The answer of a built-in resource that has no such method. */
export const noSuchMethod = () =>
  new Refusal(405, 'MethodNotAllowed', 'the server does not allow this method on the requested resource', {});

export const notAcceptable = (supported: readonly string[]) =>
  new Refusal(406, 'NotAcceptable', `only the following media types are accepted: ${supported.join(', ')}`);

export const unsupportedMediaType = (supported: readonly string[]) =>
  new Refusal(
    415,
    'UnsupportedMediaType',
    `the body of the request was in an unknown format - accepted media types include: ${supported.join(', ')}`,
  );

export const entityTooLarge = (message: string) => new Refusal(413, 'RequestEntityTooLarge', `Request entity too large: ${message}`);

/** 422 whose cause the server does not name, as for a JSON patch that does not apply. */
export const unprocessable = () => new Refusal(422, 'Invalid', 'the server rejected our request due to an error in our request', {});

export function invalidObject(group: string, kind: string, name: string, problems: readonly FieldProblem[]): Refusal {
  const qualifiedKind = group === '' ? kind : `${kind}.${group}`;
  return new Refusal(422, 'Invalid', `${qualifiedKind} ${quote(name)} is invalid: ${aggregate(problems)}`, {
    ...(name === '' ? {} : { name }),
    ...(group === '' ? {} : { group }),
    ...(kind === '' ? {} : { kind }),
    causes: causesOf(problems),
  });
}

export const expired = (message: string, continueToken?: string) =>
  new Refusal(410, 'Expired', message, undefined, continueToken === undefined ? {} : { continue: continueToken });

export const tooLargeResourceVersion = (asked: number, current: number) =>
  new Refusal(504, 'Timeout', `Timeout: Too large resource version: ${asked}, current: ${current}`, {
    causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
    retryAfterSeconds: 1,
  });

export const tooManyRequests = (message: string, retryAfterSeconds: number, causes?: StatusCause[]) =>
  new Refusal(429, 'TooManyRequests', message, {
    ...(causes === undefined ? {} : { causes }),
    ...(retryAfterSeconds === 0 ? {} : { retryAfterSeconds }),
  });

export const internalError = (message: string) =>
  new Refusal(500, 'InternalError', `Internal error occurred: ${message}`, { causes: [{ message }] });
