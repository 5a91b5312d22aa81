import { expect, test } from 'vitest';
import { sha256Hex } from '../../api/digest.ts';
import { fakeClock } from '../../kube/testing/clock.ts';
import type { Files } from '../ports/files.ts';
import type { Network } from '../ports/network.ts';
import { sleep } from '../../kube/clock.ts';
import { createStore, resolveUrl } from './store.ts';
import { Disk } from '../testing/inodes.ts';
import { simulatedFiles } from '../testing/disk.ts';

const content = Buffer.from('0123456789'.repeat(10));
const artifact = { url: 'https://mirror/x', sha256: sha256Hex(content) };
const { signal } = new AbortController();

/** A server that breaks off after `breakAt` bytes of each answer, and can go on where it stopped. `chunk`: as many bytes as the disk gives at once. */
function world(
  options: {
    breakAt?: number;
    ranges?: boolean;
    answer?: number;
    bytes?: Buffer;
    maxBytes?: number;
    chunk?: number;
    download?: Network['download'];
  } = {},
) {
  const disk = new Disk();
  const asked: number[] = [];
  const clock = fakeClock();
  const network: Network = {
    status: () => Promise.resolve(200),
    download(url, from, ended) {
      asked.push(from);
      if (options.download !== undefined) return options.download(url, from, ended);
      const bytes = options.bytes ?? content;
      const start = options.ranges === false ? 0 : from;
      async function* body(): AsyncGenerator<Uint8Array, void> {
        const end = options.breakAt === undefined ? bytes.length : Math.min(bytes.length, start + options.breakAt);
        for (let at = start; at < end; at += 7) yield await Promise.resolve(bytes.subarray(at, Math.min(at + 7, end)));
        if (end < bytes.length) throw new Error('connection reset');
      }
      return Promise.resolve({ status: options.answer ?? (start > 0 ? 206 : 200), from: start, body: body() });
    },
  };
  const files = inChunks(simulatedFiles(disk, { lags: true }), options.chunk ?? Infinity);
  const limits = options.maxBytes === undefined ? {} : { maxBytes: options.maxBytes };
  return { asked, clock, disk, files, store: createStore({ files, folder: '/store', network, mirror: undefined, clock, ...limits }) };
}

/** Which gives at most so many bytes at once. */
function inChunks(files: Files, most: number): Files {
  return {
    ...files,
    async *chunks(path) {
      for await (const bytes of files.chunks(path))
        for (let at = 0; at < bytes.length; at += most) yield bytes.subarray(at, Math.min(bytes.length, at + most));
    },
  };
}

async function read(chunks: AsyncIterable<Uint8Array>): Promise<string> {
  const all: Uint8Array[] = [];
  for await (const chunk of chunks) all.push(chunk);
  return Buffer.concat(all).toString();
}

test('an artifact is fetched once, and read back whole', async () => {
  const { asked, store } = world();
  await Promise.all([store.ensure(artifact, signal), store.ensure(artifact, signal)]);
  await store.ensure(artifact, signal);
  expect(asked).toEqual([0]);
  expect(await store.use(artifact.sha256, read)).toBe(content.toString());
});

test('a transfer that breaks off goes on where it stopped', async () => {
  const { asked, store } = world({ breakAt: 40 });
  await expect(store.ensure(artifact, signal)).rejects.toThrow('connection reset');
  await expect(store.ensure(artifact, signal)).rejects.toThrow('connection reset');
  await store.ensure(artifact, signal);
  expect(asked).toEqual([0, 40, 80]);
  expect(await store.use(artifact.sha256, read)).toBe(content.toString());
});

test('a server that knows no ranges is read from the start', async () => {
  const { asked, files, store } = world({ ranges: false });
  await files.mkdir('/store');
  await files.write(`/store/${artifact.sha256}.part`, Buffer.from('anything'), { mode: 0o600 });
  await store.ensure(artifact, signal);
  expect(asked).toEqual([8]);
  expect(await store.use(artifact.sha256, read)).toBe(content.toString());
});

test('bytes that are not those are never kept, wherever they came from', async () => {
  const wrong = world({ bytes: Buffer.from('something else') });
  await expect(wrong.store.ensure(artifact, signal)).rejects.toMatchObject({
    code: 'DigestMismatch',
    message: expect.stringContaining(artifact.sha256),
  });
  expect(wrong.disk.key()).not.toContain(artifact.sha256);

  const torn = world();
  await torn.files.mkdir('/store');
  await torn.files.write(`/store/${artifact.sha256}`, Buffer.from('torn by a loss of power'), { mode: 0o600 });
  await expect(torn.store.use(artifact.sha256, read)).rejects.toMatchObject({ code: 'DigestMismatch' });
  expect(await torn.store.has(artifact.sha256)).toBe(false);
  await torn.store.ensure(artifact, signal);
  expect(await torn.store.use(artifact.sha256, read)).toBe(content.toString());
});

