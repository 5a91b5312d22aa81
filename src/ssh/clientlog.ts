import type { RemoteErrorCode } from '../api/remote.ts';

/**
 * What OpenSSH's own log says about a connection that came to nothing. Its exit code is 255 for all of them, so its English sentences (LC_ALL=C, of
 * its log file alone, which the host cannot write to) are all there is. What is not known here is `ConnectionLost`.
 */
const SAYS: [RegExp, RemoteErrorCode][] = [
  [/REMOTE HOST IDENTIFICATION HAS CHANGED|Host key verification failed|host key .* has changed/i, 'HostKeyChanged'],
  [/No \S+ host key is known for|no matching host key type found/i, 'HostKeyChanged'],
  [/Permission denied \([^)]*(password|keyboard-interactive)/i, 'PasswordAsked'],
  [
    /Permission denied|Too many authentication failures|no such identity|UNPROTECTED PRIVATE KEY|No more authentication methods/i,
    'AuthRefused',
  ],
  [/Could not resolve hostname/i, 'HostUnresolved'],
  [
    /connect to (address|host) .* port|No route to host|Connection refused|Network is unreachable|during banner exchange|kex_exchange_identification/i,
    'HostUnreachable',
  ],
];

export function readClientLog(text: string): RemoteErrorCode {
  return SAYS.find(([pattern]) => pattern.test(text))?.[1] ?? 'ConnectionLost';
}
