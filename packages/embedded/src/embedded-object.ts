/** Values that are objects of their own inside another one: `x-kubernetes-embedded-resource`. */
import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { invalid, required, type FieldProblem } from './field-error.ts';
import { isObject, textAt } from './json.ts';
import { checkMetadata } from './metadata-check.ts';
import { checkKind } from './names.ts';
import type { Schema } from './schema/schema.ts';

const child = (path: string, key: string): string => (path === '' ? key : `${path}.${key}`);

type Visit = (object: JsonObject, path: string) => void;

/** Every object that its schema declares to be a whole one, the outer before the inner. */
function visit(value: Json, schema: Schema | undefined, path: string, found: Visit): void {
  if (schema === undefined) return;
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) visit(item, schema.items, `${path}[${index}]`, found);
    return;
  }
  if (!isObject(value)) return;
  if (schema['x-kubernetes-embedded-resource'] === true) found(value, path);
  const rest = typeof schema.additionalProperties === 'object' ? schema.additionalProperties : undefined;
  for (const [key, item] of Object.entries(value)) {
    const known = schema.properties?.[key];
    if (known !== undefined) visit(item, known, child(path, key), found);
    else visit(item, rest, `${path}[${key}]`, found);
  }
}

function versionProblems(version: string, path: string): FieldProblem[] {
  if (version === '') return [invalid(path, version, 'must not be empty')];
  return version.split('/').length > 2 ? [invalid(path, version, `unexpected GroupVersion string: ${version}`)] : [];
}

function kindProblems(kind: string, path: string): FieldProblem[] {
  if (kind === '') return [invalid(path, kind, 'must not be empty')];
  const lines = checkKind(kind);
  return lines.length === 0 ? [] : [invalid(path, kind, `may have mixed case, but should otherwise match: ${lines.join(',')}`)];
}

function problemsAt(object: JsonObject, path: string): FieldProblem[] {
  const { apiVersion, kind, metadata } = object;
  const out: FieldProblem[] = [];
  if (apiVersion === undefined) out.push(required(child(path, 'apiVersion')));
  if (kind === undefined) out.push(required(child(path, 'kind')));
  if (typeof apiVersion === 'string') out.push(...versionProblems(apiVersion, child(path, 'apiVersion')));
  if (typeof kind === 'string') out.push(...kindProblems(kind, child(path, 'kind')));
  if (!isObject(metadata)) return out;
  // It may lack a name, which the object around it may not.
  const named = { ...metadata, name: textAt(metadata, 'name') || 'fakename' };
  for (const problem of checkMetadata(named, (textAt(metadata, 'namespace') ?? '') !== '')) {
    out.push({ ...problem, field: child(path, problem.field) });
  }
  return out;
}

/** What is wrong with the type and the metadata of each of them. */
export function embeddedProblems(value: Json, schema: Schema): FieldProblem[] {
  const out: FieldProblem[] = [];
  visit(value, schema, '', (object, path) => out.push(...problemsAt(object, path)));
  return out;
}

/** The first of them whose type or metadata could not be read at all; `read` corrects the metadata itself and returns whether it could. */
export function readEmbedded(value: Json, schema: Schema, read: (metadata: JsonObject) => boolean): FieldProblem | undefined {
  let problem: FieldProblem | undefined;
  visit(value, schema, '', (object, path) => {
    for (const field of ['apiVersion', 'kind']) {
      const given = object[field];
      if (given !== undefined && typeof given !== 'string') problem ??= invalid(child(path, field), given, 'must be a string');
    }
    const { metadata } = object;
    if (metadata === undefined || (isObject(metadata) && read(metadata))) return;
    problem ??= invalid(child(path, 'metadata'), metadata, 'cannot be read as metadata');
  });
  return problem;
}
