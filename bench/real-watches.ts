import { Machines } from '../src/api/machine.ts';
import type { Transport } from '../src/api/transport.ts';
import type { Connection } from '../src/kube/connect.ts';
import { createClient } from '../src/kube/http-client.ts';
import { nodeHttpsTransport } from '../src/kube/https-transport.ts';
import { createSmall, nudge, ONE_OF_MANY, prepare, watchMachine } from './bodies.ts';
import { counting, expense, metricsOf, othersMs, percentOf, type Expense } from './expense.ts';
import { percentile, type Benchmark } from './harness.ts';
import { bytesOf, closedLoop, openLoop } from './load.ts';
import { manyWatches, type ManyWatches } from './many-watches.ts';
import { allowAll, lacksKubernetes, openRealServer } from './real-server.ts';
import { pause } from './system.ts';

const WATCHES = [10, 100, 1_000, 5_000];
const MOST = 5_000;
/** Of the reference. Not 1: writes to one object that overlap are tried again and again, and soon nothing else is measured. */
const FEW = 10;
const PER_SECOND = 25;
const EVENTS = 250;
const IDLE_MS = 4_000;

type Selector = keyof typeof ONE_OF_MANY;

const benchmark: Benchmark = {
  processes: 3,
  about: `
What a write costs kube-apiserver while N watches are open, each on a Machine of its own: by \`metadata.name\` (a field selector), as agents watch, or by a
label that only that Machine has. ${EVENTS} writes, ${PER_SECOND} a second, each to the Machine of another watch, so every write leads to one event on one watch.
\`cpu\` is kube-apiserver's processor time for one of them (/proc/PID/stat over all ${EVENTS}), less what it used in ${IDLE_MS / 1000} s with the same watches open
and nothing written. \`p50\` and \`p99\` are from when a write was due until the one watch had reported it. \`seats\` is how many seats of its priority level a write
was charged with (priority and fairness counts the watches that a write may have to be sent to; a level for service accounts has 245, and 10 are the most for one write).

The reference of each is the same with ${FEW} watches by name, measured just before. The Machines are empty and the merge patch is of one annotation,
so that a write costs as little as a custom resource can. The watches begin at the newest version, ask for no bookmarks and lie on
few connections (kube-apiserver lets an HTTP/2 connection have 100 streams), since what is measured is the way of an event past watches and not connections: an agent
has one of its own. Writer and watches are a user whom priority and fairness treat as a service account; everything else is Kubernetes' default.

\`harness-cpu\` is how much of one core writer and watches use at the largest N, the higher of both selectors; the reference is what kube-apiserver and etcd use in the same
time. \`harness-requests\` is how many requests the harness made in all windows; the reference is how many the server answered, its own included.`,
  goals: {
    [`real-watches/name/${MOST}/cpu`]: { of: 'ratio', most: 1.1 },
    [`real-watches/name/${MOST}/p99`]: { of: 'ratio', most: 1.1 },
    'real-watches/harness-cpu': { of: 'value', most: 70 },
  },
  lacks: lacksKubernetes,
  summary(of) {
    const extra = (selector: Selector): number => {
      const { value, reference } = of(`real-watches/${selector}/${MOST}/cpu`);
      return value - reference;
    };
    return `${MOST.toLocaleString('en-US')} watches by label add ${extra('label').toFixed(1)} ms of kube-apiserver's processor time to every write to their kind, for any receiver, and ${MOST.toLocaleString('en-US')} by name
${extra('name').toFixed(1)} ms. A cell with that many nodes and 50 writes a second to Machines would spend ${((extra('label') * 50) / 10).toFixed(0)} % of a core on watches by label that have nothing to report. Never let an
agent for every node watch by label, nor without a selector.`;
  },
  async run(report) {
    const server = await openRealServer();
    const admin = nodeHttpsTransport(server.connection);
    const { server: address, ca } = server.connection;
    const connection = { server: address, ca, ...(await server.issue('bench', 'system:serviceaccounts')) };
    const writer = nodeHttpsTransport(connection);
    try {
      await prepare(admin);
      await allowAll(admin, 'bench');
      await closedLoop(MOST, 16, async (index) => void (await bytesOf(admin, createSmall(index))));
      const pids = await server.pids();
      const selectors: Selector[] = Math.random() < 0.5 ? ['name', 'label'] : ['label', 'name'];
      const largest: Found[] = [];
      const requests = { own: 0, all: 0 };
      for (const watches of WATCHES) {
        for (const selector of selectors) {
          const reference = await measured({ selector: 'name', watches: FEW, connection, admin, writer, pids });
          const found = await measured({ selector, watches, connection, admin, writer, pids });
          const record = (what: string, unit: string, value: number, referenceValue: number): void =>
            report({ name: `real-watches/${selector}/${watches}/${what}`, tier: 'R', unit, value, reference: referenceValue });
          record('cpu', 'ms', found.cpuMs, reference.cpuMs);
          for (const rank of [50, 99]) record(`p${rank}`, 'ms', percentile(found.latencies, rank), percentile(reference.latencies, rank));
          record('seats', 'a write', found.seats, reference.seats);
          for (const each of [reference, found]) {
            requests.own += each.requests.own;
            requests.all += each.requests.all;
          }
          if (watches === MOST) largest.push(found);
        }
      }
      const busiest = largest.toSorted((a, b) => b.spent.harness / b.spent.ms - a.spent.harness / a.spent.ms)[0];
      if (busiest === undefined) throw new Error(`nothing was measured with ${MOST} watches`);
      const record = (what: string, unit: string, value: number, reference: number): void =>
        report({ name: `real-watches/${what}`, tier: 'R', unit, value, reference });
      record(
        'harness-cpu',
        '% of a core',
        percentOf(busiest.spent.harness, busiest.spent),
        percentOf(othersMs(busiest.spent), busiest.spent),
      );
      record('harness-requests', 'requests', requests.own, requests.all);
    } finally {
      await writer.close();
      await admin.close();
      await server.close();
    }
  },
};
export default benchmark;

