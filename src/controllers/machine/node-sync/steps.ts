import { Nodes } from '../../../api/builtin.ts';
import { Machines } from '../../../api/machine.ts';
import type { Performed } from '../../../defender/guarded-write.ts';
import { unlessConflict, writeMachine, writeNode } from '../patching.ts';
import type { Hands, StepKinds } from '../step-kind.ts';
import type { MachineView } from '../view.ts';
import { mayTakePods, planNode } from './node-sync.ts';

const ATTEMPTS = 5;

/**
 * First the Machine records what is ours there, then the Node is written. Each write is conditioned on what was read. A write that puts something on the Node is
 * conditioned on the mark of our last write of the Node, which the Machine has named before (docs/protocols.md#c11). The pods were listed before the Node is
 * read: while its cordon names the reservation, no pod has come since.
 */
async function syncNode(view: MachineView, { client, signal }: Hands): Promise<Performed> {
  const { claim, kubeletAnswers, reservation, pods } = view;
  const { namespace, name } = view.machine.metadata;
  const key = { namespace, name };
  for (let attempt = 1; ; attempt++) {
    const live = await client.find(Nodes, { name: key.name }, { signal });
    if (live === undefined || claim.state !== 'Claimed' || live.metadata.uid !== claim.node.metadata.uid)
      return { done: false, why: 'the Node is another one' };
    const machine = await client.find(Machines, key, { signal });
    if (machine === undefined || machine.metadata.uid !== view.machine.metadata.uid) return { done: false, why: 'the machine is gone' };
    const { record, node } = planNode(machine, live, { kubeletAnswers, mayTakePods: mayTakePods(machine, live, reservation, pods) });
    if (record === undefined && node === undefined) return { done: false, why: 'the Node has them already' };
    const performed = await unlessConflict(
      (async () => {
        if (record !== undefined) {
          const noted = { ...machine, status: { ...machine.status, nodeKeys: record } };
          await writeMachine(client, machine, noted, { known: false, status: true, signal });
        }
        if (node !== undefined) await writeNode(client, live, node, { known: false, signal });
      })(),
    );
    if (performed.done || attempt === ATTEMPTS) return performed;
  }
}

export const NODE_SYNC_STEPS: StepKinds<'SyncNode'> = {
  SyncNode: { guarded: undefined, plain: (_, view, hands) => syncNode(view, hands), event: undefined },
};
