/** Nodes that the server refused with the labels and taints of their Machine. It would refuse the same write again, so that write waits. */
import { canonical } from '../../../api/digest.ts';
import type { Machine } from '../../../api/machine.ts';
import type { Clock } from '../../../api/ports.ts';
import type { MachineView } from '../view.ts';

/** What the server takes may change without an event: by an admission policy, or a version. */
const AGAIN_MS = 10 * 60_000;

export interface RefusedNodes {
  /** The view of a machine whose Node is not written for now. */
  judge(key: string, view: MachineView): MachineView;
  /** After the steps were carried out. `message`: of a refusal; undefined where there was none. */
  note(key: string, machine: Machine, message: string | undefined): void;
  forget(key: string): void;
}

export function rememberRefusedNodes(clock: Pick<Clock, 'monotonic'>): RefusedNodes {
  const known = new Map<string, { of: string; message: string; untilMs: number }>();
  const ofMachine = ({ metadata, spec }: Machine): string => canonical([metadata.uid ?? '', spec.labels ?? {}, spec.taints ?? []]);
  return {
    judge(key, view) {
      const refusal = known.get(key);
      if (refusal === undefined || refusal.of !== ofMachine(view.machine) || clock.monotonic() >= refusal.untilMs) return view;
      return { ...view, nodeDrift: false, notOnNode: [{ reason: 'NodeRefused', message: refusal.message }, ...view.notOnNode] };
    },
    note(key, machine, message) {
      if (message !== undefined) known.set(key, { of: ofMachine(machine), message, untilMs: clock.monotonic() + AGAIN_MS });
    },
    forget(key) {
      known.delete(key);
    },
  };
}
