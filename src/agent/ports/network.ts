import { once } from 'node:events';
import type { IncomingMessage, RequestOptions } from 'node:http';
import type { BlockList, LookupFunction } from 'node:net';
import type { CodedError } from '../../api/errors.ts';
import { agentError } from '../errors.ts';
import { isLoopback } from '../generation/manifest.ts';

export interface Download {
  status: number;
  /** Where the bytes begin, of a 206. */
  from: number;
  body: AsyncIterable<Uint8Array>;
}

/** What the agent fetches beside the API. */
export interface Network {
  /**
   * Bytes of a URL from `from` on, redirects followed. https everywhere, http on loopback only. A redirect never leaves https, and leads to
   * this node, its link or its cloud's metadata only from there.
   * Errors: `UrlRefused`, and Node's own when no answer is had.
   */
  download(url: string, from: number, signal: AbortSignal): Promise<Download>;
  /** Status of a GET. Errors: Node's own. */
  status(url: string, signal: AbortSignal): Promise<number>;
}

export interface NetworkOptions {
  /** PEM, trusted beside the system's for URLs below `origin`. */
  authority?: { ca: string; origin: string };
  /** Longest time without a byte. */
  idleTimeoutMs?: number;
}

const REDIRECTS = 5;

/** Errors: `UrlRefused`. */
export function checkUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopback(url))) return url;
  throw agentError('UrlRefused', `"${text}" is refused: artifacts come over https, or over http from a loopback address`);
}

/** Errors: `UrlRefused`. */
export function redirected(from: URL, location: string, outside: boolean): URL {
  const to = URL.canParse(location, from.href) ? checkUrl(new URL(location, from).href) : undefined;
  const refuse = (why: string): CodedError => agentError('UrlRefused', `"${from.href}" redirects to "${location}": ${why}`);
  if (to === undefined) throw refuse('that is no URL');
  if (from.protocol === 'https:' && to.protocol !== 'https:') throw refuse('from https only https is followed');
  if (outside && leadsInside(to.hostname)) throw refuse('that is this node, its link or its metadata');
  return to;
}

/** Names and addresses of this node itself, of its link and of the metadata services of clouds. */
export function leadsInside(hostname: string): boolean {
  const host = hostname
    .replace(/^\[|\]$/g, '')
    .replace(/\.$/, '')
    .toLowerCase();
  const { isIP } = process.getBuiltinModule('node:net');
  const family = isIP(host);
  if (family === 0) return host === 'localhost' || host.endsWith('.localhost') || host === 'metadata' || host.endsWith('.internal');
  return insideAddresses().check(host, family === 6 ? 'ipv6' : 'ipv4');
}

let inside: BlockList | undefined;
function insideAddresses(): BlockList {
  if (inside !== undefined) return inside;
  const { BlockList } = process.getBuiltinModule('node:net');
  inside = new BlockList();
  for (const [address, prefix] of [
    ['0.0.0.0', 8],
    ['127.0.0.0', 8],
    ['169.254.0.0', 16],
    ['100.100.100.200', 32],
    ['192.0.0.192', 32],
    ['168.63.129.16', 32],
  ] as const)
    inside.addSubnet(address, prefix, 'ipv4');
  for (const [address, prefix] of [
    ['::', 128],
    ['::1', 128],
    ['fe80::', 10],
    ['fd00:ec2::254', 128],
    ['fd20:ce::254', 128],
  ] as const)
    inside.addSubnet(address, prefix, 'ipv6');
  return inside;
}

/** Resolves names as the system does, but refuses an address inside: a name may lead anywhere. */
export const lookupOutside: LookupFunction = (hostname, options, callback) => {
  const { lookup } = process.getBuiltinModule('node:dns');
  lookup(hostname, { ...options, all: true }, (error, addresses) => {
    if (error !== null) return callback(error, '', 0);
    const wrong = addresses.find((each) => leadsInside(each.address));
    if (wrong !== undefined) {
      const why = `"${hostname}" leads to ${wrong.address}, which is this node, its link or its metadata`;
      return callback(agentError('UrlRefused', why), '', 0);
    }
    const [first] = addresses;
    if (options.all === true || first === undefined) callback(null, addresses);
    else callback(null, first.address, first.family);
  });
};

export function nodeNetwork(options: NetworkOptions = {}): Network {
  const idleTimeoutMs = options.idleTimeoutMs ?? 60_000;

  /** `outside`: a name that leads to this node is refused. */
  async function get(url: URL, headers: Record<string, string>, signal: AbortSignal, outside = false): Promise<IncomingMessage> {
    const trusted = trustFor(url, options.authority);
    // Not an import, which reads every export: the exports of node:http load undici, 4 MB.
    const { request } = process.getBuiltinModule(url.protocol === 'https:' ? 'node:https' : 'node:http');
    // Without an agent: such requests are rare, and none is to be kept for them.
    const outgoing = request(url, {
      agent: false,
      headers,
      signal,
      ...trusted,
      ...(outside ? { lookup: lookupOutside } : {}),
    } satisfies RequestOptions & { ca?: string[] });
    outgoing.setTimeout(idleTimeoutMs, () => outgoing.destroy(new Error(`nothing came for ${idleTimeoutMs} ms`)));
    outgoing.end();
    const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage];
    outgoing.on('error', (error) => incoming.destroy(error));
    return incoming;
  }

  return {
    async download(text, from, signal) {
      let url = checkUrl(text);
      // Where what was asked for is on this node, a redirect may be too.
      const outside = !isLoopback(url);
      for (let redirects = 0; redirects <= REDIRECTS; redirects++) {
        const incoming = await get(url, from > 0 ? { range: `bytes=${from}-` } : {}, signal, outside && redirects > 0);
        const status = incoming.statusCode ?? 0;
        const { location } = incoming.headers;
        if (status < 300 || status >= 400 || location === undefined) {
          const start = /^bytes (\d+)-/.exec(incoming.headers['content-range'] ?? '')?.[1];
          return { status, from: start === undefined ? 0 : Number(start), body: incoming };
        }
        incoming.destroy();
        url = redirected(url, location, outside);
      }
      throw agentError('UrlRefused', `"${text}" is redirected more than ${REDIRECTS} times`);
    },

    async status(text, signal) {
      const incoming = await get(new URL(text), {}, signal);
      incoming.destroy();
      return incoming.statusCode ?? 0;
    },
  };
}

/** The cell's own authority is trusted for the mirror that it serves and for no other server. */
function trustFor(url: URL, authority: NetworkOptions['authority']): { ca?: string[] } {
  if (authority === undefined || url.protocol !== 'https:' || url.origin !== authority.origin) return {};
  const { rootCertificates } = process.getBuiltinModule('node:tls');
  return { ca: [...rootCertificates, authority.ca] };
}
