/** Security: files in a checkout of an untrusted commit run nothing when a command is called in it. */
import { execFileSync, spawn } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { chmodSync, existsSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { keyLine } from '../api/component-key.ts';
import { cacheFolder } from './agent-package/runtime.ts';
import { defaultKnownHosts } from './import/known-hosts.ts';
import { writeInto } from './testing/tree.ts';

const ENTRY = fileURLToPath(new URL('../../bin/kubenode.js', import.meta.url));
let root: string;
let checkout: string;
let marker: string;

beforeAll(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), 'kubenode-checkout-')));
  checkout = join(root, 'checkout');
  marker = join(root, 'ran');
  const touch = `touch ${marker}`;
  const code = `require('node:fs').writeFileSync(${JSON.stringify(marker)}, '');`;
  const scripts = ['preinstall', 'postinstall', 'prepare', 'prepack', 'start', 'test', 'kubenode'].map((name) => [name, touch]);
  write('package.json', JSON.stringify({ name: 'x', version: '1.0.0', scripts: Object.fromEntries(scripts) as object }));
  write('.npmrc', `script-shell=${join(checkout, 'run')}\nnode-options=--require=${join(checkout, 'code.cjs')}\n`);
  write('.env', `NODE_OPTIONS=--require=${join(checkout, 'code.cjs')}\n`);
  write('cdk8s.yaml', `language: typescript\napp: ${touch}\n`);
  write('tsconfig.json', JSON.stringify({ compilerOptions: { plugins: [{ name: './code.cjs' }] } }));
  write('code.cjs', code);
  for (const name of ['run', 'git', 'kubectl', 'unshare', 'setpriv', 'bwrap', 'npm']) executable(name, `#!/bin/sh\n${touch}\n`);
  for (const name of ['kubenode', 'cdk8s', 'typescript', 'constructs', 'yaml'])
    for (const [path, text] of [
      ['package.json', JSON.stringify({ name, version: '1.0.0', main: 'index.js' })],
      ['index.js', code],
      ['bin/tsc', code],
    ] as const)
      write(`node_modules/${name}/${path}`, text);
  write('fleet/main.ts', "import { fleet } from 'kubenode/constructs';\nfleet.cluster('a').pool('web');\n");
  const git = (...args: string[]): string => execFileSync('git', ['-C', checkout, ...args], { encoding: 'utf8' });
  execFileSync('git', ['init', '--quiet', checkout]);
  for (const hook of ['post-checkout', 'pre-commit', 'post-index-change', 'fsmonitor-watchman'])
    executable(`.git/hooks/${hook}`, `#!/bin/sh\n${touch}\n`);
  for (const setting of ['core.fsmonitor', 'core.sshCommand', 'core.pager', 'core.editor', 'credential.helper', 'diff.external'])
    git('config', setting, `${touch};:`);
  git('config', 'alias.version', `!${touch}`);
});
afterAll(() => rmSync(root, { recursive: true }));

const write = (path: string, text: string): string => writeInto(checkout, path, text);
const executable = (path: string, text: string): void => chmodSync(write(path, text), 0o755);

it('would have run code, had git been called there', () => {
  execFileSync('git', ['-C', checkout, 'status'], { stdio: 'ignore' });
  expect(existsSync(marker)).toBe(true);
  rmSync(marker);
});

it.each([
  ['check --pre', /Node: \d/],
  ['status', /there is no kubeconfig/],
  ['rules check', /the fleet has no repair rules/],
  ['rules test', /there is nothing to test/],
  ['rules facts', /./],
  ['component verify --keys keys', /no components|verified|component/],
  ['install --cell --server https://cell:6443', /./],
])('security 1: runs nothing of a checkout: kubenode %s', async (command, expected) => {
  write('keys', `${keyLine(generateKeyPairSync('ed25519').publicKey, 'a key')}\n`);
  const { KUBECONFIG: _named, ...env } = process.env;
  const child = spawn(process.execPath, [ENTRY, ...command.split(' ')], {
    cwd: checkout,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...env, NO_COLOR: '1', HOME: root },
  });
  let printed = '';
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text: string) => (printed += text));
  await new Promise((resolve, reject) => child.once('error', reject).once('close', resolve));
  expect(printed).toMatch(expected);
  expect(existsSync(marker)).toBe(false);
});

it.each(['', '.', 'relative'])('security 1: takes no kubeconfig, cache or host keys from it where $HOME is %j', async (home) => {
  const config = {
    'current-context': 'x',
    clusters: [{ name: 'c', cluster: { server: 'https://127.0.0.1:1' } }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    users: [
      {
        name: 'u',
        user: {
          exec: { apiVersion: 'client.authentication.k8s.io/v1', interactiveMode: 'Never', command: 'sh', args: ['-c', `touch ${marker}`] },
        },
      },
    ],
  };
  write(join(home, '.kube/config'), JSON.stringify(config));
  const { KUBECONFIG: _named, ...env } = process.env;
  const child = spawn(process.execPath, [ENTRY, 'status'], { cwd: checkout, stdio: 'ignore', env: { ...env, HOME: home } });
  await new Promise((resolve, reject) => child.once('error', reject).once('close', resolve));
  expect(existsSync(marker)).toBe(false);
  vi.stubEnv('HOME', home);
  vi.stubEnv('XDG_CACHE_HOME', home);
  vi.stubEnv('XDG_STATE_HOME', home);
  try {
    expect([isAbsolute(cacheFolder()), isAbsolute(defaultKnownHosts())]).toEqual([true, true]);
  } finally {
    vi.unstubAllEnvs();
  }
});
