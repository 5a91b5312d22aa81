import { generateKeyPairSync } from 'node:crypto';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { makeAuthority, signClient, type Identity } from '@kubenode/embedded/pki';
import { systemClock } from '../../kube/clock.ts';
import { recordingLog } from '../../kube/testing/log.ts';
import { newMemory } from '../context.ts';
import type { AgentContext } from '../context.ts';
import { createDurable } from '../disk/durable.ts';
import { makeRequest, pemOf } from './request.ts';
import { layoutOf } from '../disk/layout.ts';
import { certificateIn, certificateInPem, keepNodeCredentials, kubeconfigOf } from './node-credentials.ts';
import type { NodeCertificates } from './node-credentials.ts';
import { nodeFiles } from '../ports/files.ts';

const CREDENTIALS = { kubeconfig: '/etc/kubernetes/kubelet.kubeconfig', certificateAuthority: '/etc/kubernetes/pki/ca.crt' };
const making = { now: Date.now(), random: Math.random };
let authority: Identity;
let root = '';
let asked: string[] = [];

beforeAll(async () => {
  authority = await makeAuthority('test', making);
});
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'kubenode-credentials-'));
  asked = [];
});
afterEach(() => rmSync(root, { recursive: true }));

const pem = (request: string): string => Buffer.from(request, 'base64').toString();
const signing =
  (seconds = 24 * 3600): NodeCertificates['ask'] =>
  async (pending) => {
    asked.push(pending.name);
    return { is: 'Issued', certificate: await signClient(authority, pem(pending.request), seconds, making) };
  };

function contextOf(ask: NodeCertificates['ask'], server = 'https://10.0.0.1:6443'): AgentContext {
  const files = nodeFiles();
  const clock = systemClock();
  const nodeCertificates = { server, certificateAuthority: authority.certificate, ask, readAnswer: ask };
  const ports = { files, clock, log: recordingLog(), random: Math.random, cell: { nodeCertificates } };
  // Only these parts of a context are used.
  return {
    ports,
    layout: layoutOf(root),
    durable: createDurable(files, root),
    node: { name: 'n1', namespace: 'web', uid: 'u', providerID: 'x://n1', bootstrap: '/b' },
    memory: newMemory(clock),
    signal: new AbortController().signal,
  } as unknown as AgentContext;
}

const config = (): string => readFileSync(join(root, CREDENTIALS.kubeconfig), 'utf8');

test('the kubelet gets a kubeconfig for its own node and nothing else, with a key that never left this disk, for root alone', async () => {
  await keepNodeCredentials(contextOf(signing()), CREDENTIALS);
  expect(statSync(join(root, CREDENTIALS.kubeconfig)).mode & 0o777).toBe(0o600);
  expect(readFileSync(join(root, CREDENTIALS.certificateAuthority), 'utf8')).toBe(authority.certificate);
  expect(certificateIn(config(), 'n1', Date.now(), 1)).toBeDefined();
  expect(certificateIn(config(), 'n2', Date.now(), 1)).toBeUndefined();
  const parsed = JSON.parse(config()) as { clusters: [{ cluster: { server: string } }]; users: [{ user: object }] };
  expect(parsed.clusters[0].cluster.server).toBe('https://10.0.0.1:6443');
  expect(Object.keys(parsed.users[0].user)).toEqual(['client-certificate-data', 'client-key-data']);
});

test('good files are kept without a request; another address of the server changes only that', async () => {
  await keepNodeCredentials(contextOf(signing()), CREDENTIALS);
  const before = certificateIn(config(), 'n1', Date.now(), 1);
  chmodSync(join(root, CREDENTIALS.kubeconfig), 0o644);
  await keepNodeCredentials(contextOf(signing(), 'https://10.0.0.2:6443'), CREDENTIALS);
  expect(asked).toHaveLength(1);
  expect(certificateIn(config(), 'n1', Date.now(), 1)).toEqual(before);
  expect(config()).toContain('https://10.0.0.2:6443');
  expect(statSync(join(root, CREDENTIALS.kubeconfig)).mode & 0o777).toBe(0o600);
});

test.each([
  ['nothing', ''],
  ['half a file', '{"users":[{"user":{"client-cert'],
  ['the form of others', 'apiVersion: v1\nkind: Config\n'],
  ['no certificate', JSON.stringify({ users: [{ user: { 'client-certificate-data': 'eA==', 'client-key-data': 'eA==' } }] })],
  ['null', 'null'],
])('%s is replaced', async (_what, text) => {
  mkdirSync(join(root, 'etc/kubernetes'), { recursive: true });
  writeFileSync(join(root, CREDENTIALS.kubeconfig), text);
  await keepNodeCredentials(contextOf(signing()), CREDENTIALS);
  expect(asked).toHaveLength(1);
  expect(certificateIn(config(), 'n1', Date.now(), 1)).toBeDefined();
});

