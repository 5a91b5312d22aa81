/** What a machine asks of Defender, and what forbids it before any limit is looked at. Pure. */
import type { CountOrPercent } from '../../api/batches.ts';
import type { Freeze } from '../../api/freeze.ts';
import type { Machine } from '../../api/machine.ts';
import { FINALIZERS, LABELS } from '../../api/names.ts';
import { matchesLabels } from '../../api/selector.ts';
import { frozenBy, frozenVerdict } from '../../defender/freeze.ts';
import type { Request, RequestClass, Verdict } from '../../defender/request.ts';
import { CLUSTER_SCOPE, machineSetScope, poolScope, setScope } from '../../defender/scopes.ts';
import { drainNeeded, waitingComponents, type WaitingComponent } from './components.ts';

/** What is read of a MachineComponentSet. */
export interface SetFacts {
  name: string;
  /** Condition Halted is True, or spec.paused: nothing forward of it begins. */
  stopped: 'Halted' | 'Paused' | undefined;
  maxUnavailable?: CountOrPercent | undefined;
  pools?: readonly string[] | undefined;
  selector?: Record<string, string> | undefined;
}

/** What besides the Machine decides whether it may ask. */
export interface AskFacts {
  nowMs: number;
  /** By UID. */
  sets: ReadonlyMap<string, SetFacts>;
  freezes: readonly Pick<Freeze, 'metadata' | 'spec'>[];
  /** The agent's Lease is fresh. Absence of a heartbeat is not health: nothing is reserved for a machine that would not take the order. */
  agentAnswers: boolean;
}

export type Ask =
  | { state: 'Nothing' }
  | { state: 'Refused'; verdict: Verdict }
  | { state: 'Asks'; request: Omit<Request, 'since'>; components: WaitingComponent[] };

/** Reason of a row that was cancelled because its pods did not go in time. */
export const DRAIN_TIMEOUT = 'DrainTimeout';

/** A row's `scopes` take 16. */
const MAX_SETS_A_ROW = 12;
const DEFAULT_DRAIN_SECONDS = 600;
const DEFAULT_OPERATION_SECONDS = 900;

export const drainTimeoutMs = (machine: Machine): number => (machine.spec.drainTimeoutSeconds ?? DEFAULT_DRAIN_SECONDS) * 1000;
const operationTimeoutMs = (machine: Machine): number => (machine.spec.operationTimeoutSeconds ?? DEFAULT_OPERATION_SECONDS) * 1000;

const poolOf = (machine: Machine): string => machine.metadata.namespace ?? '';
export const nameOf = (machine: Machine): string => `${poolOf(machine)}/${machine.metadata.name}`;
export const isDeleting = (machine: Machine): boolean => machine.metadata.deletionTimestamp !== undefined;
export const hasFinalizer = (machine: Machine): boolean => (machine.metadata.finalizers ?? []).includes(FINALIZERS.machine);

const classOf = (component: Pick<WaitingComponent, 'kind'>): RequestClass => (component.kind === 'Restore' ? 'Restore' : 'Change');

const refused = (limit: string, wouldPassWhen: string): Verdict => ({ allowed: false, limit, wouldPassWhen });

function refusalOf(component: WaitingComponent, machine: Machine, facts: AskFacts): Verdict | undefined {
  const set = facts.sets.get(component.setUID);
  if (component.kind === 'Forward' && set === undefined)
    return refused('MachineComponentSet', `a MachineComponentSet owns ${component.name} of this machine again`);
  // A set that stops holds back what is new; it neither forbids the way back nor the repair of what it has already put there.
  if (component.kind === 'Forward' && set?.stopped !== undefined)
    return refused(`MachineComponentSet/${set.name}`, `MachineComponentSet ${set.name} is no longer ${set.stopped.toLowerCase()}`);
  const freeze = frozenBy(facts.freezes, classOf(component), poolOf(machine));
  return freeze === undefined ? undefined : frozenVerdict(freeze);
}

/** Components that may begin now as far as hold, sets and freezes go; without any, why. Holds of rows that have no order yet, too (D6). */
export function permitted(machine: Machine, facts: AskFacts): { components: WaitingComponent[]; refusal: Verdict | undefined } {
  const waiting = waitingComponents(machine);
  if (waiting.length === 0) return { components: [], refusal: undefined };
  if (machine.spec.hold === true) return { components: [], refusal: refused('Machine/hold', 'spec.hold is no longer true') };
  if (machine.status?.agent?.hold === true)
    return { components: [], refusal: refused('Node/hold', '/etc/kubenode/hold on the node is removed') };
  const judged = waiting.map((component) => ({ component, refusal: refusalOf(component, machine, facts) }));
  return {
    components: judged.filter(({ refusal }) => refusal === undefined).map(({ component }) => component),
    refusal: judged.find(({ refusal }) => refusal !== undefined)?.refusal,
  };
}