test('what is too large is given up on the way, and leaves nothing', async () => {
  const { disk, store } = world({ maxBytes: 50 });
  await expect(store.ensure(artifact, signal)).rejects.toMatchObject({ code: 'TooLarge' });
  expect(disk.key()).not.toContain('.part');
});

test.each([
  [400, 'ArtifactRefused'],
  [404, 'ArtifactRefused'],
  [499, 'ArtifactRefused'],
  [403, 'ArtifactRefused'],
  [429, 'HttpStatus'],
  [500, 'HttpStatus'],
  [304, 'HttpStatus'],
])('the answer %i is %s', async (answer, code) => {
  await expect(world({ answer }).store.ensure(artifact, signal)).rejects.toMatchObject({ code });
});

test('a part that the server cannot continue is dropped', async () => {
  const { disk, files, store } = world({ answer: 416 });
  await files.mkdir('/store');
  await files.write(`/store/${artifact.sha256}.part`, Buffer.from('x'), { mode: 0o600 });
  await expect(store.ensure(artifact, signal)).rejects.toMatchObject({ code: 'HttpStatus' });
  expect(disk.key()).not.toContain('.part');
});

test.each([
  ['https://a/b', undefined, 'https://a/b'],
  ['artifacts/x.tgz', 'https://mirror:1/base/', 'https://mirror:1/base/artifacts/x.tgz'],
  ['x', 'http://127.0.0.1:80/', 'http://127.0.0.1/x'],
])('%s with the mirror %s is %s', (url, mirror, expected) => {
  expect(resolveUrl(url, mirror)).toBe(expected);
});

test.each([
  ['x', undefined, 'installed without a mirror'],
  ['../x', 'https://mirror/base/', 'leads out of the mirror'],
  ['//evil/x', 'https://mirror/base/', 'leads out of the mirror'],
  ['x', 'http://mirror/', 'over https'],
  ['http://mirror/x', undefined, 'over https'],
])('%s with the mirror %s is refused', (url, mirror, message) => {
  expect(() => resolveUrl(url, mirror)).toThrow(expect.objectContaining({ code: 'UrlRefused', message: expect.stringContaining(message) }));
});

test.each([
  ['as the disk gives them', Infinity],
  ['where the disk gives them after the whole artifact', content.length],
])(
  'security 7: bytes that the consumer did not read are hashed too, %s: an artifact with zeros behind it is not that artifact',
  async (_what, chunk) => {
    const { disk, files, store } = world({ chunk });
    await store.ensure(artifact, signal);
    await files.write(`/store/${artifact.sha256}`, Buffer.alloc(1000), { mode: 0o600, append: true });
    const first = async (bytes: AsyncIterable<Uint8Array>) => (await bytes[Symbol.asyncIterator]().next()).value;
    await expect(store.use(artifact.sha256, first)).rejects.toMatchObject({ code: 'DigestMismatch' });
    expect(disk.key()).not.toContain(artifact.sha256);
  },
);

test('what a consumer found wrong with damaged bytes is a matter of the store, not of the artifact', async () => {
  const { files, store } = world();
  await files.mkdir('/store');
  await files.write(`/store/${artifact.sha256}`, Buffer.from('damaged'), { mode: 0o600 });
  const refuse = (): Promise<never> => Promise.reject(Object.assign(new Error('no archive'), { code: 'ArchiveInvalid' }));
  await expect(store.use(artifact.sha256, refuse)).rejects.toMatchObject({ code: 'DigestMismatch' });
  await store.ensure(artifact, signal);
  await expect(store.use(artifact.sha256, refuse)).rejects.toMatchObject({ code: 'ArchiveInvalid' });
  expect(await store.has(artifact.sha256)).toBe(true);
});

test('what was damaged in the store is fetched again, before anything is made of it', async () => {
  const { asked, files, store } = world();
  await store.ensure(artifact, signal);
  await files.write(`/store/${artifact.sha256}`, Buffer.from('damaged'), { mode: 0o600 });
  await store.ensure(artifact, signal);
  expect(asked).toEqual([0, 0]);
  expect(await store.use(artifact.sha256, read)).toBe(content.toString());
});

