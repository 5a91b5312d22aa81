import type { User } from './kinds/served.ts';
import { unauthorized } from './refusal.ts';
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
