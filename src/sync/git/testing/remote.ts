/** What the tests of remote sources share: a folder of repositories, a server over it, sources with caches of their own. */
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll } from 'vitest';
import { fakeClock, type FakeClock } from '../../../kube/testing/clock.ts';
import { openSource, type GitFetch, type GitFs, type GitSource, type HttpSpec } from '../index.ts';
import { serveGit, testRepository, type GitServer, type TestRepository } from './repository.ts';

export const signal = new AbortController().signal;

export interface Opened {
  source: GitSource;
  clock: FakeClock;
  cacheDir: string;
  gitdir: string;
}

export interface RemoteWorld {
  root: string;
  /** Set before the first test. */
  server: GitServer;
  open: (url: string, more?: Partial<HttpSpec>, cacheDir?: string, diskFs?: GitFs, fetch?: GitFetch) => Opened;
  repository: () => TestRepository & { url: string };
  /** A folder that is not there yet. */
  folder: () => string;
  /** Requests that ask for branches or objects. */
  posts: () => number;
  sent: () => number;
}

/** To be called once at the top of a test file. `auth`: the server answers only to who has it. */
export function remoteWorld(auth?: { username: string; password: string }): RemoteWorld {
  const root = fs.mkdtempSync(join(tmpdir(), 'kubenode-git-http-'));
  const servers: GitServer[] = [];
  let count = 0;
  beforeAll(async () => {
    servers.push(await serveGit(root, auth));
  });
  afterEach(() => {
    world.server.intercept = undefined;
    world.server.requests.length = 0;
  });
  afterAll(async () => {
    await world.server.close();
    fs.rmSync(root, { recursive: true });
  });

  const world: RemoteWorld = {
    root,
    get server() {
      const [server] = servers;
      if (server === undefined) throw new Error('the server is not up yet');
      return server;
    },
    folder: () => join(root, `x${count++}`),
    open(url, more = {}, cacheDir = world.folder(), diskFs = fs, fetch = globalThis.fetch) {
      const clock = fakeClock();
      const source = openSource({ kind: 'http', url, branch: 'main', cacheDir, ...more }, { fs: diskFs, fetch, clock });
      return { source, clock, cacheDir, gitdir: join(cacheDir, 'kubenode-git-cache') };
    },
    repository() {
      const name = `r${count++}`;
      const made = testRepository(join(root, name));
      // As forges have it: what was force-pushed away can still be asked for.
      made.git('config', 'uploadpack.allowAnySHA1InWant', 'true');
      return { ...made, url: `${world.server.url}/${name}/.git` };
    },
    posts: () => world.server.requests.filter(({ method }) => method === 'POST').length,
    sent: () => world.server.requests.reduce((sum, { bytesSent }) => sum + bytesSent, 0),
  };
  return world;
}

/** The relation, then the subjects of the commits. */
export async function relationAndSubjects(source: GitSource, last: string | undefined): Promise<string[]> {
  const { relation, commits } = await source.fetch(last, signal);
  return [relation, ...commits.map(({ subject }) => subject)];
}

export function readFleet(source: GitSource, oid: string): Promise<Map<string, string>> {
  return source.read(oid, { paths: ['fleet'] }, signal);
}

/** Text that does not compress well, the same on each call. */
export function noise(lines: number): string {
  let x = 1;
  return Array.from({ length: lines }, () => ((x = (x * 48_271) % 2_147_483_647) * 65_537).toString(36)).join('\n');
}

/** What a promise is rejected with. Taken at once, so that it is never an unhandled rejection. */
export function failure(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => undefined,
    (error: unknown) => error,
  );
}
