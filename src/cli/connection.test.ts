import { execFileSync, spawn } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parse, stringify } from 'yaml';
import { openCluster, serve } from '@kubenode/embedded';
import { systemClock } from '../kube/clock.ts';
import { foundKubeconfig } from './found-kubeconfig.ts';
import { writeInto } from './testing/tree.ts';

const ENTRY = fileURLToPath(new URL('../../bin/kubenode.js', import.meta.url));
let root: string;
/** What code of the checkout would write. */
let marker: string;
beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), 'kubenode-found-')));
  marker = join(root, 'ran');
  mkdirSync(join(root, 'home'));
});
afterEach(() => rmSync(root, { recursive: true }));

const write = (path: string, text: string): string => writeInto(root, path, text);

/** As a person calls it inside of a checkout, without $KUBECONFIG unless it is given. */
function kubenode(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const { KUBECONFIG: _named, ...inherited } = process.env;
  const child = spawn(process.execPath, [ENTRY, ...args], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...inherited, NO_COLOR: '1', HOME: join(root, 'home'), ...env },
    timeout: 50_000,
  });
  const printed = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) child[name].setEncoding('utf8').on('data', (text: string) => (printed[name] += text));
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve({ code, ...printed }));
  });
}

interface Parts {
  cluster?: object;
  user?: object;
  more?: object;
}

const kubeconfig = ({ cluster, user, more }: Parts = {}): string =>
  stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'hub',
    clusters: [{ name: 'hub', cluster: { server: 'https://127.0.0.1:1', ...cluster } }],
    contexts: [{ name: 'hub', context: { cluster: 'hub', user: 'u' } }],
    users: [{ name: 'u', user: user ?? { token: 't' } }],
    ...more,
  });

const program = (): object => ({
  exec: {
    apiVersion: 'client.authentication.k8s.io/v1',
    interactiveMode: 'Never',
    command: 'sh',
    args: ['-c', `env > ${marker}; exit 1`],
  },
});

