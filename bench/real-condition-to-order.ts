import { nodeHttpsTransport } from '../src/kube/https-transport.ts';
import { number } from './document.ts';
import { metricsOf, othersMs, percentOf } from './expense.ts';
import { FAULTS, repairs, type Repairs } from './faults.ts';
import { percentile, type Benchmark } from './harness.ts';
import { lacksKubernetes, openRealServer } from './real-server.ts';

const MACHINES = [1_000, 10_000];
/** Job, answer, reservation, record and order. */
const WRITES = 5;

const benchmark: Benchmark = {
  processes: 2,
  about: `
As condition-to-order, on etcd and kube-apiserver: the same controllers, the same ${FAULTS} faults one after the other, the same client for reference. Machines are
nothing but their Node, their phase and two Leases; kubelets, agents and the controllers of Kubernetes do not run, and etcd does not wait for its
disk. The controllers speak as an administrator, with no admission policies in the way. \`requests\` is how many requests the server answered for one
fault besides those of the harness, Leases of controllers and the server's own included; the reference is the ${WRITES} writes that cannot be left out.

\`harness-cpu\` is how much of one core the harness used meanwhile; the reference is what kube-apiserver, etcd and the controllers used. \`harness-requests\` is how many of all requests
that the server answered were its own.`,
  goals: Object.fromEntries(
    MACHINES.flatMap((machines) =>
      [50, 99].map((rank) => [`real-condition-to-order/${machines}/p${rank}`, { of: 'value', most: 50 } as const]),
    ),
  ),
  lacks: lacksKubernetes,
  summary: (of) =>
    MACHINES.map((machines) => {
      const [usual, worst] = [50, 99].map((rank) => number(of(`real-condition-to-order/${machines}/p${rank}`).value));
      return `In a cell of ${machines.toLocaleString('en-US')} Machines the repair of a fault is ordered ${usual} ms after its condition was written, and after ${worst} ms in 99 of 100 cases.`;
    }).join('\n') +
    '\nThe detector comes before that: node-problem-detector checks its conditions once a second, and Kubernetes treats a kubelet as ready for 40 s after its last report.',
  async run(report) {
    for (const machines of MACHINES) {
      const { values, references, spent, requests } = await onRealServer(machines);
      const record = (what: string, unit: string, value: number, reference: number): void =>
        report({ name: `real-condition-to-order/${machines}/${what}`, tier: 'R', unit, value, reference });
      for (const rank of [50, 99]) record(`p${rank}`, 'ms', percentile(values, rank), percentile(references, rank));
      record('requests', 'a fault', (requests.all - requests.own) / FAULTS, WRITES);
      record('harness-cpu', '% of a core', percentOf(spent.harness, spent), percentOf(othersMs(spent), spent));
      record('harness-requests', 'requests', requests.own, requests.all);
    }
  },
};
export default benchmark;

async function onRealServer(machines: number): Promise<Repairs> {
  const server = await openRealServer();
  const admin = nodeHttpsTransport(server.connection);
  const answered = async (): Promise<number> => (await metricsOf(admin))('apiserver_request_total');
  try {
    const { connection, kubeconfig } = server;
    return await repairs({ connection, kubeconfig, pids: await server.pids(), answered }, machines);
  } finally {
    await admin.close();
    await server.close();
  }
}
