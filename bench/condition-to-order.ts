import { connectionOf, serveProcess } from './api-server.ts';
import { FAULTS, repairs, type Repairs } from './faults.ts';
import { percentile, type Benchmark } from './harness.ts';

const MACHINES = [1_000, 10_000];

const benchmark: Benchmark = {
  processes: 1,
  about: `
A Node condition is patched as a detector patches it, until the order of the repair is seen on the watch of the one Machine, as its agent
sees it: ${FAULTS} faults, one after the other, each on another machine of so many; the cell's controllers are the shipped program, the API server
is embedded, in a process of its own, and gets a heartbeat of each kubelet every 30 s. The action (CleanDisk) disrupts nothing, so that no cordon comes between. On the way lie the job, its
answer, the reservation in the ledger, its record on the job and the order: five writes, each by the one who may make it, who first has to see the
one before. The reference is one client that makes three of them, the job, the reservation and the order, and waits for nothing but their answers and the same
watch. \`p50\` and \`p99\` are of those ${FAULTS}.`,
  goals: {
    'condition-to-order/1000/p50': { of: 'value', most: 50 },
    'condition-to-order/1000/p99': { of: 'value', most: 50 },
    'condition-to-order/10000/p50': { of: 'value', most: 50 },
    'condition-to-order/10000/p99': { of: 'value', most: 50 },
  },
  async run(report) {
    for (const machines of MACHINES) {
      const { values, references } = await onEmbeddedServer(machines);
      for (const rank of [50, 99])
        report({
          name: `condition-to-order/${machines}/p${rank}`,
          tier: 'W',
          unit: 'ms',
          value: percentile(values, rank),
          reference: percentile(references, rank),
        });
    }
  },
};
export default benchmark;

async function onEmbeddedServer(machines: number): Promise<Repairs> {
  const server = await serveProcess(['bench'], 'memory');
  try {
    return await repairs(
      { connection: connectionOf(server, 'bench'), kubeconfig: server.kubeconfig, pids: {}, needsKubelets: true },
      machines,
    );
  } finally {
    await server.close();
  }
}
