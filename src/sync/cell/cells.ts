/** The connections of the hub to cells. */
import { kubeError } from '../../kube/errors.ts';
import * as builtin from '../../api/builtin.ts';
import type { Cluster } from '../../api/cluster.ts';
import { isCoded, messageOf, reworded } from '../../api/errors.ts';
import { SYSTEM_NAMESPACE } from '../../api/names.ts';
import type { Clock, Log, Random } from '../../api/ports.ts';
import type { Stored } from '../../api/wire.ts';
import type { Client } from '../../kube/client.ts';
import type { ServerTime } from '../../kube/server-time.ts';
import { plainAway, type Away } from './away.ts';
import { OpenCell, type Cell } from './cell.ts';

/** Makes a client from the text of a kubeconfig, with the time of the server that it reaches. */
export type ConnectCell = (
  kubeconfig: string,
) => Promise<{ client: Client; time: Pick<ServerTime, 'estimate'>; close: () => Promise<void> }>;

export interface CellsOptions {
  hub: Client;
  connect: ConnectCell;
  clock: Clock;
  random: Random;
  log: Log;
  signal: AbortSignal;
  /** Something in this cell changed. */
  onChange: (cell: string) => void;
}

export interface Cells {
  /** The connection to a cluster, or why there is none; opened at first use, opened again when its kubeconfig changes. */
  of(cluster: Stored<Cluster>): Promise<Cell | Away>;
  /** Closes connections of clusters that are not named. */
  keep(clusters: ReadonlySet<string>): Promise<void>;
  close: () => Promise<void>;
}

interface Open {
  secretVersion: string;
  cell: OpenCell;
  stop: () => Promise<void>;
}

export function openCells(options: CellsOptions): Cells {
  const open = new Map<string, Open>();
  /** Two fleets may ask for one cluster at once. */
  const opening = new Map<string, Promise<OpenCell>>();

  async function connect(cluster: Stored<Cluster>): Promise<OpenCell> {
    const { name } = cluster.metadata;
    const reference = cluster.spec.kubeconfigSecret ?? { name: `cluster-${name}` };
    const key = { namespace: reference.namespace ?? SYSTEM_NAMESPACE, name: reference.name };
    const from = `Secret ${key.namespace}/${key.name}`;
    const put = `kubectl create secret generic ${key.name} -n ${key.namespace} --from-file=kubeconfig=FILE`;
    const secret = await options.hub.find(builtin.Secrets, key, { signal: options.signal });
    const encoded = secret?.data?.['kubeconfig'];
    if (secret === undefined || encoded === undefined)
      throw kubeError('KubeconfigAbsent', `${from} ${secret === undefined ? 'is absent' : 'has no key "kubeconfig"'}`, { next: put });
    const known = open.get(name);
    if (known?.secretVersion === secret.metadata.resourceVersion) return known.cell;
    await known?.stop();
    open.delete(name);
    const { client, time, close } = await options.connect(Buffer.from(encoded, 'base64').toString('utf8')).catch((error: unknown) => {
      const next = `${put} --dry-run=client -o yaml | kubectl apply -f -`;
      const [message, options] = [`${from}: ${messageOf(error)}`, { cause: error, next }];
      throw isCoded(error) ? reworded(error, message, options) : kubeError('Unreachable', message, options);
    });
    const stopped = new AbortController();
    const signal = AbortSignal.any([options.signal, stopped.signal]);
    const cell = new OpenCell({ ...options, name, client, time, signal });
    // A hub that starts has nothing to report of cells before that; one that hangs costs the others this once, and no more than the deadline.
    await cell.firstProbe;
    open.set(name, {
      secretVersion: secret.metadata.resourceVersion,
      cell,
      stop: async () => {
        stopped.abort();
        await cell.done();
        await close();
      },
    });
    return cell;
  }

  return {
    async of(cluster) {
      try {
        const { name } = cluster.metadata;
        const connecting = opening.get(name) ?? connect(cluster).finally(() => opening.delete(name));
        opening.set(name, connecting);
        const cell = await connecting;
        cell.expect(cluster.spec.cellUID ?? cluster.status?.cellUID);
        // Others must not be slower for one that hangs.
        if (cell.away() !== undefined) cell.probeSoon();
        return cell;
      } catch (error) {
        const next = isCoded(error) && error.next !== undefined ? `; next: ${error.next}` : '';
        return plainAway({ reason: isCoded(error) ? error.code : 'Unreachable', message: `${messageOf(error)}${next}` });
      }
    },
    async keep(clusters) {
      for (const [name, { stop }] of open) {
        if (clusters.has(name)) continue;
        open.delete(name);
        await stop();
      }
    },
    async close() {
      await Promise.all([...open.values()].map(({ stop }) => stop()));
      open.clear();
    },
  };
}
