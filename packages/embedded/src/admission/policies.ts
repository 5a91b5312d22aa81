/** Admission by ValidatingAdmissionPolicies and their bindings: what valid writes are let in. */
import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { CostExceeded, withinRequest } from '../cel/cost.ts';
import { openValue, type OpenExpression } from '../cel/open.ts';
import { EvaluationFault } from '../cel/types.ts';
import { isObject, listAt, objectAt, stringMapAt, stringsAt, textAt } from '../json.ts';
import { ADMISSION_GROUP } from '../kinds/policy.ts';
import type { Served, User } from '../kinds/served.ts';
import { qualified, Refusal } from '../refusal.ts';
import { labelSelectorOf } from '../selector.ts';
import { parsed } from '../store/entry.ts';
import type { EmbeddedStore } from '../store/store.ts';
import { compilePolicy, type CompiledPolicy } from './compile.ts';

/** A write that is valid. */
export interface Admitted {
  readonly served: Served;
  readonly subresource: string;
  readonly operation: 'CREATE' | 'UPDATE' | 'DELETE';
  readonly namespace: string;
  readonly name: string;
  readonly user: User;
  readonly dryRun: boolean;
  readonly options?: JsonObject;
  readonly object: JsonObject | undefined;
  readonly oldObject: JsonObject | undefined;
  readonly warn: (text: string) => void;
}

interface Bound {
  readonly policy: CompiledPolicy;
  readonly constraints: JsonObject;
  readonly binding: string;
  readonly within: JsonObject | undefined;
  readonly actions: readonly string[];
}

const POLICIES = `${ADMISSION_GROUP}/validatingadmissionpolicies`;
const BINDINGS = `${ADMISSION_GROUP}/validatingadmissionpolicybindings`;
const CODES: Readonly<Record<string, number>> = { Unauthorized: 401, Forbidden: 403, RequestEntityTooLarge: 413, Invalid: 422 };

const has = (list: readonly string[], wanted: string): boolean => list.includes('*') || list.includes(wanted);

function hasResource(resources: readonly string[], plural: string, subresource: string): boolean {
  if (resources.includes('*/*')) return true;
  if (subresource === '') return has(resources, plural);
  return resources.some((each) => each === `${plural}/${subresource}` || each === `${plural}/*` || each === `*/${subresource}`);
}

function ruleMatches(rule: Json, { served, subresource, operation, namespace, name }: Admitted): boolean {
  const scope = textAt(rule, 'scope') ?? '*';
  const names = stringsAt(rule, 'resourceNames');
  return (
    has(stringsAt(rule, 'operations'), operation) &&
    has(stringsAt(rule, 'apiGroups'), served.group) &&
    has(stringsAt(rule, 'apiVersions'), served.version) &&
    hasResource(stringsAt(rule, 'resources'), served.plural, subresource) &&
    (scope === '*' || scope === (namespace === '' ? 'Cluster' : 'Namespaced')) &&
    (names.length === 0 || names.includes(name))
  );
}

export class Policies {
  readonly #store: EmbeddedStore;
  #bound: readonly Bound[] | undefined;

  constructor(store: EmbeddedStore) {
    this.#store = store;
    store.onEvent(({ resource }) => {
      if (resource === POLICIES || resource === BINDINGS) this.#bound = undefined;
    });
  }

  /** Throws a Refusal when a policy denies the write. */
  admit(write: Admitted): void {
    // Policies do not apply to policies: no user could repair one that refuses everything.
    if (write.served.group === ADMISSION_GROUP) return;
    const matching = this.#all().filter((bound) => this.#matches(bound, write));
    if (matching.length === 0) return;
    const values = valuesOf(write, this.#store);
    withinRequest(() => {
      for (const bound of matching) evaluate(bound, write, values);
    });
  }

  #matches({ constraints, within }: Bound, write: Admitted): boolean {
    if (!listAt(constraints, 'resourceRules').some((rule) => ruleMatches(rule, write))) return false;
    return [constraints, ...(within === undefined ? [] : [within])].every((each) => this.#selects(each, write));
  }

  #selects(matching: JsonObject, write: Admitted): boolean {
    const rules = listAt(matching, 'resourceRules');
    if (rules.length > 0 && !rules.some((rule) => ruleMatches(rule, write))) return false;
    if (listAt(matching, 'excludeResourceRules').some((rule) => ruleMatches(rule, write))) return false;
    const objects = labelSelectorOf(matching['objectSelector'] ?? {});
    const labels = [write.object, write.oldObject]
      .filter((each) => each !== undefined)
      .map((each) => stringMapAt(each, 'metadata', 'labels'));
    if (!objects.empty && !labels.some((each) => objects.matches(each))) return false;
    const namespaces = labelSelectorOf(matching['namespaceSelector'] ?? {});
    if (namespaces.empty || write.namespace === '') return true;
    return namespaces.matches(this.#store.table('/namespaces').get(write.namespace)?.labels ?? {});
  }

  #all(): readonly Bound[] {
    this.#bound ??= Array.from(this.#store.table(BINDINGS).entries())
      .sort((a, b) => (a.name < b.name ? -1 : 1))
      .flatMap((entry): Bound[] => {
        const spec = objectAt(parsed(entry), 'spec');
        const policy = this.#store.table(POLICIES).get(textAt(spec, 'policyName') ?? '');
        if (policy === undefined) return [];
        const object = parsed(policy);
        return [
          {
            policy: withinRequest(() => compilePolicy(object)),
            constraints: objectAt(object, 'spec', 'matchConstraints'),
            binding: entry.name,
            within: isObject(spec['matchResources']) ? spec['matchResources'] : undefined,
            actions: stringsAt(spec, 'validationActions'),
          },
        ];
      });
    return this.#bound;
  }
}

