import type { JsonObject } from '../api/wire.ts';
import { objectAt, textAt } from './json.ts';
import type { User } from './kinds/served.ts';
import { audienceOf, userOfToken } from './token.ts';
import { now, type World } from './world.ts';

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

const ALLOWED = { allowed: true, reason: 'this server has no authorization: every authenticated user may do everything' };

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
    group: 'authorization.k8s.io',
    version: 'v1',
    kind: 'SelfSubjectAccessReview',
    plural: 'selfsubjectaccessreviews',
    answer: (_world, _user, body) => ({ metadata: {}, spec: objectAt(body, 'spec'), status: ALLOWED }),
  },
];

export function reviewFor(group: string, version: string, plural: string): Review | undefined {
  return REVIEWS.find((review) => review.group === group && review.version === version && review.plural === plural);
}
