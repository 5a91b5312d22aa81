/** What of policies is no budget: when something may begin, what may be done to which nodes, and where nothing may be until a person has examined it. */
import { resolveCount } from '../api/batches.ts';
import { nextOpen, type Calendar } from '../api/calendar.ts';
import { DefenderPolicies, type DefenderPolicy, type LimitClass } from '../api/defender-policy.ts';
import { calendarOfFreeze, calendarOfWindow, isFor, YEAR_MS } from '../api/defender-policy-check.ts';
import { API_VERSION, type FieldError } from '../api/kind.ts';
import { matchesLabels, selectorText } from '../api/selector.ts';
import { zonedText } from '../api/zoned-time.ts';
import type { ScopeUsage } from './scope-usage.ts';
import { poolOf, type LimitSources } from './limits.ts';
import { classOf, type Subject, type Verdict } from './request.ts';
import { CLUSTER_SCOPE, topologyIn, poolScope } from './scopes.ts';

type Policy = Pick<DefenderPolicy, 'metadata' | 'spec'>;
export type Refusal = Verdict & { allowed: false };

const refused = (limit: string, wouldPassWhen: string): Refusal => ({ allowed: false, limit, wouldPassWhen });

interface Readings {
  errors: readonly FieldError[];
  windows: { spec: NonNullable<Policy['spec']['windows']>[number]; calendar: Calendar }[];
  freezes: { spec: NonNullable<Policy['spec']['freezes']>[number]; calendar: Calendar }[];
}

/** By spec: stores hand out the same one until it changes. */
const read = new WeakMap<Policy['spec'], Readings>();

function readingsOf({ metadata, spec }: Policy): Readings {
  let readings = read.get(spec);
  if (readings === undefined) {
    // Also a field that this build does not know is one: what it forbids would be passed over.
    const errors = DefenderPolicies.validate({
      apiVersion: API_VERSION,
      kind: DefenderPolicies.kind,
      metadata: { name: metadata.name },
      spec,
    });
    readings =
      errors.length > 0
        ? { errors, windows: [], freezes: [] }
        : {
            errors,
            windows: (spec.windows ?? []).map((window) => ({ spec: window, calendar: calendarOfWindow(window) })),
            freezes: (spec.freezes ?? []).map((freeze) => ({ spec: freeze, calendar: calendarOfFreeze(freeze) })),
          };
    read.set(spec, readings);
  }
  return readings;
}

/** The first refusal by clock, labels and the scope usage; undefined: none. */
export type Gates = (subject: Subject, usage: ScopeUsage | undefined) => Refusal | undefined;

/** `usage` undefined: breakers are left out. Cheap to ask many times: what depends on class and pool alone is judged once. */
export function gatesOf({ policies }: Pick<LimitSources, 'policies'>, nowMs: number): Gates {
  const judged = new Map<string, Refusal | undefined>();

  function timely(subject: Subject): Refusal | undefined {
    const asked = classOf(subject);
    const pool = poolOf(subject.machine);
    const key = `${asked} ${pool}`;
    if (!judged.has(key))
      judged.set(
        key,
        first(policies, (policy) => untimely(policy, asked, pool, nowMs)),
      );
    return judged.get(key);
  }

  return (subject, usage) =>
    timely(subject) ??
    first(policies, (policy) => unbearable(policy, subject)) ??
    (usage === undefined ? undefined : first(policies, (policy) => tripped(policy, subject, usage)));
}

function first(policies: readonly Policy[], judge: (policy: Policy) => Refusal | undefined): Refusal | undefined {
  for (const policy of policies) {
    const refusal = judge(policy);
    if (refusal !== undefined) return refusal;
  }
  return undefined;
}

