import type { Lease } from '../../../api/builtin.ts';
import type { Clock } from '../../../api/ports.ts';
import type { Reflector } from '../../../kube/reflector.ts';
import { createSchedule } from '../../../kube/schedule.ts';
import type { LeaseAges } from '../../shared/lease-ages.ts';

const KUBELET_LEASES = 'kube-node-lease';
/** Leases looked at for each event of one: they are renewed several times in their duration, so that none is left to be looked at later. */
const AT_ONCE = 2;

/** Which kubelets are heard. That one falls silent no event tells: it is the time that passes without one. */
export interface Kubelets {
  answers(node: string): boolean;
  /** Nodes whose answer was another one when it was last given; each once. Costs next to nothing while there is none. */
  turned(): string[];
  stop(): void;
}

/** `ages` must have been made before, of the same store: it hears of each renewal first. */
export function hearKubelets(store: Pick<Reflector<Lease>, 'subscribe'>, ages: LeaseAges, clock: Clock): Kubelets {
  /** When each Lease that was fresh must be looked at again: no later than it runs out. */
  const looks = createSchedule();
  const heard = new Set<string>();
  const turned = new Set<string>();

  /** Whoever was given an answer is told when it turns. */
  function look(node: string): boolean {
    const untilMs = ages.freshUntilMs({ namespace: KUBELET_LEASES, name: node });
    const answers = untilMs !== undefined && clock.monotonic() <= untilMs;
    if (answers !== heard.has(node)) turned.add(node);
    if (answers) {
      heard.add(node);
      looks.set(node, untilMs);
    } else heard.delete(node);
    return answers;
  }

  const stop = store.subscribe((event) => {
    if (event.type === 'listed' || event.type === 'bookmark' || event.object.metadata.namespace !== KUBELET_LEASES) return;
    look(event.object.metadata.name);
    for (const node of looks.due(clock.monotonic(), AT_ONCE)) look(node);
  });

  return {
    answers: look,
    turned() {
      for (const node of looks.due(clock.monotonic())) look(node);
      const all = [...turned];
      turned.clear();
      return all;
    },
    stop,
  };
}
