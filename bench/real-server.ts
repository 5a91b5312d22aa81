/** etcd and kube-apiserver of one run's own. */
import type { Transport } from '../src/api/transport.ts';
import { createClient } from '../src/kube/http-client.ts';
import { makeRequestAndKey } from '@kubenode/embedded/testing';
import { kubeconfigText } from '@kubenode/embedded';
import { findPrograms, presentPrograms } from '../tools/kubernetes/programs.ts';
import { files, openRig, type AdminConnection } from '../test/kubernetes/rig.ts';

export interface RealServer {
  /** The administrator's, whose requests wait for no others (system:masters is exempt from priority and fairness). */
  readonly connection: AdminConnection;
  /** The same as a file. */
  readonly kubeconfig: string;
  /** Of the programs that run now. */
  pids(): Promise<{ apiserver: number; etcd: number }>;
  /** SIGKILL to kube-apiserver. */
  kill(): Promise<void>;
  /** Starts it again on its port; has been started when it resolves. */
  start(): Promise<{ ready: Promise<void> }>;
  /** A client certificate. */
  issue(user: string, group: string): Promise<{ clientCert: string; clientKey: string }>;
  close(): Promise<void>;
}

/** For `Benchmark.lacks`. */
export async function lacksKubernetes(): Promise<string | undefined> {
  const found = await presentPrograms();
  if (typeof found !== 'string') return undefined;
  return `it needs a real API server, and ${found}; \`node tools/kubernetes/programs.ts\` builds or fetches them, once`;
}

/**
 * With Kubernetes' own defaults for requests in flight, streams a connection, priority and fairness. Ends with this process, however that ends, and
 * removes its folder when the process is asked to end.
 */
export async function openRealServer(): Promise<RealServer> {
  const { folder, stop, ...rig } = openRig(await findPrograms((line) => void process.stderr.write(`${line}\n`)));
  const onSignal = (): void => void stop().finally(() => process.exit(1));
  // Each as often as it comes: a terminal sends to all processes, and npm and our parent pass it on.
  const signals = ['SIGINT', 'SIGTERM', 'disconnect'] as const;
  for (const name of signals) process.on(name, onSignal);
  const close = async (): Promise<void> => {
    await stop();
    for (const name of signals) process.removeListener(name, onSignal);
  };
  try {
    const made = await files(folder);
    const etcd = await rig.etcd(folder, made);
    const args = [
      ...etcd.args,
      // Both want a controller that does not run here: for ServiceAccounts, and to take taints off nodes.
      '--disable-admission-plugins=ServiceAccount,TaintNodesByCondition',
    ];
    let server = await rig.apiserver('the server', folder, made, args);
    const { connection, ready } = server;
    await ready;
    const { ca: authority, token } = connection;
    return {
      connection,
      kubeconfig: made.write('kubeconfig', kubeconfigText({ cluster: 'bench', server: connection.server, authority, token })),
      pids: async () => ({ apiserver: await server.program.pid, etcd: await etcd.program.pid }),
      kill: () => server.program.kill(),
      async start() {
        server = await rig.apiserver('the server', folder, made, args, Number(new URL(connection.server).port));
        return server;
      },
      async issue(user, group) {
        const { request, key } = await makeRequestAndKey([{ O: [group] }, { CN: [user] }]);
        return { clientCert: await made.sign(request), clientKey: key };
      },
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Lets a user do everything. Unlike the administrator's its requests are subject to priority and fairness. */
export async function allowAll(admin: Transport, user: string): Promise<void> {
  const group = 'rbac.authorization.k8s.io';
  await createClient(admin).post(`/apis/${group}/v1/clusterrolebindings`, {
    apiVersion: `${group}/v1`,
    kind: 'ClusterRoleBinding',
    metadata: { name: `bench-${user}` },
    roleRef: { apiGroup: group, kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [{ kind: 'User', apiGroup: group, name: user }],
  });
}
