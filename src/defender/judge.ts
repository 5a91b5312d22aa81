import { resolveCount } from '../api/batches.ts';
import { isCoded } from '../api/errors.ts';
import type { StartsBucket } from '../api/disruption-ledger.ts';
import type { ScopeUsage } from './scope-usage.ts';
import { gatesOf, lacking } from './gates.ts';
import { limitsOf, type Limit, type Limits, type LimitSources, type Measure } from './limits.ts';
import { MAX_ROWS } from './protocol.ts';
import { countsOf, MAX_COUNTS, type Counts } from './rates.ts';
import { classOf, inOrder, type Request, type Subject, type Verdict } from './request.ts';

export interface Judgement {
  /** In the order they were granted; all of them fit together. */
  granted: Request[];
  /** By machine UID; one for every request. */
  verdicts: Map<string, Verdict>;
}

/** `passing`: whether the end of operations under way would make room. */
type Refusal = { verdict: Verdict; passing: boolean };

const no = (limit: string, wouldPassWhen: string): Refusal => ({ verdict: { allowed: false, limit, wouldPassWhen }, passing: false });

type Starts = Extract<Measure, { of: 'Starts' }>;
type Ceiling = { max: number; total: number } | { refusal: Refusal };
const ceilings = new WeakMap<ScopeUsage, Map<Limit, Ceiling>>();

/** How many of the machines of a scope; a refusal where that is not known. The total of a scope stays the same in one ScopeUsage. */
export function ceilingOf(limit: Limit, usage: ScopeUsage): Ceiling {
  let known = ceilings.get(usage);
  if (known === undefined) ceilings.set(usage, (known = new Map()));
  let ceiling = known.get(limit);
  if (ceiling === undefined) known.set(limit, (ceiling = resolved(limit, usage)));
  return ceiling;
}

function resolved(limit: Limit, usage: ScopeUsage): Ceiling {
  if (limit.measure.of !== 'Unavailable') throw new TypeError(`${limit.name} measures no machines`);
  const total = usage.total(limit.scope);
  if (total === undefined) return { refusal: no(limit.name, `the machines of ${limit.scope} are known`) };
  try {
    return { total, max: resolveCount(limit.measure.max, total, `${limit.name}.maxUnavailable`) };
  } catch (error) {
    if (!isCoded(error)) throw error;
    return { refusal: no(limit.name, error.message) };
  }
}

function refusalBy(limit: Limit, subject: Subject, usage: ScopeUsage, nowMs: number): Refusal | undefined {
  const { name, scope, classes, measure } = limit;
  if (measure.of === 'Unavailable') {
    const ceiling = ceilingOf(limit, usage);
    if ('refusal' in ceiling) return ceiling.refusal;
    const { max, total } = ceiling;
    const slots = usage.slots(scope);
    // docs/protocols.md#d7: a machine that already counts adds nothing.
    if (slots.used < max || usage.counts(scope, subject.machineUID)) return undefined;
    const { holders, lasting } = slots.who();
    const when =
      max === 0
        ? `${name} allows more than 0 of the ${total} machines of ${scope}`
        : `fewer than ${max} of the ${total} machines of ${scope} are unavailable or reserved`;
    return full(name, slots.used, max, holders, when, lasting < max);
  }
  if (measure.of === 'Concurrent') {
    const reservations = usage.reservations(scope, classes);
    if (reservations.used < measure.max) return undefined;
    const { holders, lasting } = reservations.who();
    const when =
      measure.max === 0
        ? `${name} allows more than 0 operations at once in ${scope}`
        : `fewer than ${measure.max} operations (${classes.join(', ')}) are under way in ${scope}`;
    return full(name, reservations.used, measure.max, holders, when, lasting < measure.max);
  }
  if (measure.of === 'Starts') return refusalByStarts(limit, measure, usage.starts);
  if (subject.lastDisruptionMs === undefined || nowMs - subject.lastDisruptionMs >= measure.ms) return undefined;
  const at = new Date(subject.lastDisruptionMs + measure.ms).toISOString();
  return no(name, `it is ${at}, ${measure.ms / 1000} s after the last disruption of this machine`);
}

