import { createHash } from 'node:crypto';
import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import type { Served } from './kinds/served.ts';
import { REVIEWS } from './reviews.ts';
import type { World } from './world.ts';

const VERBS = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch'];

/** The kind that a subresource takes when it is not its parent's kind, and its form. */
const SUBRESOURCES: Record<string, { verbs: string[]; group?: string; version?: string; kind?: string }> = {
  status: { verbs: ['get', 'patch', 'update'] },
  approval: { verbs: ['get', 'patch', 'update'] },
  finalize: { verbs: ['update'] },
  scale: { verbs: ['get', 'patch', 'update'], group: 'autoscaling', version: 'v1', kind: 'Scale' },
  eviction: { verbs: ['create'], group: 'policy', version: 'v1', kind: 'Eviction' },
  token: { verbs: ['create'], group: 'authentication.k8s.io', version: 'v1', kind: 'TokenRequest' },
};

export const verbsOf = (served: Served): string[] =>
  served.storageKey === '/namespaces'
    ? VERBS.filter((verb) => verb !== 'deletecollection')
    : served.custom === undefined
      ? VERBS
      : CUSTOM_VERBS;

/** The same for custom resources, in the order in which the real server lists them. */
const CUSTOM_VERBS = ['delete', 'deletecollection', 'get', 'list', 'patch', 'create', 'update', 'watch'];

const subresource = (name: string) => SUBRESOURCES[name] ?? { verbs: ['get'] };

const hash = (text: string) => createHash('sha256').update(text).digest();

interface GroupVersion {
  readonly version: string;
  readonly served: readonly Served[];
  readonly reviews: (typeof REVIEWS)[number][];
}

interface Group {
  readonly name: string;
  readonly versions: readonly GroupVersion[];
}

function rank(version: string): [number, number, number] {
  const match = /^v(\d+)(?:(alpha|beta)(\d+))?$/.exec(version);
  if (match === null) return [3, 0, 0];
  return [match[2] === undefined ? 0 : match[2] === 'beta' ? 1 : 2, -Number(match[1]), -Number(match[3] ?? 0)];
}

/** v1 before v1beta1 before v1alpha1, newer before older; anything else last by name. */
export function versionOrder(a: string, b: string): number {
  const [left, right] = [rank(a), rank(b)];
  for (const index of [0, 1, 2] as const) if (left[index] !== right[index]) return left[index] - right[index];
  return a < b ? -1 : a > b ? 1 : 0;
}

export function groupsOf(world: World): Group[] {
  const all = world.registry.all();
  const names = [...new Set([...all.map((served) => served.group), ...REVIEWS.map((review) => review.group)])];
  return names.map((name) => {
    const served = all.filter((item) => item.group === name);
    const reviews = REVIEWS.filter((review) => review.group === name);
    const versions = [...new Set([...served.map((item) => item.version), ...reviews.map((review) => review.version)])].sort(versionOrder);
    return {
      name,
      versions: versions.map((version) => ({
        version,
        served: served.filter((item) => item.version === version),
        reviews: reviews.filter((review) => review.version === version),
      })),
    };
  });
}

const named = (names: readonly string[], key: string): JsonObject => (names.length === 0 ? {} : { [key]: [...names] });

function resourcesOf({ served, reviews }: GroupVersion): JsonObject[] {
  const out: JsonObject[] = [];
  for (const item of served) {
    out.push({
      name: item.plural,
      singularName: item.singular,
      namespaced: item.namespaced,
      kind: item.kind,
      verbs: verbsOf(item),
      ...named(item.shortNames, 'shortNames'),
      ...named(item.categories, 'categories'),
      storageVersionHash: hash(`${item.storageVersion}/${item.kind}`).subarray(0, 8).toString('base64'),
    });
    for (const name of item.subresources) {
      const { verbs, group, version, kind } = subresource(name);
      out.push({
        name: `${item.plural}/${name}`,
        singularName: '',
        namespaced: item.namespaced,
        ...(group === undefined ? {} : { group }),
        ...(version === undefined ? {} : { version }),
        kind: kind ?? item.kind,
        verbs,
      });
    }
  }
  for (const review of reviews) {
    out.push({ name: review.plural, singularName: review.kind.toLowerCase(), namespaced: false, kind: review.kind, verbs: ['create'] });
  }
  return out;
}

