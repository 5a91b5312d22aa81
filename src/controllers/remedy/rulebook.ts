/** The rules that run: those that are valid together, compiled and indexed. */
import { canonical } from '../../api/digest.ts';
import type { NodeRemedier } from '../../api/node-remedier.ts';
import type { Stored } from '../../api/wire.ts';
import { isTrue } from '../../kube/conditions.ts';
import { checkRules } from '../../rules/check.ts';
import { compileRule, indexRules, type CompiledRule, type RuleIndex } from '../../rules/index.ts';
import type { ValidationError } from '../../rules/validation-error.ts';

export interface Rulebook {
  index: RuleIndex;
  /** Of rules that do not run, by name. */
  errors: ReadonlyMap<string, readonly ValidationError[]>;
  /** What each rule was compiled from. */
  sources: ReadonlyMap<string, string>;
}

export const EMPTY_BOOK: Rulebook = { index: indexRules([]), errors: new Map(), sources: new Map() };

const sourceOf = ({ metadata, spec }: NodeRemedier): string => canonical([metadata.uid, spec]);

/**
 * Checks all rules together. A new rule does not stop a rule that is accepted in its present form, though it contradicts that. What has not changed stays the same
 * object as in `before`; when nothing has, so does the book.
 */
export function openRulebook(rules: readonly Stored<NodeRemedier>[], before: Rulebook = EMPTY_BOOK): Rulebook {
  const sorted = rules
    .filter((rule) => rule.metadata.deletionTimestamp === undefined)
    .toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
  const sources = new Map(sorted.map((rule) => [rule.metadata.name, sourceOf(rule)]));
  if (sources.size === before.sources.size && [...sources].every(([name, source]) => before.sources.get(name) === source)) return before;
  const standing = new Set(
    sorted
      .filter(({ metadata, status }) => {
        const { name } = metadata;
        if (before.index.rules.has(name)) return before.sources.get(name) === sources.get(name);
        return isTrue(status?.conditions, 'Accepted', metadata.generation);
      })
      .map((rule) => rule.metadata.name),
  );
  const errors = checkRules(sorted, standing);
  const compiled = sorted
    .filter((rule) => !errors.has(rule.metadata.name))
    .map((rule): CompiledRule => {
      const old = before.index.rules.get(rule.metadata.name);
      return old !== undefined && before.sources.get(old.name) === sources.get(old.name) ? old : compileRule(rule);
    });
  return { index: indexRules(compiled), errors, sources };
}

/** Rules that were added, removed or are other ones than before. */
export function changedRules(before: Rulebook, after: Rulebook): Set<string> {
  const names = new Set([...before.index.rules.keys(), ...after.index.rules.keys()]);
  return new Set([...names].filter((name) => before.index.rules.get(name) !== after.index.rules.get(name)));
}
