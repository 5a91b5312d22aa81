/** Real repositories and a real Git server, for tests and the tour. */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { dirname, join } from 'node:path';
import * as git from 'isomorphic-git';

export const hasGit = spawnSync('git', ['--version']).status === 0;
export const hasSshKeygen = spawnSync('ssh-keygen', ['-?']).error === undefined;

const AUTHOR = { name: 'Ada', email: 'ada@example.com' };
const FIRST_COMMIT = Date.UTC(2026, 0, 1) / 1000;

/** Runs the system's git in `dir`, without the configuration of its user. `date` is of commits, in seconds; absent: now. */
export function runGit(dir: string, args: readonly string[], date?: number, input?: string): string {
  return execFileSync('git', args, {
    cwd: dir,
    encoding: 'utf8',
    stdio: ['pipe', 'pipe', 'pipe'],
    ...(input === undefined ? {} : { input }),
    env: {
      PATH: process.env['PATH'],
      HOME: dir,
      GIT_CONFIG_GLOBAL: '/dev/null',
      GIT_CONFIG_NOSYSTEM: '1',
      GIT_AUTHOR_NAME: AUTHOR.name,
      GIT_AUTHOR_EMAIL: AUTHOR.email,
      GIT_COMMITTER_NAME: AUTHOR.name,
      GIT_COMMITTER_EMAIL: AUTHOR.email,
      ...(date === undefined ? {} : { GIT_AUTHOR_DATE: `${date} +0000`, GIT_COMMITTER_DATE: `${date} +0000` }),
    },
  }).trim();
}

export interface TestRepository {
  dir: string;
  git: (...args: string[]) => string;
  write: (files: Record<string, string | Buffer>) => void;
  /** Writes and commits everything; the commit's id. Each commit is a minute younger than the one before. */
  commit: (message: string, files?: Record<string, string | Buffer>) => string;
  /** Many commits that change nothing, in one go, on main; their ids. */
  commits: (messages: readonly string[]) => string[];
}

/** A new repository at `dir`, on the branch main, by the system's git. */
export function testRepository(dir: string, init: readonly string[] = []): TestRepository {
  let minute = 0;
  const date = () => FIRST_COMMIT + minute++ * 60;
  fs.mkdirSync(dir, { recursive: true });
  runGit(dir, ['init', '--quiet', '--initial-branch=main', ...init]);
  const repository: TestRepository = {
    dir,
    git: (...args) => runGit(dir, args, date()),
    write(files) {
      for (const [path, content] of Object.entries(files)) {
        fs.mkdirSync(dirname(join(dir, path)), { recursive: true });
        fs.writeFileSync(join(dir, path), content);
      }
    },
    commit(message, files = {}) {
      repository.write(files);
      // Starting git is what takes the time.
      if (Object.keys(files).length > 0) repository.git('add', '--all');
      repository.git('commit', '--all', '--quiet', '--allow-empty', '-m', message);
      return repository.git('rev-parse', 'HEAD');
    },
    commits(messages) {
      const old = fs.existsSync(join(dir, '.git/refs/heads/main'));
      const stream = messages.map((message, index) => {
        const author = `${AUTHOR.name} <${AUTHOR.email}> ${date()} +0000`;
        const from = index === 0 && old ? 'from refs/heads/main^0\n' : '';
        return `commit refs/heads/main\nmark :${index + 1}\nauthor ${author}\ncommitter ${author}\ndata ${message.length}\n${message}\n${from}`;
      });
      const lines = messages.map((_, index) => `get-mark :${index + 1}\n`);
      return runGit(dir, ['fast-import', '--quiet', '--cat-blob-fd=1'], undefined, [...stream, ...lines].join('')).split('\n');
    },
  };
  return repository;
}

/** Commits what lies in the work tree at `dir`, as `git add --all && git commit` do; by isomorphic-git where there is no git. */
export async function commitAll(dir: string, message: string): Promise<string> {
  if (hasGit) {
    runGit(dir, ['add', '--all']);
    runGit(dir, ['commit', '--quiet', '-m', message]);
    return runGit(dir, ['rev-parse', 'HEAD']);
  }
  return await commitWithoutGit(dir, message);
}

