import { once } from 'node:events';
import type { IncomingMessage, RequestOptions } from 'node:http';
import { agentError } from '../errors.ts';
import { isLoopback } from '../manifest.ts';

export interface Download {
  status: number;
  /** Where the bytes begin, of a 206. */
  from: number;
  body: AsyncIterable<Uint8Array>;
}

/** What the agent fetches beside the API. */
export interface Network {
  /**
   * Bytes of a URL from `from` on, redirects followed. https everywhere, http on loopback only.
   * Errors: `UrlRefused`, and Node's own when no answer is had.
   */
  download(url: string, from: number, signal: AbortSignal): Promise<Download>;
  /** Status of a GET. Errors: those of Node. */
  status(url: string, signal: AbortSignal): Promise<number>;
}

export interface NetworkOptions {
  /** PEM, trusted beside the system's for URLs below `origin`. */
  authority?: { ca: string; origin: string };
  /** Longest silence. */
  idleTimeoutMs?: number;
}

const REDIRECTS = 5;

/** Errors: `UrlRefused`. */
export function checkUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopback(url))) return url;
  throw agentError('UrlRefused', `"${text}" is refused: artifacts come over https, or over http from a loopback address`);
}

export function nodeNetwork(options: NetworkOptions = {}): Network {
  const idleTimeoutMs = options.idleTimeoutMs ?? 60_000;

  async function get(url: URL, headers: Record<string, string>, signal: AbortSignal): Promise<IncomingMessage> {
    const trusted = trustFor(url, options.authority);
    // Not an import, which reads every export: those of node:http load undici, 4 MB.
    const { request } = process.getBuiltinModule(url.protocol === 'https:' ? 'node:https' : 'node:http');
    // Without an agent: such requests are rare, and none is to be kept for them.
    const outgoing = request(url, { agent: false, headers, signal, ...trusted } satisfies RequestOptions & { ca?: string[] });
    outgoing.setTimeout(idleTimeoutMs, () => outgoing.destroy(new Error(`nothing was heard for ${idleTimeoutMs} ms`)));
    outgoing.end();
    const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage];
    outgoing.on('error', (error) => incoming.destroy(error));
    return incoming;
  }

  return {
    async download(text, from, signal) {
      let url = checkUrl(text);
      for (let redirects = 0; redirects <= REDIRECTS; redirects++) {
        const incoming = await get(url, from > 0 ? { range: `bytes=${from}-` } : {}, signal);
        const status = incoming.statusCode ?? 0;
        const { location } = incoming.headers;
        if (status < 300 || status >= 400 || location === undefined) {
          const start = /^bytes (\d+)-/.exec(incoming.headers['content-range'] ?? '')?.[1];
          return { status, from: start === undefined ? 0 : Number(start), body: incoming };
        }
        incoming.destroy();
        url = checkUrl(new URL(location, url).href);
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

/** The cell's own authority vouches for the mirror it serves and for nothing else. */
function trustFor(url: URL, authority: NetworkOptions['authority']): { ca?: string[] } {
  if (authority === undefined || url.protocol !== 'https:' || url.origin !== authority.origin) return {};
  const { rootCertificates } = process.getBuiltinModule('node:tls');
  return { ca: [...rootCertificates, authority.ca] };
}
