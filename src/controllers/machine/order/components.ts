/** What the components of a Machine show about operations: what waits, what failed, what was recorded. Pure. */
import { needsDrain, needsOperation, type Disruption } from '../../../api/disruption.ts';
import type { ComponentEntry, ComponentStatus, Machine, Operation, Outcome } from '../../../api/machine.ts';
import { contentOf } from '../../../api/machine/values.ts';
import { API_LEVEL } from '../../../api/names.ts';
import { reportedEnd } from '../../../api/machine/operation-end.ts';
import { unrecordedFailure } from '../../shared/failure.ts';
import { isDeleting, type JobsOf } from '../facts.ts';
import { askingJob } from '../repair/repair.ts';
import { mayRestore } from './restores.ts';

/** An entry whose agent waits for an operation (docs/protocols.md#a4). */
export interface WaitingComponent {
  name: string;
  revision: number;
  needs: Disruption;
  /** See `kindOf`. Drift is repaired as a Change, though nothing in it is forward. */
  kind: 'Restore' | 'Drift' | 'Forward';
  setUID: string;
}

export function entryOf(machine: Pick<Machine, 'spec'>, name: string): ComponentEntry | undefined {
  return machine.spec.components?.find((entry) => entry.name === name);
}

export function componentOf(machine: Pick<Machine, 'status'>, name: string): ComponentStatus | undefined {
  return machine.status?.components?.find((component) => component.name === name);
}

/** Verified contents of one component here, newest first. */
function verifiedOf(machine: Pick<Machine, 'status'>, name: string): { content: string; revision: number }[] {
  return (machine.status?.verified ?? [])
    .filter((verified) => verified.name === name)
    .map(({ version, values, revision }) => ({ content: contentOf({ action: 'Install', version, values }), revision }));
}

/** Whether the last order here names this very revision, and its outcome. An order that was taken back since counts as a try, too. */
function lastTry(machine: Machine, name: string, revision: number): { outcome: Outcome | undefined } | undefined {
  const order = machine.spec.operation;
  if (order?.components?.some((each) => each.name === name && each.revision === revision) !== true) return undefined;
  return { outcome: reportedEnd(machine, order.id)?.outcome };
}

/**
 * How an entry that waits may go on (docs/protocols.md#b7). What the agent reports decides nothing here; the cell's own records do.
 * - `Restore`: the entry declares it, its content is among the two last verified here, no proof of this very revision is known, and the cell's record
 *   shows that the way back may still be taken (`restores.ts`).
 * - `Drift`: the agent reports drift, and this very revision was proved or ordered here before.
 * - `Forward`: everything else.
 */
function kindOf(machine: Machine, entry: ComponentEntry, component: ComponentStatus): WaitingComponent['kind'] {
  const content = contentOf(entry);
  const verified = verifiedOf(machine, entry.name).slice(0, 2);
  const isProved = verified.some((record) => record.revision === entry.revision && record.content === content);
  const tried = lastTry(machine, entry.name, entry.revision);
  if (component.needsFor === 'Drift') return isProved || tried !== undefined ? 'Drift' : 'Forward';
  if (entry.lane !== 'Restore' || entry.action !== 'Install' || isProved || !mayRestore(machine, entry)) return 'Forward';
  return verified.some((record) => record.content === content) ? 'Restore' : 'Forward';
}

/** Whether the last operation here tried this very revision and could not report success; another try needs new input (docs/protocols.md#a5). */
function isSpent(machine: Machine, name: string, revision: number): boolean {
  return lastTry(machine, name, revision)?.outcome === 'PermanentFailure';
}

/** What the agent of a machine waits for with this entry; undefined: for nothing. */
function needOf(machine: Machine, entry: ComponentEntry): { needs: Disruption; component: ComponentStatus } | undefined {
  const component = componentOf(machine, entry.name);
  if (component?.state !== 'Waiting' || component.revision !== entry.revision) return undefined;
  const { needs } = component;
  if (needs === undefined || !needsOperation(needs) || isSpent(machine, entry.name, entry.revision)) return undefined;
  return { needs, component };
}

/** While the level of the agent is below what an order needs, nothing that it reports counts as an announcement. */
const understands = (machine: Machine): boolean => (machine.status?.agent?.apiLevel ?? API_LEVEL) >= API_LEVEL;

