import type { LimitClass } from '../api/defender-policy.ts';
import type { LedgerReservation } from '../api/disruption-ledger.ts';
import type { MachineStatus } from '../api/machine.ts';
import type { Action } from '../api/node-remedier/values.ts';

export type RequestClass = LedgerReservation['class'];

/** Restore before Repair before Change (docs/protocols.md#d9). */
const CLASSES: readonly RequestClass[] = ['Restore', 'Repair', 'Change'];

/** One machine that asks to be disrupted. */
export interface Request {
  machineUID: string;
  /** namespace/name */
  machine: string;
  nodeUID: string | undefined;
  kind: LedgerReservation['kind'];
  class: RequestClass;
  requesterUID: string;
  /** kind/name, to read. */
  requester: string;
  /** Change: which entries it would carry out, all of its own class. */
  components?: NonNullable<LedgerReservation['components']>;
  /** What a Repair would do; limits may allow only some actions for a class of nodes. */
  action?: Action;
  /** Labels of the machine and its Node together: zone, rack, and what classes of nodes are distinguished by. */
  labels: Readonly<Record<string, string>>;
  /** When a disruption of this machine last began, ms; undefined: none is known of. */
  lastDisruptionMs: number | undefined;
  /** Limits of these must have room; see `scopes`. */
  scopes: string[];
  /** Since when it asks, ms. */
  since: number;
  /** From the reservation until its execution must have begun, ms. */
  mustBeginWithinMs: number;
}

/** As policies distinguish it. */
export const classOf = ({ kind, class: asked }: Pick<Request, 'kind' | 'class'>): LimitClass => (kind === 'Delete' ? 'Delete' : asked);

/** What rules of policies are judged on: a request, or a reservation that has no order yet. */
export type Subject = Pick<Request, 'machineUID' | 'machine' | 'kind' | 'class' | 'action' | 'labels' | 'lastDisruptionMs'> & {
  scopes: readonly string[];
};

/** Defender's answer to one request (docs/protocols.md#d10). */
export type Verdict = NonNullable<MachineStatus['verdict']>;

/** By class, then by age, then by name so that the order is total. */
export function inOrder<Asked extends Pick<Request, 'class' | 'since' | 'machine'>>(requests: readonly Asked[]): Asked[] {
  return [...requests].sort(
    (a, b) =>
      CLASSES.indexOf(a.class) - CLASSES.indexOf(b.class) ||
      a.since - b.since ||
      (a.machine < b.machine ? -1 : a.machine > b.machine ? 1 : 0),
  );
}

/** The ledger reservation of a granted request. */
export function reservationFor(request: Omit<Request, 'labels' | 'lastDisruptionMs'>, id: string, nowMs: number): LedgerReservation {
  return {
    id,
    machineUID: request.machineUID,
    machine: request.machine,
    ...(request.nodeUID === undefined ? {} : { nodeUID: request.nodeUID }),
    kind: request.kind,
    class: request.class,
    ...(request.components === undefined ? {} : { components: request.components }),
    ...(request.action === undefined ? {} : { action: request.action }),
    requesterUID: request.requesterUID,
    requester: request.requester,
    scopes: request.scopes,
    since: new Date(nowMs).toISOString(),
    notAfter: new Date(nowMs + request.mustBeginWithinMs).toISOString(),
  };
}
