import { manifests } from '../deploy/main.ts';
import { Namespaces } from '../src/api/builtin.ts';
import { AGENTS, agentUser } from '../src/api/identity.ts';
import { machineAccess } from '../src/api/machine-access.ts';
import { Machines } from '../src/api/machine.ts';
import { SYSTEM_NAMESPACE } from '../src/api/names.ts';
import type { Transport } from '../src/api/transport.ts';
import type { KubeObject } from '../src/api/wire.ts';
import { createClient } from '../src/kube/http-client.ts';
import { nodeHttpsTransport } from '../src/kube/https-transport.ts';
import { pathOfObject } from '../test/least-privilege/rig.ts';
import { AT_ONCE_MS, asAgents, atOnce, openCrowd, type Crowd, type Member } from './agents.ts';
import { createMachine, served } from './bodies.ts';
import { number } from './document.ts';
import { expense, percentOf, type Expense } from './expense.ts';
import type { Benchmark, Result } from './harness.ts';
import { bytesOf, closedLoop } from './load.ts';
import { lacksKubernetes, openRealServer, type RealServer } from './real-server.ts';
import { pause } from './system.ts';

/** What one process carries beside the server on two processors. */
const AGENTS_OF_A_RUN = [1_000, 2_000];
const POOL = 1_000;
/** In which agents begin, so that their Leases are renewed evenly. */
const BEGIN_MS = 60_000;
/** A watch that has been open for this long is back. */
const HOLDS_MS = 3_000;
const PATIENCE_MS = 180_000;

const benchmark: Benchmark = {
  processes: 3,
  about: `
kube-apiserver is killed while N agents watch their Machines, and started again at once on the same etcd. The agents are the agent's own watch and Lease with its own
transport, each with its client certificate, its own connections, its Role and RoleBinding, in pools of ${POOL.toLocaleString('en-US')}, under the policies and the share of requests that
\`kubenode install\` gives a cell; all of them run in one process, the harness. That is why there are no more: two processors
were tried with 5,000, while they had other work too, and most of the 5,000 had not opened their first watch after three minutes. They began evenly over ${BEGIN_MS / 1000} s, so that their Leases are renewed evenly.

- \`ready\`: from the kill until the new server reports that it is ready, while all of them ask it.
- \`last-watch\`: from the kill until the last watch is back, that is open and still open ${HOLDS_MS / 1000} s later.
- \`peak\`: requests in the busiest second, of any kind, from the new server's first answer until then; the reference is the mean of a second in the same time.
- \`watch-requests\`: how often an agent asked for its watch in that time; the reference is 1, the fewest possible. A server that is starting refuses (403 until it knows
  roles, 429 until it knows Machines), and one that has started has no history, so that a client that goes on from its version has to list again.
- \`apiserver-cpu\`: processor time of the new server from its start until then.

The reference of the others is a client that opens the same N watches over as many connections with the same certificates as fast as it can: at once after a
loss, ${AT_ONCE_MS} ms after a refusal; it has no Leases. \`bare-watch-requests\` is what that takes. \`harness-cpu\` is how much of one core N agents in one process use meanwhile; its
reference is what kube-apiserver uses. All requests but the server's own are theirs.`,
  goals: Object.fromEntries(
    AGENTS_OF_A_RUN.flatMap((agents) => [
      [`real-recovery/${agents}/last-watch`, { of: 'value', most: 75_000 } as const],
      [`real-recovery/${agents}/peak`, { of: 'ratio', most: 2 } as const],
      [`real-recovery/${agents}/harness-cpu`, { of: 'value', most: 70 } as const],
    ]),
  ),
  lacks: lacksKubernetes,
  summary: (of) =>
    AGENTS_OF_A_RUN.map((agents) => {
      const result = (what: string): Result => of(`real-recovery/${agents}/${what}`);
      const seconds = (what: string): string => number(result(what).value / 1000);
      const peak = result('peak-beside-bare');
      return `${agents.toLocaleString('en-US')} agents all watch again ${seconds('last-watch')} s after the server died; ${seconds('ready')} s of that was its start. In the worst second they make ${number(peak.value)} requests; clients that come back at once make ${number(peak.reference)}.`;
    }).join('\n') + '\nUntil then nodes work on with their last desired state; only new orders wait.',
  async run(report) {
    const server = await openRealServer();
    try {
      const members = await populate(server, Math.max(...AGENTS_OF_A_RUN));
      for (const agents of AGENTS_OF_A_RUN) {
        const these = members.slice(0, agents);
        const found = await recovery(server, openCrowd(these, asAgents, BEGIN_MS), agents);
        const bare = await recovery(server, openCrowd(these, atOnce, 5_000), agents);
        const record = (what: string, unit: string, value: number, reference: number): void =>
          report({ name: `real-recovery/${agents}/${what}`, tier: 'R', unit, value, reference });
        record('ready', 'ms', found.readyMs, bare.readyMs);
        record('last-watch', 'ms', found.lastMs, bare.lastMs);
        record('peak', 'per s', found.peak, found.perSecond);
        record('peak-beside-bare', 'per s', found.peak, bare.peak);
        record('watch-requests', 'a watch', found.watchRequests / agents, 1);
        record('bare-watch-requests', 'a watch', bare.watchRequests / agents, 1);
        record('apiserver-cpu', 'ms', cpuOf(found), cpuOf(bare));
        record('harness-cpu', '% of a core', percentOf(found.spent.harness, found.spent), percentOf(cpuOf(found), found.spent));
      }
    } finally {
      await server.close();
    }
  },
};
export default benchmark;

