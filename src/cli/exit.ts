import { isCoded, messageOf } from '../api/errors.ts';
import { GROUP } from '../api/kind.ts';
import { ApiError } from '../kube/api-error.ts';
import { kubeErrorCodes } from '../kube/errors.ts';
import { cliErrorCodes } from './errors.ts';
import type { Output } from './output.ts';

/** Published exit codes; `kubenode help exit-codes` prints them. */
export const EXIT = { ok: 0, failed: 1, differs: 1, usage: 2, refused: 3, unplanned: 4, heldBack: 5, pending: 8 } as const;

export const EXIT_CODES = `Exit codes
  0  done; or: nothing differs
  1  failed; or: something differs
  2  the call itself was wrong
  3  the hub would refuse the commit (kubenode plan)
  4  no plan could be made (kubenode plan): nothing is known of what changes
  5  a part of the commit would be held back by the limits of deletions (kubenode plan)
  8  still pending when the time was over
  141  the reader of the output has gone, as with \`| head\`
`;

/** One message, what to do next, and the code; a stack only where KUBENODE_DEBUG asks for it. */
export function fail(output: Output, error: unknown): number {
  output.report('failed', messageOf(error));
  const next = nextOf(error);
  if (next !== undefined) process.stderr.write(`next: ${next}\n`);
  if (process.env['KUBENODE_DEBUG'] !== undefined && error instanceof Error) process.stderr.write(`${error.stack ?? ''}\n`);
  return isCoded(error, cliErrorCodes, 'Usage') ? EXIT.usage : EXIT.failed;
}

/** What to do about an answer of an API server, or the want of one, where the code that threw it could not know. */
function nextOf(error: unknown): string | undefined {
  if (!isCoded(error)) return undefined;
  if (error.next !== undefined) return error.next;
  if (isCoded(error, kubeErrorCodes, 'KubeconfigInvalid', 'ConnectionInvalid', 'NoContext'))
    return 'correct it, or name another: --kubeconfig FILE --context NAME';
  if (isCoded(error, kubeErrorCodes, 'Unreachable')) return 'is that the server you mean? Name another: --kubeconfig FILE --context NAME';
  if (!(error instanceof ApiError)) return undefined;
  if (error.status === 401) return 'fetch a new kubeconfig from its issuer, or name another: --kubeconfig FILE --context NAME';
  if (error.status === 403) return 'ask its administrator to bind you kubenode-view, kubenode-operator or kubenode-admin';
  if (isUnserved(error)) return 'is it the hub, or the cell, that you mean? --context NAME; if so: kubenode install --hub, or --cell';
  return undefined;
}

/** It is no object that is absent, but its kind. */
const isUnserved = (error: ApiError): boolean =>
  error.status === 404 && error.details === undefined && error.path?.startsWith(`/apis/${GROUP}/`) === true;
