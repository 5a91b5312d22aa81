import { Clusters, type UnitStatus } from '../../api/cluster.ts';
import { API_VERSION } from '../../api/kind.ts';
import { MachineComponentSets } from '../../api/machine-component-set.ts';
import { MANAGERS } from '../../api/names.ts';
import type { Clock } from '../../api/ports.ts';
import type { KubeObject, Stored } from '../../api/wire.ts';
import type { Client } from '../../kube/client.ts';
import { applyUnit, inventoryOf, removeUnit, sameObject } from '../apply-unit.ts';
import type { StoredUnit } from '../bundles.ts';
import type { CellContent } from '../cell/cell.ts';
import { syncError } from '../errors.ts';
import { evidenceOf } from '../evidence.ts';
import type { Fence } from '../fence.ts';
import { changeRecords, type RecordChange } from '../record-writes.ts';
import { records, REMOVAL, stands, type Aim } from '../records.ts';
import { isDrifted } from './observe.ts';
import { asRehearsed } from './rehearsal.ts';
import { writesIntoCell, type Step } from './world.ts';

export interface ActPorts {
  hub: Client;
  /** Of the term that has decided. */
  fence: Pick<Fence, 'require'>;
  fleet: string;
  clock: Clock;
  cell: CellContent | undefined;
  /** The unit's objects; renders the commit again when the cache lost them. */
  unit(digest: string, commit: string, unit: string, cluster: string): Promise<StoredUnit>;
  /** Called with what others had changed of a unit that was there as a whole, once it is put back. */
  corrected?: (step: Step, corrections: readonly string[]) => void;
  signal: AbortSignal;
}

/** Units whose records are written together. */
const AT_ONCE = 50;
/** Units that are applied to one cell at the same time. */
const PARALLEL = 8;

type Change = RecordChange['change'];
type Apply = Extract<Step, { do: 'Apply' }>;

/**
 * Carries out the steps of one cluster. Returns what went wrong, by step. Each step may be repeated after a crash at any point: intent is recorded
 * before the first object of a unit is applied and the digest only after its last, so a half-applied unit is applied again.
 *
 * The records of a cluster are one object on the hub, so those of many units are written together.
 */
export async function act(cluster: string, steps: readonly Step[], ports: ActPorts): Promise<Map<Step, unknown>> {
  const errors = new Map<Step, unknown>();
  for (let from = 0; from < steps.length; from += AT_ONCE) await actTogether(cluster, steps.slice(from, from + AT_ONCE), ports, errors);
  return errors;
}

