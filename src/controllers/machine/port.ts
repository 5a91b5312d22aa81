import { Machines, type Machine } from '../../api/machine.ts';
import { Nodes, type Node } from '../../api/builtin.ts';
import { MANAGERS } from '../../api/names.ts';
import type { Clock } from '../../api/ports.ts';
import type { InfraProvider } from '../../api/provider.ts';
import { isCoded } from '../../api/errors.ts';
import { hasReason } from '../../kube/apierror.ts';
import type { Client } from '../../kube/client.ts';
import type { Reflector } from '../../kube/reflector.ts';
import type { ReleaseMark, ReleaseMarks } from '../../defender/evidence.ts';
import type { GuardedPort } from '../../defender/guardedwrite.ts';
import { readLedger, writeLedger } from '../../defender/ledger.ts';
import type { Effect } from './act.ts';
import type { DrainedPod } from './decide.ts';

export interface PortOptions {
  client: Client;
  clock: Clock;
  stores: { machines: Reflector<Machine>; nodes: Reflector<Node> };
  marks: ReleaseMarks;
  /** Of the machine in hand; undefined where the act names none. */
  provider: InfraProvider | undefined;
  signal: AbortSignal;
}

/** Guarded writes over the API server: every read is live, every write is conditioned on it. */
export function apiPort({ client, clock, stores, marks, provider, signal }: PortOptions): GuardedPort<Effect> {
  return {
    async read(target, { machine, node }) {
      if (target === 'machine') return { machine: await client.find(Machines, machine, { signal }) };
      if (target === 'node') return { node: await client.find(Nodes, { name: node }, { signal }) };
      return { ledger: await readLedger(client, signal) };
    },
    async put(move) {
      if (move.write === 'machine') await client.update(Machines, move.object, { fieldManager: MANAGERS.machine, signal });
      else if (move.write === 'node') await client.update(Nodes, move.object, { fieldManager: MANAGERS.machine, signal });
      else await writeLedger(client, move.object, signal);
    },
    releasing(mark) {
      const since = clock.monotonic();
      marks.record(() => hasPassed(mark, stores, since));
    },
    async run(effect) {
      if (effect.do === 'Evict') return await evict(client, effect.pod, signal);
      if (provider === undefined) return 'no provider';
      return await provider.delete(effect.providerID, signal);
    },
  };
}

function hasPassed({ machine, node }: ReleaseMark, stores: PortOptions['stores'], sinceMs: number): boolean {
  const { resourceVersion } = machine;
  const machinePassed =
    resourceVersion === undefined
      ? stores.machines.get(machine.key)?.metadata.uid !== machine.uid
      : stores.machines.hasPassed(machine.key, resourceVersion, sinceMs);
  if (!machinePassed || node === undefined) return machinePassed;
  if ('goneUID' in node) return stores.nodes.get({ name: node.name })?.metadata.uid !== node.goneUID;
  return stores.nodes.hasPassed({ name: node.name }, node.resourceVersion, sinceMs);
}

/** Asks for one pod, by its UID. A disruption budget that says no is an answer, not an error. */
async function evict(client: Client, pod: DrainedPod, signal: AbortSignal): Promise<string> {
  const { namespace, name, uid } = pod;
  const eviction = { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { namespace, name }, deleteOptions: { preconditions: { uid } } };
  try {
    await client.post(`/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(name)}/eviction`, eviction, {
      signal,
    });
    return `evicted ${namespace}/${name}`;
  } catch (error) {
    if (hasReason(error, 'NotFound') || isCoded(error, 'Conflict')) return `${namespace}/${name} is gone`;
    if (hasReason(error, 'TooManyRequests')) return `${namespace}/${name}: ${error.message}`;
    throw error;
  }
}
