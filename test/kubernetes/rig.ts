/** The programs of control planes in one temporary folder, with certificates and tokens of their own. */
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { makeAuthority, makeServerCertificate, signClient } from '@kubenode/embedded/pki';
import { makeRequestAndKey } from '@kubenode/embedded/testing';
import type { Connection } from '../../src/kube/connect.ts';
import { httpTransport } from '../../src/kube/http-transport.ts';
import type { Programs } from '../../tools/kubernetes/programs.ts';
import { startProgram, type Program } from './program.ts';

const MAKING = () => ({ now: Date.now(), random: () => randomBytes(6).readUIntBE(0, 6) / 2 ** 48 });

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  const address = server.address();
  await new Promise<void>((resolve) => server.close(() => resolve()));
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}

/** Writes secrets and certificates into the folder; returns their paths. Servers may have other addresses than those of loopback. */
export async function files(folder: string, addresses: readonly string[] = []) {
  const authority = await makeAuthority('kubernetes-test', MAKING());
  const serving = await makeServerCertificate(authority, MAKING(), addresses);
  const { request, key } = await makeRequestAndKey([{ CN: ['kube-apiserver'] }]);
  const client = await signClient(authority, request, 24 * 3600, MAKING());
  const accounts = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const token = randomBytes(24).toString('base64url');
  const write = (name: string, text: string): string => {
    const path = join(folder, name);
    writeFileSync(path, text, { mode: 0o600 });
    return path;
  };
  return {
    authority: authority.certificate,
    token,
    write,
    /** A certificate of a day for who a request (PEM) names. */
    sign: (request: string) => signClient(authority, request, 24 * 3600, MAKING()),
    ca: write('ca.crt', authority.certificate),
    caKey: write('ca.key', authority.key),
    serving: write('serving.crt', serving.certificate),
    servingKey: write('serving.key', serving.key),
    client: write('client.crt', client),
    clientKey: write('client.key', key),
    accountsKey: write('accounts.key', accounts.privateKey.export({ format: 'pem', type: 'sec1' }).toString()),
    accountsPublic: write('accounts.pub', accounts.publicKey.export({ format: 'pem', type: 'spki' }).toString()),
    tokens: write('tokens.csv', `${token},kubernetes-admin,,"system:masters"\n`),
  };
}

/** Waits until the condition is true; throws with the output of the program when that ends before, or is late. */
async function until(program: Program, what: string, seconds: number, isTrue: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + seconds * 1000;
  for (;;) {
    if (await isTrue().catch(() => false)) return;
    if (program.ended !== undefined) throw new Error(`${program.name} did not become ready: ${program.ended}\n${program.output()}`);
    if (performance.now() > deadline) throw new Error(`${program.name}: ${what} not within ${seconds} s\n${program.output()}`);
    await delay(50);
  }
}

/** Of the administrator. */
export type AdminConnection = Connection & { ca: string; token: string };

type Files = Awaited<ReturnType<typeof files>>;

async function answers(name: string, apiserver: Program, connection: Connection): Promise<void> {
  const transport = httpTransport(connection);
  const ok = async (path: string): Promise<boolean> => {
    const { status, body } = await transport({ method: 'GET', path });
    for await (const _ of body);
    return status === 200;
  };
  try {
    await until(apiserver, `${name}: /readyz`, 120, () => ok('/readyz'));
    await until(apiserver, `${name}: the namespace default`, 60, () => ok('/api/v1/namespaces/default'));
  } finally {
    await transport.close();
  }
}

/** Starts the programs of control planes; they end with `stop`, which removes the folder too. */
export function openRig(programs: Programs) {
  const folder = mkdtempSync(join(tmpdir(), 'kubenode-kubernetes-'));
  const running: Program[] = [];
  const start = (name: string, path: string, args: string[], within: string): Program => {
    const program = startProgram(name, path, args, join(within, `${name}.log`));
    running.push(program);
    return program;
  };
  return {
    folder,
    stop: async (): Promise<void> => {
      for (const program of running.splice(0).toReversed()) await program.stop();
      rmSync(folder, { recursive: true, force: true });
    },

    /** With what an API server needs to know of it. */
    async etcd(within: string, made: Files): Promise<{ program: Program; args: string[] }> {
      mkdirSync(join(within, 'etcd'), { mode: 0o700 });
      const [clientPort, peerPort] = [await freePort(), await freePort()];
      const program = start(
        'etcd',
        programs.etcd,
        [
          `--data-dir=${join(within, 'etcd')}`,
          `--listen-client-urls=https://127.0.0.1:${clientPort}`,
          `--advertise-client-urls=https://127.0.0.1:${clientPort}`,
          `--listen-peer-urls=http://127.0.0.1:${peerPort}`,
          `--initial-advertise-peer-urls=http://127.0.0.1:${peerPort}`,
          `--initial-cluster=default=http://127.0.0.1:${peerPort}`,
          `--cert-file=${made.serving}`,
          `--key-file=${made.servingKey}`,
          `--trusted-ca-file=${made.ca}`,
          '--client-cert-auth',
          '--enable-grpc-gateway=false',
          // What is stored is thrown away with the folder.
          '--unsafe-no-fsync',
        ],
        within,
      );
      const args = [
        `--etcd-servers=https://127.0.0.1:${clientPort}`,
        `--etcd-cafile=${made.ca}`,
        `--etcd-certfile=${made.client}`,
        `--etcd-keyfile=${made.clientKey}`,
      ];
      return { program, args };
    },

    /** Has been started when it resolves; `ready` is of it. One that was killed is started again on its own port. */
    async apiserver(
      name: string,
      within: string,
      made: Files,
      args: readonly string[],
      port?: number,
      address = '127.0.0.1',
    ): Promise<{ program: Program; connection: AdminConnection; ready: Promise<void> }> {
      port ??= await freePort();
      const apiserver = start(
        'kube-apiserver',
        programs.apiserver,
        [
          `--bind-address=${address}`,
          `--advertise-address=${address}`,
          '--endpoint-reconciler-type=none',
          `--secure-port=${port}`,
          `--tls-cert-file=${made.serving}`,
          `--tls-private-key-file=${made.servingKey}`,
          `--client-ca-file=${made.ca}`,
          `--token-auth-file=${made.tokens}`,
          '--enable-bootstrap-token-auth',
          '--authorization-mode=Node,RBAC',
          '--allow-privileged',
          '--service-cluster-ip-range=10.0.0.0/24',
          '--service-account-issuer=https://kubernetes.default.svc',
          `--service-account-key-file=${made.accountsPublic}`,
          `--service-account-signing-key-file=${made.accountsKey}`,
          `--cert-dir=${within}`,
          ...args,
        ],
        within,
      );
      const connection = { server: `https://${address}:${port}`, ca: made.authority, token: made.token };
      return { program: apiserver, connection, ready: answers(name, apiserver, connection) };
    },

    scheduler(path: string, kubeconfig: string, within: string): void {
      start('kube-scheduler', path, [`--kubeconfig=${kubeconfig}`, '--leader-elect=false', '--secure-port=0'], within);
    },

    controllerManager(path: string, kubeconfig: string, within: string, made: Files, args: readonly string[]): void {
      start(
        'kube-controller-manager',
        path,
        [
          `--kubeconfig=${kubeconfig}`,
          '--leader-elect=false',
          '--secure-port=0',
          `--cluster-signing-cert-file=${made.ca}`,
          `--cluster-signing-key-file=${made.caKey}`,
          ...args,
        ],
        within,
      );
    },
  };
}
