/** What a step writes into its cell. Each function returns what is recorded after it. */
import { Clusters, type UnitStatus } from '../../api/cluster.ts';
import { MachineComponentSets } from '../../api/machine-component-set.ts';
import { MachineSets } from '../../api/machine-set.ts';
import { MANAGERS } from '../../api/names.ts';
import type { KubeObject, Stored } from '../../api/wire.ts';
import { applyUnit, removeUnit } from '../apply-unit.ts';
import type { StoredUnit } from '../bundles.ts';
import type { CellContent } from '../cell/cell.ts';
import { syncError } from '../errors.ts';
import { records, REMOVAL, stands, type Aim } from '../records.ts';
import { isDrifted } from './observe.ts';
import type { ActPorts } from './ports.ts';
import type { Apply, RecordedChange } from './recorded.ts';
import { asRehearsed } from './rehearsal.ts';
import type { Step } from './world.ts';

export async function writeUnit(step: Apply, unit: StoredUnit, to: CellContent, ports: ActPorts): Promise<RecordedChange> {
  const { digest, lane } = step;
  const seen = liveTop(to, unit);
  const due = step.proven ? unit : asRehearsed(unit, digest, seen, to.now());
  const stamp = { digest, fleet: ports.fleet, lane };
  const confirmed = (): Promise<UnitStatus> => confirm(step, { to: digest, lane }, ports);
  const { inventory, changed, corrections } = await applyUnit(to, due, stamp, confirmed, ports.signal);
  // What seemed to differ does not: the store has it as its kind was before the cell was upgraded, and no event will correct that.
  if (!changed && seen !== undefined && isDrifted(seen, due, stamp)) to.store(seen.kind)?.relist({ again: true });
  if (corrections.length > 0 && step.over.digest === digest && step.over.begun === undefined) ports.corrected?.(step, corrections);
  return records.applied(digest, step.commit, lane, timeOf(ports), inventory);
}

export async function removeWritten(step: Extract<Step, { do: 'Remove' }>, from: CellContent, ports: ActPorts): Promise<RecordedChange> {
  const inventory = (await recordOf(step, ports))?.inventory ?? [];
  const confirmed = async (): Promise<void> => void (await confirm(step, { to: REMOVAL, lane: step.lane }, ports));
  const removal = await removeUnit(from, inventory, ports.fleet, confirmed, ports.signal);
  return records.removed(removal, timeOf(ports));
}

/** A field of a set that the unit does not have. */
export async function writeField(step: Extract<Step, { do: 'Ceiling' | 'TryAgain' }>, to: CellContent, ports: ActPorts): Promise<void> {
  const name = step.unit.slice(step.unit.lastIndexOf('/') + 1);
  const spec = step.do === 'Ceiling' ? { ceiling: step.ceiling ?? null } : { rolloutID: step.rolloutID };
  const { over, resourceVersion } = step.seen;
  const { digest, begun } = (await recordOf(step, ports)) ?? {};
  if (digest !== over.digest || begun !== over.begun) throw overtaken(step);
  const merge = { ...(resourceVersion === undefined ? {} : { metadata: { resourceVersion } }), spec };
  await to.client.patch(MachineComponentSets, { name }, { merge }, { fieldManager: MANAGERS.rollout, signal: ports.signal });
}

/** Without a number on its own record a set lets no machine go (docs/protocols.md#c8e). */
export async function keepMachines(step: Extract<Step, { do: 'KeepMachines' }>, to: CellContent, ports: ActPorts): Promise<void> {
  const [, namespace, name = ''] = step.unit.split('/');
  const { over, resourceVersion } = step.seen;
  const { digest, begun } = (await recordOf(step, ports)) ?? {};
  if (begun !== step.digest && (digest !== over.digest || begun !== over.begun)) throw overtaken(step);
  const merge = { metadata: { resourceVersion }, spec: { replicas: null } };
  await to.client.patch(MachineSets, { namespace, name }, { merge }, { fieldManager: MANAGERS.sync, signal: ports.signal });
}

export function timeOf({ clock }: Pick<ActPorts, 'clock'>): string {
  return new Date(clock.now()).toISOString();
}

/** The record as it is now on the hub. */
async function recordOf({ unit, cluster }: Step, { hub, fence, signal }: ActPorts): Promise<UnitStatus | undefined> {
  const live = await hub.get(Clusters, { name: cluster }, { signal });
  fence.require(live);
  return live.status?.units?.find((each) => each.unit === unit);
}

async function confirm(step: Step, aim: Aim, ports: ActPorts): Promise<UnitStatus> {
  const found = await recordOf(step, ports);
  if (found !== undefined && stands(found, aim)) return found;
  throw overtaken(step);
}

function overtaken({ unit, cluster }: Step): Error {
  return syncError('Overtaken', `another has begun something else with ${unit} on "${cluster}"`);
}

function liveTop(cell: CellContent, unit: StoredUnit): Stored<KubeObject> | undefined {
  const { kind, metadata } = unit.objects.at(-1) ?? {};
  return kind === undefined || metadata === undefined ? undefined : cell.store(kind)?.get(metadata);
}
