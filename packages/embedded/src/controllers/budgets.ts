import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { at, equal, listAt, numberAt, objectAt, textAt } from '../json.ts';
import { labelSelectorOf } from '../selector.ts';
import { parsed, type Entry, type EntryEvent } from '../store/entry.ts';
import { now, type World } from '../world.ts';
import { builtin, change, type Context, type EmbeddedController } from './controller.ts';

export const BUDGETS = 'policy/poddisruptionbudgets';
export const PODS = '/pods';

/** A pod whose eviction was accepted counts as gone for this long. */
const DELETION_TIMEOUT_MS = 2 * 60_000;

export function isReady(pod: JsonObject): boolean {
  return listAt(pod, 'status', 'conditions').some((item) => textAt(item, 'type') === 'Ready' && textAt(item, 'status') === 'True');
}

/** Budgets of a namespace that select labels. */
export function budgetsFor(world: World, namespace: string, labels: Readonly<Record<string, string>>): JsonObject[] {
  const entries = world.store.table(BUDGETS).at(world.store.rv)?.range(`${namespace}/`, '') ?? [];
  return [...entries].map(parsed).filter((budget) => labelSelectorOf(at(budget, 'spec', 'selector')).matches(labels));
}

/** A count, or a percentage of `total` rounded up. */
function scaled(value: Json, total: number): number {
  if (typeof value === 'number') return value;
  const percent = /^(\d+)%$/.exec(typeof value === 'string' ? value : '');
  return percent === null ? 0 : Math.ceil((Number(percent[1]) * total) / 100);
}

function desiredHealthy(budget: JsonObject, pods: number): number {
  const most = at(budget, 'spec', 'maxUnavailable');
  if (most !== undefined) return Math.max(0, pods - scaled(most, pods));
  const least = at(budget, 'spec', 'minAvailable');
  return least === undefined ? 0 : scaled(least, pods);
}

function allowedCondition(allowed: number, generation: number, before: Json[], at: string): JsonObject {
  const made: JsonObject = {
    type: 'DisruptionAllowed',
    status: allowed > 0 ? 'True' : 'False',
    reason: allowed > 0 ? 'SufficientPods' : 'InsufficientPods',
    message: '',
    observedGeneration: generation,
    lastTransitionTime: at,
  };
  const old = before.find((item) => textAt(item, 'type') === 'DisruptionAllowed');
  if (old !== undefined && textAt(old, 'status') === made['status']) made['lastTransitionTime'] = textAt(old, 'lastTransitionTime') ?? at;
  return made;
}

/** Pods whose eviction was accepted and which are still there, and when the first of them counts again. */
function stillDisrupted(
  budget: JsonObject,
  pods: readonly JsonObject[],
  nowMs: number,
): { disrupted: JsonObject; until: number | undefined } {
  const disrupted: JsonObject = {};
  let first: number | undefined;
  for (const [name, since] of Object.entries(objectAt(budget, 'status', 'disruptedPods'))) {
    const pod = pods.find((item) => textAt(item, 'metadata', 'name') === name);
    const until = Date.parse(typeof since === 'string' ? since : '') + DELETION_TIMEOUT_MS;
    if (pod === undefined || textAt(pod, 'metadata', 'deletionTimestamp') !== undefined || !(until > nowMs)) continue;
    disrupted[name] = since;
    first = Math.min(first ?? until, until);
  }
  return { disrupted, until: first };
}

function statusOf(budget: JsonObject, pods: readonly JsonObject[], disrupted: JsonObject, at: string): JsonObject {
  const healthy = pods.filter(
    (pod) =>
      textAt(pod, 'metadata', 'deletionTimestamp') === undefined &&
      disrupted[textAt(pod, 'metadata', 'name') ?? ''] === undefined &&
      isReady(pod),
  ).length;
  const desired = desiredHealthy(budget, pods.length);
  const allowed = pods.length === 0 ? 0 : Math.max(0, healthy - desired);
  const generation = numberAt(budget, 'metadata', 'generation') ?? 0;
  const conditions = listAt(budget, 'status', 'conditions');
  return {
    ...(Object.keys(disrupted).length > 0 ? { disruptedPods: disrupted } : {}),
    conditions: [
      ...conditions.filter((item) => textAt(item, 'type') !== 'DisruptionAllowed'),
      allowedCondition(allowed, generation, conditions, at),
    ],
    currentHealthy: healthy,
    desiredHealthy: desired,
    disruptionsAllowed: allowed,
    expectedPods: pods.length,
    observedGeneration: generation,
  };
}

/**
 * Keeps the status of PodDisruptionBudgets. Percentages and maxUnavailable count the pods that are there: this server has
 * no ReplicaSets with a scale.
 */
export function budgetsController({ world, tasks }: Context): EmbeddedController {
  const { store, clock } = world;
  const served = builtin(world, BUDGETS);
  const timers = new Map<string, () => void>();

  function reconcile(entry: Entry): void {
    const { key, namespace } = entry;
    const budget = parsed(entry);
    const selector = labelSelectorOf(at(budget, 'spec', 'selector'));
    const pods = [...(store.table(PODS).at(store.rv)?.range(`${namespace}/`, '') ?? [])]
      .filter((pod) => selector.matches(pod.labels))
      .map(parsed);
    const nowMs = clock.now();
    const { disrupted, until } = stillDisrupted(budget, pods, nowMs);
    timers.get(key)?.();
    timers.delete(key);
    if (until !== undefined)
      timers.set(
        key,
        clock.setTimer(until - nowMs + 1, () => queue(key)),
      );
    const status = statusOf(budget, pods, disrupted, now(world));
    if (!equal(status, objectAt(budget, 'status'))) change(world, served, entry, 'status', (object) => ({ ...object, status }));
  }

  function queue(key: string): void {
    tasks.add(`budget ${key}`, () => {
      const entry = store.table(BUDGETS).get(key);
      if (entry !== undefined) reconcile(entry);
    });
  }

  return {
    start() {
      for (const entry of store.table(BUDGETS).entries()) queue(entry.key);
    },
    onEvent({ resource, type, entry, previous }: EntryEvent) {
      if (resource === BUDGETS) {
        if (type === 'DELETED') timers.get(entry.key)?.();
        else queue(entry.key);
      } else if (resource === PODS) {
        for (const labels of [entry.labels, ...(previous === undefined ? [] : [previous.labels])]) {
          for (const budget of budgetsFor(world, entry.namespace, labels))
            queue(`${entry.namespace}/${textAt(budget, 'metadata', 'name') ?? ''}`);
        }
      }
    },
    stop() {
      for (const cancel of timers.values()) cancel();
    },
  };
}
