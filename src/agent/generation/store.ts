import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { isCoded } from '../../api/errors.ts';
import type { Clock } from '../../api/ports.ts';
import { agentError, codeOf } from '../errors.ts';
import { checkUrl } from '../ports/network.ts';
import type { Files } from '../ports/files.ts';
import type { Network } from '../ports/network.ts';

/**
 * Artifacts by their sha256. Their bytes are checked when they arrive and again whenever they are read, so that none needs to survive a
 * loss of power: what is damaged is found out before it is used, and fetched again.
 */
export interface Store {
  /** Makes sure that the artifact is here and whole: what was damaged since is fetched again. Errors: `UrlRefused`, `ArtifactRefused`, `HttpStatus`, `DigestMismatch`, `TooLarge`, `TooSlow`, and those of disk and network. */
  ensure(artifact: { url: string; sha256: string }, signal: AbortSignal): Promise<void>;
  has(sha256: string): Promise<boolean>;
  /**
   * Gives the bytes of an artifact that is here to a consumer. Whatever that reads of them, and however it ends, all of them are hashed before
   * this returns. Errors: those of the consumer; `DigestMismatch` when they were not those, and then the artifact is here no more.
   */
  use<T>(sha256: string, consume: (bytes: AsyncIterable<Uint8Array>) => Promise<T>): Promise<T>;
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
  clock: Clock;
}

export const MAX_ARTIFACT_BYTES = 2 * 1024 ** 3;
const PART = '.part';
/** Of one transfer: a slower one is ended, and goes on later where it was. */
const RATE = { bytes: 64 * 1024, everyMs: 60_000 };
const LONGEST_MS = 3_600_000;

export function createStore(options: StoreOptions): Store {
  const { files, folder, network } = options;
  const maxBytes = options.maxBytes ?? MAX_ARTIFACT_BYTES;
  const underWay = new Map<string, Promise<void>>();
  const pathOf = (sha256: string): string => join(folder, sha256);
  const has = async (sha256: string): Promise<boolean> => (await files.stat(pathOf(sha256)))?.kind === 'file';

  /** The transfer has its own end: by its caller, by its rate or by its length. */
  async function fetch(artifact: { url: string; sha256: string }, caller: AbortSignal): Promise<void> {
    const transfer = limitedTransfer(options.clock, caller);
    try {
      await transferred(artifact, transfer);
    } finally {
      transfer.close();
    }
  }

  async function transferred(artifact: { url: string; sha256: string }, transfer: Transfer): Promise<void> {
    const url = resolveUrl(artifact.url, options.mirror);
    if ((await files.stat(folder)) === undefined) await files.mkdir(folder);
    const part = pathOf(artifact.sha256) + PART;
    const there = (await files.stat(part))?.size ?? 0;
    const answer = await transfer.within(network.download(url, there, transfer.signal));
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
      const chunks = answer.body[Symbol.asyncIterator]();
      for (;;) {
        const next = await transfer.within(chunks.next());
        if (next.done === true) return;
        const chunk = next.value;
        transfer.had(chunk.length);
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

  async function use<T>(sha256: string, consume: (bytes: AsyncIterable<Uint8Array>) => Promise<T>): Promise<T> {
    const path = pathOf(sha256);
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

  async function isWhole(sha256: string): Promise<boolean> {
    if (!(await has(sha256))) return false;
    try {
      await use(sha256, () => Promise.resolve());
      return true;
    } catch (error) {
      if (isCoded(error, 'DigestMismatch')) return false;
      throw error;
    }
  }

  return {
    has,

    use,

    async ensure(artifact, signal) {
      // Two components may name one artifact: it is fetched once.
      const fetching =
        underWay.get(artifact.sha256) ??
        (async () => {
          if (!(await isWhole(artifact.sha256))) await fetch(artifact, signal);
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

interface Transfer {
  signal: AbortSignal;
  had(bytes: number): void;
  /** The outcome of something that may not end by itself. */
  within<T>(work: Promise<T>): Promise<T>;
  close(): void;
}

/** A server that sends a byte now and then would hold up a change for ever. */
function limitedTransfer(clock: Clock, caller: AbortSignal): Transfer {
  const controller = new AbortController();
  const end = (why: Error): void => controller.abort(why);
  const onAbort = (): void => controller.abort(caller.reason);
  if (caller.aborted) onAbort();
  caller.addEventListener('abort', onAbort, { once: true });
  const ended = new Promise<never>((_resolve, reject) => {
    const give = (): void => reject(controller.signal.reason as Error);
    if (controller.signal.aborted) give();
    controller.signal.addEventListener('abort', give, { once: true });
  });
  ended.catch(() => undefined);
  let had = 0;
  let cancelRate = clock.setTimer(RATE.everyMs, look);
  const cancelEnd = clock.setTimer(LONGEST_MS, () =>
    end(agentError('TooSlow', `the transfer took longer than ${LONGEST_MS / 60_000} minutes; it goes on where it was`)),
  );
  function look(): void {
    if (had < RATE.bytes) {
      return end(
        agentError('TooSlow', `${had} bytes came in ${RATE.everyMs / 1000} s, at least ${RATE.bytes} must; it goes on where it was`),
      );
    }
    had = 0;
    cancelRate = clock.setTimer(RATE.everyMs, look);
  }
  return {
    signal: controller.signal,
    had: (bytes) => void (had += bytes),
    within: (work) => Promise.race([work, ended]),
    close() {
      cancelRate();
      cancelEnd();
      caller.removeEventListener('abort', onAbort);
      // What still comes is not waited for.
      end(new Error('the transfer is over'));
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
