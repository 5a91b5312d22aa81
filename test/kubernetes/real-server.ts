/** The real server that `npm run test:kubernetes` started, for tests. */
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import type { ClosableTransport, Connection } from '../../src/kube/connect.ts';
import { httpTransport } from '../../src/kube/http-transport.ts';

export interface RealServer {
  readonly transport: ClosableTransport;
  readonly connection: Connection;
  /** A file. */
  readonly kubeconfig: string;
  readonly kubectl: string | undefined;
  /** kube-controller-manager runs. */
  readonly controllers: boolean;
  /** What it answers is to be kept. */
  readonly recording: boolean;
}

interface Kubeconfig {
  clusters: [{ cluster: { server: string; 'certificate-authority-data': string } }];
  users: [{ user: { token: string } }];
}

/** Undefined when the tests run without one. Its transport is the caller's to close. */
export function realServer(): RealServer | undefined {
  const { KUBENODE_TEST_KUBECONFIG: kubeconfig, KUBENODE_TEST_KUBECTL: kubectl } = process.env;
  if (kubeconfig === undefined) return undefined;
  // Written by kubeconfigText.
  const { clusters, users } = parse(readFileSync(kubeconfig, 'utf8')) as Kubeconfig;
  const { server, 'certificate-authority-data': authority } = clusters[0].cluster;
  const connection = { server, ca: Buffer.from(authority, 'base64').toString(), token: users[0].user.token };
  return {
    transport: httpTransport(connection),
    connection,
    kubeconfig,
    kubectl,
    controllers: process.env['KUBENODE_TEST_CONTROLLERS'] !== undefined,
    recording: process.env['KUBENODE_TEST_RECORD'] !== undefined,
  };
}
