/** A plan for people: one paragraph a unit, one line for all clusters of a stage that change in the same way. Pure. */
import { MachineComponentSets } from '../../api/machine-component-set.ts';
import { isUnitOf } from '../../api/unit.ts';
import { Namespaces } from '../../api/builtin.ts';
import { MachineSets } from '../../api/machine-set.ts';
import { canonical } from '../../api/digest.ts';
import { plainText } from '../../api/plain-text.ts';
import type { MachineEffect } from './disruption.ts';
import { isNothing, type ClusterForecast, type Forecast, type UnitForecast } from './forecast.ts';
import type { BlockedUnit } from './waits.ts';
import type { ClusterChanges } from './cluster-changes.ts';
import type { FieldChange } from './fields.ts';
import type { Made } from './make.ts';

/** Clusters of one stage that change in the same way. */
export interface Group {
  stage: string;
  clusters: ClusterForecast[];
}

export const MOST_FIELDS = 12;
const MOST_NAMES = 4;
const MOST_VALUE = 60;
const LONGEST_LINE = 2000;

export function titleOf({ fleet, commit, accepted }: Made): string {
  const what = commit === undefined ? 'the files here' : commit.slice(0, 10);
  const over = accepted === undefined ? 'nothing: no commit was accepted yet' : `${accepted.slice(0, 10)}, which the hub accepted`;
  return plainText(`Fleet ${fleet}: ${what}, over ${over}`, LONGEST_LINE);
}

export function planLines(made: Made): string[] {
  const { result } = made;
  switch (result.state) {
    case 'Refused':
      return [titleOf(made), '', ...refusedLines(result)];
    case 'Planned':
      return [titleOf(made), '', ...forecastLines(result.forecast)];
    default:
      return result satisfies never;
  }
}

function refusedLines(refusal: Refusal): string[] {
  const [first = '', ...others] = refusalLines(refusal);
  return [plainText(`The hub would refuse it (${refusal.code}): ${first}`, LONGEST_LINE), ...others];
}

type Refusal = Extract<Made['result'], { state: 'Refused' }>;

/** What the code of the fleet threw is part of the message: a line of it that is not the first is marked, so that it resembles no line of the plan. */
export function refusalLines({ message, next }: Refusal): string[] {
  const lines = message.split('\n').map((line, index) => plainText(index === 0 ? line : `  | ${line}`, LONGEST_LINE));
  return next === undefined ? lines : [...lines, plainText(`next: ${next}`, LONGEST_LINE)];
}

/** The summary first, then what is deleted: where a comment is cut, these are in it. Each is one line, also when the fleet or its cells wrote line breaks into it. */
export function forecastLines(forecast: Forecast): string[] {
  const units = forecast.units.toSorted((a, b) => Number(deletes(b)) - Number(deletes(a)));
  const lines = [...summaryLines(forecast), ...units.flatMap((unit) => ['', ...unitLines(unit)])];
  return lines.map((line) => plainText(line, LONGEST_LINE));
}

/** Whether objects or machines go. */
export const deletes = ({ clusters }: UnitForecast): boolean =>
  clusters.some(({ change, effect }) => change === 'Remove' || change === 'Removing' || effect?.effect === 'LetGo');

function unitLines(unit: UnitForecast): string[] {
  const { unit: name, source } = unit;
  const groups = groupsOf(unit);
  const fields = fieldGroups(groups);
  return [
    `${name}${source === undefined ? '' : `  ${source}`}`,
    ...fields.flatMap(({ only, changes }) => [
      ...(only === undefined ? [] : [`  in ${only}:`]),
      ...fieldLines(changes).map((line) => `  ${line}`),
    ]),
    ...groups.map((group) => `  ${groupText(name, group)}`),
    ...[...new Set(groups.flatMap(({ clusters }) => clusters.flatMap(({ halts }) => halts)))].map(
      (halt) => `  halted, and begins nowhere before a person retries it: ${halt}`,
    ),
    `  git revert: ${revertText(name, groups)}`,
  ];
}

/** By stage and by what becomes of the clusters, names and counts of machines apart. */
export function groupsOf({ clusters }: UnitForecast): Group[] {
  const key = ({ stage, change, lane, fields, effect, halts, revert }: ClusterForecast): string =>
    canonical({
      stage,
      change,
      lane,
      fields: fields ?? null,
      effect: effect?.effect ?? null,
      disruption: effect?.effect === 'Change' ? [effect.disruption, effect.uninstalls] : null,
      halts,
      revert,
    });
  return [...Map.groupBy(clusters, key).values()].map((its) => ({ stage: its[0]?.stage ?? '', clusters: its }));
}

