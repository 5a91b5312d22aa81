import { Nodes, type Node } from '../../api/builtin.ts';
import { Machines, type Machine } from '../../api/machine.ts';
import type { InfraProvider } from '../../api/provider.ts';
import type { ReleaseMark, ReleaseMarks } from '../../defender/evidence.ts';
import type { GuardedPort } from '../../defender/guarded-write.ts';
import { readLedger, writeLedger } from '../../defender/ledger.ts';
import { ledgerGone } from '../../defender/protocol.ts';
import { hasReason } from '../../kube/api-error.ts';
import type { Client } from '../../kube/client.ts';
import type { Reflector } from '../../kube/reflector.ts';
import { carryOutEffect } from './effects.ts';
import type { Effect } from './guards.ts';
import type { LedgerWrites } from './reservation/ledger-writes.ts';
import { writeMachine, writeNode } from './patching.ts';

export interface PortOptions {
  client: Client;
  stores: { machines: Reflector<Machine>; nodes: Reflector<Node> };
  ledger: LedgerWrites;
  marks: ReleaseMarks;
  /** Of the machine that is reconciled; undefined where there is none. */
  provider: InfraProvider | undefined;
  /** Gets the operations whose power cycle the provider has taken. */
  cycled: Set<string>;
  signal: AbortSignal;
}

/** Guarded writes over the API server: every read is live, every write is conditioned on what was read or known. */
export function apiPort({ client, stores, ledger, marks, provider, cycled, signal }: PortOptions): GuardedPort<Effect> {
  return {
    known(target, { machine, node }) {
      if (target === 'ledger') return ledger.known();
      const found = target === 'machine' ? stores.machines.get(machine) : stores.nodes.get({ name: node });
      return found === undefined ? undefined : { [target]: found };
    },
    async read(target, { machine, node }) {
      if (target === 'machine') return { machine: await client.find(Machines, machine, { signal }) };
      if (target === 'node') return { node: await client.find(Nodes, { name: node }, { signal }) };
      return { ledger: await readLedger(client, signal) };
    },
    async put(move, { seen, known }) {
      if (move.write === 'machine')
        await writeMachine(client, seen.machine ?? move.object, move.object, { known, status: move.status, signal });
      else if (move.write === 'node') await writeNode(client, seen.node ?? move.object, move.object, { known, signal });
      else
        await ledger.during(writeLedger(client, move.object, signal)).catch((error: unknown) => {
          throw hasReason(error, 'NotFound') ? ledgerGone() : error;
        });
    },
    releasing(mark) {
      const lists = { machines: stores.machines.mark(), nodes: stores.nodes.mark() };
      marks.record(() => machinePassed(mark, stores, lists.machines) && nodePassed(mark, stores, lists.nodes));
    },
    run: (effect) => carryOutEffect(effect, { client, provider, cycled, signal }),
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
