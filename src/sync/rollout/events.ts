import type { Rollout } from '../../api/rollout.ts';
import type { RecordedEvent } from '../../kube/recorder.ts';

/** The Events between one status and the next that a person should see. */
export function eventsOf(rollout: Rollout, next: NonNullable<Rollout['status']>): RecordedEvent[] {
  const events: RecordedEvent[] = [];
  for (const unit of next.units ?? []) {
    const before = rollout.status?.units?.find((each) => each.unit === unit.unit);
    if (before?.phase !== unit.phase) {
      if (unit.phase === 'Halted')
        events.push({ type: 'Warning', reason: 'UnitHalted', message: `${unit.unit}: ${unit.message ?? 'halted'}` });
      if (unit.phase === 'Done' && before !== undefined)
        events.push({ type: 'Normal', reason: 'UnitDone', message: `${unit.unit} is done on ${unit.clusters?.length ?? 0} clusters` });
      if (unit.phase === 'Superseded')
        events.push({ type: 'Normal', reason: 'UnitSuperseded', message: `${unit.unit}: ${unit.message ?? ''}` });
    }
    for (const cluster of unit.clusters ?? []) {
      const was = before?.clusters?.find((each) => each.name === cluster.name)?.phase;
      if (was === cluster.phase) continue;
      if (cluster.phase === 'Verified' && was !== undefined)
        events.push({
          type: 'Normal',
          reason: cluster.lane === 'Restore' ? 'UnitRestored' : 'UnitVerified',
          message: `${unit.unit} on ${cluster.name}`,
        });
      if (cluster.phase === 'Blocked')
        events.push({ type: 'Warning', reason: 'ClusterBlocked', message: `${unit.unit} on ${cluster.name}: ${cluster.message ?? ''}` });
    }
  }
  return events;
}
