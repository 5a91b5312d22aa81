import type { Lease } from '../../../api/builtin.ts';
import { KUBELET_LEASES } from '../../../api/names.ts';
import type { Clock } from '../../../api/ports.ts';
import { kubeletLease, type Liveness } from '../../../kube/liveness.ts';
import type { Reflector } from '../../../kube/reflector.ts';
import { createSchedule } from '../../../kube/schedule.ts';

/** Leases checked for each event of one. Each Lease is renewed several times in its duration, so this rate leaves none unchecked. */
const AT_ONCE = 2;

/** Which kubelets are alive. No event reports that one has stopped: only time without an event shows it. */
export interface Kubelets {
  answers(node: string): boolean;
  /** Nodes whose answer has changed since `answers` last gave it; each once. Costs next to nothing while there is none. */
  turned(): string[];
  stop(): void;
}

/** `liveness` must have been made before, of the same store: it observes each renewal first. */
export function watchKubelets(
  store: Pick<Reflector<Lease>, 'subscribe'>,
  liveness: Pick<Liveness, 'aliveUntilMs'>,
  clock: Clock,
): Kubelets {
  /** When each Lease that proved life must be checked again: no later than it runs out. */
  const checks = createSchedule();
  const alive = new Set<string>();
  const turned = new Set<string>();

  function check(node: string): boolean {
    const untilMs = liveness.aliveUntilMs(kubeletLease(node));
    const answers = untilMs !== undefined && clock.monotonic() <= untilMs;
    if (answers !== alive.has(node)) turned.add(node);
    if (answers) {
      alive.add(node);
      checks.set(node, untilMs);
    } else alive.delete(node);
    return answers;
  }

  const stop = store.subscribe((event) => {
    if (event.type === 'listed' || event.type === 'bookmark' || event.object.metadata.namespace !== KUBELET_LEASES) return;
    check(event.object.metadata.name);
    for (const node of checks.due(clock.monotonic(), AT_ONCE)) check(node);
  });

  return {
    answers: check,
    turned() {
      for (const node of checks.due(clock.monotonic())) check(node);
      const all = [...turned];
      turned.clear();
      return all;
    },
    stop,
  };
}
