import fs from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { deflateSync } from 'node:zlib';
import { beforeAll, describe, expect, it } from 'vitest';
import { waitFor } from '../../kube/testing/wait-for.ts';
import type { GitFs, HttpSpec } from './index.ts';
import { failure, noise, readFleet, remoteWorld, signal, relationAndSubjects } from './testing/remote.ts';
import { hasGit } from './testing/repository.ts';

const world = remoteWorld();
const { open, repository } = world;

const onFetch = (answer: string | Buffer) => {
  world.server.intercept = (request, response) => {
    if (request.method !== 'POST' || request.headers['git-protocol'] !== undefined) return false;
    response.writeHead(200, { 'content-type': 'application/x-git-upload-pack-result' }).end(answer);
    return true;
  };
};
const line = (content: string | Buffer) => {
  const bytes = Buffer.from(content);
  return Buffer.concat([Buffer.from((bytes.length + 4).toString(16).padStart(4, '0')), bytes]);
};

describe.skipIf(!hasGit)('a server that misbehaves leaves what was accepted as it was (skipped without git)', () => {
  let made: ReturnType<typeof repository>;
  let first: string;
  const primed = world.folder();
  beforeAll(async () => {
    made = repository();
    first = made.commit('first', { 'fleet/a': 'one' });
    await open(made.url, {}, primed).source.fetch(undefined, signal);
    made.commit('second', { 'fleet/a': 'two' });
  });

  /** A source that has fetched and accepted the first of two commits. */
  const accepted = (more: Partial<HttpSpec> = {}) => {
    const cacheDir = world.folder();
    fs.cpSync(primed, cacheDir, { recursive: true });
    const opened = open(made.url, more, cacheDir);
    const stillGood = async () => {
      world.server.intercept = undefined;
      expect(await readFleet(opened.source, first)).toEqual(new Map([['fleet/a', 'one']]));
      expect(await relationAndSubjects(opened.source, first)).toEqual(['descendant', 'second']);
    };
    return { ...opened, stillGood };
  };
  it.each([
    [
      'an error in band 3',
      Buffer.concat([line('NAK\n'), line('\x03upload-pack: out of memory')]),
      'GitProtocol',
      'reports: upload-pack: out of memory',
    ],
    ['an ERR line', line('ERR access denied\n'), 'GitProtocol', 'reports: access denied'],
    ['nothing', '', 'GitProtocol', 'without objects'],
    ['a web page', '<html>Sign in</html>', 'GitProtocol', 'not its protocol'],
    ['half a line', '0030NAK', 'GitProtocol', 'breaks off'],
    [
      'something that is no pack',
      Buffer.concat([line('NAK\n'), line('\x01hello hello hello hello hello hello')]),
      'GitProtocol',
      'no pack',
    ],
  ])('with %s', async (_, answer, code, message) => {
    const { source, stillGood } = accepted();
    onFetch(answer);
    await expect(source.fetch(first, signal)).rejects.toMatchObject({ code, message: expect.stringContaining(message) });
    await stillGood();
  });

  it.each([
    [500, 'GitUnreachable'],
    [429, 'GitUnreachable'],
    [403, 'GitAuth'],
    [404, 'GitHttpStatus'],
    [410, 'GitHttpStatus'],
  ])('with the status %i', async (status, code) => {
    const { source, stillGood } = accepted();
    world.server.intercept = (_, response) => {
      response.writeHead(status).end('<html>');
      return true;
    };
    await expect(source.fetch(first, signal)).rejects.toMatchObject({ code, message: expect.stringContaining(String(status)) });
    await stillGood();
  });

  it('with a page where the branches should be', async () => {
    const { source, stillGood } = accepted();
    world.server.intercept = (_, response) => {
      response.writeHead(200, { 'content-type': 'text/html' }).end('<html>Sign in</html>');
      return true;
    };
    await expect(source.head(signal)).rejects.toMatchObject({ code: 'GitProtocol' });
    await expect(source.fetch(first, signal)).rejects.toMatchObject({ code: 'GitProtocol' });
    await stillGood();
  });

  it('with a broken connection in the middle of the pack', async () => {
    const { source, stillGood } = accepted();
    world.server.intercept = (request, response) => {
      if (request.method !== 'POST' || request.headers['git-protocol'] !== undefined) return false;
      response.writeHead(200, { 'content-length': '1000' });
      response.write('0008NAK\n', () => response.destroy());
      return true;
    };
    await expect(source.fetch(first, signal)).rejects.toMatchObject({ code: 'GitUnreachable' });
    await stillGood();
  });

  it('with no server at all', async () => {
    const spare = createServer();
    await new Promise<void>((resolve) => spare.listen(0, '127.0.0.1', resolve));
    const { port } = spare.address() as { port: number };
    await new Promise((resolve) => spare.close(resolve));
    await expect(open(`http://127.0.0.1:${port}/x`).source.head(signal)).rejects.toMatchObject({
      code: 'GitUnreachable',
      message: expect.stringContaining('ECONNREFUSED'),
    });
  });

  it('that sends nothing, for as long as the limits allow, by our clock', async () => {
    const { source, clock, stillGood } = accepted({ limits: { idleSeconds: 30, requestSeconds: 100 } });
    let drip: (() => void) | undefined;
    world.server.intercept = (request, response) => {
      if (request.method !== 'POST' || request.headers['git-protocol'] !== undefined) return false;
      response.writeHead(200).flushHeaders();
      drip = () => response.write('0008NAK\n');
      return true;
    };
    const stalled = source.fetch(first, signal);
    const timeout = failure(stalled);
    await waitFor(() => drip !== undefined);
    await clock.advance(31_000);
    expect(await timeout).toMatchObject({ code: 'GitTimeout', message: expect.stringContaining('sent nothing for 30 s') });

    drip = undefined;
    const late = failure(source.fetch(first, signal));
    await waitFor(() => drip !== undefined);
    let ended = false;
    void late.then(() => (ended = true));
    await waitFor(async () => {
      drip?.();
      await new Promise((resolve) => setImmediate(resolve));
      await clock.advance(5_000);
      return ended;
    });
    expect(await late).toMatchObject({ code: 'GitTimeout', message: expect.stringContaining('longer than 100 s') });
    expect(clock.timers).toBe(0);
    await stillGood();
  });

  it('when we end it ourselves in the middle', async () => {
    const { source, clock, stillGood } = accepted();
    let asked = false;
    world.server.intercept = (request, response) => {
      if (request.method !== 'POST' || request.headers['git-protocol'] !== undefined) return false;
      response.writeHead(200).flushHeaders();
      asked = true;
      return true;
    };
    const controller = new AbortController();
    const fetching = source.fetch(first, controller.signal);
    const outcome = failure(fetching);
    await waitFor(() => asked);
    controller.abort(new Error('enough'));
    expect(await outcome).toEqual(new Error('enough'));
    await waitFor(() => clock.timers === 0);
    await stillGood();
  });

  it('with more bytes than allowed', async () => {
    const { url, commit } = repository();
    const first = commit('first', { 'fleet/a': 'one' });
    const { source } = open(url, { limits: { responseBytes: 20_000 } });
    await source.fetch(undefined, signal);
    const next = commit('large', { 'fleet/a': noise(5000) });
    await expect(source.fetch(first, signal)).rejects.toMatchObject({
      code: 'GitTooLarge',
      message: expect.stringContaining('more than 19.5 KiB'),
    });
    expect(await readFleet(source, first)).toEqual(new Map([['fleet/a', 'one']]));
    await expect(readFleet(source, next)).rejects.toMatchObject({ code: 'GitTooLarge' });
  });

  it('with bytes without end', async () => {
    const { source, stillGood } = accepted({ limits: { responseBytes: 1_000_000 } });
    const endless = Readable.from(
      (function* () {
        for (;;) yield Buffer.alloc(65_536);
      })(),
    );
    world.server.intercept = (request, response) => {
      if (request.method !== 'POST' || request.headers['git-protocol'] !== undefined) return false;
      response.on('close', () => endless.destroy());
      endless.pipe(response.writeHead(200));
      return true;
    };
    await expect(source.fetch(first, signal)).rejects.toMatchObject({ code: 'GitTooLarge' });
    await waitFor(() => endless.destroyed);
    await stillGood();
  });

  it('with an object that unpacks to more than allowed, which is not unpacked', async () => {
    const { url, commit, git } = repository();
    const first = commit('first', { 'fleet/a': 'one' });
    const { source, gitdir } = open(url, { limits: { objectBytes: 1_000_000 } });
    await source.fetch(undefined, signal);
    commit('bomb', { 'fleet/zeros': Buffer.alloc(20_000_000) });
    const packs = fs.readdirSync(join(gitdir, 'objects/pack'));
    await expect(source.fetch(first, signal)).rejects.toMatchObject({
      code: 'GitTooLarge',
      message: expect.stringContaining('an object of 19.1 MiB'),
    });
    expect(fs.readdirSync(join(gitdir, 'objects/pack'))).toEqual(packs);
    expect(await readFleet(source, first)).toEqual(new Map([['fleet/a', 'one']]));
    // Once it is gone from the branch, the branch works again.
    git('reset', '--quiet', '--hard', first);
    commit('second');
    expect(await relationAndSubjects(source, first)).toEqual(['descendant', 'second']);
  });

  it('while a new cache is due', async () => {
    const { source, gitdir, stillGood } = accepted();
    for (let i = 0; i < 60; i += 1) fs.writeFileSync(join(gitdir, `objects/pack/pack-${i}.pack`), '');
    onFetch(line('ERR go away\n'));
    await expect(source.fetch(first, signal)).rejects.toMatchObject({ code: 'GitProtocol' });
    expect(await readFleet(source, first)).toEqual(new Map([['fleet/a', 'one']]));
    await stillGood();
  });

  it('with a full disk', async () => {
    let full = false;
    const diskFs: GitFs = {
      ...fs,
      promises: {
        ...fs.promises,
        writeFile: ((...args: Parameters<typeof fs.promises.writeFile>) => {
          if (!full) return fs.promises.writeFile(...args);
          return Promise.reject(Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC', syscall: 'write' }));
        }) as typeof fs.promises.writeFile,
      },
    };
    const { url, commit } = repository();
    const first = commit('first', { 'fleet/a': 'one' });
    const { source } = open(url, {}, undefined, diskFs);
    await source.fetch(undefined, signal);
    commit('second');
    full = true;
    await expect(source.fetch(first, signal)).rejects.toMatchObject({ code: 'GitDisk', message: expect.stringContaining('ENOSPC') });
    expect(await readFleet(source, first)).toEqual(new Map([['fleet/a', 'one']]));
    full = false;
    expect(await relationAndSubjects(source, first)).toEqual(['descendant', 'second']);
  });

  it('with an answer that is compressed a thousandfold', async () => {
    const { source, stillGood } = accepted({ limits: { responseBytes: 50_000 } });
    world.server.intercept = (request, response) => {
      if (request.method !== 'POST' || request.headers['git-protocol'] !== undefined) return false;
      response.writeHead(200, { 'content-encoding': 'deflate' }).end(deflateSync(Buffer.alloc(50_000_000)));
      return true;
    };
    await expect(source.fetch(first, signal)).rejects.toMatchObject({ code: 'GitTooLarge' });
    await stillGood();
  });
});
