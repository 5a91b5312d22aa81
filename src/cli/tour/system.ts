import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Machines, type Machine } from '../../api/machine.ts';
import { Rollouts, type Rollout } from '../../api/rollout.ts';
import type { Stored } from '../../api/wire.ts';
import type { Client } from '../../kube/client.ts';
import { systemClock } from '../../kube/clock.ts';
import { createClient } from '../../kube/http-client.ts';
import { httpTransport } from '../../kube/http-transport.ts';
import { loadKubeconfig } from '../../kube/kubeconfig.ts';
import { askService } from './node-service.ts';
import { asPerson, giveRights } from './person.ts';
import { StartProcess } from './start-process.ts';
import type { until } from './wait.ts';

export const CELLS = ['test', 'pre', 'prod'] as const;
export type CellName = (typeof CELLS)[number];

/** The whole system as a user starts it, and what the tour observes: the API and the nodes' own files and processes. */
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

interface Connection {
  client: Client;
  close: () => Promise<void>;
}

export async function startSystem(repository: string, state: string, options: SystemOptions = {}): Promise<TourSystem> {
  const started = new StartProcess(repository, state, options);
  const connections = new Map<string, Connection>();
  const stop = async (): Promise<void> => {
    for (const { close } of connections.values()) await close();
    connections.clear();
    await started.stop();
  };
  try {
    for (const context of ['hub', ...CELLS]) connections.set(context, await connectTo(started, join(state, 'kubeconfig'), context));
  } catch (error) {
    await stop();
    throw error;
  }

  const client = (context: string): Client => {
    const found = connections.get(context);
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
    until: started.until,
    stop,
    async allMachines() {
      const each = await Promise.all(CELLS.map(async (cell) => (await machines(cell)).map((machine) => ({ cell, machine }))));
      return each.flat();
    },
    async rolloutOf(commit) {
      return (await client('hub').listAll(Rollouts)).items.findLast((rollout) => rollout.spec.commit === commit);
    },
    ask: (machine, component) => askService(root(machine), component),
  };
}

/** A client that acts as a person, once the API server of this context answers. */
async function connectTo({ until }: StartProcess, kubeconfig: string, context: string): Promise<Connection> {
  let given = false;
  return await until(`the API server of ${context} answers`, 40_000, async () => {
    if (!existsSync(kubeconfig)) return undefined;
    const transport = httpTransport(await loadKubeconfig({ path: kubeconfig, context, env: {}, clock: systemClock() }));
    try {
      if (!given) await giveRights(transport);
      given = true;
      const client = createClient(asPerson(transport), { userAgent: 'kubenode-tour' });
      if (context === 'hub') await client.list(Rollouts, { limit: 1 });
      else await client.list(Machines, { limit: 1 });
      return { client, close: () => transport.close() };
    } catch {
      await transport.close();
      return undefined;
    }
  });
}