/** What all clusters have in common is printed once. */
function fieldGroups(groups: readonly Group[]): { only: string | undefined; changes: FieldChange[] | undefined }[] {
  const byFields = Map.groupBy(
    groups.flatMap(({ clusters }) => clusters),
    ({ fields }) => canonical(fields ?? null),
  );
  return [...byFields.values()]
    .filter(([first]) => first?.fields === undefined || fieldLines(first.fields).length > 0)
    .map((its) => ({ only: byFields.size === 1 ? undefined : namesText(its.map(({ name }) => name)), changes: its[0]?.fields }));
}

export function fieldLines(changes: readonly FieldChange[] | undefined): string[] {
  if (changes === undefined) return ['what is there now is not known here'];
  const lines = changes.slice(0, MOST_FIELDS).flatMap(({ path, from, to }) => {
    // The whole object is made, or removed: its name is enough.
    if (path === '') return [];
    return [`${path}: ${valueText(from)} → ${valueText(to)}`];
  });
  return changes.length > MOST_FIELDS ? [...lines, `and ${changes.length - MOST_FIELDS} fields more`] : lines;
}

export function valueText(value: unknown): string {
  if (value === undefined) return 'nothing';
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return plainText(text, MOST_VALUE);
}

function groupText(unit: string, { stage, clusters }: Group): string {
  const [first] = clusters;
  if (first === undefined) return '';
  const parts = [
    `stage ${stage}`,
    `${changeText(first)} in ${namesText(clusters.map(({ name }) => name))}`,
    ...(effectText(clusters.flatMap(({ effect }) => effect ?? [])) ?? []),
    ...(first.change === 'Remove' && isUnitOf(unit, MachineComponentSets) ? [LEFT] : []),
    ...(first.lane === 'Restore' ? ['at once, in all stages: it was proven there before'] : []),
  ];
  return parts.join(', ');
}

/** docs/protocols.md#a6. */
const LEFT = 'what it installed stays on the machines, unless it had removed it before with action Remove';

export function changeText({ change, fields }: ClusterForecast): string {
  switch (change) {
    case 'Add':
      return 'added';
    case 'Remove':
      return 'removed';
    case 'Removing':
      return 'its removal goes on';
    case 'Keep':
      return 'kept as it is';
    case 'TakeOver':
      return 'taken over as it is';
    case 'Change':
      // What the unit names differs, and not the unit itself.
      return fields?.length === 0 ? 'changed in what it names' : 'changed';
    default:
      return change satisfies never;
  }
}

export function namesText(names: readonly string[], what = 'clusters'): string {
  if (names.length <= MOST_NAMES) return names.join(', ');
  return `${names.length} ${what} (${names.slice(0, MOST_NAMES - 1).join(', ')}, …)`;
}

/** Of all clusters of a group together. */
export function effectText(effects: readonly MachineEffect[]): string[] | undefined {
  const [first] = effects;
  if (first === undefined) return undefined;
  const sum = effects.reduce((total, { machines }) => total + machines, 0);
  switch (first.effect) {
    case 'Make':
      return [`makes ${counted(sum, 'machine')}`];
    case 'LetGo':
      return [`lets ${counted(sum, 'machine')} go`];
    case 'Change': {
      const changes = effects.flatMap((each) => (each.effect === 'Change' ? [each] : []));
      const unknown = changes.reduce((total, each) => total + each.unknown, 0);
      const batches = Math.max(...changes.map((each) => each.batches.length));
      const firstBatch = Math.max(0, ...changes.map((each) => each.batches[0] ?? 0));
      return [
        `${changedMachines(first, sum)}${unknown === 0 ? '' : `, and perhaps of ${unknown} that no MachineSet of the fleet has`}`,
        ...(batches > 1 ? [`${batches} batches a cluster, the first of ${counted(firstBatch, 'machine')}`] : []),
      ];
    }
    default:
      return first satisfies never;
  }
}

function changedMachines({ disruption, uninstalls }: Extract<MachineEffect, { effect: 'Change' }>, sum: number): string {
  const machines = counted(sum, 'machine');
  if (uninstalls) return `uninstalled from ${machines}, ${disruptionText(disruption)}`;
  return disruption === 'None' ? `${machines} without disruption` : `${disruptionText(disruption)} of ${machines}`;
}

export function disruptionText(disruption: Extract<MachineEffect, { effect: 'Change' }>['disruption']): string {
  switch (disruption) {
    case 'None':
      return 'no disruption';
    case 'Reload':
      return 'reload';
    case 'Restart':
      return 'restart';
    case 'Drain':
      return 'drain';
    case 'Reboot':
      return 'drain and reboot';
    default:
      return disruption satisfies never;
  }
}