describe('security 1: a kubeconfig that the working folder brings', () => {
  it.each([
    ['status'],
    ['why', 'n1'],
    ['rollout', 'show'],
    ['release', 'm1', '-n', 'web', '--reason', 'x'],
    ['controller', '--hub', '--cache', 'cache'],
    ['controller', '--cell', '--server', 'https://cell:6443'],
    ['import', '192.0.2.1', '--pool', 'web', '--dry-run'],
    ['check'],
  ])('runs no program for its credentials: kubenode %s', async (...args) => {
    write('.kubenode/kubeconfig', kubeconfig({ user: program() }));
    const { code, stderr } = await kubenode(args);
    expect(existsSync(marker)).toBe(false);
    expect(stderr).toContain(`${join(root, '.kubenode/kubeconfig')} is in the working folder and no flag or variable named it`);
    expect(stderr).toContain('`exec` of user "u"');
    expect(stderr).toContain('KUBECONFIG=.kubenode/kubeconfig');
    expect(code).toBe(1);
  });

  it('is used as it is by who names it', async () => {
    const path = write('.kubenode/kubeconfig', kubeconfig({ user: program() }));
    for (const [args, env] of [
      [['--kubeconfig', '.kubenode/kubeconfig'], {}],
      [[], { KUBECONFIG: path }],
    ] as const) {
      const { stderr } = await kubenode(['status', ...args], env);
      expect(stderr).toContain('the program that gives its credentials failed');
      expect(existsSync(marker)).toBe(true);
      rmSync(marker);
    }
  }, 120_000);

  it('is used where it is what `kubenode start` writes, also when kubectl has chosen a context in it', async () => {
    const clock = systemClock({ ref: true });
    const cluster = await openCluster({ name: 'hub', state: 'memory', clock });
    const server = await serve({ clusters: [cluster], listen: '127.0.0.1:0', state: 'memory', clock });
    try {
      for (const more of [{}, { preferences: {}, 'current-context': 'hub' }]) {
        write('.kubenode/kubeconfig', stringify({ ...(parse(server.kubeconfig('hub')) as object), ...more }));
        const { stderr } = await kubenode(['check']);
        expect(stderr).toMatch(/API server: v\S+ at https:\/\/127\.0\.0\.1:/);
      }
    } finally {
      await server.close();
      await cluster.close();
    }
  });

  const cert = { 'client-certificate-data': 'eA==', 'client-key-data': 'eA==' };
  it.each<[string, Parts, string]>([
    ['another auth program', { user: { 'auth-provider': { name: 'gcp', config: { 'cmd-path': 'sh' } } } }, '`auth-provider` of user "u"'],
    ['a token from a file', { user: { tokenFile: '/root/token' } }, '`tokenFile` of user "u"'],
    ['a certificate from a file', { user: { ...cert, 'client-certificate': '/x' } }, '`client-certificate` of user "u"'],
    ['a key from a file', { user: { ...cert, 'client-key': '/x' } }, '`client-key` of user "u"'],
    ['a password', { user: { username: 'a', password: 'b' } }, '`username` of user "u"'],
    ['impersonation', { user: { token: 't', as: 'admin' } }, '`as` of user "u"'],
    ['an authority from a file', { cluster: { 'certificate-authority': '/x' } }, '`certificate-authority` of cluster "hub"'],
    ['no verification', { cluster: { 'insecure-skip-tls-verify': true } }, '`insecure-skip-tls-verify` of cluster "hub"'],
    ['a proxy', { cluster: { 'proxy-url': 'http://evil' } }, '`proxy-url` of cluster "hub"'],
    ['a server elsewhere', { cluster: { server: 'https://203.0.113.1:6443' } }, '`server` of cluster "hub"'],
    ['a name that only begins well', { cluster: { server: 'https://127.0.0.1.evil.example' } }, '`server` of cluster "hub"'],
    ['a user before a server', { cluster: { server: 'https://127.0.0.1:1@evil.example' } }, '`server` of cluster "hub"'],
    ['credentials in an address', { cluster: { server: 'https://a:b@127.0.0.1:1' } }, '`server` of cluster "hub"'],
    ['a server without TLS', { cluster: { server: 'http://127.0.0.1:1' } }, '`server` of cluster "hub"'],
    ['no server', { cluster: { server: null } }, '`server` of cluster "hub"'],
    ['a name that would print lines of its own', { more: { 'current-context': 'a\n✔ all is well' } }, 'a text with control characters'],
    ['what is not known', { more: { plugins: [] } }, '`plugins`'],
    [
      'a second user whom no context names',
      {
        more: {
          users: [
            { name: 'u', user: { token: 't' } },
            { name: 'v', user: { exec: { command: 'sh' } } },
          ],
        },
      },
      '`exec` of user "v"',
    ],
    ['a list that is none', { more: { users: { u: { exec: {} } } } }, '`users`'],
    ['an item that is none', { more: { users: ['u'] } }, '`users`'],
    ['more in an item', { more: { users: [{ name: 'u', user: { token: 't' }, exec: {} }] } }, '`users`'],
  ])('is refused with %s', (_what, parts, where) => {
    write('.kubenode/kubeconfig', kubeconfig(parts));
    expect(() => foundKubeconfig(root)).toThrow(
      expect.objectContaining({ code: 'FoundKubeconfigRefused', message: expect.stringContaining(where) as unknown }) as Error,
    );
  });

  it('quotes no secret', () => {
    for (const user of ['hunter2', { token: 'hunter2', exec: {} }, { token: ['hunter2'] }]) {
      write('.kubenode/kubeconfig', kubeconfig({ more: { users: [{ name: 'u', user }] } }));
      expect(() => foundKubeconfig(root)).not.toThrow('hunter2');
      expect(() => foundKubeconfig(root)).toThrow('no flag or variable named it');
    }
    write('.kubenode/kubeconfig', '{hunter2: [');
    expect(() => foundKubeconfig(root)).toThrow(/:1 is no YAML \([A-Z_]+\)/);
    expect(() => foundKubeconfig(root)).not.toThrow('hunter2');
  });

  it.each(['https://127.0.0.1:7443', 'https://127.8.9.1:1/path', 'https://[::1]:6443'])('is used with a server at %s', (server) => {
    const path = write('.kubenode/kubeconfig', kubeconfig({ cluster: { server }, user: cert }));
    expect(foundKubeconfig(root)).toEqual({ file: path, text: readFileSync(path, 'utf8') });
  });

  it('is absent where there is none', () => {
    expect(foundKubeconfig(root)).toBeUndefined();
    write('.kubenode', 'a file');
    expect(foundKubeconfig(root)).toBeUndefined();
  });

  const refused = expect.objectContaining({ code: 'FoundKubeconfigRefused' }) as Error;
  it('is reached through no link, and waited for in no pipe', () => {
    write('elsewhere/kubeconfig', kubeconfig());
    symlinkSync('elsewhere', join(root, '.kubenode'));
    expect(() => foundKubeconfig(root)).toThrow(refused);
    rmSync(join(root, '.kubenode'));
    mkdirSync(join(root, '.kubenode'));
    symlinkSync('../elsewhere/kubeconfig', join(root, '.kubenode/kubeconfig'));
    expect(() => foundKubeconfig(root)).toThrow(refused);
    rmSync(join(root, '.kubenode/kubeconfig'));
    symlinkSync('nothing', join(root, '.kubenode/kubeconfig'));
    expect(() => foundKubeconfig(root)).toThrow(refused);
    rmSync(join(root, '.kubenode/kubeconfig'));
    execFileSync('mkfifo', [join(root, '.kubenode/kubeconfig')]);
    expect(() => foundKubeconfig(root)).toThrow(refused);
  });

  it('is refused where others may write it, or the folder that it lies in', () => {
    const path = write('.kubenode/kubeconfig', kubeconfig());
    chmodSync(path, 0o666);
    expect(() => foundKubeconfig(root)).toThrow('others may write');
    chmodSync(path, 0o600);
    chmodSync(join(root, '.kubenode'), 0o777);
    expect(() => foundKubeconfig(root)).toThrow('others may write');
    chmodSync(join(root, '.kubenode'), 0o700);
    expect(foundKubeconfig(root)).toBeDefined();
  });
});
