import type { User } from './kinds/served.ts';
import { Refusal, unauthorized } from './refusal.ts';
import { userOfToken } from './token.ts';
import type { World } from './world.ts';

/**
 * Who makes a request, by its `authorization` header, else by the certificate that the connection presented. Throws a
 * Refusal 401.
 */
export function authenticate(world: World, headers: Readonly<Record<string, string>>, certificate: User | undefined): User {
  const header = headers['authorization'];
  if (header === undefined) {
    if (certificate !== undefined) return certificate;
    throw unauthorized();
  }
  const token = /^Bearer\s+(\S+)\s*$/i.exec(header)?.[1];
  const user = token === undefined ? undefined : userOfToken(world, token);
  if (user === undefined) throw unauthorized();
  return user;
}

/** `Impersonate-User` and `Impersonate-Group`, for members of system:masters. Throws a Refusal 403. */
export function impersonate(user: User, headers: Readonly<Record<string, string>>): User {
  const name = headers['impersonate-user'];
  const groups = (headers['impersonate-group'] ?? '')
    .split(',')
    .map((group) => group.trim())
    .filter((group) => group !== '');
  if (name === undefined) {
    if (groups.length > 0) throw new Refusal(400, 'BadRequest', 'requested [Impersonate-Group] without impersonating a user');
    return user;
  }
  if (!user.groups.includes('system:masters')) {
    throw new Refusal(
      403,
      'Forbidden',
      `users ${JSON.stringify(name)} is forbidden: User ${JSON.stringify(user.name)} cannot impersonate resource "users" in API group "" at the cluster scope`,
      {
        name,
        kind: 'users',
      },
    );
  }
  return { name, groups: [...new Set([...groups, 'system:authenticated'])] };
}
