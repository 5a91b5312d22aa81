/** Why each unit of a rollout is where it is, cluster by cluster. */
import { MachineComponentSets } from '../../api/machine-component-set.ts';
import { isUnitOf } from '../../api/unit.ts';
import type { Rollout, RolloutUnit, RolloutUnitStatus } from '../../api/rollout.ts';
import type { Stored } from '../../api/wire.ts';
import { age } from '../output.ts';
import { ago } from './words.ts';

export function rolloutLines(rollout: Stored<Rollout>, nowMs: number): string[] {
  const { metadata, spec, status } = rollout;
  const lines = [
    `rollout/${metadata.name}  ${status?.phase ?? 'Pending'}${spec.paused === true ? ' (paused)' : ''}`,
    `commit  ${spec.commit.slice(0, 10)}${spec.subject === undefined ? '' : ` ${spec.subject}`}, ${ago(metadata.creationTimestamp, nowMs)}`,
    `stages  ${spec.stages.map(({ name, clusters }) => `${name}: ${clusters.join(', ') || 'none'}`).join(' → ')}`,
  ];
  for (const wanted of spec.units) {
    const { unit } = wanted;
    const found = status?.units?.find((each) => each.unit === unit);
    lines.push('', `${unit}  ${found?.phase ?? 'Pending'}${found?.lane === undefined ? '' : ` (${found.lane})`}`);
    if (found === undefined) {
      lines.push('  the hub has not reconciled it yet: is its controller running?');
      continue;
    }
    const stays = whatStays(wanted);
    lines.push(...[...unitLines(rollout, found, nowMs), ...(stays === undefined ? [] : [stays])].map((line) => `  ${line}`));
  }
  if (status?.phase === 'Halted') lines.push('', goOn(rollout));
  const revoked = (status?.units ?? []).flatMap((unit) => (unit.revoked === true ? [unit.unit] : []));
  if (revoked.length > 0)
    lines.push('', `revoked, so that no restore leads to it: ${revoked.join(', ')}; reinstate: kubenode rollout retry ${metadata.name}`);
  if (spec.paused === true || status?.units?.some((unit) => unit.pausedBy !== undefined) === true)
    lines.push('', `go on: kubenode rollout resume ${metadata.name}`);
  return lines;
}

/** A set is removed and uninstalls nothing (docs/protocols.md#a6), which the phase Done alone would hide. */
export function whatStays({ unit, clusters }: RolloutUnit): string | undefined {
  if (!isUnitOf(unit, MachineComponentSets) || clusters.every(({ digest }) => digest !== undefined)) return undefined;
  return 'only the set is removed: what it installed stays on the machines, unless it had removed it before with action Remove';
}

/** The ways out of a halt. */
export function goOn({ metadata, spec }: Rollout): string {
  return `go on: git revert ${spec.commit.slice(0, 10)}, a commit that corrects it, or kubenode rollout retry ${metadata.name}`;
}

function unitLines({ spec }: Rollout, unit: RolloutUnitStatus, nowMs: number): string[] {
  const lines: string[] = [];
  const clusters = unit.clusters ?? [];
  if (unit.soakUntil !== undefined)
    lines.push(`stage ${unit.stage} soaks until ${unit.soakUntil}, ${age(Date.parse(unit.soakUntil) - nowMs)} more`);
  // What a cluster reports is in its own line.
  else if (unit.message !== undefined && unit.cluster === undefined) lines.push(unit.message);
  const stageOf = (cluster: string) => spec.stages.findIndex(({ clusters }) => clusters.includes(cluster));
  const current = spec.stages.findIndex(({ name }) => name === unit.stage);
  for (const { name, phase, message, appliedAt, verifiedAt } of clusters) {
    const at = stageOf(name);
    const stage = spec.stages[at];
    const times = [
      appliedAt === undefined ? '' : `applied ${ago(appliedAt, nowMs)}`,
      verifiedAt === undefined ? '' : `verified ${ago(verifiedAt, nowMs)}`,
    ].filter((part) => part !== '');
    const why =
      message ??
      (phase !== 'Pending' || unit.phase === 'Done'
        ? ''
        : unit.phase === 'Halted'
          ? 'nothing begins while it is halted'
          : unit.pausedBy !== undefined
            ? `paused by rollout ${unit.pausedBy}`
            : at > current
              ? `waits for stage ${unit.stage ?? 'before it'}`
              : `waits for its turn: ${stage?.maxClusters ?? 1} at once in stage ${stage?.name ?? ''}`);
    lines.push(
      `${name}  ${phase}${[why, ...times]
        .filter((part) => part !== '')
        .map((part) => `; ${part}`)
        .join('')}`,
    );
  }
  return lines;
}
