/** etcd and kube-apiserver of a test's own, which can be killed and started again, and their etcd compacted. */
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeAuthority, makeServerCertificate, signClient } from '@kubenode/embedded/pki';
import { makeRequestAndKey } from '@kubenode/embedded/testing';
import { findPrograms } from '../../tools/kubernetes/programs.ts';
import { compactEtcd } from './compaction.ts';
import { startKillable, untilReady, type Killable } from './killable.ts';
import { answers, freePort } from './reach.ts';
import type { BrokenServer } from './servers.ts';

const MAKING = () => ({ now: Date.now(), random: () => randomBytes(6).readUIntBE(0, 6) / 2 ** 48 });

export async function openKubernetes(): Promise<BrokenServer> {
  const programs = await findPrograms((line) => void process.stderr.write(`${line}\n`));
  const folder = mkdtempSync(join(tmpdir(), 'kubenode-faults-'));
  const write = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text, { mode: 0o600 });
    return join(folder, name);
  };
  const authority = await makeAuthority('kubernetes-faults', MAKING());
  const serving = await makeServerCertificate(authority, MAKING());
  const { request, key: clientKey } = await makeRequestAndKey([{ CN: ['kube-apiserver'] }]);
  const clientCert = await signClient(authority, request, 24 * 3600, MAKING());
  const accounts = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const token = randomBytes(24).toString('base64url');
  const ca = write('ca.crt', authority.certificate);
  const servingFiles = [write('serving.crt', serving.certificate), write('serving.key', serving.key)] as const;
  const clientFiles = [write('client.crt', clientCert), write('client.key', clientKey)] as const;
  const [port, etcdPort, peerPort] = [await freePort(), await freePort(), await freePort()];
  const etcdUrl = `https://127.0.0.1:${etcdPort}`;
  const connection = { server: `https://127.0.0.1:${port}`, ca: authority.certificate, token };
  const running: Killable[] = [];
  mkdirSync(join(folder, 'etcd'), { mode: 0o700 });

  const close = async (): Promise<void> => {
    for (const program of running.splice(0).toReversed()) await program.kill();
    rmSync(folder, { recursive: true, force: true });
  };
  const apiserverArgs = [
    '--bind-address=127.0.0.1',
    '--advertise-address=127.0.0.1',
    '--endpoint-reconciler-type=none',
    `--secure-port=${port}`,
    `--tls-cert-file=${servingFiles[0]}`,
    `--tls-private-key-file=${servingFiles[1]}`,
    `--client-ca-file=${ca}`,
    `--token-auth-file=${write('tokens.csv', `${token},kubernetes-admin,,"system:masters"\n`)}`,
    '--authorization-mode=RBAC',
    '--service-cluster-ip-range=10.0.0.0/24',
    '--service-account-issuer=https://kubernetes.default.svc',
    `--service-account-key-file=${write('accounts.pub', accounts.publicKey.export({ format: 'pem', type: 'spki' }).toString())}`,
    `--service-account-signing-key-file=${write('accounts.key', accounts.privateKey.export({ format: 'pem', type: 'sec1' }).toString())}`,
    `--cert-dir=${folder}`,
    `--etcd-servers=${etcdUrl}`,
    `--etcd-cafile=${ca}`,
    `--etcd-certfile=${clientFiles[0]}`,
    `--etcd-keyfile=${clientFiles[1]}`,
    '--disable-admission-plugins=ServiceAccount',
  ];
  let apiserver: Killable;
  const start = async (): Promise<void> => {
    apiserver = await startKillable(programs.apiserver, apiserverArgs, join(folder, 'kube-apiserver.log'));
    running.push(apiserver);
    await untilReady(apiserver, 'kube-apiserver', 120, () => answers(connection, '/readyz'));
    await untilReady(apiserver, 'kube-apiserver', 60, () => answers(connection, '/api/v1/namespaces/default'));
  };
  const kill = (): Promise<void> => apiserver.kill();
  const compact = (): Promise<void> => compactEtcd({ url: etcdUrl, ca: authority.certificate, cert: clientCert, key: clientKey });
  try {
    const etcd = await startKillable(
      programs.etcd,
      [
        `--data-dir=${join(folder, 'etcd')}`,
        `--listen-client-urls=${etcdUrl}`,
        `--advertise-client-urls=${etcdUrl}`,
        `--listen-peer-urls=http://127.0.0.1:${peerPort}`,
        `--initial-advertise-peer-urls=http://127.0.0.1:${peerPort}`,
        `--initial-cluster=default=http://127.0.0.1:${peerPort}`,
        `--cert-file=${servingFiles[0]}`,
        `--key-file=${servingFiles[1]}`,
        `--trusted-ca-file=${ca}`,
        '--client-cert-auth',
        '--enable-grpc-gateway=false',
        // What is stored is thrown away with the folder.
        '--unsafe-no-fsync',
      ],
      join(folder, 'etcd.log'),
    );
    running.push(etcd);
    await start();
  } catch (error) {
    await close();
    throw error;
  }
  return {
    connection,
    kill,
    start,
    compact,
    async forget() {
      await compact();
      await kill();
      await start();
    },
    close,
  };
}
