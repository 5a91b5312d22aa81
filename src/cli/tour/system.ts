import { spawn, type ChildProcess } from 'node:child_process';
import { request } from 'node:http';
import { createWriteStream, existsSync } from 'node:fs';
import { readFile, readdir, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CodedError } from '../../api/errors.ts';
import { Machines, type Machine } from '../../api/machine.ts';
import { Rollouts, type Rollout } from '../../api/rollout.ts';
import type { Stored } from '../../api/wire.ts';
import type { Client } from '../../kube/client.ts';
import { createClient } from '../../kube/http-client.ts';
import { systemClock } from '../../kube/clock.ts';
import { httpTransport } from '../../kube/http-transport.ts';
import { loadKubeconfig } from '../../kube/kubeconfig.ts';
import { asPerson, giveRights } from './person.ts';

export const CELLS = ['test', 'pre', 'prod'] as const;
export type CellName = (typeof CELLS)[number];

/** The whole system as a user starts it, and the eyes of the tour: the API and the nodes' own files and processes. */
export interface TourSystem {
  readonly state: string;
  client(context: 'hub' | CellName): Client;
  machines(cell: CellName): Promise<Stored<Machine>[]>;
  allMachines(): Promise<{ cell: CellName; machine: Stored<Machine> }[]>;
  rolloutOf(commit: string): Promise<Stored<Rollout> | undefined>;
  /** Root folder of a machine's node. */
  root(machine: Machine): string;
  /** What the stand-in itself answers on its socket; undefined when nothing does. */
  ask(machine: Machine, component: string): Promise<{ version: string; pid: number } | undefined>;
  /** As `until`, with the patience that was asked for. */
  until: typeof until;
  stop: () => Promise<void>;
}

export interface SystemOptions {
  /** Kubeconfig of the API servers to use; absent: those of its own. */
  controlPlanes?: string;
  /** Every deadline is this many times as far away. Default 1. */
  patience?: number;
  /** Stops the system, and with it everything that waits for it. */
  signal?: AbortSignal;
}

export async function startSystem(repository: string, state: string, options: SystemOptions = {}): Promise<TourSystem> {
  const { controlPlanes, patience = 1, signal } = options;
  signal?.throwIfAborted();
  const entry = fileURLToPath(new URL('../../../bin/kubenode.js', import.meta.url));
  const servers = controlPlanes === undefined ? ['--port', '0'] : ['--control-planes', controlPlanes];
  const args = [
    ...process.execArgv,
    '--disable-sigusr1',
    entry,
    'start',
    '--state',
    state,
    '--repository',
    repository,
    ...servers,
    '--artifacts-port',
    '0',
  ];
  const child: ChildProcess = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  const log = createWriteStream(`${state}.log`);
  let last = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (chunk: Buffer) => {
      log.write(chunk);
      last = (last + chunk.toString('utf8')).slice(-2000);
    });
  }
  const gone = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  let ended = false;
  void gone.then(() => (ended = true));
  const clients = new Map<string, { client: Client; close: () => Promise<void> }>();
  const onAbort = (): void => void child.kill('SIGTERM');
  signal?.addEventListener('abort', onAbort, { once: true });
  // Nothing comes true any more when it has ended.
  const untilThen: typeof until = (what, ms, look) =>
    until(what, ms * patience, async () => {
      signal?.throwIfAborted();
      if (ended) throw new CodedError('StartFailed', `kubenode start ended:\n${last}`);
      return await look();
    });

  async function stop(): Promise<void> {
    for (const { close } of clients.values()) await close();
    clients.clear();
    signal?.removeEventListener('abort', onAbort);
    if (!ended) child.kill('SIGTERM');
    await gone;
    log.end();
  }

  const kubeconfig = join(state, 'kubeconfig');
  try {
    for (const context of ['hub', ...CELLS]) {
      let given = false;
      await untilThen(`the API server of ${context} answers`, 40_000, async () => {
        if (!existsSync(kubeconfig)) return undefined;
        const transport = httpTransport(await loadKubeconfig({ path: kubeconfig, context, env: {}, clock: systemClock() }));
        try {
          if (!given) await giveRights(transport);
          given = true;
          const client = createClient(asPerson(transport), { userAgent: 'kubenode-tour' });
          if (context === 'hub') await client.list(Rollouts, { limit: 1 });
          else await client.list(Machines, { limit: 1 });
          clients.set(context, { client, close: () => transport.close() });
          return true;
        } catch {
          await transport.close();
          return undefined;
        }
      });
    }
  } catch (error) {
    await stop();
    throw error;
  }

  const client = (context: string): Client => {
    const found = clients.get(context);
    if (found === undefined) throw new Error(`no client of ${context}`);
    return found.client;
  };
  const machines = async (cell: CellName): Promise<Stored<Machine>[]> => (await client(cell).listAll(Machines)).items;
  const root = (machine: Machine): string => join(state, 'nodes', machine.metadata.uid ?? '', 'root');
  return {
    state,
    client,
    machines,
    root,
    until: untilThen,
    stop,
    async allMachines() {
      const each = await Promise.all(CELLS.map(async (cell) => (await machines(cell)).map((machine) => ({ cell, machine }))));
      return each.flat();
    },
    async rolloutOf(commit) {
      return (await client('hub').listAll(Rollouts)).items.findLast((rollout) => rollout.spec.commit === commit);
    },
    async ask(machine, component) {
      // A socket's path may have some 100 bytes only, so it is named through this process' own view of the folder.
      const socketPath = await shortPath(join(root(machine), 'run', `${component}.sock`));
      return await new Promise((resolve) => {
        const call = request({ socketPath, path: '/healthz', timeout: 2000 }, (response) => {
          let body = '';
          response.on('data', (chunk) => (body += String(chunk)));
          response.on('end', () => resolve(JSON.parse(body) as { version: string; pid: number }));
        });
        call.on('timeout', () => call.destroy());
        call.on('error', () => resolve(undefined));
        call.end();
      });
    },
  };
}

async function shortPath(path: string): Promise<string> {
  if (Buffer.byteLength(path) < 100) return path;
  const link = join(tmpdir(), `kn-${process.pid}-${links++}`);
  await symlink(dirname(path), link);
  setTimeout(() => void rm(link, { force: true }), 5000).unref();
  return join(link, basename(path));
}
let links = 0;

/** Waits for a value, looking again every 100 ms; says what it waited for when the time is over. */
export async function until<T>(what: string, ms: number, look: () => Promise<T | undefined | false>): Promise<T> {
  const deadline = performance.now() + ms;
  let last: unknown;
  for (;;) {
    try {
      const value = await look();
      if (value !== undefined && value !== false) return value;
      last = undefined;
    } catch (error) {
      if (error instanceof CodedError && ['Interrupted', 'StartFailed', 'Violated'].includes(error.code)) throw error;
      last = error;
    }
    if (performance.now() > deadline)
      throw new CodedError('TimedOut', `within ${ms / 1000} s it did not come true that ${what}`, { cause: last });
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** Pids of the supervised units of a node, by name, as the agent recorded them. */
export async function unitPids(root: string): Promise<Map<string, number>> {
  const dir = join(root, 'var/lib/kubenode/units');
  const pids = new Map<string, number>();
  for (const name of await readdir(dir).catch(() => [])) {
    if (!name.endsWith('.json')) continue;
    const { pid } = JSON.parse(await readFile(join(dir, name), 'utf8')) as { pid?: unknown };
    if (typeof pid === 'number') pids.set(name.slice(0, -'.json'.length), pid);
  }
  return pids;
}
