import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pino } from 'pino';
import { stopAllUnits } from '../../agent/ports/supervisor.ts';
import { systemClock } from '../../kube/clock.ts';
import { startLocalHost } from '../../providers/local/host.ts';
import { bundleFor } from '../bundles.ts';
import type { Output } from '../output.ts';
import { artifactFolder } from '../packed.ts';
import { openAccounts } from './accounts.ts';
import { installEverywhere, openServers } from './api-servers.ts';
import { serveArtifacts } from './artifacts.ts';
import { readControlPlanes, type ControlPlanes } from './control-planes.ts';
import { assertFree, freePort, freePorts } from './port.ts';
import { CELLS, putCluster, putFleet } from './prepare.ts';
import { LocalProcesses } from './processes.ts';
import { followProgress } from './progress.ts';
import { ownRepository } from './repository.ts';
import { openState, readPorts, requireServers, type StateFolder } from './state.ts';
import { CONTEXTS, must, type LocalSystem } from './system.ts';
import { welcome } from './welcome.ts';

export interface LocalOptions {
  state: string;
  /** The repository to follow; undefined: `source` is none, and one is made beside the state. */
  repository: string | undefined;
  source: string;
  branch?: string;
  ports: { server: number; artifacts: number };
  /** Kubeconfig of the API servers to use; absent: those of its own. */
  controlPlanes?: string;
  output: Output;
  until: Promise<void>;
}

export interface Running {
  stop(): Promise<void>;
}

/** Brings up the whole system on this machine and returns when it runs. Everything it starts ends with `stop`, or with this process. */
export async function startLocal(options: LocalOptions): Promise<Running> {
  const stopped = new AbortController();
  const closing: (() => Promise<void>)[] = [];
  const stop = async (): Promise<void> => {
    stopped.abort(new Error('stopping'));
    for (const close of closing.toReversed()) await close();
  };
  void options.until.then(() => stopped.abort(new Error('stopping')));
  try {
    await bringUp(options, stopped.signal, closing);
    return { stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function bringUp(options: LocalOptions, signal: AbortSignal, closing: LocalSystem['closing']): Promise<void> {
  const { output } = options;
  const clock = systemClock({ ref: true });
  const log = pino({ level: 'silent' });
  const given = options.controlPlanes === undefined ? undefined : await readControlPlanes(options.controlPlanes);
  const ports = await choosePorts(options, given);
  const artifacts = await serveArtifacts(await artifactFolder(), ports.artifacts);
  closing.push(() => artifacts.close());
  output.report('doing', `starting ${given === undefined ? 'the API servers, ' : ''}the controllers and the nodes`);
  const state = openState(options.state, ports, given?.servers);
  const repository = options.repository ?? (await ownRepository(state.repository, options.source));
  if (options.repository === undefined)
    output.report('doing', `${options.source} is no Git repository; the fleet is followed in ${repository}`);
  const system: LocalSystem = { state, given, ports, output, clock, log, signal, closing };
  const processes = new LocalProcesses(system);

  // In a checkout they may have to be made: meanwhile the API servers come up.
  const bundles = Promise.all([bundleFor('agent'), bundleFor('controllers'), bundleFor('render')]);
  bundles.catch(() => undefined);
  const clients = await openServers(system, processes);
  const hub = must(clients, 'hub');
  await installEverywhere(system, clients);
  const accounts = await openAccounts({
    clients,
    kubeconfig: given?.kubeconfig ?? readFileSync(state.kubeconfig, 'utf8'),
    cells: CELLS,
    dir: join(state.dir, 'accounts'),
    putCluster: (cell, kubeconfig) => putCluster(hub, cell, kubeconfig),
    clock,
    warn: (message) => output.report('warning', message),
    signal,
  });
  const [agent, controllers] = await bundles;
  await putFleet(hub, { repository, ...(options.branch === undefined ? {} : { branch: options.branch }) });
  startControllers(system, processes, { program: controllers, accounts, mirror: artifacts.url });
  const host = await startLocalHost({
    nodesDir: state.nodes,
    agentCommand: [process.execPath, '--disable-sigusr1', agent],
    stopUnits: (root) => stopAllUnits(root),
    clock,
    log,
    signal,
  });
  closing.push(() => host.stop());

  const progress = followProgress({ clients, output, clock, log, signal });
  closing.push(() => progress.stop());
  await progress.firstState(12_000);
  welcome({ output, state, repository, progress, branch: options.branch, servers: given?.servers });
  progress.start();
}

/** Those of the state folder, else those of the options, else free ones. Errors: `PortInUse`, and those of the folder. */
async function choosePorts(options: LocalOptions, given: ControlPlanes | undefined): Promise<StateFolder['ports']> {
  const kept = readPorts(options.state);
  requireServers(options.state, given?.servers);
  const ports = kept ?? {
    server: options.ports.server || (await freePorts(CONTEXTS.length)),
    artifacts: options.ports.artifacts || (await freePort()),
  };
  if (given === undefined)
    for (const [index, name] of CONTEXTS.entries()) await assertFree(ports.server + index, `the API server of ${name}`, '--port');
  return ports;
}

function startControllers(
  { given, state }: LocalSystem,
  processes: LocalProcesses,
  { program, accounts, mirror }: { program: string; accounts: ReadonlyMap<string, string>; mirror: string },
): void {
  /** Who a controller is to its server. Servers of this start have no other controllers that would take turns with it. */
  const as = (name: string): string[] => [
    '--kubeconfig',
    must(accounts, name),
    ...(name === 'hub' ? [] : ['--separate-identities']),
    ...(given === undefined ? ['--leader-elect', 'false'] : []),
  ];
  const hubFlags = ['--cache', state.cache, '--isolation', 'process'];
  processes.run('hub', 'hub controllers', program, ['controller', '--hub', ...as('hub'), ...hubFlags]);
  for (const cell of CELLS) {
    const cellFlags = ['--local-nodes', state.nodes, '--mirror', mirror];
    processes.run(`cell-${cell}`, `controllers of ${cell}`, program, ['controller', '--cell', ...as(cell), ...cellFlags]);
  }
}
