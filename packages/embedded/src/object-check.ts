import type { JsonObject } from '@kubenode/api-machinery/wire';
import { forbidden, invalid, type FieldProblem } from './field-error.ts';
import { embeddedProblems } from './embedded-object.ts';
import { equal, objectAt, stringsAt, textAt } from './json.ts';
import type { Served } from './kinds/served.ts';
import { checkMetadata } from './metadata-check.ts';
import { checkSubdomain } from './names.ts';
import { checkScale } from './scale-check.ts';
import { validate, validateLists } from './schema/validate.ts';

function checkMetadataUpdate(metadata: JsonObject, old: JsonObject): FieldProblem[] {
  const out: FieldProblem[] = [];
  if (old['deletionTimestamp'] !== undefined) {
    const before = new Set(stringsAt(old, 'finalizers'));
    const added = stringsAt(metadata, 'finalizers').filter((finalizer) => !before.has(finalizer));
    if (added.length > 0) {
      out.push(
        forbidden(
          'metadata.finalizers',
          `no new finalizers can be added if the object is being deleted, found new finalizers []string{${added
            .sort()
            .map((finalizer) => JSON.stringify(finalizer))
            .join(', ')}}`,
        ),
      );
    }
  }
  for (const field of ['name', 'namespace', 'uid', 'creationTimestamp', 'deletionTimestamp', 'deletionGracePeriodSeconds']) {
    if (!equal(metadata[field], old[field])) out.push(invalid(`metadata.${field}`, metadata[field], 'field is immutable'));
  }
  return out;
}

/** Errors after which rules over the whole object make no sense, as upstream skips CEL. */
const BLOCKING = new Set([
  'FieldValueNotSupported',
  'FieldValueRequired',
  'FieldValueTooLong',
  'FieldValueTooMany',
  'FieldValueTypeInvalid',
]);

function checkCustom(served: Served, object: JsonObject, old: JsonObject | undefined, subresource: string): FieldProblem[] {
  // Metadata has its own checks; apiVersion and kind are known to fit.
  const body = { ...object };
  const before = old === undefined ? undefined : { ...old };
  delete body['metadata'];
  if (before !== undefined) delete before['metadata'];
  const out: FieldProblem[] = [];
  if (subresource === 'status') {
    const schema = served.schema.properties?.['status'];
    if (schema !== undefined && body['status'] !== undefined) {
      // Upstream's words begin at the status, its paths at the object.
      const found = validate(body['status'], schema, '', before?.['status']);
      out.push(...found.map((problem) => ({ ...problem, field: problem.field === '' ? 'status' : `status.${problem.field}` })));
    }
  } else out.push(...validate(body, withoutMetadata(served), '', before));
  if (served.scale !== undefined) out.push(...checkScale(served.scale, object, subresource));
  out.push(...embeddedProblems(body, withoutMetadata(served)));
  const { metadata: _metadata, ...rest } = served.schema.properties ?? {};
  const listSchema = { ...served.schema, properties: rest };
  if (old === undefined || validateLists(before ?? {}, listSchema).length === 0) out.push(...validateLists(body, listSchema));
  return out;
}

const bodies = new WeakMap<Served, Served['schema']>();

function withoutMetadata(served: Served): Served['schema'] {
  let schema = bodies.get(served);
  if (schema === undefined) {
    const { metadata: _metadata, ...properties } = served.schema.properties ?? {};
    schema = {
      ...served.schema,
      properties,
      ...(served.schema.required === undefined ? {} : { required: served.schema.required.filter((name) => name !== 'metadata') }),
    };
    bodies.set(served, schema);
  }
  return schema;
}

const UNCHECKED =
  'some validation rules were not checked because the object was invalid; correct the existing errors to complete validation';

/** CEL rules; not evaluated while the object does not have the shape that they rely on. */
function checkRules(
  served: Served,
  object: JsonObject,
  old: JsonObject | undefined,
  problems: readonly FieldProblem[],
  warn: (text: string) => void,
): FieldProblem[] {
  const rules = served.custom?.rules;
  if (rules === undefined) return [];
  return problems.some((problem) => BLOCKING.has(problem.type))
    ? [invalid('', null, UNCHECKED)]
    : rules.evaluate(object, old, warn).map(({ problem }) => problem);
}

/** Everything that is wrong with an object that is about to be stored. */
export function problemsOf(
  served: Served,
  object: JsonObject,
  old: JsonObject | undefined,
  subresource: string,
  warn: (text: string) => void,
): FieldProblem[] {
  const metadata = objectAt(object, 'metadata');
  const out = old === undefined ? [] : checkMetadataUpdate(metadata, objectAt(old, 'metadata'));
  out.push(...checkMetadata(metadata, served.namespaced));
  const checkName = served.custom === undefined ? served.strategy.validateName : checkSubdomain;
  const name = textAt(metadata, 'name') ?? '';
  if (old === undefined && checkName !== undefined && name !== '') {
    for (const line of checkName(name)) out.push(invalid('metadata.name', name, line));
  }
  if (served.custom !== undefined) {
    out.push(...checkCustom(served, object, old, subresource));
    out.push(...checkRules(served, object, old, out, warn));
  } else out.push(...(served.strategy.validate?.(object, old, subresource) ?? []));
  return out;
}

/** Warnings about finalizers that may clash, as upstream gives for custom resources. */
export function finalizerWarnings(object: JsonObject, old: JsonObject | undefined): string[] {
  const before = new Set(stringsAt(old, 'metadata', 'finalizers'));
  return stringsAt(object, 'metadata', 'finalizers')
    .filter((name) => !before.has(name) && !name.includes('/') && !['orphan', 'foregroundDeletion', 'kubernetes'].includes(name))
    .map((name) => {
      const path = name.includes('.') ? ' including a path (/)' : '';
      return `metadata.finalizers: ${JSON.stringify(name)}: prefer a domain-qualified finalizer name${path} to avoid accidental conflicts with other finalizer writers`;
    });
}
