/** What must be true of one object by itself. */
import type { FieldError } from '../../api/kind.ts';
import { groupOf } from '../../api/unit.ts';
import type { KubeObject } from '../../api/wire.ts';
import { ANNOTATIONS, LABELS } from '../../api/names.ts';
import { isLabel, isPathSegment, isSubdomain } from '../../api/object-name.ts';
import type { FindingCode } from './errors.ts';
import { kindRule } from './kind-rules.ts';

export interface ObjectFinding {
  code: FindingCode;
  message: string;
  path?: string;
  next?: string;
}

/** Written by the server or by other controllers; Git would fight with them. */
const SERVER_METADATA = [
  'uid',
  'resourceVersion',
  'generation',
  'creationTimestamp',
  'deletionTimestamp',
  'managedFields',
  'generateName',
  'ownerReferences',
  'selfLink',
];

const SPEC_OWNERS = new Map([
  ['unitDigest', 'is written by sync'],
  ['ceiling', 'is written by rollouts'],
  ['lane', 'is written by rollouts'],
]);

/** The findings of the CEL rules of its kind about an object that its schema lets in: of `@kubenode/embedded`, which sync does not import. `spent` gets what that cost. */
export type JudgeObject = (object: KubeObject, spent?: (cost: number) => void) => readonly FieldError[];

export function checkObject(object: KubeObject, judgeObject: JudgeObject): ObjectFinding[] {
  const rule = kindRule(object);
  if (!rule.allowed) return [{ code: 'KindRefused', message: rule.message, ...(rule.next === undefined ? {} : { next: rule.next }) }];
  const findings: ObjectFinding[] = [...checkMetadata(object), ...checkSecrecy(object)];
  if ('status' in object)
    findings.push({
      code: 'FieldRefused',
      path: 'status',
      message: 'must not be set: status is what was observed, a fleet declares what is wanted',
    });
  if (groupOf(object.apiVersion) === 'kubenode.io' && 'spec' in object && object.spec !== null && typeof object.spec === 'object') {
    for (const [field, owner] of SPEC_OWNERS)
      if (field in object.spec) findings.push({ code: 'FieldRefused', path: `spec.${field}`, message: `must not be set: it ${owner}` });
  }
  const { namespace } = object.metadata;
  if (rule.scope === 'Namespaced' && namespace === undefined)
    findings.push({
      code: 'NamespaceWrong',
      path: 'metadata.namespace',
      message: `must be set: a ${object.kind} lives in a namespace`,
      next: "make it in a pool: cluster.pool('…')",
    });
  if (rule.scope === 'Cluster' && namespace !== undefined)
    findings.push({
      code: 'NamespaceWrong',
      path: 'metadata.namespace',
      message: `must not be set: a ${object.kind} lives in no namespace`,
      next: 'make it in the cluster and not in a pool',
    });
  if (findings.length === 0 && rule.kind !== undefined) {
    const errors = rule.kind.validate(object);
    // Rules rely on the shape of what they judge.
    const labels = errors.length > 0 ? [] : labelMaps(object).flatMap(([path, each]) => checkLabels(each, path, true));
    // A rule names the map, and here each key of it is named.
    const judged = (errors.length > 0 ? [] : judgeObject(object)).filter(
      ({ path }) => !labels.some((each) => each.path?.startsWith(`${path}[`) === true),
    );
    findings.push(...asFindings([...errors, ...judged]), ...labels);
  }
  return findings;
}

/**
 * Labels and selectors in the spec of our kinds. Of selectors no server refuses the keys: one would match nothing
 * for ever, and what is to carry a label could never be made.
 */
function labelMaps({ kind, ...object }: KubeObject): [path: string, labels: unknown][] {
  const { spec } = object as { spec?: unknown };
  const found: [string, unknown][] = [];
  const walk = (value: unknown, path: string): void => {
    if (value === null || typeof value !== 'object') return;
    if (Array.isArray(value)) return value.forEach((item, index) => walk(item, `${path}[${index}]`));
    for (const [field, member] of Object.entries(value)) {
      const at = `${path}.${field}`;
      if (LABEL_MAPS.has(field)) found.push([at, member]);
      else if (!OPAQUE.has(field)) walk(member, at);
    }
  };
  if (kind !== 'MachineComponent') walk(spec, 'spec');
  return found;
}

