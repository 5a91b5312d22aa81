import { Leases, Nodes } from '../../api/builtin.ts';
import { CodedError, isCoded } from '../../api/errors.ts';
import { Machines } from '../../api/machine.ts';
import { agentLeaseName, FINALIZERS } from '../../api/names.ts';
import type { InfraProvider } from '../../api/provider.ts';
import type { ObjectKey } from '../../api/resource.ts';
import { perform, type GuardedPort, type Performed } from '../../defender/guarded-write.ts';
import { hasReason, isRefusal } from '../../kube/api-error.ts';
import type { Client } from '../../kube/client.ts';
import { actOf } from './act.ts';
import type { ActContext, Effect } from './guards.ts';
import type { MachineView, Step } from './view.ts';
import { ensureInstance, type CellAddress } from './provision/instance.ts';
import { mayTakePods, planNode } from './node-sync/node-sync.ts';
import { writeMachine, writeNode } from './patching.ts';

export interface Hands {
  client: Client;
  port: GuardedPort<Effect>;
  provider: InfraProvider | undefined;
  cell: CellAddress;
  epoch: number;
  newID: () => string;
  signal: AbortSignal;
}

export interface CarriedOut {
  done: Step['do'][];
  /** Effects that the other side said no to, each with why. */
  refusals: string[];
  /** The provider would not make the instance. */
  failure: CodedError | undefined;
  /** What the server said to a Node that it does not take with the Machine's labels and taints: nothing else waits for that. */
  nodeRefused?: string;
}

/** Carries steps out in order. What is not needed any more, or was lost to somebody faster, is left out: the state will tell. */
export async function carryOutAll(
  steps: readonly Step[],
  view: MachineView,
  hands: Hands,
  onDone: (step: Step, result: { note?: string }) => void,
): Promise<CarriedOut> {
  const result: CarriedOut = { done: [], refusals: [], failure: undefined };
  let proven = steps.every((step) => step.do !== 'DeleteInstance');
  for (const step of steps) {
    if (step.do === 'Finalize' && !proven) break;
    try {
      const performed = await carryOut(step, view, hands);
      if (performed.done) {
        result.done.push(step.do);
        onDone(step, performed);
        proven ||= step.do === 'DeleteInstance' && performed.note === 'gone';
      } else if (performed.refused === true) result.refusals.push(performed.why);
    } catch (error) {
      if (step.do === 'SyncNode' && isRefusal(error)) {
        result.nodeRefused = error.message;
        continue;
      }
      if (step.do !== 'EnsureInstance' || !(error instanceof CodedError) || hands.signal.aborted) throw error;
      result.failure = error;
    }
  }
  return result;
}

/** Carries one step out, or says why there is nothing to do any more. */
async function carryOut(step: Step, view: MachineView, hands: Hands): Promise<Performed> {
  const key = keyOfMachine(view);
  const context: ActContext = { epoch: hands.epoch, machine: key, node: key.name, facts: view.facts, newID: hands.newID };
  const act = actOf(step, context);
  return act === undefined ? await plainly(step, view, hands) : await perform(act, hands.port);
}

const keyOfMachine = ({ machine }: MachineView): ObjectKey => ({ namespace: machine.metadata.namespace, name: machine.metadata.name });

/** Steps about which two leaders could not dispute: each can be done twice, and none disrupts a node. */
async function plainly(step: Step, view: MachineView, hands: Hands): Promise<Performed> {
  switch (step.do) {
    case 'AddFinalizer':
      return await setFinalizers(view, [...(view.machine.metadata.finalizers ?? []), FINALIZERS.machine], hands);
    case 'EnsureInstance':
      if (hands.provider === undefined) return { done: false, why: 'the cell has no such provider' };
      await ensureInstance(hands.client, view.machine, hands.provider, hands.cell, hands.signal);
      return { done: true };
    case 'SyncNode':
      return await syncNode(view, hands);
    case 'Finalize':
      return await finalize(view, hands);
    case 'DeleteInstance':
      // Of a provider that the cell has no more nothing is known.
      if (hands.provider === undefined) return { done: false, why: 'the cell has no such provider' };
      return { done: true, note: await hands.provider.delete(step.providerID, hands.signal) };
    case 'BeginRepair':
    case 'Cordon':
    case 'DeleteMachine':
    case 'EndRepair':
    case 'Evict':
    case 'Fence':
    case 'FenceOrder':
    case 'ForceDelete':
    case 'FreeCancelled':
    case 'LiftCordon':
    case 'LiftDegraded':
    case 'MarkDegraded':
    case 'MarkOutOfService':
    case 'NoteCut':
    case 'NoteOutOfService':
    case 'Order':
    case 'PowerCycle':
    case 'Release':
    case 'Retire':
    case 'RetirePower':
    case 'Settle':
    case 'StopInstance':
    case 'TakeOver':
    case 'TakeOverForRepair':
    case 'WriteCancelled':
      throw new Error(`${step.do} is a guarded write`);
    default:
      return step satisfies never;
  }
}

const SYNC_ATTEMPTS = 5;

/**
 * First the Machine says what is ours there, then the Node is written; each write is conditioned on what was read. A write of the Node that puts something
 * there comes after the Machine has named the mark of our last write of the Node, that it is conditioned on (docs/protocols.md#c11). The pods were listed before the Node
 * is read: while its cordon names the reservation, none came since.
 */
async function syncNode(view: MachineView, { client, signal }: Hands): Promise<Performed> {
  const { claim, kubeletAnswers, reservation, pods } = view;
  const key = keyOfMachine(view);
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
    if (performed.done || attempt === SYNC_ATTEMPTS) return performed;
  }
}

/**
 * Takes along what belonged to the machine and has no owner that would, and last the finalizer. Of Nodes only one with the providerID of the
 * instance that is proven gone: one that merely has the name is another machine's (proof 1).
 */
async function finalize(view: MachineView, hands: Hands): Promise<Performed> {
  const { machine, providerID } = view;
  const { client, signal } = hands;
  const { name, namespace } = machine.metadata;
  const node = await client.find(Nodes, { name }, { signal });
  const isOurs =
    node !== undefined &&
    (node.metadata.uid === machine.status?.nodeRef?.uid || (providerID !== undefined && node.spec?.providerID === providerID));
  if (isOurs) {
    await gone(client.delete(Nodes, { name }, { uid: node.metadata.uid, signal }));
    await gone(client.delete(Leases, { namespace: 'kube-node-lease', name }, { signal }));
  }
  await gone(client.delete(Leases, { namespace, name: agentLeaseName(name) }, { signal }));
  const finalizers = (machine.metadata.finalizers ?? []).filter((finalizer) => finalizer !== FINALIZERS.machine);
  return await setFinalizers(view, finalizers, hands);
}

async function setFinalizers(view: MachineView, finalizers: string[], { client, signal }: Hands): Promise<Performed> {
  const { machine } = view;
  const wanted = { ...machine, metadata: { ...machine.metadata, finalizers } };
  return await unlessConflict(writeMachine(client, machine, wanted, { known: false, signal }));
}

async function unlessConflict(write: Promise<unknown>): Promise<Performed> {
  try {
    await write;
    return { done: true };
  } catch (error) {
    if (isCoded(error, 'Conflict')) return { done: false, why: 'it changed meanwhile' };
    throw error;
  }
}

async function gone(deletion: Promise<void>): Promise<void> {
  try {
    await deletion;
  } catch (error) {
    // Conflict: another object has the name by now.
    if (!hasReason(error, 'NotFound', 'Conflict')) throw error;
  }
}
