/**
 * Writes the marks of a set (docs/protocols.md#c8a). Victims come from a live list; each write is conditioned on what the list showed of it (docs/protocols.md#c4a), and
 * carries this term's epoch, so that a late mark of a deposed leader is refused or has no effect.
 */
import { defenderError } from '../../defender/errors.ts';
import { Machines, type Machine } from '../../api/machine.ts';
import { MachineSets } from '../../api/machine-set.ts';
import { ANNOTATIONS, LABELS, MANAGERS } from '../../api/names.ts';
import { selectorText } from '../../api/selector.ts';
import type { Stored } from '../../api/wire.ts';
import { machinePatch, type Path } from '../../defender/guarded-patch.ts';
import { ApiError, hasReason } from '../../kube/api-error.ts';
import type { Client } from '../../kube/client.ts';
import type { Recorder } from '../../kube/recorder.ts';
import { patchIfSame } from '../shared/send-patch.ts';
import { wantedOf, type MachineSetView } from './decide.ts';
import { NO_TERM } from './obstacle.ts';
import { ownedBy } from './owner.ts';
import { decideMarks, isEmpty, type RetirementMarks } from './retire.ts';

/**
 * Besides UID, spec and deletion: whose machine it is, and whether a person spared it. What its agent writes decides only which of several machines goes
 * first, and is judged again before anything of it is disrupted (docs/protocols.md#c4a).
 */
const DEPENDS_ON: readonly Path[] = [
  ['metadata', 'ownerReferences'],
  ['metadata', 'annotations', ANNOTATIONS.retireFor],
];

/** By machine UID, the generation that a mark was conditioned on whose answer was lost: while the machine has it, it may still be written. */
export type Unsettled = Map<string, number | undefined>;

export interface MarkPorts {
  client: Client;
  recorder: Pick<Recorder, 'event'>;
  /** Of this term: marks of another one have no effect. */
  epoch: number;
  unsettled: Unsettled;
  signal: AbortSignal;
}

/** `again`: something changed meanwhile, or there is more to be marked. */
export async function keepMarks(ports: MarkPorts, view: MachineSetView): Promise<'done' | 'again'> {
  const { epoch, unsettled } = ports;
  if (isEmpty(decideMarks(view, epoch, new Set(unsettled.keys())))) return 'done';
  const live = await liveView(ports, view);
  if (live === undefined) return 'again';
  const marks = decideMarks(live, epoch, stillOpen(unsettled, view, live));
  return await writeAll(ports, live, marks);
}

/** Reads the machines first, then the set: so a number that is raised in between is seen, and no machine is marked for the old one. */
async function liveView({ client, epoch, signal }: MarkPorts, { set, now }: MachineSetView): Promise<MachineSetView | undefined> {
  const { namespace = '', name, uid } = set.metadata;
  const labelSelector = selectorText({ [LABELS.machineSet]: name });
  const { items } = await client.listAll(Machines, { namespace, labelSelector, signal });
  const found = await client.find(MachineSets, { namespace, name }, { signal });
  if (found?.metadata.uid !== uid || found.metadata.deletionTimestamp !== undefined) return undefined;
  const machines = items.filter((machine) => ownedBy(machine, found));
  const later = machines.find(({ spec }) => spec.retire !== undefined && spec.retire.epoch > epoch);
  if (later !== undefined)
    throw defenderError('Deposed', `${later.metadata.name} bears the mark of epoch ${later.spec.retire?.epoch}, this leader's is ${epoch}`);
  return { set: found, machines, now };
}

/** Forgets what can no longer be written: another generation is there, or the machine is gone. */
function stillOpen(unsettled: Unsettled, view: MachineSetView, live: MachineSetView): Set<string> {
  const generations = new Map(live.machines.map(({ metadata }) => [metadata.uid, metadata.generation]));
  for (const { metadata } of view.machines)
    if (!generations.has(metadata.uid) || unsettled.get(metadata.uid) !== generations.get(metadata.uid)) unsettled.delete(metadata.uid);
  return new Set(unsettled.keys());
}

async function writeAll(
  ports: MarkPorts,
  live: MachineSetView,
  { takeBack, settle, confirm, retire }: RetirementMarks,
): Promise<'done' | 'again'> {
  // A machine whose mark could not be taken back may have been deleted. No other is marked before that is known.
  let lost = 0;
  for (const machine of takeBack) if (!(await write(ports, live, machine, undefined))) lost++;
  for (const machine of settle) await write(ports, live, machine, NO_TERM);
  // A mark of no term has done what it was for, and is taken back.
  if (lost + settle.length > 0) return 'again';
  for (const machine of [...confirm, ...retire]) if (!(await write(ports, live, machine, ports.epoch))) return 'again';
  return 'done';
}

/** False: the machine is another one than was read, or gone. */
async function write(
  { client, recorder, unsettled, signal }: MarkPorts,
  view: MachineSetView,
  machine: Stored<Machine>,
  epoch: number | undefined,
): Promise<boolean> {
  const { set } = view;
  const { name, uid, generation } = machine.metadata;
  const reason =
    epoch === NO_TERM
      ? 'a mark whose answer was lost is made void'
      : `MachineSet ${set.metadata.name} has more machines than it is to have`;
  const { retire: _, ...spec } = machine.spec;
  const annotations = annotationsFor(machine, epoch, wantedOf(view));
  const wanted: Stored<Machine> = {
    ...machine,
    metadata: { ...machine.metadata, ...annotations },
    spec: epoch === undefined ? spec : { ...spec, retire: { epoch, reason } },
  };
  try {
    const json = machinePatch(machine, wanted, { known: false, on: DEPENDS_ON });
    await patchIfSame(client, Machines, machine, json, { fieldManager: MANAGERS.machineSet, signal });
  } catch (error) {
    if (hasReason(error, 'Conflict', 'NotFound')) return false;
    if (epoch !== undefined && !(error instanceof ApiError)) unsettled.set(uid, generation);
    throw error;
  }
  unsettled.delete(uid);
  if (epoch === undefined) recorder.event(set, { type: 'Normal', reason: 'MachineKept', message: name });
  else if (machine.spec.retire === undefined && epoch !== NO_TERM)
    recorder.event(set, { type: 'Normal', reason: 'MachineRetiring', message: name });
  return true;
}

/**
 * In one write with the mark, so that its absence shows who took the mark: the set removes this too, a human does not. A mark of no term and its end
 * leave it as it is: a machine that is spared stays so.
 */
function annotationsFor(machine: Machine, epoch: number | undefined, wanted: number): { annotations?: Record<string, string> } {
  if (epoch === NO_TERM || (epoch === undefined && machine.spec.retire?.epoch === NO_TERM)) return {};
  const { [ANNOTATIONS.retireFor]: _, ...others } = machine.metadata.annotations ?? {};
  return { annotations: epoch === undefined ? others : { ...others, [ANNOTATIONS.retireFor]: String(wanted) } };
}
