import { Nodes, type Node } from '../../api/builtin.ts';
import { Machines, type Machine } from '../../api/machine.ts';
import { MANAGERS } from '../../api/names.ts';
import type { InfraProvider } from '../../api/provider.ts';
import type { ReleaseMark, ReleaseMarks } from '../../defender/evidence.ts';
import type { GuardedPort } from '../../defender/guardedwrite.ts';
import { readLedger, writeLedger } from '../../defender/ledger.ts';
import { hasReason } from '../../kube/apierror.ts';
import type { Client } from '../../kube/client.ts';
import type { Reflector } from '../../kube/reflector.ts';
import type { Effect } from './guards.ts';
import type { DrainedPod } from './decide.ts';

export interface PortOptions {
  client: Client;
  stores: { machines: Reflector<Machine>; nodes: Reflector<Node> };
  marks: ReleaseMarks;
  /** Of the machine in hand; undefined where there is none. */
  provider: InfraProvider | undefined;
  signal: AbortSignal;
}

/** Guarded writes over the API server: every read is live, every write is conditioned on it. */
export function apiPort({ client, stores, marks, provider, signal }: PortOptions): GuardedPort<Effect> {
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
      const lists = { machines: stores.machines.mark(), nodes: stores.nodes.mark() };
      marks.record(() => machinePassed(mark, stores, lists.machines) && nodePassed(mark, stores, lists.nodes));
    },
    async run(effect) {
      if (effect.do === 'Evict') return await evict(client, effect.pod, signal);
      if (provider === undefined) return { note: 'the cell has no such provider', refused: true };
      return { note: await provider.delete(effect.providerID, signal) };
    },
  };
}

function machinePassed({ machine }: ReleaseMark, { machines }: PortOptions['stores'], list: number): boolean {
  if (machine.resourceVersion === undefined) return machines.get(machine.key)?.metadata.uid !== machine.uid;
  return machines.hasPassed(machine.key, machine.resourceVersion, list);
}

function nodePassed({ node }: ReleaseMark, { nodes }: PortOptions['stores'], list: number): boolean {
  if (node === undefined) return true;
  if ('goneUID' in node) return nodes.get({ name: node.name })?.metadata.uid !== node.goneUID;
  return nodes.hasPassed({ name: node.name }, node.resourceVersion, list);
}

/** Asks for one pod, by its UID. A disruption budget that says no is an answer, not an error. */
async function evict(
  client: Client,
  { namespace, name, uid }: DrainedPod,
  signal: AbortSignal,
): Promise<{ note: string; refused?: boolean }> {
  const eviction = { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { namespace, name }, deleteOptions: { preconditions: { uid } } };
  try {
    await client.post(`/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(name)}/eviction`, eviction, {
      signal,
    });
    return { note: `evicts ${namespace}/${name}` };
  } catch (error) {
    // Conflict: another pod has the name by now.
    if (hasReason(error, 'NotFound', 'Conflict')) return { note: `${namespace}/${name} is gone` };
    // 500 is what the server answers where several budgets cover one pod: nobody can evict it before somebody mends that.
    if (hasReason(error, 'TooManyRequests', 'InternalError')) return { note: `${namespace}/${name}: ${error.message}`, refused: true };
    throw error;
  }
}
