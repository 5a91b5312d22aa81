import { readFile } from 'node:fs/promises';
import { CustomResourceDefinitions, Namespaces, Secrets } from '../../api/builtin.ts';
import { Fleets, type Fleet } from '../../api/fleet.ts';
import { API_VERSION } from '../../api/kind.ts';
import { CELL_KINDS, HUB_KINDS } from '../../api/kinds.ts';
import { SYSTEM_NAMESPACE } from '../../api/names.ts';
import type { Clock } from '../../api/ports.ts';
import { applyIfChanged } from '../../kube/apply.ts';
import type { Client } from '../../kube/client.ts';
import { sleep } from '../../kube/clock.ts';
import { contextOf } from '../remote.ts';
import { grantNodes } from './rights.ts';

const MANAGER = 'kubenode-start';
const FLEET = 'main';
export const CELLS = ['test', 'pre', 'prod'];

/** A new kind is served a moment after it is made. */
const SERVED_MS = 60_000;

/**
 * The kinds and KubeNode's own namespace, as `kubenode install` has them; resolves when the kinds are served. The controllers run as who starts
 * them, so of its rights only those of nodes are needed, which an own server does not ask for.
 */
export async function prepareCluster(
  client: Client,
  { hub, given, clock, signal }: { hub: boolean; given: boolean; clock: Clock; signal: AbortSignal },
): Promise<string> {
  const kinds = hub ? HUB_KINDS : CELL_KINDS;
  await Promise.all(
    kinds.map(async (kind) => {
      const crd = kind.crd();
      const stored = await client.find(CustomResourceDefinitions, { name: crd.metadata.name });
      await applyIfChanged(client, CustomResourceDefinitions, crd, { fieldManager: MANAGER, force: true, stored });
    }),
  );
  const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: SYSTEM_NAMESPACE } };
  await applyIfChanged(client, Namespaces, namespace, {
    fieldManager: MANAGER,
    force: true,
    stored: await client.find(Namespaces, namespace.metadata),
  });
  const rights = given && !hub ? await grantNodes(client, MANAGER) : [];
  const deadline = clock.monotonic() + SERVED_MS;
  for (const kind of kinds) {
    for (;;) {
      const failed = await client.list(kind, { limit: 1, signal }).then(
        () => undefined,
        (error: unknown) => error,
      );
      if (failed === undefined) break;
      if (clock.monotonic() > deadline) throw failed;
      await sleep(clock, 100, signal);
    }
  }
  return [
    `${kinds.length} CustomResourceDefinitions`,
    `Namespace ${SYSTEM_NAMESPACE}`,
    ...rights.map((name) => `ClusterRole ${name}`),
  ].join(', ');
}

export interface HubOptions {
  kubeconfig: string;
  cells: string[];
  repository: string;
  branch?: string;
}

/** The hub's knowledge that no Git repository may hold: how cells are reached, and the Fleet itself. */
export async function prepareHub(hub: Client, options: HubOptions): Promise<void> {
  const text = await readFile(options.kubeconfig, 'utf8');
  await Promise.all(
    options.cells.map(async (cell) => {
      const secret = {
        apiVersion: 'v1',
        kind: 'Secret',
        metadata: { name: `cluster-${cell}`, namespace: SYSTEM_NAMESPACE },
        type: 'Opaque',
        data: { kubeconfig: Buffer.from(contextOf(text, cell)).toString('base64') },
      };
      await applyIfChanged(hub, Secrets, secret, { fieldManager: MANAGER, force: true, stored: await hub.find(Secrets, secret.metadata) });
    }),
  );
  const fleet: Fleet = {
    apiVersion: API_VERSION,
    kind: 'Fleet',
    metadata: { name: FLEET },
    spec: {
      source: { path: options.repository, ...(options.branch === undefined ? {} : { branch: options.branch }), pollSeconds: 5 },
      // Seconds, so that a change can be watched; a real fleet soaks for hours.
      stages: options.cells.map((stage) => ({ name: stage, clusterSelector: { stage }, soakSeconds: 1, maxClusters: 1 })),
    },
  };
  await applyIfChanged(hub, Fleets, fleet, { fieldManager: MANAGER, force: true, stored: await hub.find(Fleets, fleet.metadata) });
}
