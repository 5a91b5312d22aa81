import type { User } from '../kinds/served.ts';
import { Refusal } from '../refusal.ts';
import type { World } from '../world.ts';
import { forbidden } from './request.ts';
import type { Attributes } from './rules.ts';

const ACCOUNT = /^system:serviceaccount:([^:]+):([^:]+)$/;

/** Without an authorizer only its administrators act as others. */
function require(world: World, user: User, asked: Attributes): void {
  const verdict = world.authorizer?.authorize(user, asked) ?? { allowed: user.groups.includes('system:masters'), reason: '' };
  if (!verdict.allowed) throw forbidden(user, asked, verdict.reason);
}

const asking = (resource: string, name: string, namespace = ''): Attributes => ({
  verb: 'impersonate',
  group: '',
  resource,
  subresource: '',
  namespace,
  name,
});

/** The user that a request acts as: `Impersonate-User` and `Impersonate-Group`, for those who may impersonate each of them. Throws a Refusal. */
export function impersonate(world: World, user: User, headers: Readonly<Record<string, string>>): User {
  const name = headers['impersonate-user'];
  const groups = (headers['impersonate-group'] ?? '')
    .split(',')
    .map((group) => group.trim())
    .filter((group) => group !== '');
  const more = Object.keys(headers).find((header) => header === 'impersonate-uid' || header.startsWith('impersonate-extra-'));
  if (name === undefined) {
    if (groups.length > 0) throw new Refusal(400, 'BadRequest', 'requested [Impersonate-Group] without impersonating a user');
    return user;
  }
  if (more !== undefined) throw new Refusal(400, 'BadRequest', `this server does not impersonate by ${more}`);
  const [, namespace, account] = ACCOUNT.exec(name) ?? [];
  if (namespace !== undefined && account !== undefined) require(world, user, asking('serviceaccounts', account, namespace));
  else require(world, user, asking('users', name));
  for (const group of groups) require(world, user, asking('groups', group));
  const own = namespace !== undefined && groups.length === 0 ? ['system:serviceaccounts', `system:serviceaccounts:${namespace}`] : [];
  return { name, groups: [...new Set([...own, ...groups, 'system:authenticated'])] };
}
