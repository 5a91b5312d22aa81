import { CodedError, messageOf } from '../api/errors.ts';
import type { Output } from './output.ts';

/** Published exit codes; `kubenode help exit-codes` prints them. */
export const EXIT = { ok: 0, failed: 1, differs: 1, usage: 2, pending: 8 } as const;

export const EXIT_CODES = `Exit codes
  0  done; or: nothing differs
  1  failed; or: something differs
  2  the call itself was wrong
  8  still pending when the time was over
  141  whoever read the output has gone, as with \`| head\`
`;

/** One message, what to do next, and the code; a stack only where KUBENODE_DEBUG asks for it. */
export function fail(output: Output, error: unknown): number {
  output.say('failed', messageOf(error));
  if (error instanceof CodedError && error.next !== undefined) process.stderr.write(`next: ${error.next}\n`);
  if (process.env['KUBENODE_DEBUG'] !== undefined && error instanceof Error) process.stderr.write(`${error.stack ?? ''}\n`);
  return error instanceof CodedError && error.code === 'Usage' ? EXIT.usage : EXIT.failed;
}
