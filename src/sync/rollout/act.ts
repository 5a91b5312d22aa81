import { CustomResourceDefinitions, Namespaces } from '../../api/builtin.ts';
import { isUnitOf } from '../../api/unit.ts';
import { API_VERSION } from '../../api/kind.ts';
import { MachineSets } from '../../api/machine-set.ts';
import { stamped } from '../apply-unit.ts';
import type { StoredUnit } from '../bundles.ts';
import type { CellContent } from '../cell/cell.ts';
import { syncError } from '../errors.ts';
import { evidenceOf } from '../evidence.ts';
import { extraFields } from '../extra-fields.ts';
import { changeRecords } from '../record-writes.ts';
import { isGivenKind } from '../spec-owners.ts';
import type { ActPorts } from './ports.ts';
import { machinesHad } from './machines.ts';
import { begun, changeBefore, type Apply, type RecordedChange } from './recorded.ts';
import { keepMachines, removeWritten, timeOf, writeField, writeUnit } from './writes.ts';
import { writesIntoCell, type Step } from './world.ts';

/** Units whose records are written together. */
const AT_ONCE = 50;
/** Units that are applied to one cell at the same time. */
const PARALLEL = 8;

/** Steps whose records are written together. */
interface Batch {
  readonly cluster: string;
  readonly steps: readonly Step[];
  /** Of all batches. A step that is here goes no further. */
  readonly errors: Map<Step, unknown>;
  readonly units: Map<Apply, StoredUnit>;
}

/**
 * Carries out the steps of one cluster. Returns the errors, by step. Each step may be repeated after a crash at any point: intent is recorded
 * before the first object of a unit is applied and the digest only after its last, so a half-applied unit is applied again.
 *
 * The records of a cluster are one object on the hub, so those of many units are written together.
 */
export async function act(cluster: string, steps: readonly Step[], ports: ActPorts): Promise<Map<Step, unknown>> {
  const errors = new Map<Step, unknown>();
  for (let from = 0; from < steps.length; from += AT_ONCE) {
    const batch: Batch = { cluster, steps: steps.slice(from, from + AT_ONCE), errors, units: new Map() };
    await checkCell(batch, ports);
    await record(batch, await changesBefore(batch, ports), ports);
    if (ports.cell !== undefined) await record(batch, await writeAll(batch, ports.cell, ports), ports);
  }
  return errors;
}

/** Whether the cell may be written to, still shows the evidence that is to be recorded, and has no more machines than may be. */
async function checkCell({ steps, errors }: Batch, ports: ActPorts): Promise<void> {
  if (ports.cell !== undefined && steps.some(writesIntoCell)) {
    await ports.cell.requireWritable().catch((error: unknown) => {
      for (const step of steps.filter(writesIntoCell)) errors.set(step, error);
    });
  }
  await Promise.all(
    steps.map(async (step) => {
      const check = errors.has(step) ? undefined : checkOf(step, ports);
      await check?.catch((error: unknown) => errors.set(step, error));
    }),
  );
}

function checkOf(step: Step, ports: ActPorts): Promise<void> | undefined {
  if (step.do === 'RecordEvidence') return stillCarried(step, ports);
  return step.do === 'Apply' || step.do === 'Remove' ? stillFew(step, ports) : undefined;
}

async function changesBefore({ cluster, steps, errors, units }: Batch, ports: ActPorts): Promise<Map<Step, RecordedChange>> {
  const { cell, fleet } = ports;
  const before = new Map<Step, RecordedChange>();
  for (const step of steps) {
    if (errors.has(step) || (cell === undefined && writesIntoCell(step))) continue;
    if (step.do !== 'Apply') {
      const change = changeBefore(step, fleet, timeOf(ports));
      if (change !== undefined) before.set(step, change);
      continue;
    }
    try {
      const unit = await ports.unit(step.digest, step.commit, step.unit, cluster);
      units.set(step, unit);
      before.set(step, begun(step, unit, fleet, timeOf(ports)));
    } catch (error) {
      errors.set(step, error);
    }
  }
  return before;
}

async function record(
  { cluster, errors }: Batch,
  changes: ReadonlyMap<Step, RecordedChange>,
  { hub, fence, signal }: ActPorts,
): Promise<void> {
  const list = [...changes].map(([step, change]) => ({ unit: step.unit, change, step }));
  try {
    for (const [{ step }, error] of await changeRecords(hub, cluster, list, fence, signal)) errors.set(step, error);
  } catch (error) {
    for (const step of changes.keys()) errors.set(step, error);
  }
}

