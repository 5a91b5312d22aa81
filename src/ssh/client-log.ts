import type { RemoteErrorCode } from '../api/remote.ts';

/**
 * What OpenSSH's own log reports about a connection that failed. Its exit code is 255 for all failures, so only its English sentences (LC_ALL=C, of
 * its log file alone) distinguish them. A sentence that is not in the table is `ConnectionLost`.
 */
const SENTENCES: [RegExp, RemoteErrorCode][] = [
  [/REMOTE HOST IDENTIFICATION HAS CHANGED|Host key verification failed|host key .* has changed/i, 'HostKeyChanged'],
  [/No \S+ host key is known for|no matching host key type found/i, 'HostKeyChanged'],
  [/Permission denied|no such identity|UNPROTECTED PRIVATE KEY|No more authentication methods/i, 'AuthRefused'],
  [/Could not resolve hostname/i, 'HostUnresolved'],
  [
    /connect to (address|host) .* port|No route to host|Connection refused|Network is unreachable|during banner exchange|kex_exchange_identification/i,
    'HostUnreachable',
  ],
];

/** From here on the log may quote the host, which need not have proved a key. A quotation may contain line feeds, so no later line is the client's either. */
const QUOTES = /Received disconnect from|Disconnected from|Connection closed by \S+ port|Their offer:|Permission denied \(/;
/** Logged only of a host that has proved its key. It lists its methods itself. */
const REFUSED = /^Permission denied \(([^)\r\n]*)/;
const ASKING = /(?:^|,)(?:password|keyboard-interactive)(?:,|$)/;
/** The one reason that only the host can give. It names no key and no password, so a host that lies does no harm. */
const TOO_MANY = /^Received disconnect from \S+ port \d+:2: Too many authentication failures/;

export function readClientLog(text: string): RemoteErrorCode {
  const at = text.search(QUOTES);
  const own = at === -1 ? text : text.slice(0, at);
  const quoted = at === -1 ? '' : text.slice(at);
  const code = SENTENCES.find(([pattern]) => pattern.test(own))?.[1];
  const methods = REFUSED.exec(quoted)?.[1];
  if (methods !== undefined && code !== 'HostKeyChanged') return ASKING.test(methods) ? 'PasswordAsked' : 'AuthRefused';
  return code ?? (TOO_MANY.test(quoted) ? 'AuthRefused' : 'ConnectionLost');
}
