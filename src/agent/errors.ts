import { CodedError, errorsOf, isCoded, messageOf, surroundings, type ErrorTable } from '../api/errors.ts';
import { plainText } from '../api/plain-text.ts';

/** Codes of the agent. What concerns one component becomes `failed.reason` of its status. */
export const agentErrorCodes = {
  SpecInvalid: surroundings('what was asked: a specification that cannot be'),
  NoPlatform: surroundings('a component that has nothing for this platform'),
  TemplateInvalid: surroundings('a template that cannot be read'),
  TemplateUnknown: surroundings('a template that names a value which is not there'),
  PathRefused: surroundings('a path that leads where a component may not write'),
  FileConflict: surroundings('a file that belongs to another component'),
  UnitConflict: surroundings('a systemd unit that belongs to another component'),
  SignatureRefused: surroundings('a component without a signature that this node accepts'),
  ValuesRefused: surroundings('values that the component does not take'),
  UrlRefused: surroundings('an address that artifacts do not come from'),
  ArtifactRefused: surroundings('a server that does not give the artifact'),
  HttpStatus: surroundings('a status that fetching does not expect'),
  DigestMismatch: surroundings('content that does not match its digest'),
  TooLarge: surroundings('more bytes than the limit'),
  TooSlow: surroundings('fewer bytes a second than the limit'),
  ArchiveInvalid: surroundings('an archive that cannot be unpacked safely'),
  HookFailed: surroundings('a hook that failed'),
  ProbesFailed: surroundings('probes that failed'),
  UnitFailed: surroundings('a systemd unit that failed'),
  FileFailed: surroundings('a file that could not be written or read'),
  CredentialsRefused: surroundings('credentials that the API server does not take, or does not give'),
  CertificateForeign: surroundings('a certificate of another key or machine'),
  NotAdmitted: surroundings('this machine is not admitted'),
  NoToken: surroundings('no token to be admitted with'),
  JournalDamaged: surroundings('a journal that cannot be read'),
  ReceiptDamaged: surroundings('a receipt that cannot be read'),
  DiskFailing: surroundings('a disk that does not keep what is written'),
  BootstrapInvalid: surroundings('a bootstrap that cannot be used'),
  BootUnknown: surroundings('a boot that cannot be distinguished from the one before'),
  KeysInvalid: surroundings('pinned keys that cannot be used'),
  HostUnfit: surroundings('a host that the agent cannot work on'),
  RebootFailed: surroundings('a reboot that did not begin'),
  AgentRunning: surroundings('another agent runs here'),
} as const satisfies ErrorTable;

export const agentError = errorsOf(agentErrorCodes);

/** The code of anything that was thrown; system errors keep theirs (ENOSPC, EACCES …). */
export function codeOf(error: unknown): string {
  if (isCoded(error)) return error.code;
  if (error instanceof Error && 'code' in error && typeof error.code === 'string') return error.code;
  return 'Unexpected';
}

/** Another error under its own code, which for one of the system is its errno, with another message. */
export class SystemError extends CodedError {
  constructor(message: string, cause: Error) {
    super(codeOf(cause), message, { cause });
    this.name = 'SystemError';
  }
}

/** UpperCamelCase, as reasons of conditions and Events must be: `ENOSPC` stays, `Unexpected` is the rest. */
export function failureOf(error: unknown): { reason: string; message: string } {
  return { reason: codeOf(error), message: short(messageOf(error)) };
}

/** How a program ended and what it printed, however that is laid out: for one line of a message. */
export const endOf = ({ how, output }: { how: string; output: string }): string =>
  output === '' ? how : `${how}: ${output.replaceAll(/\s+/g, ' ').trim()}`;

/** Text of a node may contain any bytes. A status gets it plain, and short enough for the 1,024 characters there. */
export function short(text: string, limit = 1000): string {
  return plainText(text, limit);
}
