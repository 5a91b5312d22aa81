import type { Json } from '@kubenode/api-machinery/wire';
import { listAt, stringsAt } from '../json.ts';

/** One rule of a role. */
export interface PolicyRule {
  readonly verbs: readonly string[];
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly resourceNames: readonly string[];
  readonly nonResourceURLs: readonly string[];
}

export const rulesOf = (role: Json | undefined): PolicyRule[] =>
  listAt(role, 'rules').map((rule) => ({
    verbs: stringsAt(rule, 'verbs'),
    apiGroups: stringsAt(rule, 'apiGroups'),
    resources: stringsAt(rule, 'resources'),
    resourceNames: stringsAt(rule, 'resourceNames'),
    nonResourceURLs: stringsAt(rule, 'nonResourceURLs'),
  }));

/** What a user asks to do: with a resource, or with a path that is none. */
export type Attributes =
  | {
      readonly verb: string;
      readonly group: string;
      readonly resource: string;
      readonly subresource: string;
      /** Empty: in all namespaces, or of the cluster. */
      readonly namespace: string;
      /** Empty: no object in particular. */
      readonly name: string;
    }
  | { readonly verb: string; readonly path: string };

const has = (list: readonly string[], wanted: string): boolean => list.includes('*') || list.includes(wanted);

function hasResource(resources: readonly string[], resource: string, subresource: string): boolean {
  const whole = subresource === '' ? resource : `${resource}/${subresource}`;
  return has(resources, whole) || (subresource !== '' && resources.includes(`*/${subresource}`));
}

const hasPath = (urls: readonly string[], path: string): boolean =>
  urls.some((url) => url === '*' || url === path || (url.endsWith('*') && path.startsWith(url.replace(/\*+$/, ''))));

export function allows(rule: PolicyRule, asked: Attributes): boolean {
  if (!has(rule.verbs, asked.verb)) return false;
  if ('path' in asked) return hasPath(rule.nonResourceURLs, asked.path);
  return (
    has(rule.apiGroups, asked.group) &&
    hasResource(rule.resources, asked.resource, asked.subresource) &&
    (rule.resourceNames.length === 0 || rule.resourceNames.includes(asked.name))
  );
}

/** Rules with one verb, group and resource each, so that one rule can be compared with another. */
function broken(rules: readonly PolicyRule[]): PolicyRule[] {
  const none = { apiGroups: [], resources: [], resourceNames: [], nonResourceURLs: [] };
  return rules.flatMap(({ verbs, apiGroups, resources, resourceNames, nonResourceURLs }) => [
    ...apiGroups.flatMap((group) =>
      resources.flatMap((resource) =>
        verbs.flatMap((verb): PolicyRule[] =>
          (resourceNames.length === 0 ? [[]] : resourceNames.map((name) => [name])).map((names) => ({
            ...none,
            verbs: [verb],
            apiGroups: [group],
            resources: [resource],
            resourceNames: names,
          })),
        ),
      ),
    ),
    ...nonResourceURLs.flatMap((url) => verbs.map((verb): PolicyRule => ({ ...none, verbs: [verb], nonResourceURLs: [url] }))),
  ]);
}

/** Whether a rule gives all that a broken one gives. */
function covers(owned: PolicyRule, wanted: PolicyRule): boolean {
  const [verb = '', group, resource, url, name] = [
    wanted.verbs[0],
    wanted.apiGroups[0],
    wanted.resources[0],
    wanted.nonResourceURLs[0],
    wanted.resourceNames[0],
  ];
  if (!has(owned.verbs, verb)) return false;
  if (url !== undefined) return hasPath(owned.nonResourceURLs, url);
  const [plural = '', subresource = ''] = (resource ?? '').split('/');
  const resources = owned.resources.includes('*') || (resource !== '*' && hasResource(owned.resources, plural, subresource));
  return (
    has(owned.apiGroups, group ?? '') &&
    resources &&
    (owned.resourceNames.length === 0 || (name !== undefined && owned.resourceNames.includes(name)))
  );
}

/** The part of `wanted` that a user with the rules `owned` does not have. */
export function missingFrom(owned: readonly PolicyRule[], wanted: readonly PolicyRule[]): PolicyRule[] {
  return broken(wanted).filter((rule) => !owned.some((each) => covers(each, rule)));
}

const goList = (items: readonly string[]): string => `[${items.map((item) => JSON.stringify(item)).join(' ')}]`;

function goRule({ verbs, apiGroups, resources, resourceNames, nonResourceURLs }: PolicyRule): string {
  const parts = [
    ...(apiGroups.length === 0 ? [] : [`APIGroups:${goList(apiGroups)}`]),
    ...(resources.length === 0 ? [] : [`Resources:${goList(resources)}`]),
    ...(nonResourceURLs.length === 0 ? [] : [`NonResourceURLs:${goList(nonResourceURLs)}`]),
    ...(resourceNames.length === 0 ? [] : [`ResourceNames:${goList(resourceNames)}`]),
    `Verbs:${goList(verbs)}`,
  ];
  return `{${parts.join(', ')}}`;
}

/** As the real server prints rules: those that differ in their verbs only are one, in order. */
export function shownRules(rules: readonly PolicyRule[]): string {
  const byRest = new Map<string, PolicyRule>();
  for (const rule of rules) {
    const key = JSON.stringify({ ...rule, verbs: [] });
    const before = byRest.get(key);
    byRest.set(key, before === undefined ? rule : { ...before, verbs: [...before.verbs, ...rule.verbs] });
  }
  return [...byRest.values()].map(goRule).sort().join('\n');
}