function untimely(policy: Policy, asked: LimitClass, pool: string, nowMs: number): Refusal | undefined {
  const { errors, ...all } = readingsOf(policy);
  const { name } = policy.metadata;
  const [error] = errors;
  // It is unknown what a policy with errors was to forbid. Recovery it forbids by what of its limits can be read.
  if (error !== undefined)
    return asked === 'Restore'
      ? undefined
      : refused(name, `${DefenderPolicies.kind} ${name} is corrected: \`${error.path}\` ${error.message}`);
  const windows = all.windows.filter(({ spec }) => isFor(spec, asked, pool));
  const freezes = all.freezes.filter(({ spec }) => isFor(spec, asked, pool));
  const calendars = { windows: windows.map(({ calendar }) => calendar), freezes: freezes.map(({ calendar }) => calendar) };
  const freeze = freezes.find(({ calendar }) => calendar.at(nowMs) !== undefined);
  if (freeze === undefined && (windows.length === 0 || windows.some(({ calendar }) => calendar.at(nowMs) !== undefined))) return undefined;

  const opens = nextOpen(nowMs, calendars, YEAR_MS);
  const window = opens === undefined ? windows[0] : windows.find(({ calendar }) => calendar.at(opens) !== undefined);
  const named = freeze?.spec ?? window?.spec;
  if (named === undefined) return undefined;
  const because = freeze === undefined ? '' : `freeze ${freeze.spec.name} (${freeze.spec.reason}) is over`;
  const inside = window === undefined ? '' : `window ${window.spec.name} is open`;
  const what = [because, inside].filter((part) => part !== '').join(' and ');
  const when = opens === undefined ? 'not within a year' : `from ${zonedText(opens, named.timeZone)} on`;
  return refused(`${name}/${named.name}`, `${what}: ${when}`);
}

function unbearable(policy: Policy, subject: Subject): Refusal | undefined {
  if (classOf(subject) !== 'Repair') return undefined;
  for (const { selector, allowed } of policy.spec.actions ?? []) {
    if (!matchesLabels(selector, subject.labels)) continue;
    if (allowed.some((action) => action === subject.action)) continue;
    const only = allowed.length === 0 ? 'no repair is allowed' : `allowed: ${allowed.join(', ')}`;
    const { name } = policy.metadata;
    const labels = selectorText(selector);
    return refused(`${name}/actions`, `${name} allows ${subject.action ?? 'what is asked'} on machines with ${labels}; ${only}`);
  }
  return undefined;
}

/**
 * Many machines of one zone or rack that are unhealthy at once have one cause, and a repair of each does not remove it. Stops harm, never recovery: neither
 * Restore nor the deletion of a machine that is unhealthy already.
 */
function tripped(policy: Policy, subject: Subject, usage: ScopeUsage): Refusal | undefined {
  const { breaker } = policy.spec;
  const asked = classOf(subject);
  if (breaker === undefined || asked === 'Restore' || (asked === 'Delete' && usage.isUnavailableByItself(subject.machineUID)))
    return undefined;
  const { name } = policy.metadata;
  const limit = `${name}/breaker`;
  const scope =
    breaker.scope === 'Cluster'
      ? CLUSTER_SCOPE
      : breaker.scope === 'Pool'
        ? poolScope(poolOf(subject.machine))
        : topologyIn(subject.scopes, breaker.scope);
  if (scope === undefined) return refused(limit, lacking(breaker.scope === 'Zone' ? 'Zone' : 'Rack'));
  const total = usage.total(scope);
  if (total === undefined) return refused(limit, `the machines of ${scope} are known`);
  const max = resolveCount(breaker.unavailableAbove, total, `${limit}.unavailableAbove`);
  const outage = usage.outage(scope);
  if (outage.machines <= max) return undefined;
  const { holders, shared } = outage.who();
  const symptoms = shared.length === 0 ? '' : `; most of them have ${shared.slice(0, 3).join(', ')}`;
  return {
    allowed: false,
    limit,
    used: outage.machines,
    of: max,
    holders: [...holders],
    wouldPassWhen: `at most ${max} of the ${total} machines of ${scope} are unavailable by themselves: suspect ${scope}${symptoms}`,
  };
}

/** What a machine needs that a limit of zones or racks applies to. */
export const lacking = (kind: 'Zone' | 'Rack'): string =>
  `the machine or its Node has the label ${kind === 'Zone' ? 'topology.kubernetes.io/zone' : 'topology.kubenode.io/rack'}`;
