import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { isObject } from './json.ts';
import type { User } from './kinds/served.ts';
import type { StoreDisk } from './store/disk.ts';
import { parsed } from './store/entry.ts';
import { textAt } from './json.ts';
import type { World } from './world.ts';

/** Who the admin token stands for. */
const ADMIN: User = { name: 'kubernetes-admin', groups: ['system:masters', 'system:authenticated'] };

const HEADER = Buffer.from(JSON.stringify({ alg: 'HS256', typ: 'JWT' }), 'utf8').toString('base64url');

function secretOf(disk: StoreDisk, name: string, make: () => string): string {
  const kept = disk.secret(name);
  if (kept !== undefined) return kept;
  const made = make();
  disk.keepSecret(name, made);
  return made;
}

/** The cluster's admin token; made when the cluster is. */
export function adminToken(disk: StoreDisk): string {
  return secretOf(disk, 'admin.token', () => randomBytes(32).toString('base64url'));
}

function signature(disk: StoreDisk, text: string): Buffer {
  const key = secretOf(disk, 'token.key', () => randomBytes(32).toString('base64'));
  return createHmac('sha256', Buffer.from(key, 'base64')).update(text).digest();
}

function same(a: Buffer, b: Buffer): boolean {
  return a.length === b.length && timingSafeEqual(a, b);
}

interface ServiceAccountClaims {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly audiences: readonly string[];
  /** Seconds since the epoch. */
  readonly issuedAt: number;
  readonly expiresAt: number;
}

/** Audience of tokens for this API server, and issuer of all of them. */
export const audienceOf = (world: World) => `https://kubenode.embedded/clusters/${world.name}`;

export function issueToken(world: World, claims: ServiceAccountClaims): string {
  const payload = {
    iss: audienceOf(world),
    aud: claims.audiences,
    sub: `system:serviceaccount:${claims.namespace}:${claims.name}`,
    iat: claims.issuedAt,
    nbf: claims.issuedAt,
    exp: claims.expiresAt,
    'kubernetes.io': { namespace: claims.namespace, serviceaccount: { name: claims.name, uid: claims.uid } },
  };
  const text = `${HEADER}.${Buffer.from(JSON.stringify(payload), 'utf8').toString('base64url')}`;
  return `${text}.${signature(world.disk, text).toString('base64url')}`;
}

/** The account of a token, if the token is this cluster's, in time, and the account still the one it was made for. */
function serviceAccountOf(world: World, token: string): User | undefined {
  const [head = '', body = '', sign = '', ...rest] = token.split('.');
  if (rest.length > 0 || head !== HEADER) return undefined;
  if (!same(signature(world.disk, `${head}.${body}`), Buffer.from(sign, 'base64url'))) return undefined;
  const claims: unknown = JSON.parse(Buffer.from(body, 'base64url').toString('utf8'));
  if (!isObject(claims)) return undefined;
  const { aud, exp, nbf, iss } = claims;
  const nowSeconds = world.clock.now() / 1000;
  if (iss !== audienceOf(world) || !Array.isArray(aud) || !aud.includes(audienceOf(world))) return undefined;
  if (typeof exp !== 'number' || exp <= nowSeconds || typeof nbf !== 'number' || nbf > nowSeconds + 60) return undefined;
  const namespace = textAt(claims, 'kubernetes.io', 'namespace') ?? '';
  const name = textAt(claims, 'kubernetes.io', 'serviceaccount', 'name') ?? '';
  const uid = textAt(claims, 'kubernetes.io', 'serviceaccount', 'uid') ?? '';
  const account = world.store.table('/serviceaccounts').get(`${namespace}/${name}`);
  if (account?.uid !== uid || textAt(parsed(account), 'metadata', 'deletionTimestamp') !== undefined) return undefined;
  return {
    name: `system:serviceaccount:${namespace}:${name}`,
    groups: ['system:serviceaccounts', `system:serviceaccounts:${namespace}`, 'system:authenticated'],
    uid,
  };
}

/** Who a bearer token stands for; undefined when it is not good here. */
export function userOfToken(world: World, token: string): User | undefined {
  if (same(Buffer.from(token, 'utf8'), Buffer.from(adminToken(world.disk), 'utf8'))) return ADMIN;
  try {
    return serviceAccountOf(world, token);
  } catch {
    return undefined;
  }
}
