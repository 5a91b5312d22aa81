/** Everything for which a rule is refused: in CI, by sync and by the controller, in the same words. */
import { clearingOf, healthyStatus } from '../api/node-condition.ts';
import { factNamed } from '../api/named-fact.ts';
import { NodeRemediers, type HealedWhen, type NodeRemedier, type Rung } from '../api/node-remedier.ts';
import { ACTION_ARGS, ACTION_TRAITS } from '../api/node-remedier/values.ts';
import { own } from '../api/own.ts';
import { canonical } from '../api/digest.ts';
import type { FieldError } from '../api/kind.ts';
import { validationError, type ValidationError } from './validation-error.ts';
import { requirementsOf, type Requirements } from './requires.ts';
import { compileWhen, type When } from './when.ts';

/** All errors in one rule as a user writes it; none: it may run. */
export function checkRule(object: unknown): ValidationError[] {
  const schema = NodeRemediers.validate(object);
  if (schema.length > 0) return schema.map(withHint);
  const { spec } = NodeRemediers.parse(object);
  const { when, errors } = compileWhen(spec.when);
  return [
    ...errors,
    ...checkPossible(when),
    ...(spec.selector !== undefined && Object.keys(spec.selector).length === 0
      ? [
          validationError(
            'spec.selector',
            'is empty, and an empty selector matches nothing',
            'leave it out for every machine, or name a label',
          ),
        ]
      : []),
    ...checkLadder(spec.ladder, spec.healedWhen),
    ...checkProof(spec.healedWhen, when),
  ];
}

function withHint({ path, message, code }: FieldError): ValidationError {
  switch (code) {
    case 'Unknown':
      return validationError(path, message, 'remove it');
    case 'Missing':
      return validationError(path, message, 'set it');
    case 'TooFew':
      return validationError(path, 'is empty', 'name at least one');
    case undefined:
      return validationError(path, message, message.replace(/^must be one of/, 'write one of').replace(/^must/, 'it must'));
    default:
      return code satisfies never;
  }
}

function checkPossible(when: When | undefined): ValidationError[] {
  if (when === undefined) return [];
  const impossible = [...requirementsOf(when)].find(([, values]) => values.size === 0);
  if (impossible === undefined) return [];
  return [
    validationError(
      'spec.when',
      `can never be true: ${impossible[0]} would need two values at once`,
      'put one of them into "any", or leave it out',
    ),
  ];
}

function checkLadder(ladder: readonly Rung[], healedWhen: HealedWhen): ValidationError[] {
  const errors: ValidationError[] = [];
  const last = ladder.length - 1;
  if (ladder[last]?.action !== 'Human')
    errors.push(
      validationError(
        `spec.ladder[${last}]`,
        'is the end of the ladder, and no human is asked there',
        'add a last rung {"action": "Human"}',
      ),
    );
  const seen = new Map<string, number>();
  for (const [index, rung] of ladder.entries()) {
    const at = `spec.ladder[${index}]`;
    errors.push(...checkRung(rung, at));
    if (rung.action === 'Human' && index < last)
      errors.push(validationError(at, 'asks a human before the end: nothing below it would ever be tried', 'move it to the end'));
    const key = `${rung.action} ${canonical(rung.args ?? {})}`;
    const before = seen.get(key);
    if (before !== undefined)
      errors.push(validationError(at, `is the same as spec.ladder[${before}]`, `give spec.ladder[${before}] more attempts`));
    seen.set(key, index);
    const unprovable = unprovableBy(rung, healedWhen);
    if (unprovable !== undefined)
      errors.push(
        validationError(at, `${rung.action} could never be proved: ${unprovable}`, 'use Reboot or Replace, or another proof in healedWhen'),
      );
  }
  return errors;
}

function unprovableBy({ action }: Rung, { condition, of, onNewBoot }: HealedWhen): string | undefined {
  if (action === 'Reboot' || ACTION_TRAITS[action].proof !== 'Healed') return undefined;
  if (onNewBoot === true) return 'healedWhen.onNewBoot asks for a new boot';
  if (of !== 'Machine' && clearingOf(condition) === 'Latched')
    return `${condition} stays as it is until its detector restarts or the node boots`;
  return undefined;
}

function checkRung(rung: Rung, at: string): ValidationError[] {
  const errors: ValidationError[] = [];
  const allowed = ACTION_ARGS[rung.action];
  const args = rung.args ?? {};
  const takes = Object.keys(allowed).join(', ');
  for (const key of Object.keys(args))
    if (!Object.hasOwn(allowed, key))
      errors.push(
        validationError(`${at}.args.${key}`, `${rung.action} has no such argument`, takes === '' ? 'remove it' : `it takes ${takes}`),
      );
  for (const [key, argument] of Object.entries(allowed)) {
    if (args[key] === undefined && argument.required)
      errors.push(validationError(`${at}.args.${key}`, `must be set for ${rung.action}`, `set it: ${argument.allowed}`));
    if (args[key] !== undefined && !argument.accepts(args[key]))
      errors.push(validationError(`${at}.args.${key}`, `${JSON.stringify(args[key])} is not possible`, `set ${argument.allowed}`));
  }
  if (rung.action !== 'Human') return errors;
  for (const key of ['attempts', 'timeoutSeconds', 'cooldownSeconds'] as const)
    if (rung[key] !== undefined) errors.push(validationError(`${at}.${key}`, 'means nothing where a human is asked', 'remove it'));
  return errors;
}