test('a certificate of another key or another node is not taken', async () => {
  const other = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
  const ofOther =
    (name: string): NodeCertificates['ask'] =>
    async () => {
      const request = pemOf(makeRequest(other, name, 'system:nodes'));
      return { is: 'Issued', certificate: await signClient(authority, request, 3600, making) };
    };
  await expect(keepNodeCredentials(contextOf(ofOther('system:node:n1')), CREDENTIALS)).rejects.toMatchObject({
    code: 'CredentialsRefused',
  });
  const key = other.export({ type: 'pkcs8', format: 'pem' }).toString();
  const answer = await ofOther('system:node:n2')({ name: '', request: '' }, 1, new AbortController().signal);
  if (answer.is !== 'Issued') throw new Error('not issued');
  const text = kubeconfigOf({ server: 's', certificateAuthority: 'c' }, 'n1', { certificate: answer.certificate, key });
  expect(certificateIn(text, 'n1', Date.now(), 1)).toBeUndefined();
});

test('a refusal reports by whom and why; one that is good for a while yet goes on', async () => {
  const denied: NodeCertificates['ask'] = () => Promise.resolve({ is: 'Denied', why: 'NodeNotOfMachine: it is of another' });
  await expect(keepNodeCredentials(contextOf(denied), CREDENTIALS)).rejects.toMatchObject({
    code: 'CredentialsRefused',
    message: expect.stringContaining('NodeNotOfMachine: it is of another'),
  });
  await keepNodeCredentials(contextOf(signing()), CREDENTIALS);
  const before = config();
  // Past two thirds of its life, and before its end.
  const late = contextOf(denied);
  late.memory.cell.server = { ms: Date.now() + 20 * 3600_000, atMs: late.ports.clock.monotonic() };
  await keepNodeCredentials(late, CREDENTIALS);
  expect(config()).toBe(before);
  late.memory.cell.server = { ms: Date.now() + 25 * 3600_000, atMs: late.ports.clock.monotonic() };
  await expect(keepNodeCredentials(late, CREDENTIALS)).rejects.toMatchObject({ code: 'CredentialsRefused' });
});

test('a program that does not renew gets certificate and key as a file that it reads again; it is renewed, and the kubeconfig stays', async () => {
  const credentials = { ...CREDENTIALS, clientCertificate: '/etc/kubernetes/pki/detector.pem' };
  const path = join(root, credentials.clientCertificate);
  const pemFile = (): string => readFileSync(path, 'utf8');
  await keepNodeCredentials(contextOf(signing()), credentials);
  expect(statSync(path).mode & 0o777).toBe(0o600);
  const parsed = JSON.parse(config()) as { users: [{ name: string; user: object }] };
  expect(parsed.users[0]).toEqual({ name: 'system:node:n1', user: { 'client-certificate': path, 'client-key': path } });
  expect(certificateInPem(pemFile(), 'n1', Date.now(), 1)).toBeDefined();
  expect(certificateInPem(pemFile(), 'n2', Date.now(), 1)).toBeUndefined();
  const [before, kubeconfig] = [pemFile(), config()];
  await keepNodeCredentials(contextOf(signing()), credentials);
  expect([pemFile(), asked.length]).toEqual([before, 1]);
  const late = contextOf(signing());
  late.memory.cell.server = { ms: Date.now() + 20 * 3600_000, atMs: late.ports.clock.monotonic() };
  await keepNodeCredentials(late, credentials);
  expect(asked).toHaveLength(2);
  expect(pemFile()).not.toBe(before);
  expect(config()).toBe(kubeconfig);
  for (const text of [
    '',
    before.slice(0, 300),
    before.slice(before.indexOf('-----BEGIN PRIVATE')),
    before.replace(/-----END PRIVATE KEY-----\s*$/, ''),
  ]) {
    writeFileSync(path, text);
    const times = asked.length;
    await keepNodeCredentials(contextOf(signing()), credentials);
    expect(asked).toHaveLength(times + 1);
    expect(certificateInPem(pemFile(), 'n1', Date.now(), 1)).toBeDefined();
  }
});

test('a link instead of the file is replaced, and what it leads to is neither read nor written', async () => {
  mkdirSync(join(root, 'etc/kubernetes'), { recursive: true });
  writeFileSync(join(root, 'secret'), 'secret', { mode: 0o600 });
  symlinkSync(join(root, 'secret'), join(root, CREDENTIALS.kubeconfig));
  await keepNodeCredentials(contextOf(signing()), CREDENTIALS);
  expect(readFileSync(join(root, 'secret'), 'utf8')).toBe('secret');
  expect(certificateIn(config(), 'n1', Date.now(), 1)).toBeDefined();
});
