import type { JsonObject } from '@kubenode/api-machinery/wire';
import { bodyObject, type Call, type Reply } from './call.ts';
import { invalid } from './field-error.ts';
import { numberAt, objectAt, put, stringsAt, textAt } from './json.ts';
import { badRequest, conflict, invalidObject, notFound } from './refusal.ts';
import { dryRunOf } from './remove.ts';
import { keyOf } from './store/entry.ts';
import { audienceOf, issueToken } from './token.ts';
import { timestamp } from './world.ts';

const DEFAULT_SECONDS = 3600;
const MIN_SECONDS = 600;
const MAX_SECONDS = 2 ** 32;

/** POST serviceaccounts/NAME/token: a token that ends with its time, with the account, and never serves another cluster. */
export async function requestToken(call: Call): Promise<Reply> {
  const { world, served, info } = call;
  const body = (await bodyObject(call)) ?? {};
  if (body['kind'] !== undefined && body['kind'] !== 'TokenRequest') throw badRequest('the body is not a TokenRequest');
  const account = world.store.table(served.storageKey).get(keyOf(info.namespace, info.name));
  if (account === undefined) throw notFound(served, info.name);
  const kind = { group: 'authentication.k8s.io', plural: 'TokenRequest' };
  const uid = textAt(body, 'metadata', 'uid') ?? '';
  if (uid !== '' && uid !== account.uid) {
    throw conflict(kind, info.name, `the UID in the token request (${uid}) does not match the UID of the service account (${account.uid})`);
  }
  const spec = objectAt(body, 'spec');
  if (spec['boundObjectRef'] !== undefined && spec['boundObjectRef'] !== null) {
    throw badRequest('cannot bind token to an object: this server binds tokens to their service account only');
  }
  const seconds = numberAt(spec, 'expirationSeconds') ?? DEFAULT_SECONDS;
  if (seconds < MIN_SECONDS) {
    throw invalidObject(kind.group, 'TokenRequest', '', [
      invalid('spec.expirationSeconds', seconds, 'may not specify a duration less than 10 minutes'),
    ]);
  }
  if (seconds > MAX_SECONDS) {
    throw invalidObject(kind.group, 'TokenRequest', '', [
      invalid('spec.expirationSeconds', seconds, 'may not specify a duration larger than 2^32 seconds'),
    ]);
  }
  const asked = stringsAt(spec, 'audiences');
  const audiences = asked.length > 0 ? asked : [audienceOf(world)];
  const issuedAt = Math.floor(world.clock.now() / 1000);
  const dryRun = dryRunOf(call.query['dryRun'], 'CreateOptions');
  world.policies.admit({
    served,
    subresource: 'token',
    operation: 'CREATE',
    namespace: info.namespace,
    name: info.name,
    user: call.user,
    dryRun,
    object: { ...body, kind: 'TokenRequest', apiVersion: 'authentication.k8s.io/v1', metadata: objectAt(body, 'metadata') },
    oldObject: undefined,
    warn: (text) => void call.warnings.push(text),
  });
  const token = issueToken(world, {
    namespace: info.namespace,
    name: info.name,
    uid: account.uid,
    audiences,
    issuedAt,
    expiresAt: issuedAt + seconds,
  });
  const status: JsonObject = { expirationTimestamp: timestamp((issuedAt + seconds) * 1000) };
  put(status, 'token', dryRun ? undefined : token);
  return {
    status: 201,
    object: {
      kind: 'TokenRequest',
      apiVersion: 'authentication.k8s.io/v1',
      metadata: { name: info.name, namespace: info.namespace, uid: account.uid, creationTimestamp: timestamp(issuedAt * 1000) },
      spec: { audiences, expirationSeconds: seconds, boundObjectRef: null },
      status,
    },
  };
}
