import type { Client } from '../kube/client.ts';

/** Whether the owner of this token may read `/metrics`. */
export type MayRead = (token: string, signal: AbortSignal) => Promise<'Granted' | 'Unauthenticated' | 'Forbidden'>;

interface UserInfo {
  username: string;
  uid: string | undefined;
  groups: string[];
  extra: Record<string, unknown>;
}

/**
 * As the API server decides: a TokenReview names the user of the token, a SubjectAccessReview decides whether that user may `get` the path `/metrics`. What is not plainly
 * granted is refused. Errors: those of the API.
 */
export function metricsAccess(client: Pick<Client, 'request'>): MayRead {
  const review = async (group: string, resource: string, kind: string, spec: object, signal: AbortSignal): Promise<unknown> => {
    const body = JSON.stringify({ apiVersion: `${group}/v1`, kind, spec });
    const headers = { 'content-type': 'application/json' };
    const answer: unknown = await client.request({ method: 'POST', path: `/apis/${group}/v1/${resource}`, headers, body, signal });
    return field(answer, 'status');
  };
  return async (token, signal) => {
    const user = userOf(await review('authentication.k8s.io', 'tokenreviews', 'TokenReview', { token }, signal));
    if (user === undefined) return 'Unauthenticated';
    const { username, ...rest } = user;
    const spec = { user: username, ...rest, nonResourceAttributes: { path: '/metrics', verb: 'get' } };
    const status = await review('authorization.k8s.io', 'subjectaccessreviews', 'SubjectAccessReview', spec, signal);
    return field(status, 'allowed') === true && field(status, 'denied') !== true ? 'Granted' : 'Forbidden';
  };
}

function userOf(status: unknown): UserInfo | undefined {
  if (field(status, 'authenticated') !== true) return undefined;
  const user = field(status, 'user');
  const [username, uid, groups, extra] = ['username', 'uid', 'groups', 'extra'].map((name) => field(user, name));
  if (typeof username !== 'string' || username === '') return undefined;
  return {
    username,
    uid: typeof uid === 'string' ? uid : undefined,
    groups: Array.isArray(groups) ? groups.filter((group) => typeof group === 'string') : [],
    extra: isRecord(extra) ? extra : {},
  };
}

const isRecord = (value: unknown): value is Record<string, unknown> => value !== null && typeof value === 'object' && !Array.isArray(value);

const field = (value: unknown, name: string): unknown => (isRecord(value) && Object.hasOwn(value, name) ? value[name] : undefined);
