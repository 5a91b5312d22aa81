import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { loadKubeconfig } from './kubeconfig.ts';
import { fakeClock } from './testing/clock.ts';
import { createAuthority } from './testing/tls.ts';
import type { Authority } from './testing/tls.ts';

let folder: string;
let authority: Authority;
const clock = fakeClock(Date.now());
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'kubenode-kubeconfig-'));
  authority = await createAuthority();
});
afterAll(() => rm(folder, { recursive: true }));

const base64 = (text: string): string => Buffer.from(text).toString('base64');

async function file(name: string, content: object | string): Promise<string> {
  const path = join(folder, name);
  await writeFile(path, typeof content === 'string' ? content : stringify(content));
  return path;
}

function config(user: object, cluster: object = {}, context: object = {}): object {
  return {
    clusters: [{ name: 'c', cluster: { server: 'https://h:6443', ...cluster } }],
    users: [{ name: 'u', user }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u', ...context } }],
    'current-context': 'x',
  };
}

const load = (path: string, more: object = {}): ReturnType<typeof loadKubeconfig> => loadKubeconfig({ path, env: {}, clock, ...more });

describe('reading', () => {
  test('inline certificates, token, namespace and server name are taken', async () => {
    const { cert, key } = await authority.issue('me');
    const path = await file(
      'inline',
      config(
        { 'client-certificate-data': base64(cert), 'client-key-data': base64(key), token: 'secret' },
        { 'certificate-authority-data': base64(authority.ca), 'tls-server-name': 'api' },
        { namespace: 'web' },
      ),
    );
    expect(await load(path)).toStrictEqual({
      server: 'https://h:6443',
      ca: authority.ca,
      tlsServerName: 'api',
      clientCert: cert,
      clientKey: key,
      token: 'secret',
      namespace: 'web',
      context: 'x',
      source: `context "x" of ${path}`,
    });
  });

  test('files are found beside the kubeconfig, and a token file is read again', async () => {
    await file('ca.crt', authority.ca);
    await file('token', 'first\n');
    const path = await file('files', config({ tokenFile: 'token' }, { 'certificate-authority': 'ca.crt' }));
    const { ca, token } = await load(path);
    expect(ca).toBe(authority.ca);
    if (typeof token !== 'function') throw new Error('a token file must be a function');
    await file('token', 'second');
    expect(await token()).toBe('first');
    token.refused?.();
    expect(await token()).toBe('second');
    await file('token', 'third');
    expect(await token()).toBe('second');
    await clock.advance(60_000);
    expect(await token()).toBe('third');
  });

  test('another context can be chosen', async () => {
    const content = config({ token: 't' }) as { contexts: object[] };
    content.contexts.push({ name: 'y', context: { cluster: 'c', namespace: 'other' } }, { name: 'z', context: { cluster: 'c' } });
    const path = await file('two', content);
    expect(await load(path, { context: 'y' })).toMatchObject({ namespace: 'other', context: 'y' });
    expect(await load(path, { context: 'z' })).toMatchObject({ namespace: 'default', context: 'z' });
  });

  test('of several files the first that sets a field wins, and absent ones are passed over', async () => {
    const one = await file('one', { ...config({ token: 'one' }), 'current-context': 'z' });
    const two = await file('two', {
      ...config({ token: 'two' }),
      contexts: [{ name: 'z', context: { cluster: 'c', user: 'u', namespace: 'z' } }],
    });
    const loaded = await loadKubeconfig({ env: { KUBECONFIG: `${join(folder, 'absent')}:${one}:${two}` }, clock });
    expect(loaded).toMatchObject({ token: 'one', namespace: 'z' });
  });

  test('in a pod the service account serves, and its token is read again', async () => {
    for (const [name, text] of [
      ['ca.crt', 'the ca'],
      ['namespace', 'kubenode\n'],
      ['token', 'first'],
    ] as const)
      await file(name, text);
    const env = { HOME: join(folder, 'nowhere'), KUBERNETES_SERVICE_HOST: 'fd00::1', KUBERNETES_SERVICE_PORT: '443' };
    const loaded = await loadKubeconfig({ env, clock, serviceAccountFolder: folder });
    expect(loaded).toMatchObject({ server: 'https://[fd00::1]:443', ca: 'the ca', namespace: 'kubenode' });
    const { token } = loaded;
    if (typeof token !== 'function') throw new Error('the token of a file must be a function');
    await file('token', 'second\n');
    expect(await token()).toBe('first');
    await clock.advance(60_000);
    expect(await token()).toBe('second');
    await rm(join(folder, 'token'));
    await clock.advance(60_000);
    expect(await token()).toBe('second');
    await file('token', 'third');
    expect(await token()).toBe('third');
  });

  test('in a pod there are no contexts', async () => {
    const env = { HOME: join(folder, 'nowhere'), KUBERNETES_SERVICE_HOST: '10.0.0.1' };
    await expect(loadKubeconfig({ env, clock, context: 'prod', serviceAccountFolder: folder })).rejects.toMatchObject({
      code: 'NoContext',
    });
  });

  test('where a user has nothing, the client sends no credentials', async () => {
    const path = await file('anonymous', config({}));
    expect(await load(path)).toStrictEqual({
      server: 'https://h:6443',
      namespace: 'default',
      context: 'x',
      source: `context "x" of ${path}`,
    });
  });

  test('a certificate that a program gives is presented, and no token', async () => {
    const { cert, key } = await authority.issue('me');
    const status = { clientCertificateData: cert, clientKeyData: key };
    const credential = { apiVersion: 'client.authentication.k8s.io/v1', kind: 'ExecCredential', status };
    const args = ['-e', `console.log(${JSON.stringify(JSON.stringify(credential))})`];
    const exec = { apiVersion: 'client.authentication.k8s.io/v1', command: process.execPath, args };
    const { source, ...loaded } = await load(await file('exec-certificate', config({ exec })));
    expect(loaded).toStrictEqual({ server: 'https://h:6443', clientCert: cert, clientKey: key, namespace: 'default', context: 'x' });
    expect(source).toContain('context "x"');
  });

  test('a program is run for its credentials, through client-node', async () => {
    const credential = { apiVersion: 'client.authentication.k8s.io/v1', kind: 'ExecCredential', status: { token: 'from-program' } };
    const args = ['-e', `console.log(${JSON.stringify(JSON.stringify(credential))})`];
    const exec = { apiVersion: 'client.authentication.k8s.io/v1', command: process.execPath, args };
    const { token, ...rest } = await load(await file('exec', config({ exec })));
    expect(rest).toStrictEqual({ server: 'https://h:6443', namespace: 'default', context: 'x', source: rest.source });
    if (typeof token !== 'function') throw new Error('the token of a program must be a function');
    expect(await token()).toBe('from-program');
  });
});

const expired = (claims: object): string => `e30.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.x`;

describe('refusing, with one clear message', () => {
  test('no file', async () => {
    await expect(load(join(folder, 'absent'))).rejects.toMatchObject({
      code: 'KubeconfigAbsent',
      next: expect.stringContaining('$KUBECONFIG') as string,
    });
    await expect(loadKubeconfig({ env: { HOME: folder }, clock })).rejects.toThrow(join(folder, '.kube', 'config'));
  });

  test.each([
    ['no context chosen', { ...config({}), 'current-context': '' }, 'NoContext', 'names no current-context; known: x'],
    ['an unknown context', { ...config({}), 'current-context': 'q' }, 'NoContext', '; known: x'],
    ['an unknown cluster', config({}, {}, { cluster: 'q' }), 'KubeconfigInvalid', 'names cluster "q", which does not exist; known: c'],
    ['an unknown manager', config({}, {}, { user: 'q' }), 'KubeconfigInvalid', 'names user "q", which does not exist; known: u'],
    ['no server', config({}, { server: '' }), 'KubeconfigInvalid', 'its cluster has no server'],
    ['TLS not verified', config({}, { 'insecure-skip-tls-verify': true }), 'TlsNotVerified', 'verifies every server'],
    ['a password', config({ username: 'u', password: 'hunter2' }), 'KubeconfigInvalid', '`username` of a user is not supported'],
    ['a number for a token', config({ token: 5 }), 'KubeconfigInvalid', '`token` must be a string'],
    ['a cluster without name', { ...config({}), clusters: [{}] }, 'KubeconfigInvalid', '`clusters[0].name` must be set'],
    ['users that are no list', { ...config({}), users: {} }, 'KubeconfigInvalid', '`users` must be a list'],
    ['a list', ['x'], 'KubeconfigInvalid', 'is no kubeconfig'],
    ['a missing file of a certificate', config({ 'client-key': 'nowhere.pem' }), 'KubeconfigInvalid', 'nowhere.pem cannot be read'],
    [
      'a certificate that is none',
      config({ 'client-certificate-data': base64('x'), 'client-key-data': base64('hunter2') }),
      'KubeconfigInvalid',
      'its client certificate is no certificate that can be read (PEM is expected)',
    ],
    ['a certificate without key', config({ 'client-certificate-data': base64('x') }), 'KubeconfigInvalid', 'certificate and no key for it'],
    ['a key without certificate', config({ 'client-key-data': base64('hunter2') }), 'KubeconfigInvalid', 'key and no certificate for it'],
    [
      'an authority that is none',
      config({}, { 'certificate-authority-data': base64('x') }),
      'KubeconfigInvalid',
      'its certificate authority is no certificate that can be read (PEM is expected)',
    ],
    [
      'what is no base64',
      config({}, { 'certificate-authority-data': '%%%' }),
      'KubeconfigInvalid',
      'its certificate authority is no certificate',
    ],
    [
      'a token that expired',
      config({ token: expired({ exp: 1_000_000_000 }) }),
      'CredentialsExpired',
      'its token expired on 2001-09-09T01:46:40.000Z',
    ],
    [
      'a program that fails',
      config({ exec: { command: process.execPath, args: ['-e', 'console.error("log in first"); process.exit(1)'] } }),
      'CredentialsFailed',
      'log in first',
    ],
    ['a program that does not exist', config({ exec: { command: '/nowhere/login' } }), 'CredentialsFailed', 'ENOENT'],
  ])('%s', async (name, content, code, message) => {
    const path = await file(name.replaceAll(' ', '-'), content);
    await expect(load(path)).rejects.toMatchObject({ code, message: expect.stringContaining(message) as string });
    await expect(load(path)).rejects.not.toThrow('hunter2');
  });

  test('a client certificate that expired', async () => {
    const { cert, key } = await authority.issue('me', { until: new Date(Date.now() - 1000), from: new Date(Date.now() - 2000) });
    const path = await file('expired', config({ 'client-certificate-data': base64(cert), 'client-key-data': base64(key) }));
    await expect(load(path)).rejects.toMatchObject({
      code: 'CredentialsExpired',
      next: expect.stringContaining('new kubeconfig') as string,
    });
  });

  test('a client key that cannot be read, or is of another certificate', async () => {
    const [mine, other] = [await authority.issue('me'), await authority.issue('other')];
    const made = (key: string): object => config({ 'client-certificate-data': base64(mine.cert), 'client-key-data': base64(key) });
    for (const [key, message] of [
      ['hunter2', 'its client key cannot be read'],
      [other.key, 'its client key does not belong to its client certificate'],
    ] as const)
      await expect(load(await file('mismatch', made(key)))).rejects.toMatchObject({
        code: 'KubeconfigInvalid',
        message: expect.stringContaining(message) as string,
      });
  });

  test('text that is no YAML: the message names the line, not its content', async () => {
    const path = await file('broken', 'users:\n- name: u\n  user: {token: "hunter2\n');
    const error = await load(path).catch((error: unknown) => String(error));
    expect(error).toMatch(/broken:[34] is no YAML/);
    expect(error).not.toContain('hunter2');
  });
});
