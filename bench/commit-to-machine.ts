import { Machines } from '../src/api/machine.ts';
import { Rollouts } from '../src/api/rollout.ts';
import type { Client } from '../src/kube/client.ts';
import { CELLS } from '../src/cli/tour/system.ts';
import { openBareClient } from './bare-client.ts';
import type { Benchmark } from './harness.ts';
import { now, openSystem, pause, BUMPED, BUMPS } from './system.ts';

const COMMITS = 2;
const PATIENCE_MS = 120_000;

const benchmark: Benchmark = {
  processes: 5,
  about: `
The whole system as \`kubenode start\` runs it: hub, three cells, seven nodes, each part a process. The fleet is a clone of the reference fleet
with one batch (\`['100%']\`), no soak in sets and stages, and no budgets, so that nothing is waited for on purpose. A commit bumps
\`${BUMPED}\` by a patch version, which restarts its service. The clock starts when Git moved the branch (the time of the ref's file).

- \`first-machine\`: until a watch shows the first Machine with the new version in its spec. In between: fetch, render in the sandbox twice
  and compare, validate, plan, Rollout, apply, set controller.
- \`fleet-done\`: until the Rollout is Done: test, then pre, then prod, and in each cell announce, reserve, cordon, order, switch, probe,
  uncordon, release.

The reference is a client that makes 20 writes one after the other and waits for nothing but their answers, on the same servers with the same
objects after the controllers and agents were stopped: MachineComponent and set in three clusters, entries in seven Machines, status of seven
Machines. It renders nothing, installs nothing and proves nothing, so the ratio shows what all of that costs and not what a better controller
could reach: each stage waits for its nodes, one after the other, and a node for four writes of its agent.`,
  goals: {},
  async run(report) {
    const system = await openSystem();
    const seen: { first: number; done: number }[] = [];
    try {
      for (const version of BUMPS.slice(0, COMMITS)) {
        await pause(3000);
        const ended = new AbortController();
        const first = firstMachine(
          CELLS.map((cell) => system.client(cell)),
          version,
          ended.signal,
        );
        const done = rolloutDone(system.client('hub'), `${BUMPED} to ${version}`, ended.signal);
        const { atMs } = await system.bump(version);
        const late = setTimeout(() => ended.abort(new Error(`the bump to ${version} was not done in time`)), PATIENCE_MS);
        try {
          seen.push({ first: (await first) - atMs, done: (await done) - atMs });
        } finally {
          clearTimeout(late);
          ended.abort(new Error('seen'));
        }
      }
      await system.stop();
      const bare = await openBareClient(system.state);
      try {
        for (const { first, done } of seen) {
          const reference = await bare.rollOut();
          report({ name: 'commit-to-machine/first-machine', tier: 'W', unit: 'ms', value: first, reference: reference.firstMs });
          report({ name: 'commit-to-machine/fleet-done', tier: 'W', unit: 'ms', value: done, reference: reference.doneMs });
        }
      } finally {
        await bare.close();
      }
    } finally {
      await system.close();
    }
  },
};
export default benchmark;

/** When a watch first shows a Machine whose spec has this version. */
async function firstMachine(clients: Client[], version: string, signal: AbortSignal): Promise<number> {
  return await Promise.race(
    clients.map(async (client) => {
      const { metadata } = await client.listAll(Machines, { signal });
      for await (const event of client.watch(Machines, { resourceVersion: metadata.resourceVersion, signal })) {
        if (event.type !== 'MODIFIED') continue;
        if (event.object.spec.components?.some((entry) => entry.name === BUMPED && entry.version === version) === true) return now();
      }
      throw new Error('the watch of Machines ended');
    }),
  );
}

/** When a watch first shows the Rollout of a commit with this in its subject as Done. */
async function rolloutDone(hub: Client, subject: string, signal: AbortSignal): Promise<number> {
  const { metadata } = await hub.listAll(Rollouts, { signal });
  for await (const event of hub.watch(Rollouts, { resourceVersion: metadata.resourceVersion, signal })) {
    if (event.type !== 'MODIFIED' || event.object.spec.subject?.includes(subject) !== true) continue;
    if (event.object.status?.phase === 'Done') return now();
    if (event.object.status?.units?.some((unit) => unit.phase === 'Halted') === true) throw new Error(`"${subject}" halted`);
  }
  throw new Error('the watch of Rollouts ended');
}
