import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { pino } from 'pino';
import { CodedError, messageOf } from '../../api/errors.ts';
import { createClient } from '../../kube/http-client.ts';
import type { Client } from '../../kube/client.ts';
import { systemClock, sleep } from '../../kube/clock.ts';
import { httpTransport } from '../../kube/http-transport.ts';
import { loadKubeconfig } from '../../kube/kubeconfig.ts';
import { startLocalHost } from '../../providers/local/host.ts';
import { stopAllUnits } from '../../agent/ports/supervisor.ts';
import { bundleFor } from '../bundles.ts';
import type { Output } from '../output.ts';
import { artifactFolder } from '../packed.ts';
import { openAccounts } from './accounts.ts';
import { serveArtifacts } from './artifacts.ts';
import { keepRunning, tail, type Child } from './child.ts';
import { readControlPlanes } from './control-planes.ts';
import { followProgress } from './progress.ts';
import { installOn } from './installed.ts';
import { CELLS, MANAGER, putCluster, putFleet } from './prepare.ts';
import { ownRepository } from './repository.ts';
import { openState, readPorts, requireServers } from './state.ts';
import { welcome } from './welcome.ts';

const ALL = ['hub', ...CELLS];
const UP_MS = 30_000;

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
  const { output } = options;
  const clock = systemClock({ ref: true });
  const log = pino({ level: 'silent' });
  const stopped = new AbortController();
  const closing: (() => Promise<void>)[] = [];
  const stop = async (): Promise<void> => {
    stopped.abort(new Error('stopping'));
    for (const close of closing.toReversed()) await close();
  };
  void options.until.then(() => stopped.abort(new Error('stopping')));

  try {
    const given = options.controlPlanes === undefined ? undefined : await readControlPlanes(options.controlPlanes);
    const kept = readPorts(options.state);
    requireServers(options.state, given?.servers);
    const ports = kept ?? {
      server: options.ports.server || (await freePorts(ALL.length)),
      artifacts: options.ports.artifacts || (await freePort()),
    };
    if (given === undefined)
      for (const [index, name] of ALL.entries()) await assertFree(ports.server + index, `the API server of ${name}`, '--port');
    const artifacts = await serveArtifacts(await artifactFolder(), ports.artifacts);
    closing.push(() => artifacts.close());
    output.say('doing', `starting ${given === undefined ? 'the API servers, ' : ''}the controllers and the nodes`);
    const state = openState(options.state, ports, given?.servers);
    const repository = options.repository ?? (await ownRepository(state.repository, options.source));
    if (options.repository === undefined)
      output.say('doing', `${options.source} is no Git repository; the fleet is followed in ${repository}`);

    // In a checkout they may have to be made: meanwhile the API servers come up.
    const bundles = Promise.all([bundleFor('agent'), bundleFor('controllers'), bundleFor('render')]);
    bundles.catch(() => undefined);
    const entry = fileURLToPath(new URL('../../../bin/kubenode.js', import.meta.url));
    /** For whoever wants to look at them, or to kill one and watch. */
    const processes: Record<string, number> = { start: process.pid };
    const child = (name: string, script: string, args: string[], onExit?: (why: string) => void): Child => {
      const onStart = (pid: number): void => {
        processes[name] = pid;
        writeFileSync(join(state.dir, 'processes.json'), `${JSON.stringify(processes)}\n`);
      };
      const made = keepRunning({
        name,
        onStart,
        command: process.execPath,
        args: [...process.execArgv, '--disable-sigusr1', script, ...args],
        logFile: join(state.logs, `${name}.log`),
        clock,
        log,
        ...(onExit === undefined ? {} : { onExit }),
      });
      closing.push(() => made.stop());
      return made;
    };
    const noisy = (name: string) => (why: string) => {
      if (!stopped.signal.aborted) output.say('warning', `${name} ended (${why}); it is started again`);
    };

    let serverFailed: string | undefined;
    if (given === undefined) {
      const listen = `127.0.0.1:${ports.server}`;
      child(
        'server',
        entry,
        ['serve', '--listen', listen, '--state', state.server, '--clusters', ALL.join(','), '--write-kubeconfig', state.kubeconfig],
        (why) => {
          serverFailed = why;
          noisy('server')(why);
        },
      );
    } else {
      writeFileSync(`${state.kubeconfig}.new`, given.kubeconfig, { mode: 0o600, flush: true });
      renameSync(`${state.kubeconfig}.new`, state.kubeconfig);
    }
    const deadline = clock.monotonic() + UP_MS;
    const clients = new Map<string, Client>();
    for (const name of ALL) {
      for (;;) {
        try {
          const connection = await loadKubeconfig({ path: state.kubeconfig, context: name, env: process.env, clock });
          const transport = httpTransport(connection);
          const client = createClient(transport, { userAgent: 'kubenode-start' });
          await client.request({ method: 'GET', path: '/version' }).catch(async (error: unknown) => {
            await transport.close();
            throw error;
          });
          clients.set(name, client);
          closing.push(() => transport.close());
          break;
        } catch (error) {
          stopped.signal.throwIfAborted();
          if (clock.monotonic() > deadline || serverFailed !== undefined) {
            throw new CodedError(
              'ServerNotUp',
              `the API server did not come up${serverFailed === undefined ? ` within ${UP_MS / 1000} s` : ` (${serverFailed})`}:\n${tail(join(state.logs, 'server.log'))}`,
              {
                cause: error,
                next: `look into ${join(state.logs, 'server.log')}`,
              },
            );
          }
          await sleep(clock, 50, stopped.signal);
        }
      }
    }
    const hub = must(clients, 'hub');
    await Promise.all(
      ALL.map(async (name) => {
        const { signal } = stopped;
        const role = name === 'hub' ? 'hub' : 'cell';
        const installing = installOn(must(clients, name), { role, fieldManager: MANAGER, embedded: given === undefined, clock, signal });
        const where = given === undefined ? name : `${name}, ${given.servers[name]}`;
        const made = await installing.catch((cause: unknown) => {
          throw new CodedError('NotPrepared', `${where}: ${messageOf(cause)}`, { cause });
        });
        if (given !== undefined) output.say('done', `${where}: there are now ${made}`);
      }),
    );
    const accounts = await openAccounts({
      clients,
      kubeconfig: given?.kubeconfig ?? readFileSync(state.kubeconfig, 'utf8'),
      cells: CELLS,
      dir: join(state.dir, 'accounts'),
      putCluster: (cell, kubeconfig) => putCluster(hub, cell, kubeconfig),
      clock,
      warn: (message) => output.say('warning', message),
      signal: stopped.signal,
    });
    const [agent, controllers] = await bundles;
    await putFleet(hub, { repository, ...(options.branch === undefined ? {} : { branch: options.branch }) });

    /** Whom a controller is to its server. Of those on servers of its own there is no other that would take turns with it. */
    const as = (name: string): string[] => [
      '--kubeconfig',
      must(accounts, name),
      ...(name === 'hub' ? [] : ['--separate-identities']),
      ...(given === undefined ? ['--leader-elect', 'false'] : []),
    ];
    child(
      'hub',
      controllers,
      ['controller', '--hub', ...as('hub'), '--cache', state.cache, '--isolation', 'process'],
      noisy('hub controllers'),
    );
    for (const cell of CELLS) {
      child(
        `cell-${cell}`,
        controllers,
        ['controller', '--cell', ...as(cell), '--local-nodes', state.nodes, '--mirror', artifacts.url],
        noisy(`controllers of ${cell}`),
      );
    }
    const host = await startLocalHost({
      nodesDir: state.nodes,
      agentCommand: [process.execPath, '--disable-sigusr1', agent],
      stopUnits: (root) => stopAllUnits(root),
      clock,
      log,
      signal: stopped.signal,
    });
    closing.push(() => host.stop());

    const progress = followProgress({ clients, output, clock, log, signal: stopped.signal });
    closing.push(() => progress.stop());
    await progress.firstState(12_000);
    welcome({ output, state, repository, progress, branch: options.branch, servers: given?.servers });
    progress.start();
    return { stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function must<T>(all: ReadonlyMap<string, T>, name: string): T {
  const found = all.get(name);
  if (found === undefined) throw new Error(`nothing for ${name}`);
  return found;
}

async function freePort(): Promise<number> {
  return await new Promise((resolve, reject) => {
    const server = createServer().once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0));
    });
  });
}

/** The first of as many free ports in a row. */
async function freePorts(count: number): Promise<number> {
  for (;;) {
    const first = await freePort();
    const rest = Array.from({ length: count - 1 }, (_, index) => first + 1 + index);
    const free = await Promise.all(
      rest.map((port) =>
        assertFree(port, 'an API server', '--port').then(
          () => true,
          () => false,
        ),
      ),
    );
    if (first + count <= 65_536 && free.every(Boolean)) return first;
  }
}

async function assertFree(port: number, what: string, flag: string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const server = createServer().once('error', (error: NodeJS.ErrnoException) =>
      reject(
        error.code === 'EADDRINUSE'
          ? new CodedError('PortInUse', `port ${port} of 127.0.0.1, for ${what}, is in use`, {
              next: `end what uses it (another kubenode start?), or choose another: ${flag} PORT`,
            })
          : error,
      ),
    );
    server.listen(port, '127.0.0.1', () => server.close(() => resolve()));
  });
}
