import { Agent } from 'undici';
import type { ApiRequest, Transport } from '../src/api/transport.ts';
import { openCluster } from '@kubenode/embedded';
import { systemClock } from '../src/kube/clock.ts';
import { httpTransport } from '../src/kube/http-transport.ts';
import { connectionOf, serveProcess } from './api-server.ts';
import { bareProcess } from './bare-process.ts';
import { applyEntries, createMachine, patchStatus, prepare } from './bodies.ts';
import { fanOut } from './fan-out.ts';
import { percentile, type Benchmark } from './harness.ts';
import { bytesOf, closedLoop, openLoop, type Load } from './load.ts';

const WARM = 300;
const REQUESTS = 1000;
const SECONDS = 2;
const PER_SECOND = 200;
const OPERATIONS = ['create', 'apply', 'status'] as const;

const benchmark: Benchmark = {
  processes: 2,
  about: `
Machines with 12 components, 8 to 9 kB stored: created, changed in one entry by server-side apply, their whole status patched. \`…/rate\`:
${REQUESTS} requests, 16 at a time, after ${WARM} that do not count. \`…/p99\`: ${PER_SECOND} requests a second for ${SECONDS} s, begun when they are due and timed
from then, also while others are under way.

\`https\` is \`kubenode serve --state memory\` in a process of its own. \`in-process\` is the same server as a function call, without sockets:
tier S, to be read as cost and not as latency of a system. The reference of both is a bare node:http server in a process of its own, without
TLS, that answers each of the same requests with the body it was sent. Servers and asker share the processors. \`asker-cpu\` is how much of
one core the asker used during the https rates; above 70 % it would have measured itself. Its reference is how much it used beside the echo,
which is as fast as this asker can ask.

\`watch/…\`: watches over HTTPS, each of one Machine by metadata.name. \`own-N\` is the p99 from a write to the line of the event at the one
watcher out of N that it is for, 100 writes a second; the reference is the same with 10 watchers. \`same-N\` is the time until all N watchers
of one Machine have had the line of one event; the reference is a bare node:https server that writes the same bytes to as many open answers
in a loop. \`memory-N\` is what the server grew for N watches, one watch's share; the reference is the bare server's growth for as many.`,
  goals: Object.fromEntries([
    ...OPERATIONS.map((each) => [`embedded/https/${each}/rate`, { of: 'ratio', least: 0.4 } as const]),
    ['embedded/asker-cpu', { of: 'value', most: 70 }],
    ['embedded/watch/own-2000', { of: 'ratio', most: 1.1 }],
    ['embedded/watch/same-2000', { of: 'ratio', most: 1.43 }],
  ]),
  async run(report) {
    const bare = await bareProcess();
    const server = await serveProcess(['bench'], 'memory');
    const cluster = await openCluster({ name: 'bench', state: 'memory', clock: systemClock() });
    const https = httpTransport(connectionOf(server, 'bench'));
    try {
      for (const transport of [https, cluster.asUser()]) await prepare(transport);
      const echo = await loads(echoTransport(bare.plain));
      const wire = await loads(https);
      const inside = await loads(cluster.asUser());
      for (const [index, operation] of OPERATIONS.entries()) {
        for (const [where, found] of Object.entries({ https: wire, 'in-process': inside })) {
          const tier = where === 'https' ? 'W' : 'S';
          const [mine, theirs] = [found[index], echo[index]];
          if (mine === undefined || theirs === undefined) throw new Error(`nothing was measured of ${operation}`);
          const name = `embedded/${where}/${operation}`;
          report({ name: `${name}/rate`, tier, unit: 'per s', value: mine.perSecond, reference: theirs.perSecond });
          report({ name: `${name}/p99`, tier, unit: 'ms', value: percentile(mine.ms, 99), reference: percentile(theirs.ms, 99) });
        }
      }
      const [value, reference] = [wire, echo].map((found) => Math.max(...found.map(({ askerPercent }) => askerPercent)));
      if (value !== undefined && reference !== undefined)
        report({ name: 'embedded/asker-cpu', tier: 'W', unit: '% of a core', value, reference });
    } finally {
      await https.close();
      await cluster.close();
      await server.close();
      bare.close();
    }
    await fanOut(report);
  },
};
export default benchmark;

/** All operations against one server. */
async function loads(transport: Transport): Promise<Load[]> {
  const due = PER_SECOND * SECONDS;
  const make: ((count: number) => ApiRequest)[] = [
    (count) => createMachine(count),
    (count) => applyEntries(count, 2),
    (count) => patchStatus(count, 2),
  ];
  const found: Load[] = [];
  for (const each of make) {
    const ask = async (count: number): Promise<void> => void (await bytesOf(transport, each(count)));
    // Machines of its own, for nothing but compiled code.
    await closedLoop(WARM, 16, (count) => ask(REQUESTS + due + count));
    const rate = await closedLoop(REQUESTS, 16, ask);
    found.push({ ...rate, ms: await openLoop(due, PER_SECOND, (count) => ask(REQUESTS + count)) });
  }
  return found;
}

function echoTransport(origin: string): Transport {
  const agent = new Agent();
  return async ({ method, path, headers = {}, body = '' }) => {
    const response = await agent.request({ origin, path, method, headers, body });
    return { status: response.statusCode, headers: {}, body: response.body };
  };
}
