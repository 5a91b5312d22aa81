/** The servers that are broken: the embedded one in a process of its own, and a real one where `npm run test:kubernetes` runs. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import type { Connection } from '../../src/kube/connect.ts';
import { openKubernetes } from './kubernetes.ts';
import { answers, freePort } from './reach.ts';
import { startKillable, untilReady, type Killable } from './killable.ts';

export interface BrokenServer {
  /** Straight to it. */
  readonly connection: Connection & { server: string; token: string };
  /** SIGKILL. */
  kill(): Promise<void>;
  /** Starts it again on the same port and state; ready when it resolves. */
  start(): Promise<void>;
  /** Forgets its history without a restart; undefined where only a restart does. */
  readonly compact: (() => Promise<void>) | undefined;
  /** Forgets its history, and is killed and started for it. */
  forget(): Promise<void>;
  close(): Promise<void>;
}

export interface Kind {
  name: string;
  open: () => Promise<BrokenServer>;
}

/** Milliseconds for `what`, printed: a figure, never a condition. */
export function report(server: string, what: string, ms: number): void {
  process.stdout.write(`  ${server}: ${what}: ${Math.round(ms)} ms\n`);
}

interface Kubeconfig {
  clusters: [{ cluster: { server: string; 'certificate-authority-data': string } }];
  users: [{ user: { token: string } }];
}

async function openEmbedded(): Promise<BrokenServer> {
  const folder = mkdtempSync(join(tmpdir(), 'kubenode-faults-'));
  const port = await freePort();
  const kubeconfig = join(folder, 'kubeconfig');
  const entry = fileURLToPath(new URL('../../bin/kubenode.js', import.meta.url));
  const args = [entry, 'serve', '--listen', `127.0.0.1:${port}`, '--state', join(folder, 'state'), '--write-kubeconfig', kubeconfig];
  let running: Killable;
  let connection: BrokenServer['connection'];
  const start = async (): Promise<void> => {
    rmSync(kubeconfig, { force: true });
    running = await startKillable(process.execPath, args, join(folder, 'log'));
    await untilReady(running, 'kubenode serve', 30, async () => {
      // Written by serve once it listens.
      const { clusters, users } = parse(readFileSync(kubeconfig, 'utf8')) as Kubeconfig;
      const { server, 'certificate-authority-data': authority } = clusters[0].cluster;
      connection ??= { server, ca: Buffer.from(authority, 'base64').toString(), token: users[0].user.token };
      return answers(connection, '/api/v1/namespaces/default');
    });
  };
  const kill = (): Promise<void> => running.kill();
  await start();
  return {
    get connection() {
      return connection;
    },
    kill,
    start,
    compact: undefined,
    async forget() {
      await kill();
      await start();
    },
    async close() {
      await kill();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** The real one where one is wanted, since `npm test` runs the same with the embedded one. */
export const KINDS: Kind[] =
  process.env['KUBENODE_TEST_KUBECONFIG'] === undefined
    ? [{ name: 'the embedded server', open: openEmbedded }]
    : [{ name: 'kube-apiserver', open: openKubernetes }];
