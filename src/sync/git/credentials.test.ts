import fs from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { messageOf } from '../../api/errors.ts';
import { fakeClock } from '../../kube/testing/clock.ts';
import { defaultHttpLimits, httpClient } from './http.ts';
import { readFleet, remoteWorld, signal, relationAndSubjects } from './testing/remote.ts';
import { hasGit, serveGit } from './testing/repository.ts';

const auth = { username: 'sync', password: 'hunter2-secret' };
const world = remoteWorld(auth);
const { open, repository } = world;

describe.skipIf(!hasGit)('credentials (skipped without git)', () => {
  it('are sent after the server asked, and never written down', async () => {
    const { url, commit } = repository();
    const head = commit('first', { 'fleet/a': 'one' });
    const { source, cacheDir } = open(url, { auth });
    expect(await relationAndSubjects(source, undefined)).toEqual(['first', 'first']);
    expect(await readFleet(source, head)).toEqual(new Map([['fleet/a', 'one']]));
    expect(world.server.requests[0]?.authorization).toBeUndefined();
    expect(world.server.requests.at(-1)?.authorization).toBe(`Basic ${Buffer.from('sync:hunter2-secret').toString('base64')}`);
    for (const file of fs.readdirSync(cacheDir, { recursive: true, encoding: 'utf8' })) {
      const path = join(cacheDir, file);
      const content = fs.statSync(path).isFile() ? fs.readFileSync(path, 'latin1') : '';
      expect(content).not.toContain('hunter2');
    }
  });

  it('that are wrong are sent once, and the error does not repeat them', async () => {
    const { url, commit } = repository();
    commit('first');
    const { source } = open(url, { auth: { ...auth, password: 'wrong-password' } });
    const error = await source.head(signal).catch((error: unknown) => error);
    expect(error).toMatchObject({ code: 'GitAuth', message: expect.stringContaining('refuses the credentials') });
    expect(messageOf(error)).not.toContain('wrong-password');
    expect(world.server.requests.length).toBe(2);
    await expect(open(url).source.head(signal)).rejects.toMatchObject({
      code: 'GitAuth',
      message: expect.stringContaining('has none'),
    });
  });

  it('do not follow a redirect', async () => {
    const { url, commit } = repository();
    commit('first');
    const elsewhere = await serveGit(world.root);
    try {
      const { source } = open(url, { auth });
      for (const step of ['GET', 'POST']) {
        world.server.intercept = (request, response) => {
          if (request.headers.authorization === undefined || request.method !== step) return false;
          response.writeHead(301, { location: `${elsewhere.url}${request.url ?? ''}` }).end();
          return true;
        };
        await expect(source.fetch(undefined, signal)).rejects.toMatchObject({
          code: 'GitRedirect',
          message: expect.stringContaining(elsewhere.url),
        });
      }
      expect(elsewhere.requests).toEqual([]);
    } finally {
      await elsewhere.close();
    }
  });

  it('are for the address of the source alone, whatever else is asked for', async () => {
    const asked: string[] = [];
    const fetch = (url: string) => (asked.push(url), Promise.resolve(new Response('')));
    const spec = { kind: 'http', url: 'https://example.com/x', branch: 'main', cacheDir: '/nowhere', auth } as const;
    const { request } = httpClient(spec, defaultHttpLimits, { fetch, clock: fakeClock() }, { objects: false }, signal);
    for (const url of ['https://example.com.evil/x/info/refs', 'https://example.com/xy', 'http://example.com/x/info/refs']) {
      await expect(request({ url, headers: {} })).rejects.toMatchObject({ code: 'GitProtocol' });
    }
    await request({ url: 'https://example.com/x/info/refs' });
    expect(asked).toEqual(['https://example.com/x/info/refs']);
  });

  it('are left out of what an angry server repeats', async () => {
    const { url, commit } = repository();
    commit('first');
    world.server.intercept = (request, response) => {
      if (request.method !== 'POST' || request.headers['git-protocol'] !== undefined) return false;
      const words = `\x03you sent ${request.headers.authorization ?? ''}, that is sync:hunter2-secret\n\x1b[31m`;
      response.end(`${(words.length + 4).toString(16).padStart(4, '0')}${words}`);
      return true;
    };
    const { source } = open(url, { auth });
    const error = await source.fetch(undefined, signal).catch((error: unknown) => error);
    expect(messageOf(error)).toBe('the Git server reports: you sent Basic ***, that is sync:*** [31m');
  });

  it.each([
    ['credentials in it', 'https://ada:secret@example.com/x.git', 'has credentials in it'],
    ['a user in it', 'https://ada@example.com/x.git', 'has credentials in it'],
    ['plain http to another machine', 'http://example.com/x.git', 'http only to this machine'],
    ['plain http to a name that only begins like this machine', 'http://localhost.example.com/x.git', 'http only to this machine'],
    ['plain http to a number that only begins like this machine', 'http://127.0.0.1.example.com/x.git', 'http only to this machine'],
    ['ssh', 'ssh://git@example.com/x.git', 'credentials'],
    ['git', 'git://example.com/x.git', '"git://"'],
    ['a file', 'file:///etc', '"file://"'],
    ['a query', 'https://example.com/x.git?a=b', 'a query or a fragment'],
    ['no URL', 'git@example.com:x.git', 'cannot be read'],
  ])('a URL with %s is refused when the source is opened', (_, url, message) => {
    expect(() => open(url)).toThrow(message);
    expect(() => open(url)).not.toThrow('secret');
  });

  it('other parts of a source are checked as well', () => {
    expect(() => open('https://example.com/x', { branch: '../x' })).toThrow('no name of a branch');
    expect(() => open('https://example.com/x', { cacheDir: 'relative' })).toThrow('absolute');
    for (const url of ['https://example.com/x', 'http://localhost:3000/x', 'http://127.8.0.1/x', 'http://[::1]:80/x'])
      expect(open(url).source).toBeDefined();
  });
});
