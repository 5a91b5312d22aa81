import { CodedError, isCoded, messageOf } from '../api/errors.ts';
import { plainText } from '../api/plain-text.ts';

/**
 * Codes of the agent. What concerns one component becomes `failed.reason` of its status.
 *
 * of what was asked:   SpecInvalid, NoPlatform, TemplateInvalid, TemplateUnknown, PathRefused, FileConflict, UnitConflict,
 *                      SignatureRefused, ValuesRefused
 * of artifacts:        UrlRefused, ArtifactRefused, HttpStatus, DigestMismatch, TooLarge, TooSlow, ArchiveInvalid
 * of carrying it out:  HookFailed, ProbesFailed, UnitFailed, FileFailed, CredentialsRefused
 * of the node itself:  JournalDamaged, ReceiptDamaged, DiskFailing, BootstrapInvalid, BootUnknown, KeysInvalid, HostUnfit, RebootFailed,
 *                      AgentRunning
 */
export const agentError = (code: string, message: string, options: { cause?: unknown; next?: string } = {}): CodedError =>
  new CodedError(code, message, options);

/** The code of anything that was thrown; system errors keep theirs (ENOSPC, EACCES …). */
export function codeOf(error: unknown): string {
  if (isCoded(error)) return error.code;
  if (error instanceof Error && 'code' in error && typeof error.code === 'string') return error.code;
  return 'Unexpected';
}

/** UpperCamelCase, as reasons of conditions and Events must be: `ENOSPC` stays, `Unexpected` is the rest. */
export function failureOf(error: unknown): { reason: string; message: string } {
  return { reason: codeOf(error), message: short(messageOf(error)) };
}

/** How a program ended and what it printed, however that is laid out: for one line of a message. */
export const endOf = ({ how, output }: { how: string; output: string }): string =>
  output === '' ? how : `${how}: ${output.replaceAll(/\s+/g, ' ').trim()}`;

/** Text of a node may hold anything; this is how it may stand in a status: plain, and with room in the 1,024 characters there. */
export function short(text: string, limit = 1000): string {
  return plainText(text, limit);
}
