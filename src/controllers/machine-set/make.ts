/**
 * Makes the machines of a set (docs/protocols.md#c8c). Each name is noted in the set's status before its machine is made, by a write conditioned on the set
 * as it was read. Machines are made only under noted names. So one of two leaders chooses the names, and both make the same machines.
 */
import { Machines, type Machine } from '../../api/machine.ts';
import { MachineSets, type MachineSet } from '../../api/machine-set.ts';
import { LABELS, MANAGERS } from '../../api/names.ts';
import type { Log, Random } from '../../api/ports.ts';
import { selectorText } from '../../api/selector.ts';
import type { Stored } from '../../api/wire.ts';
import { hasReason } from '../../kube/api-error.ts';
import type { Client } from '../../kube/client.ts';
import type { Recorder } from '../../kube/recorder.ts';
import type { Store } from '../../kube/store.ts';
import { decideMachineSet, type MachineSetDecision, type MachineSetView } from './decide.ts';
import { machineName } from './names.ts';
import { ownedBy } from './owner.ts';
import { desiredMachine } from './template.ts';

export interface MakePorts {
  client: Client;
  machines: Pick<Store<Machine>, 'get'>;
  random: Random;
  recorder: Pick<Recorder, 'event'>;
  log: Log;
  signal: AbortSignal;
}

export interface Noted {
  view: MachineSetView;
  decision: MachineSetDecision;
}

/** As the server lists it, with the names that no list has shown yet. */
type LiveView = MachineSetView & { making: readonly string[] };

const OPTIONS = { fieldManager: MANAGERS.machineSet };

/** Noted, and not seen yet. A name that was seen is never made again. */
export const unseenNames = (set: MachineSet, isSeen: (name: string) => boolean): string[] =>
  (set.status?.making ?? []).filter((name) => !isSeen(name));

/** What there is to be made now, under noted names. undefined: the set or its machines are others than were read. */
export async function noteNames(ports: MakePorts, view: MachineSetView, decision: MachineSetDecision): Promise<Noted | undefined> {
  const { set, making = [] } = view;
  const names = making.slice(0, decision.create.length);
  if (names.length === decision.create.length) return (await isCurrent(ports, set, names)) ? { view, decision } : undefined;
  // A leader has seen the machines whose names the set no longer notes. So a list that is read now shows them.
  const live = await liveView(ports, view);
  const needed = decideMachineSet(live);
  return needed.create.length === 0 ? undefined : await draw(ports, live, needed);
}

async function liveView({ client, machines, signal }: MakePorts, { set, now }: MachineSetView): Promise<LiveView> {
  const { namespace = '', name } = set.metadata;
  const labelSelector = selectorText({ [LABELS.machineSet]: name });
  const { items } = await client.listAll(Machines, { namespace, labelSelector, signal });
  const listed = new Set(items.map(({ metadata }) => metadata.name));
  const isSeen = (each: string): boolean => listed.has(each) || machines.get({ namespace, name: each }) !== undefined;
  return { set, machines: items.filter((machine) => ownedBy(machine, set)), now, making: unseenNames(set, isSeen) };
}

async function draw(ports: MakePorts, view: LiveView, decision: MachineSetDecision): Promise<Noted | undefined> {
  const { client, machines, random, signal } = ports;
  const { namespace, name, resourceVersion } = view.set.metadata;
  const making = [...view.making];
  const isTaken = (each: string): boolean => making.includes(each) || machines.get({ namespace, name: each }) !== undefined;
  while (making.length < decision.create.length) making.push(machineName(name, random, isTaken));
  try {
    const merge = { metadata: { resourceVersion }, status: { making } };
    const set = await client.patch(MachineSets, { namespace, name }, { merge }, { ...OPTIONS, subresource: 'status', signal });
    return { view: { ...view, set, making }, decision };
  } catch (error) {
    if (hasReason(error, 'Conflict', 'NotFound')) return undefined;
    throw error;
  }
}

/** A live read before machines are made: the number wanted may be another by now, or the names may have been used. */
async function isCurrent({ client, signal }: MakePorts, set: Stored<MachineSet>, names: readonly string[]): Promise<boolean> {
  const { namespace, name, uid, generation } = set.metadata;
  const live = await client.find(MachineSets, { namespace, name }, { signal });
  if (live?.metadata.uid !== uid || live.metadata.generation !== generation || live.metadata.deletionTimestamp !== undefined) return false;
  return names.every((each) => live.status?.making?.includes(each) === true);
}

/** Made by apply and not by POST: the fields then belong to the manager that keeps them in line later, and can be taken away again. */
export async function makeMachines(ports: MakePorts, { set, making = [] }: MachineSetView, { create }: MachineSetDecision): Promise<void> {
  const { client, recorder, log, signal } = ports;
  const { namespace } = set.metadata;
  for (const [index, failureDomain] of create.entries()) {
    const name = making[index];
    if (name === undefined || (await client.find(Machines, { namespace, name }, { signal })) !== undefined) continue;
    await client.apply(Machines, desiredMachine(set, { name }, { provider: set.spec.provider, failureDomain }), { ...OPTIONS, signal });
    log.info({ machine: name, failureDomain }, 'made a machine');
    recorder.event(set, { type: 'Normal', reason: 'MachineCreated', message: name });
  }
}
