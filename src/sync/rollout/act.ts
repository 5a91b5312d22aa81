import { Clusters } from '../../api/cluster.ts';
import { MachineComponentSets } from '../../api/machinecomponentset.ts';
import { MANAGERS } from '../../api/names.ts';
import type { Clock } from '../../api/ports.ts';
import type { KubeObject, Stored } from '../../api/wire.ts';
import type { Client } from '../../kube/client.ts';
import { applyUnit, inventoryOf, removeUnit, sameObject } from '../applyunit.ts';
import type { StoredUnit } from '../bundles.ts';
import type { Cell } from '../cells.ts';
import { changeRecord, records } from '../records.ts';
import { asRehearsed } from './rehearsal.ts';
import type { Step } from './world.ts';

export interface ActPorts {
  hub: Client;
  fleet: string;
  clock: Clock;
  cell(cluster: string): Cell | undefined;
  /** The unit's objects; renders the commit again when the cache lost them. */
  unit(digest: string, commit: string, unit: string, cluster: string): Promise<StoredUnit>;
  signal: AbortSignal;
}

/**
 * Carries out one step. Each may be repeated after a crash at any point: intent is recorded before the first object is
 * applied and the digest only after the last, so a half-applied unit is applied again.
 */
export async function act(step: Step, ports: ActPorts): Promise<void> {
  const { hub, fleet, clock, signal } = ports;
  const record = (change: Parameters<typeof changeRecord>[3]) =>
    changeRecord(hub, step.cluster, step.unit, (before) => withUnit(step.unit, change(before)), signal);
  const now = (): string => new Date(clock.now()).toISOString();
  const cell = ports.cell(step.cluster);

  switch (step.do) {
    case 'Apply': {
      if (cell === undefined) return;
      const unit = await ports.unit(step.digest, step.commit, step.unit, step.cluster);
      await record(records.intend(fleet, inventoryOf(unit), sameObject));
      const due = step.proven ? unit : asRehearsed(unit, step.digest, liveTop(cell, unit), clock.now());
      const inventory = await applyUnit(cell, due, step.digest, fleet, signal);
      await record(records.applied(step.digest, step.commit, step.lane, now(), inventory));
      return;
    }
    case 'Remove': {
      if (cell === undefined) return;
      const live = await hub.get(Clusters, { name: step.cluster }, { signal });
      const entries = live.status?.units?.find((each) => each.unit === step.unit)?.inventory ?? [];
      const left = await removeUnit(cell, entries, fleet, signal);
      await record(records.removed(left));
      return;
    }
    case 'RecordEvidence':
      await record(records.verified(step.digest, step.commit, now()));
      return;
    case 'Revoke':
      await record(records.revoked(step.digest));
      return;
    case 'Reinstate':
      await record(records.reinstated(step.digest));
      return;
    case 'Ceiling':
    case 'TryAgain': {
      if (cell === undefined) return;
      const name = step.unit.slice(step.unit.lastIndexOf('/') + 1);
      const spec = step.do === 'Ceiling' ? { ceiling: step.ceiling ?? null } : { rolloutID: step.rolloutID };
      await cell.client.patch(MachineComponentSets, { name }, { merge: { spec } }, { fieldManager: MANAGERS.rollout, signal });
      return;
    }
  }
}

function liveTop(cell: Cell, unit: StoredUnit): Stored<KubeObject> | undefined {
  const { kind, metadata } = unit.objects.at(-1) ?? {};
  return kind === undefined || metadata === undefined ? undefined : cell.store(kind)?.get(metadata);
}

function withUnit<T extends { unit: string }>(unit: string, record: T | undefined): T | undefined {
  return record === undefined ? undefined : { ...record, unit };
}
