/** An idle hour of one agent, under a virtual clock. */
import { runAgent } from '../src/agent/agent.ts';
import type { Network } from '../src/agent/ports/network.ts';
import type { Units, ServiceStatus } from '../src/agent/ports/units.ts';
import { simulatedFiles } from '../src/agent/testing/disk.ts';
import { entry, release, MIRROR, ROOT, World } from '../src/agent/testing/world.ts';
import { CustomResourceDefinitions, Namespaces } from '../src/api/builtin.ts';
import { API_VERSION } from '../src/api/kind.ts';
import { CELL_KINDS } from '../src/api/kinds.ts';
import { Machines } from '../src/api/machine.ts';
import { MachineComponents, type MachineComponentSpec } from '../src/api/machine-component.ts';
import { openCluster } from '@kubenode/embedded';
import { createClient } from '../src/kube/http-client.ts';
import { fakeClock, seededRandom } from '../src/kube/testing/clock.ts';
import { recordingLog } from '../src/kube/testing/log.ts';

const HOUR_MS = 3_600_000;
const KEY = { namespace: 'web', name: 'a' };

/** How many requests an agent with one healthy component makes in an hour in which nothing happens. */
export async function requestsInAnHour(seed: number): Promise<number> {
  const clock = fakeClock();
  const cluster = await openCluster({ name: 'cell', state: 'memory', clock, random: seededRandom(seed) });
  const client = createClient(cluster.asUser());
  const ended = new AbortController();
  let agent: Promise<void> | undefined;
  try {
    const world = new World();
    release(world, '1.0.0', { spec: { disruption: { install: 'None' } } });
    for (const kind of CELL_KINDS) await client.create(CustomResourceDefinitions, kind.crd());
    const metadata = { name: KEY.namespace };
    await client.create(Namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata });
    const spec = world.components.get('app-1.0.0') as MachineComponentSpec;
    await client.create(MachineComponents, { apiVersion: API_VERSION, kind: 'MachineComponent', metadata: { name: 'app-1.0.0' }, spec });
    const components = [entry('app', '1.0.0', 1)];
    const machine = await client.create(Machines, { apiVersion: API_VERSION, kind: 'Machine', metadata: KEY, spec: { components } });

    let requests = 0;
    const transport = cluster.asUser({ name: 'kubenode:machine:web:a', groups: ['kubenode:machines'] });
    const { uid } = machine.metadata;
    agent = runAgent({
      bootstrap: { server: '', certificateAuthority: '', token: '', machine: { ...KEY, uid }, providerID: 'local://a', mirror: MIRROR },
      bootstrapPath: '/bootstrap.json',
      root: ROOT,
      transport(request) {
        requests++;
        return transport(request);
      },
      ports: {
        files: simulatedFiles(world.disk),
        units: units(),
        network: network(world.artifacts),
        runner: async () => ({ ok: true, how: 'exit code 0', output: '' }),
        host: {
          bootID: world.bootID,
          os: 'linux',
          arch: 'amd64',
          reboot: async () => undefined,
          keepUp: async () => undefined,
          takeAgentAway: async () => undefined,
        },
      },
      clock,
      random: seededRandom(seed + 1),
      log: recordingLog(),
      signal: ended.signal,
    });
    agent.catch(() => undefined);

    const healthy = async (): Promise<boolean> =>
      (await client.get(Machines, KEY)).status?.components?.some((each) => each.state === 'Healthy') === true;
    for (let seconds = 0; !(await healthy()); seconds++) {
      if (seconds === 600)
        throw new Error(`the component was not healthy within 10 minutes: ${JSON.stringify(await client.get(Machines, KEY))}`);
      await clock.advance(1000);
    }
    // All work after an installation is done, and the hour begins somewhere within the periods of things.
    await clock.advance(600_000 + seededRandom(seed + 2)() * 60_000);
    const before = requests;
    await clock.advance(HOUR_MS);
    if (!(await healthy())) throw new Error('the component did not stay healthy');
    return requests - before;
  } finally {
    ended.abort(new Error('the hour is over'));
    await agent?.catch(() => undefined);
    await cluster.close();
  }
}

function units(): Units {
  const running = new Map<string, ServiceStatus>();
  return {
    list: async () => [...running.values()],
    async start({ name, hash, generation }) {
      const unit = { name, running: true, invocation: '1', hash, generation };
      running.set(name, unit);
      return unit;
    },
    stop: async (name) => void running.delete(name),
    reload: async () => undefined,
    onExit: () => () => undefined,
  };
}

function network(artifacts: ReadonlyMap<string, Buffer>): Network {
  return {
    async download(url) {
      const bytes = artifacts.get(url) ?? Buffer.alloc(0);
      return {
        status: 200,
        from: 0,
        body: (async function* () {
          yield bytes;
        })(),
      };
    },
    status: async () => 200,
  };
}