const LABEL_MAPS = new Set(['labels', 'selector', 'clusterSelector']);
/** What is only handed on. */
const OPAQUE = new Set(['values', 'config', 'args', 'when']);

export const asFindings = (errors: readonly FieldError[]): ObjectFinding[] =>
  errors.map(({ path, message }) => ({ code: 'SchemaInvalid', path, message }));

function checkSecrecy(object: KubeObject): ObjectFinding[] {
  if (object.kind !== 'Secret' || groupOf(object.apiVersion) !== '') return [];
  return ['data', 'stringData']
    .filter((field) => field in object)
    .map((path) => ({
      code: 'SecretInGit' as const,
      path,
      message: 'must not be set: Git keeps every value for ever, so secrets are never in it',
      next: 'put the Secret into the cluster by other means and name it here',
    }));
}

function checkMetadata(object: KubeObject): ObjectFinding[] {
  const findings: ObjectFinding[] = [];
  const { metadata } = object;
  for (const field of SERVER_METADATA)
    if (field in metadata)
      findings.push({ code: 'FieldRefused', path: `metadata.${field}`, message: 'must not be set: the server writes it' });
  const named =
    groupOf(object.apiVersion) === 'rbac.authorization.k8s.io'
      ? pathSegment(metadata.name)
      : object.kind === 'Namespace'
        ? label(metadata.name)
        : subdomain(metadata.name);
  if (named !== undefined) findings.push({ code: 'NameInvalid', path: 'metadata.name', message: named });
  const namespace = metadata.namespace === undefined ? undefined : label(metadata.namespace);
  if (namespace !== undefined) findings.push({ code: 'NameInvalid', path: 'metadata.namespace', message: namespace });
  findings.push(
    ...checkLabels(metadata.labels, 'metadata.labels', true),
    ...checkLabels(metadata.annotations, 'metadata.annotations', false),
  );
  return findings;
}

const OURS = new Set<string>([LABELS.fleet, ANNOTATIONS.origin]);

export function checkLabels(labels: unknown, path: string, values: boolean): ObjectFinding[] {
  if (labels === undefined) return [];
  if (labels === null || typeof labels !== 'object') return [{ code: 'LabelInvalid', path, message: 'must be keys and texts' }];
  return Object.entries(labels).flatMap(([key, value]): ObjectFinding[] => {
    const at = `${path}["${key}"]`;
    const slash = key.indexOf('/');
    const prefix = slash < 0 ? undefined : subdomain(key.slice(0, slash));
    if (OURS.has(key)) return [{ code: 'FieldRefused', path: at, message: 'must not be set: it is written by sync' }];
    if (prefix !== undefined || !QUALIFIED.test(key.slice(slash + 1)))
      return [
        { code: 'LabelInvalid', path: at, message: 'is no key: [prefix/]name, the name at most 63 letters, digits, "-", "_" and "."' },
      ];
    if (typeof value !== 'string')
      return [{ code: 'LabelInvalid', path: at, message: `must be text, got ${JSON.stringify(value)}`, next: `'${String(value)}'` }];
    if (values && value !== '' && !QUALIFIED.test(value))
      return [{ code: 'LabelInvalid', path: at, message: `must be at most 63 letters, digits, "-", "_" and ".", got "${value}"` }];
    return [];
  });
}

const QUALIFIED = /^(?=.{1,63}$)[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$/;

/** RFC 1123: what a namespace and a pool may be called. */
export function label(name: string): string | undefined {
  if (isLabel(name)) return undefined;
  return `must be at most 63 lower-case letters, digits and "-", beginning and ending with a letter or digit, got "${name}"`;
}

function subdomain(name: string): string | undefined {
  if (isSubdomain(name)) return undefined;
  return `must be at most 253 lower-case letters, digits, "-" and ".", each part beginning and ending with a letter or digit, got "${name}"`;
}

function pathSegment(name: string): string | undefined {
  return isPathSegment(name) ? undefined : `must not be "." or ".." nor contain "/" or "%", got "${name}"`;
}
