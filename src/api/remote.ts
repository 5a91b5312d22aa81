/**
 * The port through which a machine is reached before an agent of ours runs there: commands as root, over the network. What it prints is text of
 * others (docs/protocols.md#g7): bounded, and never obeyed.
 */
import { errorsOf, surroundings, type ErrorTable } from './errors.ts';

export interface RemoteTarget {
  /** A name or an address. */
  host: string;
  port: number;
  user: string;
  /** Public keys, as `ssh-ed25519 AAAA…`. The host must prove one of them. Without any no connection is made. */
  hostKeys: readonly string[];
}

declare const isScript: unique symbol;
/** A POSIX shell program that is a constant of this code. Input reaches it as arguments, `$1` and so on, and by no other way. */
export type Script = string & { readonly [isScript]: true };

/** A Script. Only other Scripts are substituted into it, so that no input can become part of a program. */
export function script(text: TemplateStringsArray, ...parts: Script[]): Script {
  const program = String.raw(text, ...parts);
  if (program.includes("'")) throw new Error('a script is passed between single quotes, and must contain none');
  return program as Script;
}

export interface RemoteCall {
  /** What it does, for messages: "inspect the machine". */
  doing: string;
  script: Script;
  /** No line feeds in them. */
  args?: readonly string[];
  /** A file or bytes that the script gets as its stdin; empty without. */
  body?: { path: string } | { bytes: Uint8Array };
  timeoutMs: number;
}

/** The script ended by itself. */
export interface RemoteResult {
  code: number;
  stdout: string;
  stderr: string;
}

export interface Remote {
  /** Runs a script as root. Errors: `REMOTE_ERRORS`. After each of them the script may have run in part or whole, except where the code excludes that. */
  run(target: RemoteTarget, call: RemoteCall, signal: AbortSignal): Promise<RemoteResult>;
  /**
   * The keys that the host shows. They prove nothing until a person has confirmed one. It ends within a time of its own. Errors: `TargetInvalid`,
   * `SshMissing`, `HostUnreachable`, `RemoteTimeout`.
   */
  shownKeys(host: string, port: number, signal: AbortSignal): Promise<string[]>;
}

export const REMOTE_ERRORS = {
  TargetInvalid: surroundings('host, port, user or key is not valid; nothing was tried'),
  SshMissing: surroundings('this machine has no OpenSSH client; nothing was tried'),
  HostUnresolved: surroundings('the name has no address; nothing was run'),
  HostUnreachable: surroundings('no host answers there, or it refuses the connection; nothing was run'),
  HostKeyUnknown: surroundings('no key of the host was given or confirmed; nothing was run'),
  HostKeyChanged: surroundings('the host proves none of the keys that are pinned; nothing was run'),
  AuthRefused: surroundings('the host takes none of the keys offered; nothing was run'),
  PasswordAsked: surroundings('the host takes none of the keys offered and asks for a password, which is never given; nothing was run'),
  SudoRefused: surroundings('the user cannot become root without a password; nothing was run'),
  ShellUnusable: surroundings('the account runs no commands; nothing was run'),
  ConnectionLost: surroundings('the connection ended before the script did'),
  RemoteTimeout: surroundings('the script took too long, or the host to show its keys'),
  OutputTooLong: surroundings('the script printed more than is taken'),
} as const satisfies ErrorTable;
export type RemoteErrorCode = keyof typeof REMOTE_ERRORS;

export const remoteError = errorsOf(REMOTE_ERRORS);
