import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type CodedError, messageOf } from '../../api/errors.ts';
import type { Client } from '../../kube/client.ts';
import { sleep } from '../../kube/clock.ts';
import { createClient } from '../../kube/http-client.ts';
import { httpTransport } from '../../kube/http-transport.ts';
import { loadKubeconfig } from '../../kube/kubeconfig.ts';
import { tail } from './child.ts';
import { installOn } from './installed.ts';
import { MANAGER } from './prepare.ts';
import type { LocalProcesses } from './processes.ts';
import { CONTEXTS, must, type LocalSystem } from './system.ts';
import { cliError } from '../errors.ts';

const UP_MS = 30_000;

/** Why the process of the own API servers ended last. */
interface ServerExit {
  why?: string;
}

/** Starts the own API servers, or takes those that are given, and connects to each. Errors: `ServerNotUp`. */
export async function openServers(system: LocalSystem, processes: LocalProcesses): Promise<ReadonlyMap<string, Client>> {
  const { state, given, ports, clock } = system;
  const exit: ServerExit = {};
  if (given === undefined) {
    const entry = fileURLToPath(new URL('../../../bin/kubenode.js', import.meta.url));
    const flags = ['--listen', `127.0.0.1:${ports.server}`, '--state', state.server, '--clusters', CONTEXTS.join(',')];
    processes.run('server', 'server', entry, ['serve', ...flags, '--write-kubeconfig', state.kubeconfig], (why) => (exit.why = why));
  } else {
    writeFileSync(`${state.kubeconfig}.new`, given.kubeconfig, { mode: 0o600, flush: true });
    renameSync(`${state.kubeconfig}.new`, state.kubeconfig);
  }
  const deadlineMs = clock.monotonic() + UP_MS;
  const clients = new Map<string, Client>();
  for (const name of CONTEXTS) clients.set(name, await connected(system, name, deadlineMs, exit));
  return clients;
}

/** Tries again until the deadline, or until the server's process has ended. */
async function connected(system: LocalSystem, name: string, deadlineMs: number, exit: ServerExit): Promise<Client> {
  const { clock, signal } = system;
  for (;;) {
    try {
      return await connectTo(system, name);
    } catch (error) {
      signal.throwIfAborted();
      if (clock.monotonic() > deadlineMs || exit.why !== undefined) throw notUp(system, exit, error);
      await sleep(clock, 50, signal);
    }
  }
}

async function connectTo({ state, clock, closing }: LocalSystem, name: string): Promise<Client> {
  const connection = await loadKubeconfig({ path: state.kubeconfig, context: name, env: process.env, clock });
  const transport = httpTransport(connection);
  const client = createClient(transport, { userAgent: 'kubenode-start' });
  await client.request({ method: 'GET', path: '/version' }).catch(async (error: unknown) => {
    await transport.close();
    throw error;
  });
  closing.push(() => transport.close());
  return client;
}

function notUp({ state }: LocalSystem, { why }: ServerExit, cause: unknown): CodedError {
  const log = join(state.logs, 'server.log');
  return cliError(
    'ServerNotUp',
    `the API server did not come up${why === undefined ? ` within ${UP_MS / 1000} s` : ` (${why})`}:\n${tail(log)}`,
    { cause, next: `read ${log}` },
  );
}

/** Installs KubeNode on each server. Errors: `NotPrepared`. */
export async function installEverywhere(system: LocalSystem, clients: ReadonlyMap<string, Client>): Promise<void> {
  const { given, clock, signal, output } = system;
  await Promise.all(
    CONTEXTS.map(async (name) => {
      const role = name === 'hub' ? 'hub' : 'cell';
      const installing = installOn(must(clients, name), { role, fieldManager: MANAGER, embedded: given === undefined, clock, signal });
      const where = given === undefined ? name : `${name}, ${given.servers[name]}`;
      const made = await installing.catch((cause: unknown) => {
        throw cliError('NotPrepared', `${where}: ${messageOf(cause)}`, { cause });
      });
      if (given !== undefined) output.report('done', `${where}: there are now ${made}`);
    }),
  );
}
