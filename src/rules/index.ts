/** The rules that run, compiled once, and which of them a change of a fact concerns. */
import type { FactRef } from '../api/named-fact.ts';
import { canonical, sha256Hex } from '../api/digest.ts';
import type { NodeRemedier } from '../api/node-remedier.ts';
import { DEFAULT_CLEARS_AFTER_SECONDS } from '../api/node-remedier/values.ts';
import type { Machine } from '../api/machine.ts';
import { matchesLabels } from '../api/selector.ts';
import { validationErrorText } from './validation-error.ts';
import type { Leaf } from './leaf.ts';
import { compileWhen, leavesOf, type When } from './when.ts';
import { ruleError } from './errors.ts';

export interface CompiledRule {
  name: string;
  rule: NodeRemedier;
  when: When;
  /** Every leaf of `when`. */
  leaves: readonly Leaf[];
  /** `FactRef.reads` of every leaf, and the labels that its selector goes by. */
  reads: ReadonlySet<string>;
  /** Of `when`: a clock does not outlive an edit of it. */
  digest: string;
  holdsForMs: number;
  clearsAfterMs: number;
}

/** Throws RuleRefused for one that `checkRule` refuses: such a rule never runs. */
export function compileRule(rule: NodeRemedier): CompiledRule {
  const { when, errors } = compileWhen(rule.spec.when);
  const { name } = rule.metadata;
  if (when === undefined)
    throw ruleError('RuleRefused', `NodeRemedier ${name}: ${errors.map(validationErrorText).join('; ')}`, {
      next: `kubenode rules check`,
    });
  const leaves = [...leavesOf(when)];
  return {
    name,
    rule,
    when,
    leaves,
    reads: new Set([
      ...leaves.map((leaf) => leaf.ref.reads),
      ...Object.keys(rule.spec.selector ?? {}).map((key) => `machine.label.${key}`),
    ]),
    digest: sha256Hex(canonical(rule.spec.when)).slice(0, 8),
    holdsForMs: rule.spec.holdsForSeconds * 1000,
    clearsAfterMs: (rule.spec.clearsAfterSeconds ?? DEFAULT_CLEARS_AFTER_SECONDS) * 1000,
  };
}

/** Whether a rule is about a machine at all. A selector that is empty selects nothing. */
export function appliesTo({ spec }: Pick<NodeRemedier, 'spec'>, machine: Pick<Machine, 'metadata'>): boolean {
  if (spec.pools !== undefined && !spec.pools.includes(machine.metadata.namespace ?? '')) return false;
  return spec.selector === undefined || matchesLabels(spec.selector, machine.metadata.labels);
}

export interface RuleIndex {
  rules: ReadonlyMap<string, CompiledRule>;
  byRead: ReadonlyMap<string, readonly string[]>;
  /** Conditions whose age or rises some rule reads. */
  watched: ReadonlySet<string>;
  /** Conditions whose age some rule reads. */
  aged: ReadonlySet<string>;
  /** Conditions whose rises some rule counts, with the longest window, ms. */
  windows: ReadonlyMap<string, number>;
  /** Names of the bands of hysteresis that some rule reads. */
  bands: ReadonlySet<string>;
}

/** Condition that a fact with time is about. */
export function timedCondition(ref: FactRef): string | undefined {
  if (ref.inner !== undefined) return timedCondition(ref.inner);
  return ref.id === 'condition.rises' || ref.id === 'condition.ageSeconds' ? ref.subjects[0] : undefined;
}

/** Whether a fact grows with time, so that the time has to be watched. */
export const isAge = (ref: FactRef): boolean => (ref.inner ?? ref).id === 'condition.ageSeconds';

/** Name of the band a hysteresis is in; equal ones are shared by rules. */
export function bandOf({ ref, params }: Pick<Leaf, 'ref' | 'params'>): string {
  return [ref.inner?.name ?? ref.name, params['enter'], params['leave'], params['windowSeconds'] ?? ''].join('/');
}

export function indexRules(rules: readonly CompiledRule[]): RuleIndex {
  const byRead = new Map<string, string[]>();
  const watched = new Set<string>();
  const aged = new Set<string>();
  const windows = new Map<string, number>();
  const bands = new Set<string>();
  for (const { name, reads, leaves } of rules) {
    for (const read of reads) {
      const names = byRead.get(read);
      if (names === undefined) byRead.set(read, [name]);
      else names.push(name);
    }
    for (const leaf of leaves) {
      const type = timedCondition(leaf.ref);
      if (type !== undefined) watched.add(type);
      if (type !== undefined && isAge(leaf.ref)) aged.add(type);
      const windowMs = Number(leaf.params['windowSeconds'] ?? 0) * 1000;
      if (type !== undefined && windowMs > 0) windows.set(type, Math.max(windows.get(type) ?? 0, windowMs));
      if (leaf.ref.id === 'hysteresis') bands.add(bandOf(leaf));
    }
  }
  return { rules: new Map(rules.map((rule) => [rule.name, rule])), byRead, watched, aged, windows, bands };
}

/** Names of the rules to run after a change (see `changes`; undefined: everything changed), in the order of the index. */
export function rulesReading(index: RuleIndex, changed: ReadonlySet<string> | undefined): string[] {
  if (changed === undefined) return [...index.rules.keys()];
  const names = new Set<string>();
  for (const read of changed) for (const name of index.byRead.get(read) ?? []) names.add(name);
  return names.size < 2 ? [...names] : [...index.rules.keys()].filter((name) => names.has(name));
}
