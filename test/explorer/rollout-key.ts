/** One text for each world of rollouts that differs in anything that could ever matter. */
import type { UnitStatus } from '../../src/api/cluster.ts';
import { canonical } from '../../src/api/digest.ts';
import type { FleetState, Hub, Live, Request } from '../../src/sync/rollout/testing/state.ts';
import type { Step } from '../../src/sync/rollout/world.ts';

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
function plainRecord({ commit: _commit, inventory = [], verified = [], revoked = [], ...rest }: UnitStatus): unknown {
  const entries = verified.map(({ commit: _its, ...entry }) => canonical(entry)).sort();
  return { ...rest, verified: entries, revoked: revoked.toSorted(), left: inventory.length };
}

function plainRequest(request: Request): unknown {
  // Of the object that it was decided from, only whether that is there still (`stands`).
  const plain = (step: Step): unknown => ({
    ...step,
    because: undefined,
    commit: undefined,
    carrier: undefined,
    ...('seen' in step ? { seen: step.seen.over } : {}),
  });
  return 'step' in request
    ? { do: request.do, step: JSON.stringify(plain(request.step)) }
    : { do: request.do, steps: request.steps.map((step) => JSON.stringify(plain(step))) };
}

/** Whether the object is still the one that was seen. */
function isThat(request: Request, live: Live | undefined): string {
  return request.do === 'Check' || request.do === 'Patch' ? String(request.step.seen.resourceVersion === String(live?.version)) : '';
}

function hubText(hub: Hub | undefined, { cells, rollouts, asked }: FleetState): string {
  if (hub === undefined) return '-';
  const tasks = hub.tasks.map(({ cluster, todo, read, stood }) => {
    const requests = todo.map((request) => text(request, plainRequest)).join('&');
    const live = cells[cluster];
    const first = todo[0]?.do;
    const needs = first === 'Confirm' || first === 'Write' || first === 'ConfirmRemoval' || first === 'Delete' || first === 'Removed';
    const reads = needs ? `${Number(read === live?.version)}${Number(read === undefined)}` : '';
    const seen = todo.map((request) => isThat(request, live)).join('');
    return `${cluster}:${requests}:${reads}:${needs || todo[0]?.do === 'Patch' ? String(stood) : ''}:${seen}`;
  });
  const reports = rollouts.map((rollout, index) =>
    rollout === hub.saw[index] && rollout.status?.retried !== hub.retried.get(rollout.metadata.name)
      ? String(hub.retried.get(rollout.metadata.name))
      : rollout === hub.saw[index]
        ? '='
        : '!',
  );
  const news = Object.keys(asked).filter((digest) => asked[digest] !== hub.asked[digest]);
  return `${hub.fenced === true}${tasks.join(';')}|${reports.join()}|${news.sort().join()}`;
}

/** What stores show that are late. Of an object, also whether it is the one that is there. */
function lateText({ late, cells }: FleetState): string {
  const { rollouts, records: recorded, members } = late;
  const list = rollouts?.list.map(({ spec, status }) => `${spec.paused === true} ${spec.retry} ${status?.retried}`);
  const records = recorded === undefined ? [] : Object.keys(recorded).map((name) => `${name} ${text(recorded[name], plainRecord)}`);
  const stores = Object.keys(late.cells).map((name) => {
    const [seen, live] = [late.cells[name]?.live, cells[name]];
    return `${name} ${text(seen, plainLive)} ${seen?.version === live?.version}`;
  });
  return [list?.join(',') ?? '-', recorded === undefined ? '-' : records.join(';'), members?.join() ?? '-', stores.sort().join(';')].join(
    '|',
  );
}

const plainLive = ({ version: _version, ...rest }: Live): unknown => rest;

export function keyOf(fleet: FleetState, budget: readonly number[]): string {
  const { declared, away, head, rollouts, recorded, cells, accounts, revoked, upheld, stopped, leader, deposed } = fleet;
  const parts = [
    budget.join(),
    String(fleet.unfenced),
    declared.join(),
    away.join(),
    text(head),
    lateText(fleet),
    revoked.join(),
    upheld.join(),
    stopped.join(),
    hubText(leader, fleet),
    deposed
      .map((hub) => hubText(hub, fleet))
      .sort()
      .join('/'),
    ...rollouts.map(({ spec, status }) => `${text(spec.units)} ${spec.paused === true} ${spec.retry} ${status?.retried}`),
    ...Object.keys(fleet.stageOf).map(
      (name) => `${text(recorded[name], plainRecord)} ${text(cells[name], plainLive)} ${text(accounts[name])}`,
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
