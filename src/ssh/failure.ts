import type { CodedError } from '../api/errors.ts';
import { remoteError, type RemoteCall, type RemoteErrorCode } from '../api/remote.ts';

const NEXT: Partial<Record<RemoteErrorCode, string>> = {
  HostUnresolved: 'correct the name, or give an address',
  HostUnreachable: 'is the machine on, sshd running, and the port open from here?',
  HostKeyUnknown: 'read the key on the machine itself, in /etc/ssh/ssh_host_ed25519_key.pub, and give it',
  HostKeyChanged: 'find out on the machine itself whether its key was changed; only then remove the old key and give the new one',
  AuthRefused: "give the private key whose public half is in that user's authorized_keys, or load it into ssh-agent",
  PasswordAsked: "passwords are never sent: put a public key into that user's authorized_keys",
  SudoRefused: 'let the user run sudo without a password (NOPASSWD), or connect as root',
  ShellUnusable: 'give an account with a POSIX shell and no forced command',
  ConnectionLost: 'run the same command again: it goes on where this ended',
  RemoteTimeout: 'run the same command again: it goes on where this ended',
};

/** What the machine did, for people. */
const DONE: Record<RemoteErrorCode, string> = {
  TargetInvalid: 'is not tried',
  SshMissing: 'is not tried',
  HostUnresolved: 'has no address',
  HostUnreachable: 'does not answer',
  HostKeyUnknown: 'is not known',
  HostKeyChanged: 'proves none of the host keys that are pinned for it: it may be another machine, or an attacker between',
  AuthRefused: 'takes none of the keys offered',
  PasswordAsked: 'takes none of the keys offered and asks for a password',
  SudoRefused: 'does not let this user become root without a password',
  ShellUnusable: 'runs no commands for this user',
  ConnectionLost: 'was lost',
  RemoteTimeout: 'took too long',
  OutputTooLong: 'printed more than is taken',
};

export function failure(code: RemoteErrorCode, at: string, { doing }: RemoteCall, detail: string): CodedError {
  const next = NEXT[code];
  const more = detail === '' ? '' : ` (${detail})`;
  return remoteError(code, `${at} ${DONE[code]}, when it was to ${doing}${more}`, next === undefined ? {} : { next });
}
