import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { isCoded } from '../../api/errors.ts';
import type { Clock } from '../../api/ports.ts';
import { agentError, codeOf, agentErrorCodes } from '../errors.ts';
import { checkUrl } from '../ports/network.ts';
import type { Files } from '../ports/files.ts';
import type { Network } from '../ports/network.ts';
import { limitedTransfer } from './transfer.ts';
import type { ArtifactTransfer } from './transfer.ts';

/**
 * Artifacts by their sha256. Their bytes are checked when they arrive and again whenever they are read, so that none needs to survive a
 * loss of power: damage is detected before the content is used, and fetched again.
 */
export interface ArtifactStore {
  /** Makes sure that the artifact is here and whole: what was damaged since is fetched again. Errors: `UrlRefused`, `ArtifactRefused`, `HttpStatus`, `DigestMismatch`, `TooLarge`, `TooSlow`, and those of disk and network. */
  ensure(artifact: { url: string; sha256: string }, signal: AbortSignal): Promise<void>;
  has(sha256: string): Promise<boolean>;
  /**
   * Gives the bytes of an artifact that is here to a consumer. However much the consumer reads, and however it ends, all of them are hashed before
   * this returns. Errors: those of the consumer; `DigestMismatch` when the bytes differ from the digest, and then the artifact is removed.
   */
  use<T>(sha256: string, consume: (bytes: AsyncIterable<Uint8Array>) => Promise<T>): Promise<T>;
  /** Removes everything but these. Returns what went. */
  keep(digests: ReadonlySet<string>): Promise<{ files: number; bytes: number }>;
}

export interface GenerationStoreOptions {
  files: Files;
  folder: string;
  network: Network;
  /** Where relative URLs lead; ends with a slash. */
  mirror: string | undefined;
  maxBytes?: number;
  clock: Clock;
}

export const MAX_ARTIFACT_BYTES = 2 * 1024 ** 3;
const PART = '.part';

interface Named {
  url: string;
  sha256: string;
}

/** The store's folder, and how artifacts get there. */
interface StoreFolder extends GenerationStoreOptions {
  maxBytes: number;
  /** By sha256: two components may name one artifact, and it is fetched once. */
  underWay: Map<string, Promise<void>>;
}

export function createStore(options: GenerationStoreOptions): ArtifactStore {
  const store: StoreFolder = { ...options, maxBytes: options.maxBytes ?? MAX_ARTIFACT_BYTES, underWay: new Map() };
  return {
    has: (sha256) => has(store, sha256),
    use: (sha256, consume) => use(store, sha256, consume),
    ensure: (artifact, signal) => ensure(store, artifact, signal),
    keep: (digests) => keep(store, digests),
  };
}

const pathOf = ({ folder }: StoreFolder, sha256: string): string => join(folder, sha256);

const has = async (store: StoreFolder, sha256: string): Promise<boolean> =>
  (await store.files.stat(pathOf(store, sha256)))?.kind === 'file';

async function ensure(store: StoreFolder, artifact: Named, signal: AbortSignal): Promise<void> {
  const { underWay } = store;
  const fetching =
    underWay.get(artifact.sha256) ??
    (async () => {
      if (!(await isWhole(store, artifact.sha256))) await fetchArtifact(store, artifact, signal);
    })().finally(() => underWay.delete(artifact.sha256));
  underWay.set(artifact.sha256, fetching);
  await fetching;
}

async function isWhole(store: StoreFolder, sha256: string): Promise<boolean> {
  if (!(await has(store, sha256))) return false;
  try {
    await use(store, sha256, () => Promise.resolve());
    return true;
  } catch (error) {
    if (isCoded(error, agentErrorCodes, 'DigestMismatch')) return false;
    throw error;
  }
}

