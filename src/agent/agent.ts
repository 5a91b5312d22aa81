import type { Clock, Log, Random } from '../api/ports.ts';
import type { NodeBootstrap } from '../api/provider.ts';
import { API_LEVEL } from '../api/names.ts';
import type { Transport } from '../api/transport.ts';
import { createAgentApi } from './cell/api.ts';
import type { AgentPorts } from './context.ts';
import { createEngine } from './engine/engine.ts';
import { createEvents } from './report/events.ts';
import { keepLease } from './report/lease.ts';
import { createReporter } from './report/reporter.ts';
import type { Reporter, ReporterOptions } from './report/reporter.ts';
import { watchMachine } from './cell/watch.ts';
import { wantedOf } from './cell/wanted.ts';

/** Version of the agent, as `status.agent.version` shows it. */
export const AGENT_VERSION = '0.1.0';

export interface AgentOptions {
  bootstrap: NodeBootstrap;
  /** Path of the bootstrap file, as templates see it. */
  bootstrapPath: string;
  /** The node's root folder; `/` is the empty string. */
  root: string;
  transport: Transport;
  ports: Omit<AgentPorts, 'cell' | 'clock' | 'random' | 'log'>;
  clock: Clock;
  random: Random;
  log: Log;
  signal: AbortSignal;
}

/** Runs until the signal. It leaves what it has begun as it is, and the next agent goes on with it. Units go on running. */
export async function runAgent(options: AgentOptions): Promise<void> {
  const { bootstrap, clock, random, log, signal } = options;
  const { machine } = bootstrap;
  const { host } = options.ports;
  const api = createAgentApi({
    transport: options.transport,
    machine,
    server: bootstrap,
    clock,
    userAgent: `kubenode-agent/${AGENT_VERSION}`,
    onServerTime: (serverMs) => engine.dated(serverMs),
  });
  const common = { clock, random, log, signal };
  const events = createEvents({ client: api.client, machine, ...common });
  let reporter: Reporter | undefined;
  const engine = createEngine({
    ports: { ...options.ports, cell: api, clock, random, log },
    root: options.root,
    node: { ...machine, providerID: bootstrap.providerID, bootstrap: options.bootstrapPath },
    mirror: bootstrap.mirror,
    pinned: bootstrap.componentKeys,
    signal,
    observed: () => reporter?.poke(),
    happened: (what) => events.send(what),
  });
  const identity = { version: AGENT_VERSION, apiLevel: API_LEVEL, bootID: host.bootID, os: host.os, arch: host.arch };
  // The answer shows what the cell knows now: no need to wait for the watch.
  const apply: ReporterOptions['apply'] = async (uid, status, each) => {
    const answer = await api.apply(uid, status, each);
    engine.seen(wantedOf(answer));
    return answer;
  };
  reporter = createReporter({ engine, identity, apply, ...common });

  /** Another Machine of this name must not seem to be alive by this node's Lease. */
  let ours = true;
  const watching = watchMachine({
    client: api.client,
    machine,
    ...common,
    onMachine(found, again) {
      ours = found?.metadata.uid === machine.uid;
      if (found === undefined) return log.warn({ machine: machine.name }, 'the Machine is not there: the node is kept as it is');
      // Made again under the same name, it is another machine, and this node is not its node.
      if (found.metadata.uid !== machine.uid) {
        return log.warn({ uid: found.metadata.uid, expected: machine.uid }, 'the Machine is another one: the node is kept as it is');
      }
      engine.seen(wantedOf(found), again);
      reporter?.seen(found, again);
    },
  });
  const leasing = keepLease({ renew: (each) => (ours ? api.renewLease(each) : Promise.resolve()), ...common });
  const keeping = engine.keepCredentials();
  await Promise.all([engine.run(), keeping, reporter.run(), watching, leasing]);
  await events.done();
}
