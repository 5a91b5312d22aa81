import type { GitHttpRequest, GitHttpResponse, HttpClient } from 'isomorphic-git';
import type { Clock } from '../../api/ports.ts';
import { bytes, gitError, printable } from './errors.ts';
import { messageOf } from '../../api/errors.ts';
import { checkPack, packOf } from './pack.ts';
import type { GitFetch, HttpLimits, HttpSpec } from './source.ts';

export const defaultHttpLimits: HttpLimits = {
  responseBytes: 32 * 1024 * 1024,
  objectBytes: 16 * 1024 * 1024,
  inflatedBytes: 256 * 1024 * 1024,
  objects: 500_000,
  idleSeconds: 30,
  requestSeconds: 600,
};

/** Throws GitSpec for a source that is not allowed. The messages never repeat a password. */
export function checkHttpSpec(spec: HttpSpec): void {
  const url = URL.parse(spec.url);
  if (url === null) {
    throw gitError('GitSpec', 'the URL of the Git source cannot be read; allowed is https://HOST/PATH', {
      next: 'for an address such as git@HOST:PATH, use its https form',
    });
  }
  if (url.username !== '' || url.password !== '') {
    throw gitError('GitSpec', `the URL of the Git source has credentials in it (host ${url.host}); it is shown in many places`, {
      next: 'take them out of the URL and give them as username and password',
    });
  }
  const local = url.hostname === 'localhost' || url.hostname === '[::1]' || /^127(\.\d+){3}$/.test(url.hostname);
  if (url.protocol !== 'https:' && !(url.protocol === 'http:' && local)) {
    throw gitError(
      'GitSpec',
      `the URL of the Git source begins with "${url.protocol}//"; allowed is https, and http only to this machine (localhost, 127.0.0.0/8, [::1])`,
    );
  }
  if (url.search !== '' || url.hash !== '')
    throw gitError('GitSpec', 'the URL of the Git source has a query or a fragment; allowed is https://HOST/PATH');
}

/**
 * The HTTP client that isomorphic-git is given, for one operation.
 *
 * - Redirects are an error: credentials would go along.
 * - Only `url` is requested, also where a server redirects isomorphic-git.
 * - Ends by the signal, after `idleSeconds` without a byte, after `requestSeconds`, and at `responseBytes`.
 * - With `objects: true`, answers to POST are collected and measured before isomorphic-git sees them (`checkPack`), so an
 *   abort or a bad pack leaves no trace in the cache.
 *
 * Memory: isomorphic-git has a pack in memory several times while it stores it. Measured for 50 MB: 360 MiB at the peak; so count
 * about seven times `responseBytes`, and while deltas are resolved at most `inflatedBytes` more: with the defaults under 512 MiB, in this process.
 */
export function httpClient(
  spec: HttpSpec,
  limits: HttpLimits,
  ports: { fetch: GitFetch; clock: Clock },
  options: { objects: boolean },
  signal: AbortSignal,
): HttpClient {
  const base = spec.url.replace(/\/+$/, '');
  const { host } = new URL(spec.url);

  /** Runs `fn` under all time limits; `alive` is called for each sign of life. */
  async function limited<T>(fn: (signal: AbortSignal, alive: () => void) => Promise<T>): Promise<T> {
    const late = new AbortController();
    const stop = (what: string) => late.abort(gitError('GitTimeout', `${host}: ${what}`));
    const whole = ports.clock.setTimer(limits.requestSeconds * 1000, () => stop(`one request took longer than ${limits.requestSeconds} s`));
    let idle: (() => void) | undefined;
    const alive = () => {
      idle?.();
      idle = ports.clock.setTimer(limits.idleSeconds * 1000, () => stop(`sent nothing for ${limits.idleSeconds} s`));
    };
    alive();
    try {
      return await fn(AbortSignal.any([signal, late.signal]), alive);
    } catch (error) {
      signal.throwIfAborted();
      late.signal.throwIfAborted();
      throw error;
    } finally {
      idle?.();
      whole();
    }
  }

  async function request({ url, method = 'GET', headers = {}, body }: GitHttpRequest): Promise<GitHttpResponse> {
    if (!url.startsWith(`${base}/`)) throw gitError('GitProtocol', `${host}: refused to ask another address than the source's`);
    const sent = body === undefined ? undefined : await collect(body, limits.responseBytes, host, () => {});
    return await limited(async (signal, alive) => {
      const response = await ports
        .fetch(url, { method, headers, redirect: 'manual', signal, ...(sent === undefined ? {} : { body: sent }) })
        .catch((cause: unknown) => {
          throw unreachable(host, cause);
        });
      alive();
      // 203 is how Azure DevOps asks for credentials.
      if (![200, 203, 401].includes(response.status)) {
        await response.body?.cancel();
        throw statusError(host, spec.branch, response);
      }
      const answer = await collect(response.body ?? [], limits.responseBytes, host, alive);
      if (options.objects && method === 'POST' && response.status === 200) await checkPack(packOf(answer), limits);
      return {
        url,
        method,
        statusCode: response.status,
        statusMessage: response.statusText,
        headers: Object.fromEntries(response.headers),
        body: once(answer),
      };
    });
  }

  return { request };
}

function statusError(host: string, branch: string, response: Response): Error {
  const { status } = response;
  if (status >= 300 && status < 400) {
    const target = URL.parse(response.headers.get('location') ?? '', response.url === '' ? undefined : response.url);
    const where = target === null ? 'elsewhere' : `to ${printable(target.origin + target.pathname.replace(/\/info\/refs$/, ''))}`;
    return gitError(
      'GitRedirect',
      `${host}: answered ${status} and sends us ${where}; redirects are not followed, since credentials would go along`,
      {
        next: 'if that is the right address, write it as the URL of the source',
      },
    );
  }
  if (status === 403) return gitError('GitAuth', `${host}: does not let us read this repository (status ${status})`);
  if (status === 404) {
    return gitError('GitHttpStatus', `${host}: has no such repository, or hides it from us (status 404)`, {
      next: `check the URL, and that the credentials may read it (branch ${branch})`,
    });
  }
  if (status >= 500 || status === 429) return gitError('GitUnreachable', `${host}: answered ${status}`);
  return gitError('GitHttpStatus', `${host}: answered ${status}, where 200 is expected`);
}

function unreachable(host: string, cause: unknown): Error {
  const inner = cause instanceof Error && cause.cause !== undefined ? messageOf(cause.cause) : messageOf(cause);
  return gitError('GitUnreachable', `${host}: no answer: ${printable(inner)}`, { cause });
}

async function collect(
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  max: number,
  host: string,
  alive: () => void,
): Promise<Buffer<ArrayBuffer>> {
  const parts: Uint8Array[] = [];
  let length = 0;
  try {
    for await (const part of body) {
      alive();
      length += part.byteLength;
      if (length > max) break;
      parts.push(part);
    }
  } catch (cause) {
    throw unreachable(host, cause);
  }
  if (length > max) {
    throw gitError('GitTooLarge', `${host}: sent more than ${bytes(max)} in one answer`, {
      next: 'raise the limit of the source, or keep large files out of the repository',
    });
  }
  return Buffer.concat(parts);
}

async function* once(answer: Buffer): AsyncIterableIterator<Uint8Array> {
  yield answer;
}
