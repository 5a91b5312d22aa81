/** When a machine is reconciled again without an event. Pure. */
import type { QueueResult } from '../../kube/queue.ts';
import type { Decision, MachineView } from './view.ts';

export const RESYNC_MS = 30_000;
const POLL_MS = 1000;
/** How often a machine that was power-cycled is reconciled: no event shows that its agent's Lease is renewed again. */
const BOOT_MS = 2000;
/** Between two rounds of evictions that a disruption budget refused, as kubectl drain waits. */
const REFUSED_MS = 5000;

/** When to reconcile again where no event will ask for it. `progressed`: a step was done; `refused`: an effect was refused. */
export function requeue(
  view: Pick<MachineView, 'nowMs' | 'machine'>,
  decision: Decision,
  { progressed, refused }: { progressed: boolean; refused: boolean },
): QueueResult | undefined {
  const { waits } = decision;
  if (waits?.for === 'Pods') return { requeueAfterMs: refused ? REFUSED_MS : POLL_MS };
  if (waits?.for === 'Provider') return { requeueAfterMs: POLL_MS };
  if (waits?.for === 'Boot') return { requeueAfterMs: BOOT_MS };
  // The step's own write leads back here.
  if (progressed) return undefined;
  if (waits?.untilMs !== undefined) return { requeueAfterMs: Math.max(POLL_MS, Math.min(RESYNC_MS, waits.untilMs - view.nowMs)) };
  const { machine } = view;
  if (machine.status?.phase === 'Running') return undefined;
  // The provider is asked about a machine that does not run yet, the less often the older it is.
  const ageMs = view.nowMs - Date.parse(machine.metadata.creationTimestamp);
  return { requeueAfterMs: Math.max(POLL_MS, Math.min(RESYNC_MS, ageMs / 20)) };
}

/** Machines whose reservation came, went or is another now. */
export function changedReservations(
  now: readonly { id: string; machine: string }[],
  before: readonly { id: string; machine: string }[],
): string[] {
  const [ids, idsBefore] = [now, before].map((reservations) => new Set(reservations.map((reservation) => reservation.id)));
  const gone = before.filter((reservation) => ids?.has(reservation.id) !== true);
  const made = now.filter((reservation) => idsBefore?.has(reservation.id) !== true);
  return [...new Set([...gone, ...made].map((reservation) => reservation.machine))];
}