async function use<T>(store: StoreFolder, sha256: string, consume: (bytes: AsyncIterable<Uint8Array>) => Promise<T>): Promise<T> {
  const { files } = store;
  const path = pathOf(store, sha256);
  const hash = createHash('sha256');
  const chunks = files.chunks(path)[Symbol.asyncIterator]();
  // A consumer that stops early does not end it: the rest is hashed too.
  const next = async (): Promise<IteratorResult<Uint8Array, undefined>> => {
    const result = await chunks.next();
    if (result.done === true) return { done: true, value: undefined };
    hash.update(result.value);
    return { done: false, value: result.value };
  };
  const outcome = await consume({ [Symbol.asyncIterator]: () => ({ next }) }).then(
    (value) => ({ value }),
    (error: unknown) => ({ error }),
  );
  try {
    while ((await next()).done !== true);
  } catch (error) {
    throw 'error' in outcome ? outcome.error : error;
  }
  if (hash.digest('hex') !== sha256) {
    await files.unlink(path);
    throw agentError('DigestMismatch', `${path} was damaged; it is fetched again`, 'error' in outcome ? { cause: outcome.error } : {});
  }
  if ('error' in outcome) throw outcome.error;
  return outcome.value;
}

async function keep({ files, folder, underWay }: StoreFolder, digests: ReadonlySet<string>): Promise<{ files: number; bytes: number }> {
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
}

async function fetchArtifact(store: StoreFolder, artifact: Named, caller: AbortSignal): Promise<void> {
  const transfer = limitedTransfer(store.clock, caller);
  try {
    await fetchWithin(store, artifact, transfer);
  } finally {
    transfer.close();
  }
}

/** Continues what an earlier transfer left. */
async function fetchWithin(store: StoreFolder, artifact: Named, transfer: ArtifactTransfer): Promise<void> {
  const { files, folder, network } = store;
  const url = resolveUrl(artifact.url, store.mirror);
  if ((await files.stat(folder)) === undefined) await files.mkdir(folder);
  const part = pathOf(store, artifact.sha256) + PART;
  const there = (await files.stat(part))?.size ?? 0;
  const answer = await transfer.within(network.download(url, there, transfer.signal));
  if (answer.status === 416) {
    await files.unlink(part);
    throw agentError('HttpStatus', `${url}: what was there of it does not continue (416); it is fetched from the start`);
  }
  if (answer.status !== 200 && answer.status !== 206) {
    const persistent = answer.status >= 400 && answer.status < 500 && ![408, 425, 429].includes(answer.status);
    throw agentError(persistent ? 'ArtifactRefused' : 'HttpStatus', `${url}: the server answered ${answer.status}`);
  }
  const resumed = answer.status === 206;
  if (resumed && answer.from !== there)
    throw agentError('HttpStatus', `${url}: asked for bytes from ${there}, got them from ${answer.from}`);
  const { digest, size } = await writePart(store, { url, part, there: resumed ? there : 0, body: answer.body, resumed }, transfer);
  if (digest !== artifact.sha256) {
    await files.unlink(part);
    throw agentError('DigestMismatch', `${url} has sha256 ${digest}, asked for was ${artifact.sha256} (${size} bytes)`);
  }
  await files.rename(part, pathOf(store, artifact.sha256));
}

interface Incoming {
  url: string;
  /** Where it is written, and how many bytes of it are there. */
  part: string;
  there: number;
  body: AsyncIterable<Uint8Array>;
  resumed: boolean;
}

async function writePart(
  { files, maxBytes }: StoreFolder,
  { url, part, there, body, resumed }: Incoming,
  transfer: ArtifactTransfer,
): Promise<{ digest: string; size: number }> {
  const hash = createHash('sha256');
  let size = there;
  if (resumed) for await (const chunk of files.chunks(part)) hash.update(chunk);
  async function* counted(): AsyncGenerator<Uint8Array, void> {
    const chunks = body[Symbol.asyncIterator]();
    for (;;) {
      const next = await transfer.within(chunks.next());
      if (next.done === true) return;
      const chunk = next.value;
      transfer.count(chunk.length);
      size += chunk.length;
      if (size > maxBytes) throw agentError('TooLarge', `${url} is larger than ${maxBytes} bytes`);
      hash.update(chunk);
      yield chunk;
    }
  }
  try {
    await files.write(part, counted(), { mode: 0o600, append: resumed });
  } catch (error) {
    // The part that arrived is kept and continued, unless it could never be used.
    if (['TooLarge', 'ENOSPC'].includes(codeOf(error))) await files.unlink(part);
    throw error;
  }
  return { digest: hash.digest('hex'), size };
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
