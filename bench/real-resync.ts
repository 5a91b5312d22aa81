import { fork } from 'node:child_process';
import { httpTransport } from '../src/kube/http-transport.ts';
import { fill, prepare } from './bodies.ts';
import { expense, othersMs, percentOf, type Expense } from './expense.ts';
import type { Benchmark } from './harness.ts';
import { lacksKubernetes, openRealServer } from './real-server.ts';
import type { Resynced, ResyncOrder } from './resync-child.ts';

const MACHINES = 5_000;
const RESTARTS = 5;

const benchmark: Benchmark = {
  processes: 2,
  about: `
What a controller has to do before its first decision after a restart: ${MACHINES.toLocaleString('en-US')} Machines with 12 components, 8 to 9 kB each as the server
sends them, spec and status written by two field managers, are read from kube-apiserver by a process that has just started. \`synced\` is from the first
line after its modules are loaded until the cache of \`src/kube\` has listed them in pages of 500, checked and stripped each, and put them into its store
and two indexes; \`reconciled\` until the queue has also run a first reconcile of every Machine, which here only reads it from the cache. \`cpu\` is the processor time of the process
until then, \`peak-memory\` the most that was resident of it, \`requests\` how often it asked.

The reference is another new process that lists the same pages with undici, applies JSON.parse to each and keeps what comes of it. The two take turns, ${RESTARTS} times a run.

\`harness-cpu\` is how much of one core the process that is measured and what started it use while Machines are read; the reference is what kube-apiserver and etcd use
in the same time. All requests on the server but its own are theirs.`,
  goals: { [`real-resync/${MACHINES}/synced`]: { of: 'ratio', most: 1.5 } },
  lacks: lacksKubernetes,
  summary(of) {
    const [synced, reconciled] = [of(`real-resync/${MACHINES}/synced`), of(`real-resync/${MACHINES}/reconciled`)];
    return `A controller that takes over ${MACHINES.toLocaleString('en-US')} Machines is ready to decide after ${(reconciled.value / 1000).toFixed(1)} s; ${(synced.reference / 1000).toFixed(1)} s of that are what
listing and parsing take in any program.`;
  },
  async run(report) {
    const server = await openRealServer();
    const transport = httpTransport(server.connection);
    try {
      await prepare(transport);
      await fill(transport, MACHINES);
      const record = (name: string, unit: string, value: number, reference: number): void =>
        report({ name: `real-resync/${name}`, tier: 'R', unit, value, reference });
      const pids = await server.pids();
      for (let restart = 0; restart < RESTARTS; restart++) {
        const found = new Map<ResyncOrder['how'], Restarted>();
        for (const how of restart % 2 === 0 ? (['runtime', 'raw'] as const) : (['raw', 'runtime'] as const))
          found.set(how, await restarted({ how, connection: server.connection, machines: MACHINES }, pids));
        const [ours, theirs] = [found.get('runtime'), found.get('raw')];
        if (ours === undefined || theirs === undefined) throw new Error('nothing was restarted');
        record(`${MACHINES}/synced`, 'ms', ours.syncedMs, theirs.syncedMs);
        record(`${MACHINES}/reconciled`, 'ms', ours.reconciledMs, theirs.reconciledMs);
        record(`${MACHINES}/cpu`, 'ms', ours.cpuMs, theirs.cpuMs);
        record(`${MACHINES}/peak-memory`, 'MB', ours.peakBytes / 1e6, theirs.peakBytes / 1e6);
        record(`${MACHINES}/requests`, 'requests', ours.requests, theirs.requests);
        record(
          'harness-cpu',
          '% of a core',
          percentOf(ours.cpuMs + ours.spent.harness, ours.spent),
          percentOf(othersMs(ours.spent), ours.spent),
        );
      }
    } finally {
      await transport.close();
      await server.close();
    }
  },
};
export default benchmark;

interface Restarted extends Resynced {
  spent: Expense;
}

async function restarted(order: ResyncOrder, pids: Record<string, number>): Promise<Restarted> {
  const child = fork(new URL('./resync-child.ts', import.meta.url), { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
  const failed = new Promise<never>((_, reject) => {
    child.once('error', reject);
    child.once('exit', (code) => reject(new Error(`the process that reads as ${order.how} ended with exit code ${code}`)));
  });
  const message = (): Promise<unknown> => Promise.race([failed, new Promise((resolve) => void child.once('message', resolve))]);
  await message();
  const spent = await expense(pids);
  const answer = message();
  child.send(order);
  // Sent by the child.
  const found = (await answer) as Resynced;
  return { ...found, spent: await spent() };
}