const proofFact = ({ condition, of }: HealedWhen): string => `${of === 'Machine' ? 'machine.' : ''}condition.${condition}.status`;

function checkProof(healedWhen: HealedWhen, when: When | undefined): ValidationError[] {
  const { condition, is, of } = healedWhen;
  const fact = proofFact(healedWhen);
  if (factNamed(fact) === undefined)
    return [
      validationError(
        'spec.healedWhen.condition',
        `${JSON.stringify(condition)} is not the type of a condition`,
        'for instance "KernelDeadlock"',
      ),
    ];
  const errors: ValidationError[] = [];
  if (of !== 'Machine' && clearingOf(condition) !== 'Unknown' && is !== healthyStatus(condition))
    errors.push(validationError('spec.healedWhen.is', `${condition} is bad when ${is}`, `write "${healthyStatus(condition)}"`));
  if (when !== undefined && requirementsOf(when).get(fact)?.has(is) === true)
    errors.push(
      validationError(
        'spec.healedWhen',
        `${condition} ${is} is what the rule fires on, so it would prove the fault`,
        `prove ${is === 'True' ? 'False' : 'True'}, or another condition`,
      ),
    );
  return errors;
}

interface Acting {
  rule: NodeRemedier;
  requires: Requirements;
}

/**
 * The errors of a whole set, by name of the rule; only names with errors are in it. Of two rules that would undo each other both are
 * refused, unless `standing` (rules that run already) names exactly one of them: then a newcomer cannot stop what runs.
 */
export function checkRules(objects: readonly unknown[], standing: ReadonlySet<string> = new Set()): Map<string, ValidationError[]> {
  const found = new Map<string, ValidationError[]>();
  const sound: Acting[] = [];
  const add = (name: string, errors: readonly ValidationError[]) => {
    if (errors.length > 0) found.set(name, [...(found.get(name) ?? []), ...errors]);
  };
  const names = new Set<string>();
  for (const object of objects) {
    const name = nameOf(object);
    const errors = checkRule(object);
    add(name, errors);
    if (names.has(name))
      add(name, [validationError('metadata.name', `${JSON.stringify(name)} is the name of two rules`, 'give one of them another name')]);
    names.add(name);
    if (errors.length > 0) continue;
    const rule = NodeRemediers.parse(object);
    const { when } = compileWhen(rule.spec.when);
    if (when !== undefined) sound.push({ rule, requires: requirementsOf(when) });
  }
  for (const [index, a] of sound.entries())
    for (const b of sound.slice(index + 1)) {
      if (!undoes(a, b) || !undoes(b, a) || !overlap(a.rule, b.rule)) continue;
      const [first, second] = [a.rule.metadata.name, b.rule.metadata.name];
      const both = standing.has(first) === standing.has(second);
      if (both || standing.has(second)) add(first, [undoing(a, b)]);
      if (both || standing.has(first)) add(second, [undoing(b, a)]);
    }
  return found;
}

function nameOf(object: unknown): string {
  const { metadata } = (object ?? {}) as { metadata?: { name?: unknown } };
  return typeof metadata?.name === 'string' ? metadata.name : '';
}

function undoing({ rule }: Acting, other: Acting): ValidationError {
  const { condition, is } = rule.spec.healedWhen;
  return validationError(
    'spec.healedWhen',
    `${condition} ${is} is what NodeRemedier ${other.rule.metadata.name} fires on, and what proves that one is what this one fires on: they would undo each other for ever`,
    'let one of them require another status, or give them different pools',
  );
}

/** Whether the state in which `a` leaves a node is one that `b` asks for by name. What `a` required beside its proof is still so. */
function undoes(a: Acting, b: Acting): boolean {
  const { healedWhen } = a.rule.spec;
  const proof = proofFact(healedWhen);
  if (b.requires.get(proof)?.has(healedWhen.is) !== true) return false;
  return [...b.requires].every(([fact, values]) => {
    const left = fact === proof ? new Set([healedWhen.is as string]) : a.requires.get(fact);
    return left === undefined || [...left].some((value) => values.has(value));
  });
}

/** Whether some machine could have both. */
function overlap(a: NodeRemedier, b: NodeRemedier): boolean {
  const [pools, others] = [a.spec.pools, b.spec.pools];
  if (pools !== undefined && others !== undefined && !pools.some((pool) => others.includes(pool))) return false;
  const labels = b.spec.selector ?? {};
  return Object.entries(a.spec.selector ?? {}).every(([key, value]) => (own(labels, key) ?? value) === value);
}