interface Setting {
  selector: Selector;
  watches: number;
  connection: Connection;
  admin: Transport;
  writer: Transport;
  pids: { apiserver: number; etcd: number };
}

interface Found {
  /** Of kube-apiserver, for one event, without what it uses when nothing happens. */
  cpuMs: number;
  latencies: number[];
  seats: number;
  spent: Expense;
  requests: { own: number; all: number };
}

async function measured({ selector, watches, connection, admin, writer, pids }: Setting): Promise<Found> {
  const { metadata } = await createClient(admin).list(Machines, { limit: 1 });
  const { resourceVersion } = metadata;
  const all = manyWatches(connection, (watch) => watchMachine(watch, { ...ONE_OF_MANY[selector](watch), resourceVersion }));
  try {
    await all.grow(watches);
    // What opening them left to be cleaned up.
    await pause(2_000);
    const idle = await expense(pids);
    await pause(IDLE_MS);
    const idled = await idle();

    const asked = counting(writer);
    const before = await metricsOf(admin);
    const spent = await expense(pids);
    const latencies = await events(all, asked);
    const used = await spent();
    const after = await metricsOf(admin);
    const grown = (name: string, ...labels: string[]): number => after(name, ...labels) - before(name, ...labels);
    const ofApiserver = ({ ms, others }: Expense): number => (others['apiserver'] ?? Number.NaN) / ms;
    const seats = 'apiserver_flowcontrol_work_estimated_seats';
    return {
      cpuMs: ((ofApiserver(used) - ofApiserver(idled)) * used.ms) / EVENTS,
      latencies,
      seats: grown(`${seats}_sum`, 'flow_schema="service-accounts"') / grown(`${seats}_count`, 'flow_schema="service-accounts"'),
      spent: used,
      requests: { own: asked.count, all: grown('apiserver_request_total') },
    };
  } finally {
    await all.close();
  }
}

/** Each write is to the Machine of another watch. How long each took until its watch reported it, in ms, from when it was due. */
async function events(all: ManyWatches, writer: Transport): Promise<number[]> {
  const waiting: (() => void)[][] = Array.from({ length: all.size }, () => []);
  let unexpected = 0;
  all.onLine = (watch) => {
    const arrived = waiting[watch]?.shift();
    if (arrived === undefined) unexpected++;
    else arrived();
  };
  const latencies = await openLoop(EVENTS, PER_SECOND, async (count) => {
    const watch = (count * 7) % all.size;
    const arrived = new Promise<void>((resolve) => void waiting[watch]?.push(resolve));
    await Promise.all([bytesOf(writer, nudge(watch)), arrived]);
  });
  if (unexpected > 0) throw new Error(`${unexpected} events came that were not for the watch that reported them`);
  return latencies;
}