/** After a drain that did not end and a failure that may pass, the next try waits until the last one's time is over. */
function retryAt(machine: Machine): string | undefined {
  const order = machine.spec.operation;
  if (order === undefined) return undefined;
  const report = machine.status?.operation;
  const passing = report?.id === order.id && report.outcome === 'TransientFailure';
  const blocked = order.kind === 'Cancelled' && order.reason?.startsWith(DRAIN_TIMEOUT) === true;
  return passing || blocked ? order.notAfter : undefined;
}

function baseScopes(machine: Machine): string[] {
  const set = machine.metadata.labels?.[LABELS.machineSet];
  const pool = poolOf(machine);
  return [CLUSTER_SCOPE, poolScope(pool), ...(set === undefined ? [] : [machineSetScope(pool, set)])];
}

/** Every scope a machine counts in, also those of sets that have nothing to do here now. */
export function scopesOf(machine: Machine, sets: ReadonlyMap<string, SetFacts>): string[] {
  const written = new Set((machine.spec.components ?? []).map((entry) => entry.setUID));
  const selected = [...sets].filter(
    ([uid, set]) =>
      written.has(uid) ||
      ((set.pools?.includes(poolOf(machine)) ?? true) &&
        (set.selector === undefined || matchesLabels(set.selector, machine.metadata.labels))),
  );
  return [...baseScopes(machine), ...selected.map(([uid]) => setScope(uid))];
}

export function askOf(machine: Machine, facts: AskFacts): Ask {
  if (machine.spec.paused === true) return { state: 'Nothing' };
  const common = {
    machineUID: machine.metadata.uid ?? '',
    machine: nameOf(machine),
    nodeUID: machine.status?.nodeRef?.uid,
    labels: { ...machine.spec.labels, ...machine.metadata.labels },
    lastDisruptionMs: lastDisruptionMs(machine),
  };
  if (isDeleting(machine)) {
    if (!hasFinalizer(machine)) return { state: 'Nothing' };
    if (machine.spec.hold === true) return { state: 'Refused', verdict: refused('Machine/hold', 'spec.hold is no longer true') };
    const freeze = frozenBy(facts.freezes, 'Change', poolOf(machine));
    if (freeze !== undefined) return { state: 'Refused', verdict: frozenVerdict(freeze) };
    const request: Omit<Request, 'since'> = {
      ...common,
      ...deletion(machine),
      class: 'Change',
      scopes: baseScopes(machine),
    };
    return { state: 'Asks', request, components: [] };
  }
  const { components, refusal } = permitted(machine, facts);
  const riding = ridesTogether(components);
  const [first] = riding;
  if (first === undefined) return refusal === undefined ? { state: 'Nothing' } : { state: 'Refused', verdict: refusal };
  if (!facts.agentAnswers) return { state: 'Refused', verdict: refused('Agent/heartbeat', "the agent's Lease is renewed again") };
  const waitUntil = retryAt(machine);
  if (waitUntil !== undefined && facts.nowMs <= Date.parse(waitUntil))
    return { state: 'Refused', verdict: refused('Machine/retry', `it is past ${waitUntil}, when the time of the last try is over`) };
  const request: Omit<Request, 'since'> = {
    ...common,
    kind: 'Change',
    class: riding.some((component) => component.kind === 'Restore') ? 'Restore' : 'Change',
    requesterUID: first.setUID,
    requester: `MachineComponentSet/${facts.sets.get(first.setUID)?.name ?? first.setUID}`,
    scopes: [...baseScopes(machine), ...new Set(riding.map((component) => setScope(component.setUID)))],
    mustBeginWithinMs: (drainNeeded(riding) ? drainTimeoutMs(machine) : 0) + operationTimeoutMs(machine),
  };
  return { state: 'Asks', request, components: riding };
}

function lastDisruptionMs(machine: Machine): number | undefined {
  const ms = Date.parse(machine.status?.lastDisruption ?? '');
  return Number.isNaN(ms) ? undefined : ms;
}

/** What a Delete row says of itself. */
export function deletion(machine: Machine): Pick<Request, 'kind' | 'requesterUID' | 'requester' | 'mustBeginWithinMs'> {
  return {
    kind: 'Delete',
    requesterUID: machine.metadata.uid ?? '',
    requester: `Machine/${nameOf(machine)}`,
    mustBeginWithinMs: drainTimeoutMs(machine) + operationTimeoutMs(machine),
  };
}

/** Entries of several sets ride one operation, as far as a row's scopes reach. */
function ridesTogether(components: readonly WaitingComponent[]): WaitingComponent[] {
  const sets = new Set([...new Set(components.map((component) => component.setUID))].slice(0, MAX_SETS_A_ROW));
  return components.filter((component) => sets.has(component.setUID));
}