export async function commitWithoutGit(dir: string, message: string): Promise<string> {
  for (const [filepath, , inWork] of await git.statusMatrix({ fs, dir })) {
    if (inWork === 0) await git.remove({ fs, dir, filepath });
    else await git.add({ fs, dir, filepath });
  }
  return await git.commit({ fs, dir, message, author: AUTHOR });
}

export interface GitServer {
  /** `http://127.0.0.1:PORT`; a repository at `root/x` is `${url}/x`. */
  url: string;
  requests: { method: string; url: string; authorization: string | undefined; bytesSent: number }[];
  /** Answers a request instead of Git when it returns true. */
  intercept: ((request: IncomingMessage, response: ServerResponse) => boolean) | undefined;
  close(): Promise<void>;
}

/** Serves the repositories under `root`, read-only, by `git http-backend`. With `auth`, only to who has it. */
export async function serveGit(root: string, auth?: { username: string; password: string }): Promise<GitServer> {
  const wanted = auth === undefined ? undefined : `Basic ${Buffer.from(`${auth.username}:${auth.password}`).toString('base64')}`;
  const server = createServer((request, response) => {
    const record = { method: request.method ?? '', url: request.url ?? '', authorization: request.headers.authorization, bytesSent: 0 };
    gitServer.requests.push(record);
    if (gitServer.intercept?.(request, response) === true) return;
    if (wanted !== undefined && request.headers.authorization !== wanted) {
      response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end();
      return;
    }
    const url = new URL(request.url ?? '', 'http://localhost');
    if (url.pathname.endsWith('/git-receive-pack') || url.searchParams.get('service') === 'git-receive-pack') {
      response.writeHead(403).end();
      return;
    }
    cgi(root, url, request, response, record);
  });
  const gitServer: GitServer = {
    url: '',
    requests: [],
    intercept: undefined,
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the test server has no port');
  gitServer.url = `http://127.0.0.1:${address.port}`;
  return gitServer;
}

function cgi(root: string, url: URL, request: IncomingMessage, response: ServerResponse, record: { bytesSent: number }): void {
  const child = spawn('git', ['http-backend'], {
    stdio: ['pipe', 'pipe', 'ignore'],
    env: {
      PATH: process.env['PATH'],
      GIT_PROJECT_ROOT: root,
      GIT_HTTP_EXPORT_ALL: '1',
      // Git refuses repositories of another owner, as a temporary folder's may be.
      GIT_CONFIG_COUNT: '1',
      GIT_CONFIG_KEY_0: 'safe.directory',
      GIT_CONFIG_VALUE_0: '*',
      PATH_INFO: decodeURIComponent(url.pathname),
      QUERY_STRING: url.search.slice(1),
      REQUEST_METHOD: request.method,
      CONTENT_TYPE: request.headers['content-type'] ?? '',
      HTTP_CONTENT_ENCODING: request.headers['content-encoding'] ?? '',
      GIT_PROTOCOL: String(request.headers['git-protocol'] ?? ''),
    },
  });
  response.on('close', () => child.kill());
  child.stdin.on('error', () => {});
  request.pipe(child.stdin);
  let head: Buffer | undefined = Buffer.alloc(0);
  child.stdout.on('data', (chunk: Buffer) => {
    if (head === undefined) {
      record.bytesSent += chunk.length;
      response.write(chunk);
      return;
    }
    head = Buffer.concat([head, chunk]);
    const end = head.indexOf('\r\n\r\n');
    if (end < 0) return;
    let status = 200;
    for (const line of head.toString('latin1', 0, end).split('\r\n')) {
      const [name = '', value = ''] = line.split(/: (.*)/s);
      if (name.toLowerCase() === 'status') status = Number.parseInt(value, 10);
      else response.setHeader(name, value);
    }
    response.writeHead(status);
    const body = head.subarray(end + 4);
    record.bytesSent += body.length;
    response.write(body);
    head = undefined;
  });
  child.stdout.on('end', () => response.end());
}
