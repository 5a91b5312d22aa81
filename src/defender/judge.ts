import { resolveCount } from '../api/batches.ts';
import { isCoded } from '../api/errors.ts';
import type { Census } from './census.ts';
import { limitsOn, type Limit, type LimitSources } from './limits.ts';
import { MAX_ROWS } from './protocol.ts';
import { inOrder, type Request, type Verdict } from './request.ts';

export interface Judgement {
  /** In the order they were granted; all of them fit together. */
  granted: Request[];
  /** By machine UID; one for every request. */
  verdicts: Map<string, Verdict>;
}

type Refusal = Verdict & { allowed: false; /** Whether the end of operations under way would make room. */ passing: boolean };

function refusalBy(limit: Limit, request: Request, census: Census): Refusal | undefined {
  const total = census.total(limit.scope);
  if (total === undefined)
    return { allowed: false, limit: limit.name, wouldPassWhen: `the machines of ${limit.scope} are known`, passing: false };
  let max: number;
  try {
    max = resolveCount(limit.max, total, `${limit.name}.maxUnavailable`);
  } catch (error) {
    if (!isCoded(error)) throw error;
    return { allowed: false, limit: limit.name, wouldPassWhen: error.message, passing: false };
  }
  const used = census.used(limit.scope);
  // D7: a machine that already counts adds nothing.
  if (census.counts(limit.scope, request.machineUID) || used < max) return undefined;
  return {
    allowed: false,
    limit: limit.name,
    used,
    of: max,
    holders: census.holders(limit.scope),
    wouldPassWhen:
      max === 0
        ? `${limit.name} allows more than 0 of the ${total} machines of ${limit.scope}`
        : `fewer than ${max} of the ${total} machines of ${limit.scope} are unavailable or reserved`,
    passing: census.lasting(limit.scope) < max,
  };
}

/**
 * Grants what fits, in order of class and age (D8, D9). All limits of all scopes of a request must have room.
 *
 * Nothing starves: a request that needs room in two limits at once could otherwise wait for ever while younger ones take each as it
 * frees. So the first that is refused only because of operations under way is counted as if reserved; what such a place costs ends with those
 * operations. A request that waits for a dead node gets no such place: everything behind it would wait as well.
 */
export function judge(requests: readonly Request[], census: Census, sources: LimitSources, rows: number): Judgement {
  const granted: Request[] = [];
  const verdicts = new Map<string, Verdict>();
  let first: Request | undefined;
  for (const request of inOrder(requests)) {
    const verdict = verdictOn(request);
    verdicts.set(request.machineUID, verdict);
    if (!verdict.allowed) continue;
    granted.push(request);
    census.add(request.machineUID, request.machine, request.scopes);
  }
  return { granted, verdicts };

  function verdictOn(request: Request): Verdict {
    if (rows + granted.length >= MAX_ROWS)
      return { allowed: false, limit: 'ledger/rows', used: MAX_ROWS, of: MAX_ROWS, wouldPassWhen: 'an operation under way has ended' };
    const refusals = request.scopes
      .flatMap((scope) => limitsOn(scope, sources))
      .map((limit) => refusalBy(limit, request, census))
      .filter((refusal) => refusal !== undefined);
    const [refusal] = refusals;
    if (refusal === undefined) return { allowed: true };
    if (first === undefined && refusals.every((each) => each.passing)) {
      first = request;
      census.add(request.machineUID, request.machine, request.scopes);
    }
    const { passing: _, ...verdict } = refusal;
    return verdict;
  }
}
