import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { promisify } from 'node:util';
import { requestsInAnHour } from './agent-hour.ts';
import type { Benchmark } from './harness.ts';
import { memoryOf } from './memory.ts';
import { openSystem, pause, NODES } from './system.ts';

const IDLE_MS = 60_000;
const HOURS = 5;
/** A Lease a minute, as the design has it: heartbeats and nothing else. */
const FEWEST_AN_HOUR = 60;

const benchmark: Benchmark = {
  processes: 2,
  about: `
Memory of the ${NODES} agents of the whole system on real processes (the one bundled file that nodes run, with three components installed and
their probes running), ${IDLE_MS / 1000} s after the last of them was done, each beside a process \`node -e 'setInterval(() => {}, 1e9)'\` of the same Node that
has been idle as long. \`resident\` is VmRSS, \`private-dirty\` what no other process shares (both of /proc; on other systems than Linux only
what \`ps\` calls RSS), \`peak\` the most that was ever resident, installing included. 1 MB is 10⁶ bytes.

\`requests-per-hour\` is counted in a virtual hour: the agent's own code with its real client, watch, Lease and reporter, on a simulated disk,
with an embedded API server in the same process under the same fake clock, one component installed and probed each 2 s, ${HOURS} different seeds
of all jitter a run. The reference is ${FEWEST_AN_HOUR}: a Lease renewal a minute. A watch that the server ends is opened again; that comes on top.`,
  goals: {
    'agent/resident': { of: 'value', most: 60 },
    'agent/requests-per-hour': { of: 'value', most: 62 },
  },
  async run(report) {
    for (let hour = 1; hour <= HOURS; hour++) {
      const value = await requestsInAnHour(Math.floor(Math.random() * 2 ** 31));
      report({ name: 'agent/requests-per-hour', tier: 'S', unit: 'requests', value, reference: FEWEST_AN_HOUR });
    }
    const system = await openSystem();
    const bare: ChildProcess[] = [];
    try {
      for (let count = 0; count < NODES; count++)
        bare.push(spawn(process.execPath, ['-e', 'setInterval(() => {}, 1e9)'], { stdio: 'ignore' }));
      await pause(IDLE_MS);
      const agents = await agentsBelow(system.state);
      if (agents.length !== NODES) throw new Error(`${agents.length} agents run, there should be ${NODES}`);
      for (const [index, pid] of agents.entries()) {
        const [value, reference] = await Promise.all([memoryOf(pid), memoryOf(bare[index]?.pid ?? 0)]);
        for (const what of ['resident', 'private-dirty', 'peak'] as const) {
          const [mine, others] = [value[what], reference[what]];
          if (mine !== undefined && others !== undefined)
            report({ name: `agent/${what}`, tier: 'W', unit: 'MB', value: mine / 1e6, reference: others / 1e6 });
        }
      }
    } finally {
      for (const child of bare) child.kill('SIGKILL');
      await system.close();
    }
  },
};
export default benchmark;

/** Process IDs of the agents whose nodes are below a folder. */
async function agentsBelow(state: string): Promise<number[]> {
  const { stdout } = await promisify(execFile)('ps', ['-axww', '-o', 'pid=,command='], { maxBuffer: 16 * 2 ** 20 });
  return stdout
    .split('\n')
    .filter((line) => line.includes(`${state}/nodes/`) && line.includes(' --bootstrap ') && line.includes(' --root '))
    .map((line) => Number.parseInt(line, 10));
}
