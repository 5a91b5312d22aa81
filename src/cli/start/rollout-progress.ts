import type { Rollout } from '../../api/rollout.ts';
import type { ProgressLines } from './progress-lines.ts';

/** Prints what has changed in a rollout. */
export function reportRollout(lines: ProgressLines, rollout: Rollout): void {
  const units = rollout.status?.units ?? [];
  const gathered = gatheredOf(units);
  for (const unit of units) reportUnit(lines, rollout, unit, gathered.includes(unit));
  reportGathered(lines, rollout, gathered);
  if (units.length > FEW && rollout.status?.phase === 'Done')
    lines.once(rollout.metadata.name, 'Done', () =>
      lines.print('done', `${rollout.metadata.name}: all ${units.length} units are done on every cluster`),
    );
}

function reportUnit(lines: ProgressLines, { metadata }: Rollout, unit: Unit, isGathered: boolean): void {
  const name = `${metadata.name} ${unit.unit}`;
  for (const cluster of unit.clusters ?? []) {
    const text = `${name} on ${cluster.name}`;
    lines.once(`${name} ${cluster.name}`, cluster.phase, () => {
      if (cluster.phase === 'Blocked') lines.print('waiting', `${text}: ${cluster.message ?? 'blocked'}`);
      if (isGathered) return;
      if (cluster.phase === 'Waiting') lines.print('doing', `${text}: ${cluster.lane === 'Restore' ? 'going back' : 'applied'}`);
      if (cluster.phase === 'Verified' && cluster.verifiedAt !== undefined)
        lines.print('done', `${text}: ${cluster.lane === 'Restore' ? 'restored' : 'verified'}`);
    });
  }
  lines.once(name, unit.phase, () => {
    if (unit.phase === 'Halted') lines.print('failed', `${name} halted: ${unit.message ?? ''}`);
    if (unit.phase === 'Superseded') lines.print('warning', `${name}: a newer commit took over`);
    if (unit.phase === 'Done' && !isGathered) lines.print('done', `${name}: done on every cluster`);
  });
}

function reportGathered(lines: ProgressLines, rollout: Rollout, gathered: readonly Unit[]): void {
  for (const cluster of rollout.spec.stages.flatMap(({ clusters }) => clusters)) {
    const states = gathered.flatMap((unit) => (unit.clusters ?? []).filter(({ name }) => name === cluster));
    if (states.length === 0 || states.some(({ phase }) => phase !== 'Verified')) continue;
    lines.once(`${rollout.metadata.name} ${cluster}`, 'Verified', () => {
      if (states.some(({ verifiedAt }) => verifiedAt !== undefined))
        lines.print('done', `${rollout.metadata.name} ${summary(gathered)} on ${cluster}: verified`);
    });
  }
}

type Unit = NonNullable<NonNullable<Rollout['status']>['units']>[number];

/** Kinds whose rollouts change machines, and are watched step by step. */
const WATCHED = ['MachineComponentSet/', 'MachineSet/'];
const FEW = 3;

/** Units that share a line a cluster: what is only applied and accepted, where a commit has more of it than people read line by line. */
function gatheredOf(units: readonly Unit[]): Unit[] {
  const light = units.filter(({ unit }) => !WATCHED.some((kind) => unit.startsWith(kind)));
  return light.length > FEW ? light : [];
}

/** `DefenderPolicy/default, Namespace/web, 8 NodeRemediers`. */
function summary(units: readonly Unit[]): string {
  const byKind = Map.groupBy(units, ({ unit }) => unit.slice(0, unit.indexOf('/')));
  return [...byKind].map(([kind, of]) => (of.length === 1 ? of[0]?.unit : `${of.length} ${plural(kind)}`)).join(', ');
}

const plural = (kind: string): string => (kind.endsWith('y') ? `${kind.slice(0, -1)}ies` : `${kind}s`);