const poolOf = (index: number): string => `pool-${Math.floor(index / POOL)}`;

/** A cell as `kubenode install` makes it, without its controllers, and Machines with what admits their agents. */
async function populate(server: RealServer, machines: number): Promise<Member[]> {
  const admin = nodeHttpsTransport(server.connection);
  const client = createClient(admin, { userAgent: 'kubenode-bench', fieldManager: 'kubenode-bench' });
  const apply = async (object: KubeObject): Promise<void> =>
    void (await client.request({
      method: 'PATCH',
      path: pathOfObject(object),
      query: { fieldManager: 'kubenode-bench', force: 'true' },
      headers: { 'content-type': 'application/apply-patch+yaml' },
      body: JSON.stringify(object),
    }));
  try {
    const cell = manifests({ role: 'cell', namespace: SYSTEM_NAMESPACE, image: 'kubenode:bench', replicas: 1 });
    // Policies limit every user to their own fields, also the one that fills this cell.
    const policies = cell.filter(({ kind }) => kind.startsWith('ValidatingAdmissionPolicy'));
    const rest = cell.filter((object) => !policies.includes(object) && object.kind !== 'Deployment');
    for (const object of rest) await apply(object);
    await served(client, Machines);
    for (let index = 0; index < machines; index += POOL)
      await client.create(Namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: poolOf(index) } });
    const members: Member[] = [];
    await closedLoop(machines, 16, async (index) => {
      members[index] = await admit(server, admin, apply, index);
    });
    for (const object of policies) await apply(object);
    return members;
  } finally {
    await admin.close();
  }
}

async function admit(server: RealServer, admin: Transport, apply: (object: KubeObject) => Promise<void>, index: number): Promise<Member> {
  const namespace = poolOf(index);
  const machine = Machines.parse(JSON.parse((await bytesOf(admin, createMachine(index, namespace))).toString()));
  const { name, uid = '' } = machine.metadata;
  const { role, roleBinding } = machineAccess({ metadata: { ...machine.metadata, uid, resourceVersion: '', creationTimestamp: '' } });
  await apply(role);
  await apply(roleBinding);
  const { server: address, ca } = server.connection;
  const identity = await server.issue(agentUser(namespace, name), AGENTS);
  return { machine: { namespace, name, uid }, connection: { server: address, ca, ...identity } };
}

const cpuOf = ({ spent }: Recovery): number => spent.others['apiserver'] ?? Number.NaN;

interface Recovery {
  /** From the kill until the new server reports that it is ready, and until the last watch is back. */
  readyMs: number;
  lastMs: number;
  /** From the first answer of the new server until then: requests in all, and in the busiest second. */
  requests: number;
  peak: number;
  perSecond: number;
  watchRequests: number;
  /** Of the new server since its start, and of this process meanwhile. */
  spent: Expense;
}

/** Kills the server when all watches are open, starts it again at once, and waits until they are back. */
async function recovery(server: RealServer, crowd: Crowd, size: number): Promise<Recovery> {
  try {
    await allOpen(crowd, size);
    const killedAt = performance.now();
    await server.kill();
    const { ready } = await server.start();
    const spending = await expense({ apiserver: (await server.pids()).apiserver });
    await ready;
    const readyMs = performance.now() - killedAt;
    const lastAt = await allOpen(crowd, size);
    const spent = await spending();
    const answeredAt = crowd.asked.find(({ at, status }) => at > killedAt && status !== undefined)?.at ?? Number.NaN;
    const within = crowd.asked.filter(({ at }) => at >= answeredAt && at <= lastAt);
    return {
      readyMs,
      lastMs: lastAt - killedAt,
      requests: within.length,
      peak: busiest(within.map(({ at }) => at)),
      perSecond: within.length / ((lastAt - answeredAt) / 1000),
      watchRequests: within.filter(({ watch }) => watch).length,
      spent,
    };
  } finally {
    await crowd.close();
    await pause(3_000);
  }
}

/** When the last of them was opened, once all have been open for a while. */
async function allOpen({ open }: Crowd, size: number): Promise<number> {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    const last = Math.max(0, ...open.values());
    if (open.size === size && performance.now() - last > HOLDS_MS) return last;
    if (performance.now() > deadline) throw new Error(`${open.size} of ${size} watches were open after ${PATIENCE_MS / 1000} s`);
    await pause(100);
  }
}

/** The most times in any second. */
function busiest(times: readonly number[]): number {
  const sorted = times.toSorted((a, b) => a - b);
  let most = 0;
  for (let first = 0, last = 0; last < sorted.length; last++) {
    while ((sorted[last] ?? 0) - (sorted[first] ?? 0) >= 1000) first++;
    most = Math.max(most, last - first + 1);
  }
  return most;
}