export function revertText(unit: string, groups: readonly Group[]): string {
  const clusters = groups.flatMap((group) => group.clusters).filter(({ change }) => change !== 'TakeOver');
  if (groups.every(({ clusters: its }) => its.every(({ change }) => change === 'TakeOver'))) return 'leaves it as it is';
  if (isUnitOf(unit, Namespaces) && clusters.every(({ change }) => change === 'Add')) return 'leaves it: a Namespace is never deleted';
  if (clusters.every(({ change }) => change === 'Add'))
    return isUnitOf(unit, MachineSets)
      ? 'takes it away at once, as far as the limits of deletions let its machines go'
      : 'takes it away at once, where the limits of deletions allow it';
  const forward = clusters.filter(({ revert }) => revert.lane === 'Forward').length;
  const lanes =
    forward === 0
      ? 'goes back at once'
      : forward === clusters.length
        ? 'goes through the stages again'
        : `goes back at once in ${clusters.length - forward} clusters, through the stages in ${forward}`;
  const disruptions = [...new Set(clusters.flatMap(({ revert }) => revert.disruption ?? []))].filter((each) => each !== 'None');
  // A revert is judged with the machines that are made by then.
  const limits = clusters.some(({ effect }) => effect?.effect === 'Make')
    ? ', as far as the limits of deletions let the new machines go'
    : '';
  return `${lanes}${limits}${disruptions.length === 0 ? '' : `; ${disruptions.map(disruptionText).join(' or ')}`}`;
}

export function summaryLines(forecast: Forecast): string[] {
  const { units, clusters, blocked, kept, left, heldBack, soakSeconds } = forecast;
  return [
    units.length === 0
      ? isNothing({ ...forecast, heldBack: undefined })
        ? heldBack === undefined
          ? 'Nothing changes.'
          : 'Nothing changes until what is held back may.'
        : 'No unit changes.'
      : `${counted(units.length, 'unit')} in ${counted(new Set(units.flatMap((unit) => unit.clusters.filter(({ change }) => change !== 'Keep').map(({ name }) => name))).size, 'cluster')}.${
          soakSeconds === 0 ? '' : ` The soaks of batches and stages alone take ${durationText(soakSeconds)}.`
        }`,
    ...deletionLines(units),
    ...(heldBack === undefined ? [] : [`Held back: ${heldBack.message}`, `next: ${heldBack.next}`]),
    ...clusters.flatMap(clusterLines),
    ...blockedLines(blocked),
    ...kept.map(({ unit, cluster }) => `${unit} stays in ${cluster}: a Namespace is never deleted`),
    ...(left.length === 0 ? [] : [`The commit no longer declares ${namesText(left)}: what was applied there stays, unmanaged`]),
  ];
}

function clusterLines({ cluster, change, fields }: ClusterChanges): string[] {
  switch (change) {
    case 'Add':
      return [`Cluster ${cluster} is added.`];
    case 'Change':
      return fieldLines(fields).map((line) => `Cluster ${cluster}: ${line}`);
    default:
      return change satisfies never;
  }
}

function blockedLines(blocked: readonly BlockedUnit[]): string[] {
  return [...Map.groupBy(blocked, ({ unit = 'Nothing', reason }) => `${unit} ${reason}`).values()].map((its) => {
    const [{ unit, reason } = { unit: undefined, reason: '' }] = its;
    const names = namesText([...new Set(its.map(({ cluster }) => cluster))]);
    return unit === undefined ? `Nothing can begin now in ${names}: ${reason}` : `${unit} cannot begin now in ${names}: ${reason}`;
  });
}

function deletionLines(units: readonly UnitForecast[]): string[] {
  const removed = units.filter(({ clusters }) => clusters.some(({ change }) => change === 'Remove'));
  const effects = units.flatMap(({ clusters }) => clusters.flatMap(({ effect }) => (effect?.effect === 'LetGo' ? [effect] : [])));
  const machines = effects.reduce((sum, each) => sum + each.machines, 0);
  return [
    ...(removed.length === 0
      ? []
      : [
          `Removes ${namesText(
            removed.map(({ unit }) => unit),
            'units',
          )}.`,
        ]),
    ...(machines === 0 ? [] : [`Lets ${counted(machines, 'machine')} go.`]),
  ];
}

export function durationText(seconds: number): string {
  const parts = [
    { unit: 'd', seconds: 86_400 },
    { unit: 'h', seconds: 3600 },
    { unit: 'm', seconds: 60 },
    { unit: 's', seconds: 1 },
  ];
  let rest = seconds;
  const texts = parts.flatMap((part) => {
    const count = Math.floor(rest / part.seconds);
    rest -= count * part.seconds;
    return count === 0 ? [] : [`${count} ${part.unit}`];
  });
  return texts.slice(0, 2).join(' ') || '0 s';
}

export const counted = (count: number, what: string): string => `${count} ${what}${count === 1 ? '' : 's'}`;
