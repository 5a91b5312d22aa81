import { Fleets } from '../../api/fleet.ts';
import { Machines } from '../../api/machine.ts';
import { hasReason } from '../../kube/api-error.ts';
import type { Client } from '../../kube/client.ts';
import { clientFromKubeconfig, contextOf } from '../remote.ts';
import { readControlPlanes } from '../start/control-planes.ts';
import { cliError } from '../errors.ts';

/** The tour counts what it finds. Changes nothing. Errors: as `readControlPlanes`; `AlreadyUsed` where there are Fleets or Machines. */
export async function requireUnused(path: string): Promise<void> {
  const { kubeconfig, servers } = await readControlPlanes(path);
  for (const [name, server] of Object.entries(servers)) {
    const { client, close } = await clientFromKubeconfig(contextOf(kubeconfig, name));
    try {
      const found = await count(client, name === 'hub');
      if (found === 0) continue;
      throw cliError(
        'AlreadyUsed',
        `${name} (${server}) has ${name === 'hub' ? 'Fleets' : 'Machines'} already; the tour needs API servers of its own`,
        {
          next: 'start fresh ones, or leave --control-planes out',
        },
      );
    } finally {
      await close();
    }
  }
}

async function count(client: Client, hub: boolean): Promise<number> {
  try {
    return (hub ? await client.list(Fleets, { limit: 1 }) : await client.list(Machines, { limit: 1 })).items.length;
  } catch (error) {
    // The kind is not there.
    if (hasReason(error, 'NotFound')) return 0;
    throw error;
  }
}
