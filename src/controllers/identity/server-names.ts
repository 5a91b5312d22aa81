/** By which names and addresses clients reach the API server of this cell: no node gets a certificate for one (docs/protocols.md#g4d). */
import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import type { Clock } from '../../api/ports.ts';
import { canonicalAddress, type SubjectName } from './signing-request.ts';

export interface ServerNames {
  /** Hosts of its URLs: lower case without a dot at their end; addresses in one spelling. */
  hosts: readonly string[];
  /** Of those hosts that are names; undefined: they are not known now. */
  addresses: readonly string[] | undefined;
}

export type Lookup = (host: string) => Promise<readonly string[]>;

/** Errors: those of `getaddrinfo`, but for a name that does not exist, which has no address. */
export async function systemLookup(host: string): Promise<readonly string[]> {
  try {
    return (await lookup(host, { all: true })).map(({ address }) => address);
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOTFOUND') return [];
    throw error;
  }
}

/** Requests come in storms, and a resolver that does not answer takes a thread each time. */
const KEPT_MS = 30_000;

/** Reads who the server is now. `onUnknown` is called with each error of a lookup. */
export function serverNames(
  urls: readonly string[],
  lookupOf: Lookup,
  clock: Pick<Clock, 'monotonic'>,
  onUnknown: (error: unknown) => void,
): () => Promise<ServerNames> {
  const hosts = [...new Set(urls.map((url) => hostOf(new URL(url).hostname)))];
  const names = hosts.filter((host) => isIP(host) === 0);
  let kept: { atMs: number; addresses: Promise<readonly string[] | undefined> } | undefined;
  return async () => {
    if (kept === undefined || clock.monotonic() - kept.atMs > KEPT_MS) {
      const addresses = Promise.all(names.map(lookupOf)).then(
        (found) => found.flat().map(hostOf),
        (error: unknown) => {
          onUnknown(error);
          return undefined;
        },
      );
      kept = { atMs: clock.monotonic(), addresses };
    }
    return { hosts, addresses: await kept.addresses };
  };
}

/** A host in the spelling in which it is compared. Clients take an IPv4 address, and the same one written as IPv6, for one. */
function hostOf(host: string): string {
  const own = canonicalAddress(host.toLowerCase().replace(/^\[|\]$|\.$/g, ''));
  const [, high, low] = /^0:0:0:0:0:ffff:([0-9a-f]+):([0-9a-f]+)$/.exec(own) ?? [];
  if (high === undefined || low === undefined) return own;
  return [high, low].flatMap((each) => [parseInt(each, 16) >> 8, parseInt(each, 16) & 255]).join('.');
}

/** Whether this is a name of the server, a domain that its host is in, or a wildcard for it. */
export function isOfServer(name: string, { hosts, addresses = [] }: ServerNames): boolean {
  const own = hostOf(name);
  const below = own.startsWith('*.') ? own.slice(2) : own;
  return [...hosts, ...addresses].some((host) => host === own || (isIP(host) === 0 && host.endsWith(`.${below}`)));
}

/** Whether it takes the addresses of the server to judge this name. */
export const isAddress = ({ type, value }: SubjectName): boolean => type === 'ip' || isIP(value) !== 0;