type Values = Readonly<Record<string, unknown>>;

function requestOf({ served, subresource, operation, namespace, name, user, dryRun, options }: Admitted): JsonObject {
  const kind = { group: served.group, version: served.version, kind: served.kind };
  const resource = { group: served.group, version: served.version, resource: served.plural };
  return {
    kind,
    resource,
    requestKind: kind,
    requestResource: resource,
    ...(subresource === '' ? {} : { subResource: subresource, requestSubResource: subresource }),
    ...(name === '' ? {} : { name }),
    ...(namespace === '' ? {} : { namespace }),
    operation,
    userInfo: { username: user.name, groups: [...user.groups], ...(user.uid === undefined ? {} : { uid: user.uid }) },
    dryRun,
    ...(options === undefined ? {} : { options }),
  };
}

function valuesOf(write: Admitted, store: EmbeddedStore): Values {
  const namespace = write.namespace === '' ? undefined : store.table('/namespaces').get(write.namespace);
  return {
    object: openValue(write.object),
    oldObject: openValue(write.oldObject),
    request: openValue(requestOf(write)),
    namespaceObject: namespace === undefined ? null : openValue(parsed(namespace)),
  };
}

/** Variables are evaluated when they are first asked for, once; each may ask for those before it. */
function withVariables({ variables }: CompiledPolicy, values: Values): Values {
  const own: Record<string, unknown> = {};
  const all: Values = { ...values, variables: own };
  for (const { name, test } of variables) {
    let known: { value: unknown } | undefined;
    Object.defineProperty(own, name, {
      enumerable: true,
      get: () => {
        known ??= { value: variable(name, test, all) };
        return known.value;
      },
    });
  }
  return all;
}

function variable(name: string, test: OpenExpression, values: Values): unknown {
  try {
    return test.evaluate(values);
  } catch (error) {
    if (error instanceof CostExceeded || !(error instanceof EvaluationFault)) throw error;
    throw new EvaluationFault(`composited variable ${JSON.stringify(name)} fails to evaluate: ${error.message}`);
  }
}

/** Throws a Refusal. An expression that cannot be evaluated denies, unless the policy ignores failures. */
function evaluate(bound: Bound, write: Admitted, values: Values): void {
  const { policy } = bound;
  const [problem] = policy.problems;
  if (problem !== undefined) return failed(bound, write, `${problem.field}: ${problem.message}`);
  try {
    if (!policy.conditions.every(({ test }) => test.evaluate(values) === true)) return;
  } catch (error) {
    return failed(bound, write, wordsOf(error));
  }
  const all = withVariables(policy, values);
  for (const validation of policy.validations) {
    let isMet;
    try {
      isMet = validation.test.evaluate(all);
    } catch (error) {
      failed(bound, write, `expression '${validation.test.text}' resulted in error: ${wordsOf(error)}`);
      continue;
    }
    if (isMet !== true) denied(bound, write, messageOf(validation, all), validation.reason);
  }
}

function wordsOf(error: unknown): string {
  if (error instanceof EvaluationFault) return error.message;
  throw error;
}

function messageOf({ test, message, messageExpression }: CompiledPolicy['validations'][number], values: Values): string {
  const own = message.trim() === '' ? `failed expression: ${test.text.trim()}` : message.trim();
  if (messageExpression === undefined) return own;
  try {
    const text = messageExpression.evaluate(values);
    return typeof text === 'string' && text.trim() !== '' && !text.includes('\n') ? text.trim() : own;
  } catch (error) {
    if (error instanceof EvaluationFault) return own;
    throw error;
  }
}

function failed(bound: Bound, write: Admitted, words: string): void {
  if (bound.policy.failsClosed) denied(bound, write, words, 'Invalid');
}

function denied({ policy, binding, actions }: Bound, { served, name, warn }: Admitted, words: string, reason: string): void {
  if (actions.includes('Warn'))
    warn(`Validation failed for ValidatingAdmissionPolicy '${policy.name}' with binding '${binding}': ${words}`);
  if (!actions.includes('Deny')) return;
  const message = `ValidatingAdmissionPolicy '${policy.name}' with binding '${binding}' denied request: ${words}`;
  // A deletion of a collection has no name.
  const known = name === '' ? 'Unknown' : name;
  throw new Refusal(CODES[reason] ?? 422, reason, `${qualified(served)} ${JSON.stringify(known)} is forbidden: ${message}`, {
    name: known,
    ...(served.group === '' ? {} : { group: served.group }),
    kind: served.plural,
    causes: [{ message }],
  });
}
