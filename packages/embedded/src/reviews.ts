import type { JsonObject } from '@kubenode/api-machinery/wire';
import { invalid } from './field-error.ts';
import { isObject, objectAt, stringsAt, textAt } from './json.ts';
import type { User } from './kinds/served.ts';
import { EVERYTHING } from './rbac/authorizer.ts';
import type { Attributes, PolicyRule } from './rbac/rules.ts';
import { badRequest, invalidObject } from './refusal.ts';
import { audienceOf, userOfToken } from './token.ts';
import { now, type World } from './world.ts';

const AUTHORIZATION = 'authorization.k8s.io';

/** Questions that are answered and not stored. */
interface Review {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly plural: string;
  readonly answer: (world: World, user: User, body: JsonObject) => JsonObject;
}

function infoOf(user: User): JsonObject {
  return { username: user.name, ...(user.uid === undefined ? {} : { uid: user.uid }), groups: [...user.groups] };
}

const BOTH_OR_NONE = 'exactly one of nonResourceAttributes or resourceAttributes must be specified';

/** Throws a Refusal 422 when a review asks nothing, or two things. */
function askedIn(spec: JsonObject): Attributes {
  const resource = spec['resourceAttributes'];
  const path = spec['nonResourceAttributes'];
  if (isObject(resource) === isObject(path)) {
    const problem = invalid('spec.resourceAttributes', isObject(resource) ? resource : null, BOTH_OR_NONE);
    throw invalidObject('authorization.k8s.io', '', '', [problem]);
  }
  const verb = textAt(isObject(resource) ? resource : path, 'verb') ?? '';
  if (!isObject(resource)) return { verb, path: textAt(path, 'path') ?? '' };
  const part = (name: string): string => textAt(resource, name) ?? '';
  return {
    verb,
    group: part('group'),
    resource: part('resource'),
    subresource: part('subresource'),
    namespace: part('namespace'),
    name: part('name'),
  };
}

function statusOf(world: World, user: User, spec: JsonObject): JsonObject {
  const asked = askedIn(spec);
  if (world.authorizer === undefined) return { allowed: true };
  const { allowed, reason } = world.authorizer.authorize(user, asked);
  return { allowed, ...(reason === '' ? {} : { reason }) };
}

/** The user that a SubjectAccessReview asks about. */
function subjectIn(spec: JsonObject): User {
  const name = textAt(spec, 'user') ?? '';
  const groups = stringsAt(spec, 'groups');
  if (name === '' && groups.length === 0)
    throw invalidObject('authorization.k8s.io', '', '', [invalid('spec.user', '', 'at least one of user or group must be specified')]);
  return { name, groups };
}

/** Rules as a SelfSubjectRulesReview shows them: with the fields that they set and no more. */
function shownRule(rule: PolicyRule, fields: readonly (keyof PolicyRule)[]): JsonObject {
  return Object.fromEntries(
    fields.filter((field) => field === 'verbs' || rule[field].length > 0).map((field) => [field, [...rule[field]]]),
  );
}

function rulesStatus(world: World, user: User, namespace: string): JsonObject {
  const rules = world.authorizer?.rulesFor(user, namespace) ?? EVERYTHING;
  const ofResources = rules.filter(({ nonResourceURLs }) => nonResourceURLs.length === 0);
  const ofPaths = rules.filter(({ nonResourceURLs }) => nonResourceURLs.length > 0);
  return {
    resourceRules: ofResources.map((rule) => shownRule(rule, ['verbs', 'apiGroups', 'resources', 'resourceNames'])),
    nonResourceRules: ofPaths.map((rule) => shownRule(rule, ['verbs', 'nonResourceURLs'])),
    incomplete: false,
  };
}

export const REVIEWS: readonly Review[] = [
  {
    group: 'authentication.k8s.io',
    version: 'v1',
    kind: 'SelfSubjectReview',
    plural: 'selfsubjectreviews',
    answer: (world, user) => ({ metadata: { creationTimestamp: now(world) }, status: { userInfo: infoOf(user) } }),
  },
  {
    group: 'authentication.k8s.io',
    version: 'v1',
    kind: 'TokenReview',
    plural: 'tokenreviews',
    answer(world, _user, body) {
      const user = userOfToken(world, textAt(body, 'spec', 'token') ?? '');
      const spec = objectAt(body, 'spec');
      if (user === undefined) return { metadata: {}, spec, status: { user: {}, error: 'invalid bearer token' } };
      return { metadata: {}, spec, status: { authenticated: true, user: infoOf(user), audiences: [audienceOf(world)] } };
    },
  },
  {
    group: AUTHORIZATION,
    version: 'v1',
    kind: 'SelfSubjectAccessReview',
    plural: 'selfsubjectaccessreviews',
    answer: (world, user, body) => ({ metadata: {}, spec: objectAt(body, 'spec'), status: statusOf(world, user, objectAt(body, 'spec')) }),
  },
  {
    group: AUTHORIZATION,
    version: 'v1',
    kind: 'SelfSubjectRulesReview',
    plural: 'selfsubjectrulesreviews',
    answer(world, user, body) {
      const namespace = textAt(body, 'spec', 'namespace') ?? '';
      if (namespace === '') throw badRequest('no namespace on request');
      return { metadata: {}, spec: {}, status: rulesStatus(world, user, namespace) };
    },
  },
  {
    group: AUTHORIZATION,
    version: 'v1',
    kind: 'SubjectAccessReview',
    plural: 'subjectaccessreviews',
    answer(world, _user, body) {
      const spec = objectAt(body, 'spec');
      askedIn(spec);
      return { metadata: {}, spec, status: statusOf(world, subjectIn(spec), spec) };
    },
  },
];

export function reviewFor(group: string, version: string, plural: string): Review | undefined {
  return REVIEWS.find((review) => review.group === group && review.version === version && review.plural === plural);
}