function refusalByStarts({ name, scope, classes }: Limit, { max, in: span }: Starts, starts: Counts): Refusal | undefined {
  const used = starts.within(span, classes, scope);
  if (used < max) return undefined;
  const at = new Date(starts.belowAt(span, classes, scope, max)).toISOString();
  const when = `fewer than ${max} disruptions (${classes.join(', ')}) began in ${scope} within ${span === 'Hour' ? 'an hour' : 'a day'}: at ${at} if nothing else begins`;
  return full(name, used, max, [], when, false);
}

/** What cannot be counted is not begun. */
function overflow(request: Subject, limits: Limits, starts: Counts): Verdict | undefined {
  if (starts.size < MAX_COUNTS || !request.scopes.some((scope) => limits.rated(classOf(request), scope))) return undefined;
  return { allowed: false, limit: 'ledger/hours', used: MAX_COUNTS, of: MAX_COUNTS, wouldPassWhen: 'the ledger counts less for rates' };
}

/** By rates alone: for an operation that takes over the slots of another one. `hours`: of the ledger. */
export function refusalByRates(
  subject: Subject,
  hours: readonly StartsBucket[],
  sources: LimitSources,
  nowMs: number,
): Verdict | undefined {
  const limits = limitsOf(sources);
  const starts = countsOf(hours, nowMs);
  for (const limit of limits.on(subject).limits) {
    const refusal = limit.measure.of === 'Starts' ? refusalByStarts(limit, limit.measure, starts) : undefined;
    if (refusal !== undefined) return refusal.verdict;
  }
  return overflow(subject, limits, starts);
}

function full(limit: string, used: number, of: number, holders: readonly string[], wouldPassWhen: string, passing: boolean): Refusal {
  const named = holders.length === 0 ? {} : { holders: [...holders] };
  return { verdict: { allowed: false, limit, used, of, ...named, wouldPassWhen }, passing };
}

/** By budgets, rates and intervals, in the order of scopes and policies. */
export function refusalsBy(limits: Limits, subject: Subject, usage: ScopeUsage, nowMs: number): Refusal[] {
  const on = limits.on(subject);
  const refusals = on.placeless.map(({ name, lacks }) => no(name, lacking(lacks)));
  for (const limit of on.limits) {
    const refusal = refusalBy(limit, subject, usage, nowMs);
    if (refusal !== undefined) refusals.push(refusal);
  }
  return refusals;
}

/**
 * Grants what fits, in order of class and age (docs/protocols.md#d8, #d9). All limits of all scopes of a request must have room.
 *
 * Nothing starves: a request that needs room in two limits at once could otherwise wait for ever while younger ones take each as it
 * frees. So the first that is refused only because of operations under way is counted as if reserved, for budgets and for rates; what such a
 * slot costs ends with those operations. A request that waits for a dead node, or for time to pass, gets no such slot: everything behind it
 * would wait as well.
 */
export function judge(
  requests: readonly Request[],
  usage: ScopeUsage,
  sources: LimitSources,
  { reservations, nowMs }: { /** How many the ledger contains. */ reservations: number; nowMs: number },
): Judgement {
  const limits = limitsOf(sources);
  const gates = gatesOf(sources, nowMs);
  const granted: Request[] = [];
  const verdicts = new Map<string, Verdict>();
  let first: Request | undefined;
  for (const request of inOrder(requests)) {
    const verdict = verdictOn(request);
    verdicts.set(request.machineUID, verdict);
    if (!verdict.allowed) continue;
    granted.push(request);
    usage.add(request);
  }
  return { granted, verdicts };

  function verdictOn(request: Request): Verdict {
    if (reservations + granted.length >= MAX_ROWS)
      return {
        allowed: false,
        limit: 'ledger/reservations',
        used: MAX_ROWS,
        of: MAX_ROWS,
        wouldPassWhen: 'an operation under way has ended',
      };
    const closed = gates(request, usage);
    if (closed !== undefined) return closed;
    const refusals = refusalsBy(limits, request, usage, nowMs);
    const [refusal] = refusals;
    if (refusal === undefined) return overflow(request, limits, usage.starts) ?? { allowed: true };
    if (first === undefined && refusals.every((each) => each.passing)) {
      first = request;
      usage.add(request);
    }
    return refusal.verdict;
  }
}
