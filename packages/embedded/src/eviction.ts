import type { JsonObject } from '@kubenode/api-machinery/wire';
import { bodyObject, type Call, type Reply } from './call.ts';
import { BUDGETS, budgetsFor, isReady, PODS } from './controllers/budgets.ts';
import { change, UNRECORDED } from './controllers/controller.ts';
import { isObject, listAt, numberAt, objectAt, stringMapAt, textAt } from './json.ts';
import { badRequest, forbiddenObject, notFound, Refusal, tooManyRequests } from './refusal.ts';
import { deleteOptions, dryRunOf, remove, type DeleteOptions } from './remove.ts';
import { keyOf, parsed } from './store/entry.ts';
import { now, type World } from './world.ts';

const MAX_DISRUPTED = 2000;

/** These are no longer, or not yet, what a budget protects. */
function ignoresBudgets(pod: JsonObject): boolean {
  const phase = textAt(pod, 'status', 'phase');
  return phase === 'Succeeded' || phase === 'Failed' || phase === 'Pending' || textAt(pod, 'metadata', 'deletionTimestamp') !== undefined;
}

const wouldViolate = (message: string, retryAfterSeconds: number) =>
  tooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", retryAfterSeconds, [
    { reason: 'DisruptionBudget', message },
  ]);

/** Takes one disruption from the budget, or throws. */
function charge(world: World, budget: JsonObject, podName: string, dryRun: boolean): void {
  const name = textAt(budget, 'metadata', 'name') ?? '';
  const status = objectAt(budget, 'status');
  if ((numberAt(status, 'observedGeneration') ?? 0) < (numberAt(budget, 'metadata', 'generation') ?? 0)) {
    throw wouldViolate(`The disruption budget ${name} is still being processed by the server.`, 10);
  }
  const allowed = numberAt(status, 'disruptionsAllowed') ?? 0;
  const resource = { group: 'policy', plural: 'poddisruptionbudget' };
  if (allowed < 0) throw forbiddenObject(resource, name, 'pdb disruptions allowed is negative');
  const disrupted = objectAt(status, 'disruptedPods');
  if (Object.keys(disrupted).length > MAX_DISRUPTED) {
    throw forbiddenObject(resource, name, 'DisruptedPods map too big - too many evictions not confirmed by PDB controller');
  }
  if (allowed === 0) {
    const desired = numberAt(status, 'desiredHealthy') ?? 0;
    const healthy = numberAt(status, 'currentHealthy') ?? 0;
    throw wouldViolate(`The disruption budget ${name} needs ${desired} healthy pods and has ${healthy} currently`, 0);
  }
  const served = world.registry.byStorage(BUDGETS);
  const entry = world.store.table(BUDGETS).get(keyOf(textAt(budget, 'metadata', 'namespace') ?? '', name));
  if (dryRun || served === undefined || entry === undefined) return;
  change(
    world,
    served,
    entry,
    'status',
    (object) => ({
      ...object,
      status: { ...status, disruptionsAllowed: allowed - 1, disruptedPods: { ...disrupted, [podName]: now(world) } },
    }),
    'kube-apiserver',
  );
}

/** Whether the budget protects the pod at all: one that is not ready may be outside it. */
function protects(budget: JsonObject, pod: JsonObject): boolean {
  if (isReady(pod)) return true;
  if (textAt(budget, 'spec', 'unhealthyPodEvictionPolicy') === 'AlwaysAllow') return false;
  const desired = numberAt(budget, 'status', 'desiredHealthy') ?? 0;
  return !((numberAt(budget, 'status', 'currentHealthy') ?? 0) >= desired && desired > 0);
}

/** Records on the pod why it goes, then deletes it; `options` may carry preconditions. */
function evictNow(call: Call, pod: JsonObject, options: DeleteOptions): void {
  const { world, served, info } = call;
  const entry = world.store.table(PODS).get(keyOf(info.namespace, info.name));
  const version = textAt(pod, 'metadata', 'resourceVersion');
  let conditions = options;
  if (!options.dryRun && entry !== undefined) {
    if (
      (options.uid === undefined || options.uid === entry.uid) &&
      (options.resourceVersion === undefined || options.resourceVersion === version)
    ) {
      mark(world, call, entry.uid);
      const marked = world.store.table(PODS).get(keyOf(info.namespace, info.name));
      if (options.resourceVersion !== undefined && marked !== undefined) conditions = { ...options, resourceVersion: String(marked.rv) };
    }
  }
  remove(world, served, info.namespace, info.name, conditions);
}

function mark(world: World, call: Call, uid: string): void {
  const entry = world.store.table(PODS).get(keyOf(call.info.namespace, call.info.name));
  if (entry?.uid !== uid) return;
  change(
    world,
    call.served,
    entry,
    'status',
    (object) => {
      const status = objectAt(object, 'status');
      const target: JsonObject = {
        type: 'DisruptionTarget',
        status: 'True',
        reason: 'EvictionByEvictionAPI',
        message: 'Eviction API: evicting',
        lastProbeTime: null,
        lastTransitionTime: now(world),
      };
      const before = listAt(status, 'conditions');
      const old = before.find((item) => textAt(item, 'type') === 'DisruptionTarget');
      if (old !== undefined && textAt(old, 'status') === 'True')
        target['lastTransitionTime'] = textAt(old, 'lastTransitionTime') ?? now(world);
      object['status'] = { ...status, conditions: [...before.filter((item) => textAt(item, 'type') !== 'DisruptionTarget'), target] };
      return object;
    },
    UNRECORDED,
  );
}

const success: Reply = { status: 201, object: { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', code: 201 } };

/** POST pods/NAME/eviction: deletes the pod if the budgets that select it allow it. */
export async function evict(call: Call): Promise<Reply> {
  const { world, served, info } = call;
  const body = (await bodyObject(call)) ?? {};
  const type = textAt(body, 'apiVersion') ?? 'policy/v1';
  if ((body['kind'] !== undefined && body['kind'] !== 'Eviction') || (type !== 'policy/v1' && type !== 'policy/v1beta1')) {
    throw badRequest('the body of an eviction is an Eviction of policy/v1');
  }
  if ((textAt(body, 'metadata', 'name') ?? info.name) !== info.name) throw badRequest('name in URL does not match name in Eviction object');
  const given = body['deleteOptions'];
  const options = deleteOptions(isObject(given) ? given : undefined, {});
  const asked = { ...options, dryRun: options.dryRun || dryRunOf(call.query['dryRun'], 'CreateOptions') };
  const entry = world.store.table(served.storageKey).get(keyOf(info.namespace, info.name));
  if (entry === undefined) throw notFound(served, info.name);
  const pod = parsed(entry);
  world.policies.admit({
    served,
    subresource: 'eviction',
    operation: 'CREATE',
    namespace: info.namespace,
    name: info.name,
    user: call.user,
    dryRun: asked.dryRun,
    object: { ...body, apiVersion: type, kind: 'Eviction', metadata: objectAt(body, 'metadata') },
    oldObject: undefined,
    warn: (text) => void call.warnings.push(text),
  });
  if (ignoresBudgets(pod)) {
    evictNow(call, pod, asked);
    return success;
  }
  const budgets = budgetsFor(world, info.namespace, stringMapAt(pod, 'metadata', 'labels'));
  if (budgets.length > 1) {
    throw new Refusal(500, undefined, 'This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.');
  }
  const [budget] = budgets;
  if (budget !== undefined && protects(budget, pod)) charge(world, budget, info.name, asked.dryRun);
  evictNow(call, pod, asked);
  return success;
}