/** Returns what is to be recorded of it. */
async function writeAll(batch: Batch, cell: CellContent, ports: ActPorts): Promise<Map<Step, RecordedChange>> {
  const { steps, errors } = batch;
  const after = new Map<Step, RecordedChange>();
  const sound = steps.filter((step) => !errors.has(step));
  for (const queue of [sound.filter(goesFirst), sound.filter((step) => !goesFirst(step))]) {
    const worker = async (): Promise<void> => {
      for (let step = queue.shift(); step !== undefined; step = queue.shift()) {
        try {
          const change = await write(step, sound, batch, cell, ports);
          if (change !== undefined) after.set(step, change);
        } catch (error) {
          errors.set(step, error);
        }
      }
    };
    await Promise.all(Array.from({ length: Math.min(PARALLEL, queue.length) }, worker));
  }
  return after;
}

async function write(
  step: Step,
  sound: readonly Step[],
  { units }: Batch,
  cell: CellContent,
  ports: ActPorts,
): Promise<RecordedChange | undefined> {
  switch (step.do) {
    case 'Apply': {
      const unit = units.get(step);
      return unit === undefined ? undefined : await writeUnit(step, unit, cell, ports);
    }
    case 'Remove':
      return await removeWritten(step, cell, ports);
    case 'Ceiling':
    case 'TryAgain':
      // What is applied at the same time is another object then; the next pass does it.
      if (!sound.some((other) => other.do === 'Apply' && other.unit === step.unit)) await writeField(step, cell, ports);
      return undefined;
    case 'KeepMachines':
      await keepMachines(step, cell, ports);
      return undefined;
    case 'RecordEvidence':
    case 'SoakAgain':
    case 'Revoke':
    case 'Uphold':
    case 'Reinstate':
    case 'RecordRetry':
    case 'RecordHalt':
    case 'Settle':
    case 'Lift':
      return undefined;
    default:
      return step satisfies never;
  }
}

/**
 * A store may be late, and show evidence of a digest from before another one was there meanwhile, or from before the cell halted it: it counts only
 * where the object's spec is the very one that it was seen on, has nothing that Git does not give, and the evidence is there still. A new generation of it begins with another record, on
 * which the record of the evidence is conditioned.
 */
async function stillCarried(
  { unit, cluster, digest, commit, carrier }: Extract<Step, { do: 'RecordEvidence' }>,
  ports: ActPorts,
): Promise<void> {
  const { cell, fleet, signal } = ports;
  if (carrier === undefined) return;
  const [kind = '', ...rest] = unit.split('/');
  if (cell === undefined) throw syncError('ClusterUnreachable', `cluster "${cluster}" is away`);
  const resource = await cell.resourceOf({ apiVersion: API_VERSION, kind });
  const key = { name: rest.at(-1) ?? '', ...(rest.length === 2 ? { namespace: rest[0] } : {}) };
  const live = await cell.client.find(resource, key, { signal });
  if (live?.metadata.uid !== carrier.uid || live.metadata.generation !== carrier.generation)
    throw syncError('Overtaken', `${unit} on "${cluster}" was changed since there was evidence for it`);
  if (!evidenceOf(live, digest).evidence) throw syncError('Overtaken', `there is no evidence for ${unit} on "${cluster}" any more`);
  if (!isGivenKind(kind)) return;
  const given = (await ports.unit(digest, commit, unit, cluster)).objects.at(-1);
  const extra = given === undefined ? [] : extraFields(live, stamped(given, true, { digest, fleet, lane: 'Forward' }, undefined));
  if (extra.length > 0)
    throw syncError('Overtaken', `${unit} on "${cluster}" has what Git does not give: ${extra.map(({ path }) => path).join(', ')}`);
}

/** A store may be late: a set may have more machines by now than may be there (docs/protocols.md#e9). */
async function stillFew(
  { unit, cluster, atMost, given }: Extract<Step, { do: 'Apply' | 'Remove' }>,
  { cell, signal }: ActPorts,
): Promise<void> {
  if (atMost === undefined || cell === undefined) return;
  const [, namespace, name = ''] = unit.split('/');
  const set = await cell.client.find(MachineSets, { namespace, name }, { signal });
  if (set === undefined) return;
  const { has } = machinesHad(set, given);
  if (has > atMost) throw syncError('Overtaken', `${unit} on "${cluster}" has ${has} machines by now; ${atMost} may be there`);
}

/** What is in a Namespace, or is of a kind, cannot be made before it. Machines stay also where the cell then refuses the content that keeps them. */
function goesFirst({ do: what, unit }: Step): boolean {
  return what === 'KeepMachines' || isUnitOf(unit, Namespaces) || isUnitOf(unit, CustomResourceDefinitions);
}
