import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { agentError, codeOf } from './errors.ts';
import { checkUrl } from './ports/network.ts';
import type { Files } from './ports/files.ts';
import type { Network } from './ports/network.ts';

/**
 * Artifacts by their sha256. Their bytes are checked when they arrive and again whenever they are read, so that none needs to survive a
 * loss of power: what is damaged is found out before it is used, and fetched again.
 */
export interface Store {
  /** Makes sure that the artifact is here. Errors: `UrlRefused`, `ArtifactRefused`, `HttpStatus`, `DigestMismatch`, `TooLarge`, and those of disk and network. */
  ensure(artifact: { url: string; sha256: string }, signal: AbortSignal): Promise<void>;
  has(sha256: string): Promise<boolean>;
  /** Bytes of an artifact that is here. Errors: `DigestMismatch` at the end, when they were not those; then it is here no more. */
  open(sha256: string): AsyncIterable<Uint8Array>;
  /** Removes everything but these. Returns what went. */
  keep(digests: ReadonlySet<string>): Promise<{ files: number; bytes: number }>;
}

export interface StoreOptions {
  files: Files;
  folder: string;
  network: Network;
  /** Where relative URLs lead; ends with a slash. */
  mirror: string | undefined;
  maxBytes?: number;
}

export const MAX_ARTIFACT_BYTES = 2 * 1024 ** 3;
const PART = '.part';

export function createStore(options: StoreOptions): Store {
  const { files, folder, network } = options;
  const maxBytes = options.maxBytes ?? MAX_ARTIFACT_BYTES;
  const underWay = new Map<string, Promise<void>>();
  const pathOf = (sha256: string): string => join(folder, sha256);
  const has = async (sha256: string): Promise<boolean> => (await files.stat(pathOf(sha256)))?.kind === 'file';

  async function fetch(artifact: { url: string; sha256: string }, signal: AbortSignal): Promise<void> {
    const url = resolveUrl(artifact.url, options.mirror);
    if ((await files.stat(folder)) === undefined) await files.mkdir(folder);
    const part = pathOf(artifact.sha256) + PART;
    const there = (await files.stat(part))?.size ?? 0;
    const answer = await network.download(url, there, signal);
    if (answer.status === 416) {
      await files.unlink(part);
      throw agentError('HttpStatus', `${url}: what was there of it does not continue (416); it is fetched from the start`);
    }
    if (answer.status !== 200 && answer.status !== 206) {
      const lasting = answer.status >= 400 && answer.status < 500 && ![408, 425, 429].includes(answer.status);
      throw agentError(lasting ? 'ArtifactRefused' : 'HttpStatus', `${url}: the server answered ${answer.status}`);
    }
    const resumed = answer.status === 206;
    if (resumed && answer.from !== there)
      throw agentError('HttpStatus', `${url}: asked for bytes from ${there}, got them from ${answer.from}`);

    const hash = createHash('sha256');
    let size = resumed ? there : 0;
    if (resumed) for await (const chunk of files.chunks(part)) hash.update(chunk);
    async function* counted(): AsyncGenerator<Uint8Array, void> {
      for await (const chunk of answer.body) {
        size += chunk.length;
        if (size > maxBytes) throw agentError('TooLarge', `${url} is larger than ${maxBytes} bytes`);
        hash.update(chunk);
        yield chunk;
      }
    }
    try {
      await files.write(part, counted(), { mode: 0o600, append: resumed });
    } catch (error) {
      // What came of it is kept and continued, unless it could never be used.
      if (['TooLarge', 'ENOSPC'].includes(codeOf(error))) await files.unlink(part);
      throw error;
    }
    const digest = hash.digest('hex');
    if (digest !== artifact.sha256) {
      await files.unlink(part);
      throw agentError('DigestMismatch', `${url} has sha256 ${digest}, asked for was ${artifact.sha256} (${size} bytes)`);
    }
    await files.rename(part, pathOf(artifact.sha256));
  }

  return {
    has,

    async *open(sha256) {
      const path = pathOf(sha256);
      const hash = createHash('sha256');
      for await (const chunk of files.chunks(path)) {
        hash.update(chunk);
        yield chunk;
      }
      if (hash.digest('hex') === sha256) return;
      await files.unlink(path);
      throw agentError('DigestMismatch', `${path} was damaged; it is fetched again`);
    },

    async ensure(artifact, signal) {
      // Two components may name one artifact: it is fetched once.
      const fetching =
        underWay.get(artifact.sha256) ??
        (async () => {
          if (!(await has(artifact.sha256))) await fetch(artifact, signal);
        })().finally(() => underWay.delete(artifact.sha256));
      underWay.set(artifact.sha256, fetching);
      await fetching;
    },

    async keep(digests) {
      const gone = { files: 0, bytes: 0 };
      for (const name of await files.list(folder)) {
        const sha256 = name.endsWith(PART) ? name.slice(0, -PART.length) : name;
        if (digests.has(sha256) || underWay.has(sha256)) continue;
        const bytes = (await files.stat(join(folder, name)))?.size ?? 0;
        await files.unlink(join(folder, name));
        gone.files++;
        gone.bytes += bytes;
      }
      return gone;
    },
  };
}

/** Errors: `UrlRefused`. */
export function resolveUrl(url: string, mirror: string | undefined): string {
  if (URL.canParse(url)) return checkUrl(url).href;
  if (mirror === undefined) {
    throw agentError('UrlRefused', `"${url}" is relative, and this node was installed without a mirror`, {
      next: 'set `mirror` in the bootstrap file',
    });
  }
  const resolved = new URL(url, mirror);
  if (!resolved.href.startsWith(new URL(mirror).href)) throw agentError('UrlRefused', `"${url}" leads out of the mirror ${mirror}`);
  return checkUrl(resolved.href).href;
}
