import { Secrets } from '../../api/builtin.ts';
import { Fleets, type Fleet } from '../../api/fleet.ts';
import { API_VERSION } from '../../api/kind.ts';
import { SYSTEM_NAMESPACE } from '../../api/names.ts';
import { applyIfChanged } from '../../kube/apply.ts';
import type { Client } from '../../kube/client.ts';

export const MANAGER = 'kubenode-start';
const FLEET = 'main';
export const CELLS = ['test', 'pre', 'prod'];

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
  const stored = await hub.find(Fleets, { name: FLEET });
  const fleet: Fleet = {
    apiVersion: API_VERSION,
    kind: 'Fleet',
    metadata: { name: FLEET },
    spec: {
      source: { path: repository, ...(branch === undefined ? {} : { branch }), pollSeconds: 5 },
      // Seconds, so that a change can be watched; a real fleet soaks for hours. Later edits stay.
      stages: stored?.spec.stages ?? CELLS.map((stage) => ({ name: stage, clusterSelector: { stage }, soakSeconds: 1, maxClusters: 1 })),
    },
  };
  await applyIfChanged(hub, Fleets, fleet, { fieldManager: MANAGER, force: true, stored });
}