async function actTogether(cluster: string, steps: readonly Step[], ports: ActPorts, errors: Map<Step, unknown>): Promise<void> {
  const { hub, fence, cell, clock, fleet, signal } = ports;
  const now = (): string => new Date(clock.now()).toISOString();
  async function record(changes: ReadonlyMap<Step, Change>): Promise<void> {
    const list = [...changes].map(([step, change]) => ({ unit: step.unit, change, step }));
    try {
      for (const [{ step }, error] of await changeRecords(hub, cluster, list, fence, signal)) errors.set(step, error);
    } catch (error) {
      for (const step of changes.keys()) errors.set(step, error);
    }
  }

  if (cell !== undefined && steps.some(writesIntoCell)) {
    await cell.requireWritable().catch((error: unknown) => {
      for (const step of steps.filter(writesIntoCell)) errors.set(step, error);
    });
  }
  await Promise.all(
    steps.map(async (step) => {
      if (step.do !== 'RecordEvidence') return;
      await stillCarried(step, ports).catch((error: unknown) => errors.set(step, error));
    }),
  );
  const units = new Map<Apply, StoredUnit>();
  const before = new Map<Step, Change>();
  for (const step of steps) {
    if (errors.has(step)) continue;
    if (step.do === 'RecordEvidence') before.set(step, records.verified(step.digest, step.commit, now(), step.appliedAt));
    else if (step.do === 'SoakAgain') before.set(step, records.soaksAgain(step.digest, now()));
    else if (step.do === 'Revoke') before.set(step, records.revoked(step.digest, step.retry));
    else if (step.do === 'Uphold') before.set(step, records.upheld(step.digest));
    else if (step.do === 'Reinstate') before.set(step, records.reinstated(step.digest, step.retry));
    else if (step.do === 'RecordRetry') before.set(step, records.retried(step.retry, step.over, step.lifts));
    else if (step.do === 'RecordHalt') before.set(step, records.halted(step.digest, step.halt, now()));
    else if (step.do === 'Settle') before.set(step, records.settled(step.since));
    else if (step.do === 'Lift') before.set(step, records.lifted(step.digest, step.since));
    else if (step.do === 'Remove' && cell !== undefined)
      before.set(step, records.begin(fleet, { to: REMOVAL, lane: step.lane }, step.over, [], sameObject));
    else if (step.do === 'Apply' && cell !== undefined) {
      try {
        const unit = await ports.unit(step.digest, step.commit, step.unit, cluster);
        units.set(step, unit);
        before.set(
          step,
          records.begin(
            fleet,
            {
              to: step.digest,
              lane: step.lane,
              commit: step.commit,
              asked: step.asked,
              revoked: step.revoked,
              found: step.found,
              at: now(),
            },
            step.over,
            inventoryOf(unit),
            sameObject,
          ),
        );
      } catch (error) {
        errors.set(step, error);
      }
    }
  }
  await record(before);
  if (cell === undefined) return;

  async function recordAt(unit: string): Promise<UnitStatus | undefined> {
    const live = await hub.get(Clusters, { name: cluster }, { signal });
    fence.require(live);
    return live.status?.units?.find((each) => each.unit === unit);
  }
  async function confirm(unit: string, aim: Aim): Promise<UnitStatus> {
    const found = await recordAt(unit);
    if (found !== undefined && stands(found, aim)) return found;
    throw syncError('Overtaken', `another has begun something else with ${unit} on "${cluster}"`);
  }

  const after = new Map<Step, Change>();
  async function carryOut(step: Step, to: CellContent): Promise<void> {
    try {
      if (step.do === 'Apply') {
        const unit = units.get(step);
        if (unit === undefined) return;
        const seen = liveTop(to, unit);
        const due = step.proven ? unit : asRehearsed(unit, step.digest, seen, to.now());
        const stamp = { digest: step.digest, fleet, lane: step.lane };
        const { inventory, changed, corrections } = await applyUnit(
          to,
          due,
          stamp,
          () => confirm(step.unit, { to: step.digest, lane: step.lane }),
          signal,
        );
        // What seemed to differ does not: the store has it as its kind was before the cell was upgraded, and no event will correct that.
        if (!changed && seen !== undefined && isDrifted(seen, due, stamp)) to.store(seen.kind)?.relist({ again: true });
        if (corrections.length > 0 && step.over.digest === step.digest && step.over.begun === undefined)
          ports.corrected?.(step, corrections);
        after.set(step, records.applied(step.digest, step.commit, step.lane, now(), inventory));
      } else if (step.do === 'Remove') {
        const inventory = (await recordAt(step.unit))?.inventory ?? [];
        const confirmed = async (): Promise<void> => void (await confirm(step.unit, { to: REMOVAL, lane: step.lane }));
        const removal = await removeUnit(to, inventory, fleet, confirmed, signal);
        after.set(step, records.removed(removal, now()));
      } else if (step.do === 'Ceiling' || step.do === 'TryAgain') {
        const name = step.unit.slice(step.unit.lastIndexOf('/') + 1);
        const spec = step.do === 'Ceiling' ? { ceiling: step.ceiling ?? null } : { rolloutID: step.rolloutID };
        // What is applied at the same time is another object then; the next pass does it.
        if (sound.some((other) => other.do === 'Apply' && other.unit === step.unit)) return;
        const { over, resourceVersion } = step.seen;
        const { digest, begun } = (await recordAt(step.unit)) ?? {};
        if (digest !== over.digest || begun !== over.begun)
          throw syncError('Overtaken', `another has begun something else with ${step.unit} on "${cluster}"`);
        const merge = { ...(resourceVersion === undefined ? {} : { metadata: { resourceVersion } }), spec };
        await to.client.patch(MachineComponentSets, { name }, { merge }, { fieldManager: MANAGERS.rollout, signal });
      }
    } catch (error) {
      errors.set(step, error);
    }
  }

  const sound = steps.filter((step) => !errors.has(step));
  for (const queue of [sound.filter(isGround), sound.filter((step) => !isGround(step))]) {
    const worker = async (): Promise<void> => {
      for (let step = queue.shift(); step !== undefined; step = queue.shift()) await carryOut(step, cell);
    };
    await Promise.all(Array.from({ length: Math.min(PARALLEL, queue.length) }, worker));
  }
  await record(after);
}

/**
 * A store may be late, and show evidence of a digest from before another one was there meanwhile, or from before the cell halted it: it counts only
 * where the object's spec is the very one that it was seen on, and the evidence is there still. A new generation of it begins with another record, on
 * which the record of the evidence is conditioned.
 */
async function stillCarried(
  { unit, cluster, digest, carrier }: Extract<Step, { do: 'RecordEvidence' }>,
  { cell, signal }: ActPorts,
): Promise<void> {
  if (carrier === undefined) return;
  const [kind = '', ...rest] = unit.split('/');
  if (cell === undefined) throw syncError('ClusterUnreachable', `cluster "${cluster}" is away`);
  const resource = await cell.resourceOf({ apiVersion: API_VERSION, kind });
  const key = { name: rest.at(-1) ?? '', ...(rest.length === 2 ? { namespace: rest[0] } : {}) };
  const live = await cell.client.find(resource, key, { signal });
  if (live?.metadata.uid !== carrier.uid || live.metadata.generation !== carrier.generation)
    throw syncError('Overtaken', `${unit} on "${cluster}" was changed since there was evidence for it`);
  if (!evidenceOf(live, digest).evidence) throw syncError('Overtaken', `there is no evidence for ${unit} on "${cluster}" any more`);
}

/** What is in a Namespace, or is of a kind, cannot be made before it. */
function isGround({ unit }: Step): boolean {
  return unit.startsWith('Namespace/') || unit.startsWith('CustomResourceDefinition/');
}

function liveTop(cell: CellContent, unit: StoredUnit): Stored<KubeObject> | undefined {
  const { kind, metadata } = unit.objects.at(-1) ?? {};
  return kind === undefined || metadata === undefined ? undefined : cell.store(kind)?.get(metadata);
}