/** By name. */
export function waitingComponents(machine: Machine): WaitingComponent[] {
  if (!understands(machine)) return [];
  const waiting: WaitingComponent[] = [];
  for (const entry of machine.spec.components ?? []) {
    const need = needOf(machine, entry);
    if (need === undefined) continue;
    const kind = kindOf(machine, entry, need.component);
    waiting.push({ name: entry.name, revision: entry.revision, needs: need.needs, kind, setUID: entry.setUID });
  }
  return waiting.sort((a, b) => (a.name < b.name ? -1 : 1));
}

export function drainNeeded(components: readonly Pick<WaitingComponent, 'needs'>[]): boolean {
  return components.some((component) => needsDrain(component.needs));
}

/** Whether a Machine may ask for an operation by what it shows itself. Cheap. */
export function asksByItself(machine: Machine): boolean {
  if (machine.metadata.deletionTimestamp !== undefined || machine.spec.retire !== undefined) return true;
  return understands(machine) && (machine.spec.components ?? []).some((entry) => needOf(machine, entry) !== undefined);
}

/** Whether anything here may ask for an operation, cheaply: the pass begins only where something may. */
export function mayAsk(machine: Machine, jobsOf: JobsOf): boolean {
  return asksByItself(machine) || askingJob(machine, jobsOf) !== undefined;
}

/**
 * After a failed Change the set controller must write the failure (docs/protocols.md#a5) before the reservation is released: otherwise the machine asks again for
 * the revision that has just failed. True once every failure of this order shows in its entry, or no set is left that would write it.
 */
export function isRecorded(machine: Machine, order: Operation, setExists: (uid: string) => boolean): boolean {
  return (order.components ?? []).every((ordered) => {
    const failed = componentOf(machine, ordered.name)?.failed;
    if (failed === undefined || failed.revision < ordered.revision) return true;
    const entry = entryOf(machine, ordered.name);
    if (entry === undefined || entry.revision > failed.revision || !setExists(entry.setUID)) return true;
    // Of a machine that goes nothing else is written.
    if (isDeleting(machine)) return unrecordedFailure(machine, entry, componentOf(machine, ordered.name)) === undefined;
    return entry.failed !== undefined && entry.failed.setRevision === entry.setRevision && entry.failed.attempt === entry.attempt;
  });
}

/** The failure a component is in: nothing has succeeded there since. */
function failureOf(component: ComponentStatus): ComponentStatus['failed'] {
  const { failed } = component;
  if (failed === undefined) return undefined;
  const since = failed.revision > component.running || (failed.revision === component.running && component.state !== 'Healthy');
  return since ? failed : undefined;
}

/** Ordered components of an operation that ended as PermanentFailure without a report on them and that nothing has made healthy since (docs/protocols.md#c7). */
function unexplained(machine: Machine): string[] {
  const order = machine.spec.operation;
  if (order === undefined || reportedEnd(machine, order.id)?.outcome !== 'PermanentFailure') return [];
  return (order.components ?? [])
    .filter((ordered) => {
      const component = componentOf(machine, ordered.name);
      const healthy = component?.state === 'Healthy' && component.running >= ordered.revision;
      return !healthy && (component?.failed?.revision ?? 0) < ordered.revision;
    })
    .map((ordered) => ordered.name);
}

/** Components in a failure that nothing has ended. While there is one, a cordon by Degraded stays. */
export function failedComponents(machine: Machine): string[] {
  const failed = (machine.status?.components ?? []).filter((component) => failureOf(component) !== undefined);
  return [...failed.map((component) => component.name), ...unexplained(machine)];
}

/**
 * Why this node must be cordoned as Degraded, one text a component (docs/protocols.md#a5): it failed and what ran before does not run again; or what
 * failed is the content last verified here; or nothing is verified that it could go back to; or the cause is unknown. Empty otherwise.
 */
export function degradedBy(machine: Machine): string[] {
  const explained = (machine.status?.components ?? []).flatMap((component) => {
    const failed = failureOf(component);
    if (failed === undefined) return [];
    const entry = entryOf(machine, component.name);
    const verified = verifiedOf(machine, component.name);
    if (!failed.restored) return [`${component.name} failed (${failed.reason}) and what ran before does not run`];
    if (verified.length === 0) return [`${component.name} failed (${failed.reason}) and no version of it was ever verified here`];
    if (entry?.revision === failed.revision && contentOf(entry) === verified[0]?.content)
      return [`${component.name} failed (${failed.reason}) at the version last verified here`];
    return [];
  });
  return [...explained, ...unexplained(machine).map((name) => `${name}: the operation failed and the agent reported no cause`)];
}
