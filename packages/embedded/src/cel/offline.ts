import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { copy, listAt, objectAt } from '../json.ts';
import { fillDefaults } from '../schema/defaults.ts';
import type { Schema } from '../schema/schema.ts';
import { withinRequest } from './cost.ts';
import { compileRules } from './rules.ts';

/** A rule that an object breaks: the field, and the message of the rule. */
export interface BrokenRule {
  readonly path: string;
  readonly message: string;
}

/** The rules of the first version of a CustomResourceDefinition that a new object breaks; its schema accepts the object, and its defaults are filled in. `spent` gets what each object cost. Throws on rules that cannot be compiled. */
export function rulesOf(definition: JsonObject): (object: Json, spent?: (cost: number) => void) => BrokenRule[] {
  const [version] = listAt(definition, 'spec', 'versions');
  // A definition of ours: its schema is made by `defineKind`.
  const schema = objectAt(version, 'schema', 'openAPIV3Schema') as Schema;
  const { rules, problems } = compileRules(schema, 'openAPIV3Schema');
  const [first] = problems;
  if (first !== undefined) throw new Error(`${first.field}: ${first.message}`);
  return (object, spent) => {
    if (rules === undefined) return [];
    const complete = copy(object);
    fillDefaults(complete, schema);
    // Each object costs as much as the server would let it, however many were judged before. Who judges many of them bounds what they cost together.
    return withinRequest(() => rules.evaluate(complete, undefined), spent).map(({ path, message }) => ({ path, message }));
  };
}
