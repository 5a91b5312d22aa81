import { CustomResourceDefinitions, Namespaces, Secrets } from '../../api/builtin.ts';
import { Fleets, type Fleet } from '../../api/fleet.ts';
import { API_VERSION } from '../../api/kind.ts';
import { CELL_KINDS, HUB_KINDS } from '../../api/kinds.ts';
import { SYSTEM_NAMESPACE } from '../../api/names.ts';
import type { Clock } from '../../api/ports.ts';
import { applyIfChanged } from '../../kube/apply.ts';
import type { Client } from '../../kube/client.ts';
import { sleep } from '../../kube/clock.ts';

export const MANAGER = 'kubenode-start';
const FLEET = 'main';
export const CELLS = ['test', 'pre', 'prod'];

/** A new kind is served a moment after it is made. */
const SERVED_MS = 60_000;

/** The kinds and KubeNode's own namespace, on a server of its own, which asks for no rights; resolves when the kinds are served. */
export async function prepareCluster(
  client: Client,
  { hub, clock, signal }: { hub: boolean; clock: Clock; signal: AbortSignal },
): Promise<void> {
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
}

/** How the hub reaches a cell. */
export async function putCluster(hub: Client, cell: string, kubeconfig: string): Promise<void> {
  const secret = {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: `cluster-${cell}`, namespace: SYSTEM_NAMESPACE },
    type: 'Opaque',
    data: { kubeconfig: Buffer.from(kubeconfig).toString('base64') },
  };
  await applyIfChanged(hub, Secrets, secret, { fieldManager: MANAGER, force: true, stored: await hub.find(Secrets, secret.metadata) });
}

/** What no commit may bring. */
export async function putFleet(hub: Client, { repository, branch }: { repository: string; branch?: string }): Promise<void> {
  const fleet: Fleet = {
    apiVersion: API_VERSION,
    kind: 'Fleet',
    metadata: { name: FLEET },
    spec: {
      source: { path: repository, ...(branch === undefined ? {} : { branch }), pollSeconds: 5 },
      // Seconds, so that a change can be watched; a real fleet soaks for hours.
      stages: CELLS.map((stage) => ({ name: stage, clusterSelector: { stage }, soakSeconds: 1, maxClusters: 1 })),
    },
  };
  await applyIfChanged(hub, Fleets, fleet, { fieldManager: MANAGER, force: true, stored: await hub.find(Fleets, fleet.metadata) });
}
