/** Conditions of a rule: terms over facts, and all, any, not over terms. */
import { FleetError } from '../errors.ts';

/** As json-rules-engine takes it: `{fact, operator, value}` or one of `{all}`, `{any}`, `{not}`. */
export type TermObject = Readonly<Record<string, unknown>>;

/**
 * Something that is true of a node or not. `Known` means that it always has an answer, so it may be negated: where a value is not known its
 * negation is not known either, and must never be taken for true.
 */
export interface Term<Known extends boolean = boolean> {
  readonly term: TermObject;
  readonly known: Known;
}

/** True when every term is. */
export function all<Known extends boolean>(first: Term<Known>, ...more: Term<Known>[]): Term<Known> {
  return group('all', [first, ...more]);
}

/** True when at least one term is. */
export function any<Known extends boolean>(first: Term<Known>, ...more: Term<Known>[]): Term<Known> {
  return group('any', [first, ...more]);
}

/** Only of terms that always have an answer: over anything else it would be true because something is missing. */
export function not(term: Term<true>): Term<true> {
  const given: Term = term;
  if (!given.known)
    throw new FleetError(
      'RuleInvalid',
      `not(…) over ${JSON.stringify(given.term)} would be true while that is not known`,
      "name what it must be instead: condition('…').is('False'), fact('…').in('…', '…')",
    );
  return { term: { not: given.term }, known: true };
}

function group<Known extends boolean>(kind: 'all' | 'any', terms: readonly Term<Known>[]): Term<Known> {
  // Plain JavaScript may call without any: the engine takes an empty list as true on every node.
  const [first] = terms;
  if (first === undefined) throw new FleetError('RuleInvalid', `${kind}() needs at least one condition`);
  const bad = terms.findIndex((each) => typeof each?.term !== 'object');
  if (bad >= 0)
    throw new FleetError('RuleInvalid', `argument ${bad + 1} of ${kind}(…) is not a condition`, "condition('KernelDeadlock').is('True')");
  return { term: { [kind]: terms.map((each) => each.term) }, known: (terms.find((each) => !each.known) ?? first).known };
}
