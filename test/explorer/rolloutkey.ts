/** One text for each world of rollouts that differs in anything that could ever matter. */
import type { UnitStatus } from '../../src/api/cluster.ts';
import { canonical } from '../../src/api/digest.ts';
import type { FleetState, Hub, Request } from '../../src/sync/rollout/testing/state.ts';

const texts = new WeakMap<object, string>();

/** The text of a value that is never changed. */
function text<T extends object>(value: T | undefined, plain: (value: T) => unknown = (each) => each): string {
  if (value === undefined) return '-';
  let known = texts.get(value);
  if (known === undefined) {
    known = canonical(plain(value));
    texts.set(value, known);
  }
  return known;
}

/** By which commit it came is for humans to read, and so is the order of what is not yet too much to keep. */
function plainRecord({ commit: _commit, inventory: _inventory, verified = [], revoked = [], ...rest }: UnitStatus): unknown {
  const entries = verified.map(({ commit: _its, ...entry }) => canonical(entry)).sort();
  return { ...rest, verified: entries, revoked: revoked.toSorted() };
}

function plainRequest(request: Request): unknown {
  const plain = (step: object): unknown => ({ ...step, because: undefined, commit: undefined });
  return 'step' in request
    ? { do: request.do, step: JSON.stringify(plain(request.step)) }
    : { do: request.do, steps: request.steps.map((step) => JSON.stringify(plain(step))) };
}

function hubText(hub: Hub | undefined, { cells, rollouts, asked }: FleetState): string {
  if (hub === undefined) return '-';
  const tasks = hub.tasks.map(({ cluster, todo, read, stood }) => {
    const requests = todo.map((request) => text(request, plainRequest)).join('&');
    const needs = todo[0]?.do === 'Confirm' || todo[0]?.do === 'Write';
    return `${cluster}:${requests}:${needs ? Number(read === cells[cluster]?.version) : ''}:${needs ? String(stood) : ''}`;
  });
  const reports = rollouts.map((rollout, index) =>
    rollout === hub.saw[index] && rollout.status?.retried !== hub.retried.get(rollout.metadata.name)
      ? String(hub.retried.get(rollout.metadata.name))
      : rollout === hub.saw[index]
        ? '='
        : '!',
  );
  const news = Object.keys(asked).filter((digest) => asked[digest] !== hub.asked[digest]);
  return `${tasks.join(';')}|${reports.join()}|${news.sort().join()}`;
}

export function keyOf(fleet: FleetState, budget: readonly number[]): string {
  const { declared, away, head, rollouts, recorded, cells, accounts, revoked, upheld, leader, deposed } = fleet;
  const parts = [
    budget.join(),
    declared.join(),
    away.join(),
    text(head),
    revoked.join(),
    upheld.join(),
    hubText(leader, fleet),
    deposed
      .map((hub) => hubText(hub, fleet))
      .sort()
      .join('/'),
    ...rollouts.map(({ spec, status }) => `${text(spec.units)} ${spec.paused === true} ${spec.retry} ${status?.retried}`),
    ...Object.keys(fleet.stageOf).map(
      (name) =>
        `${text(recorded[name], plainRecord)} ${text(cells[name], ({ version: _version, ...rest }) => rest)} ${text(accounts[name])}`,
    ),
  ];
  const key = parts.join('\n');
  if (fleet.retries === 0) return key;
  // Of retries only equality matters.
  const names = new Map<string, string>();
  return key.replaceAll(/retry-\d+/g, (name) => {
    const known = names.get(name) ?? `R${names.size}`;
    names.set(name, known);
    return known;
  });
}
