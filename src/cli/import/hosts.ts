import { isIPv6 } from 'node:net';
import { cliError } from '../errors.ts';

/** One machine as it was asked for. */
export interface ImportHost {
  host: string;
  port: number;
  user: string;
  /** Of the Machine; absent: its hostname. */
  name?: string;
  /** `SHA256:…` of the host key that it must have. */
  fingerprint?: string;
}

export interface HostDefaults {
  port: number;
  user: string;
}

const FORM = /^(?:([^@\s]+)@)?(?:\[([0-9A-Fa-f:.%a-z]+)\]|([^@:\s[\]]+))(?::(\d{1,5}))?$/;
const FINGERPRINT = /^SHA256:[A-Za-z0-9+/]{43}$/;

/** `[user@]host[:port]`, an IPv6 address in brackets where a port follows. Errors: `Usage`. */
export function parseHost(text: string, defaults: HostDefaults, where = ''): ImportHost {
  const [, user = defaults.user, six, name, port] = FORM.exec(text) ?? [];
  const host = six ?? name ?? (isIPv6(text) ? text : undefined);
  if (host === undefined) throw cliError('Usage', `${where}a machine is written [user@]host[:port], not "${text}"`);
  return { host, port: port === undefined ? defaults.port : Number(port), user };
}

/** A line a machine: `[user@]host[:port] [name=NAME] [fingerprint=SHA256:…]`; `#` begins a comment. Errors: `Usage`, with the line. */
export function parseHostsFile(text: string, path: string, defaults: HostDefaults): ImportHost[] {
  return text.split('\n').flatMap((line, index) => {
    const [first, ...words] = line
      .replace(/#.*/, '')
      .split(/\s+/)
      .filter((word) => word !== '');
    if (first === undefined) return [];
    const where = `${path}:${index + 1}: `;
    const host = parseHost(first, defaults, where);
    for (const word of words) {
      const at = word.indexOf('=');
      const [key, value] = [word.slice(0, at), word.slice(at + 1)];
      if (at > 0 && key === 'name') host.name = value;
      else if (at > 0 && key === 'fingerprint') host.fingerprint = fingerprint(value, where);
      else throw cliError('Usage', `${where}"${word}" is neither name=… nor fingerprint=…`);
    }
    return [host];
  });
}

/** Errors: `Usage`. */
export function fingerprint(text: string, where = ''): string {
  if (FINGERPRINT.test(text)) return text;
  throw cliError('Usage', `${where}a fingerprint is SHA256: and 43 characters, as ssh-keygen -l prints it, not "${text}"`);
}

/** Errors: `Usage` where two are one machine, or have one name. */
export function requireDistinct(hosts: readonly ImportHost[]): void {
  for (const [what, of] of [
    ['machine', (each: ImportHost) => `${each.host}:${each.port}`],
    ['name', (each: ImportHost) => each.name],
  ] as const) {
    const seen = new Set<string>();
    for (const each of hosts) {
      const key = of(each);
      if (key === undefined) continue;
      if (seen.has(key)) throw cliError('Usage', `the ${what} ${key} is given twice`);
      seen.add(key);
    }
  }
}