function aggregatedResources({ served, reviews }: GroupVersion): JsonObject[] {
  const out: JsonObject[] = served.map((item) => {
    // Built-in resources leave out the parts of their kind that their document has already.
    const own: JsonObject =
      item.custom === undefined
        ? { group: '', version: '', kind: item.kind }
        : { group: item.group, version: item.version, kind: item.kind };
    return {
      resource: item.plural,
      responseKind: own,
      scope: item.namespaced ? 'Namespaced' : 'Cluster',
      singularResource: item.singular,
      verbs: verbsOf(item),
      ...named(item.shortNames, 'shortNames'),
      ...named(item.categories, 'categories'),
      ...(item.subresources.size === 0
        ? {}
        : {
            subresources: [...item.subresources].map((name): JsonObject => {
              const { verbs, group, version, kind } = subresource(name);
              return {
                subresource: name,
                responseKind: kind === undefined ? own : { group: group ?? '', version: version ?? '', kind },
                verbs,
              };
            }),
          }),
    };
  });
  for (const review of reviews) {
    const responseKind = { group: review.group, version: review.version, kind: review.kind };
    out.push({ resource: review.plural, responseKind, scope: 'Cluster', singularResource: review.kind.toLowerCase(), verbs: ['create'] });
  }
  return out;
}

const groupVersion = (group: string, version: string) => (group === '' ? version : `${group}/${version}`);

function apiGroup(group: Group): JsonObject {
  const versions = group.versions.map(({ version }): JsonObject => ({ groupVersion: groupVersion(group.name, version), version }));
  return { name: group.name, versions, preferredVersion: versions[0] ?? null };
}

/** The discovery document at a path; undefined when there is none. */
export function discoveryAt(world: World, segments: readonly string[]): JsonObject | undefined {
  const [root, group = '', version] = segments;
  if (root === 'api') {
    if (segments.length === 1) return { kind: 'APIVersions', versions: ['v1'], serverAddressByClientCIDRs: [] };
    return segments.length === 2 && group === 'v1' ? resourceList(world, '', 'v1') : undefined;
  }
  if (root !== 'apis') return undefined;
  const groups = groupsOf(world).filter(({ name }) => name !== '');
  if (segments.length === 1) return { kind: 'APIGroupList', apiVersion: 'v1', groups: groups.map(apiGroup) };
  const found = groups.find(({ name }) => name === group);
  if (found === undefined) return undefined;
  if (segments.length === 2) return { kind: 'APIGroup', apiVersion: 'v1', ...apiGroup(found) };
  return segments.length === 3 && version !== undefined ? resourceList(world, group, version) : undefined;
}

function resourceList(world: World, group: string, version: string): JsonObject | undefined {
  const found = groupsOf(world)
    .find(({ name }) => name === group)
    ?.versions.find((item) => item.version === version);
  if (found === undefined) return undefined;
  return {
    kind: 'APIResourceList',
    ...(group === '' ? {} : { apiVersion: 'v1' }),
    groupVersion: groupVersion(group, version),
    resources: resourcesOf(found),
  };
}

/** All of `/api` or `/apis` in one document. */
export function aggregated(world: World, root: 'api' | 'apis', version: string): JsonObject {
  const items = groupsOf(world)
    .filter(({ name }) => (name === '') === (root === 'api'))
    .map(({ name, versions }): Json => ({
      metadata: name === '' ? {} : { name },
      versions: versions.map((item): Json => ({ version: item.version, resources: aggregatedResources(item), freshness: 'Current' })),
    }));
  return { kind: 'APIGroupDiscoveryList', apiVersion: `apidiscovery.k8s.io/${version}`, metadata: {}, items };
}

export const etagOf = (text: string): string => `"${hash(text).toString('hex').toUpperCase()}"`;