/** A mirror that sends `bytes` each `everyMs`, for ever, and never answers at all where there are none. */
function trickle(bytes: number, everyMs: number) {
  const { clock, ...rest } = world({
    download(_url, from, ended) {
      if (bytes === 0) return new Promise(() => undefined);
      async function* body(): AsyncGenerator<Uint8Array, void> {
        while (!ended.aborted) {
          await sleep(clock, everyMs, ended);
          yield Buffer.alloc(bytes);
        }
      }
      return Promise.resolve({ status: 200, from, body: body() });
    },
  });
  return { clock, ...rest };
}

test.each([
  ['never answers', 0, 0, 60_000],
  ['sends a byte each second', 1, 1_000, 60_000],
  ['sends a little less than is asked for', 10_900, 10_000, 60_000],
  ['sends enough, and never ends', 14_000, 10_000, 3_600_000],
])('security 7: a mirror that %s is not waited for any longer, and what came of it is kept', async (_what, bytes, everyMs, withinMs) => {
  const { clock, disk, store } = trickle(bytes, everyMs);
  let error: unknown;
  const fetching = store.ensure(artifact, signal).catch((each: unknown) => (error = each));
  await clock.advance(withinMs - 1_000);
  expect(error).toBeUndefined();
  await clock.advance(2_000);
  await fetching;
  expect(error).toMatchObject({ code: 'TooSlow' });
  if (bytes > 0) expect(disk.key()).toContain(`${artifact.sha256}.part`);
  expect(clock.timers).toBe(0);
});

test('a transfer ends with its caller, and leaves no timer', async () => {
  const { clock, store } = trickle(0, 0);
  const controller = new AbortController();
  const fetching = store.ensure(artifact, controller.signal);
  // Under way.
  await clock.advance(1_000);
  expect(clock.timers).toBe(2);
  controller.abort(new Error('another revision is wanted'));
  await expect(fetching).rejects.toThrow('another revision is wanted');
  await expect(store.ensure(artifact, controller.signal)).rejects.toThrow('another revision is wanted');
  expect(clock.timers).toBe(0);
});

test('what no component needs goes, with what was begun of it; what one needs, or is fetched just now, stays', async () => {
  const { clock, files, store } = trickle(10, 1_000);
  await files.mkdir('/store');
  const [kept, gone] = ['a'.repeat(64), 'b'.repeat(64)];
  for (const name of [kept, `${kept}.part`, gone, `${gone}.part`])
    await files.write(`/store/${name}`, Buffer.from('12345'), { mode: 0o600 });
  const controller = new AbortController();
  const fetching = store.ensure(artifact, controller.signal).catch((error: unknown) => error);
  await clock.advance(3_000);
  expect(await store.keep(new Set([kept]))).toEqual({ files: 2, bytes: 10 });
  expect(await files.list('/store')).toEqual([`${artifact.sha256}.part`, kept, `${kept}.part`].toSorted());
  controller.abort(new Error('ended'));
  await fetching;
  expect(await store.keep(new Set())).toMatchObject({ files: 3 });
  expect(await files.list('/store')).toEqual([]);
});

test('what a consumer throws of whole bytes is what is thrown, and what reading throws where it throws nothing', async () => {
  const { files, store } = world();
  await store.ensure(artifact, signal);
  const failing = (): Promise<never> => Promise.reject(new Error('of the consumer'));
  await expect(store.use(artifact.sha256, failing)).rejects.toThrow('of the consumer');
  await files.unlink(`/store/${artifact.sha256}`);
  await expect(store.use(artifact.sha256, failing)).rejects.toThrow('of the consumer');
  await expect(store.use(artifact.sha256, () => Promise.resolve())).rejects.toMatchObject({ code: 'ENOENT' });
});

test('a server that continues elsewhere than it was asked to is not believed', async () => {
  const { files, store } = world({
    download: () => Promise.resolve({ status: 206, from: 3, body: (async function* (): AsyncGenerator<Uint8Array, void> {})() }),
  });
  await files.mkdir('/store');
  await files.write(`/store/${artifact.sha256}.part`, Buffer.from('01234567'), { mode: 0o600 });
  await expect(store.ensure(artifact, signal)).rejects.toMatchObject({
    code: 'HttpStatus',
    message: expect.stringContaining('asked for bytes from 8, got them from 3'),
  });
});

test('a full disk keeps nothing of what could not be written', async () => {
  const { disk, store } = world();
  disk.capacity = disk.used + 20;
  await expect(store.ensure(artifact, signal)).rejects.toMatchObject({ code: 'ENOSPC' });
  expect(disk.key()).not.toContain('.part');
});
