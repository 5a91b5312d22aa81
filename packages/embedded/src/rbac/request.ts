/** What a request asks for, as the authorizer sees it, and the answer when it is forbidden. */
import type { ApiRequest } from '@kubenode/api-machinery/transport';
import type { User } from '../kinds/served.ts';
import { qualified, Refusal } from '../refusal.ts';
import { requestInfo, segmentsOf, type RequestInfo } from '../request-info.ts';
import type { World } from '../world.ts';
import type { Attributes } from './rules.ts';

const METHODS: Record<ApiRequest['method'], string> = { GET: 'get', POST: 'post', PUT: 'put', PATCH: 'patch', DELETE: 'delete' };

/** A list or a watch of one name is one of that name. */
function selectedName(query: Readonly<Record<string, string>>): string {
  const terms = (query['fieldSelector'] ?? '').split(',').map((term) => /^metadata\.name==?([^=!,]+)$/.exec(term)?.[1]);
  return terms.find((name) => name !== undefined) ?? '';
}

function attributesOf(info: RequestInfo | undefined, request: ApiRequest): Attributes {
  if (info === undefined) return { verb: METHODS[request.method], path: request.path };
  const { verb, group, plural: resource, subresource } = info;
  const many = verb === 'list' || verb === 'watch' || verb === 'deletecollection';
  const name = info.name === '' && many ? selectedName(request.query ?? {}) : info.name;
  // A namespace is in itself: a role in it may give rights to it.
  const namespace = group === '' && resource === 'namespaces' ? info.name : info.namespace;
  return { verb, group, resource, subresource, namespace, name };
}

const quoted = (text: string): string => JSON.stringify(text);

/** The answer to who may not. */
export function forbidden(user: User, asked: Attributes, reason: string): Refusal {
  const why = reason === '' ? '' : `: ${reason}`;
  if ('path' in asked) {
    return new Refusal(403, 'Forbidden', `forbidden: User ${quoted(user.name)} cannot ${asked.verb} path ${quoted(asked.path)}${why}`, {});
  }
  const { verb, group, resource, subresource, namespace, name } = asked;
  const where = namespace === '' ? 'at the cluster scope' : `in the namespace ${quoted(namespace)}`;
  const what = subresource === '' ? resource : `${resource}/${subresource}`;
  const object = `${qualified({ group, plural: resource })}${name === '' ? '' : ` ${quoted(name)}`}`;
  return new Refusal(
    403,
    'Forbidden',
    `${object} is forbidden: User ${quoted(user.name)} cannot ${verb} resource ${quoted(what)} in API group ${quoted(group)} ${where}${why}`,
    { ...(name === '' ? {} : { name }), ...(group === '' ? {} : { group }), kind: resource },
  );
}

/** Throws a Refusal 403 when the user may not send this request. It does not need the body. */
export function authorize(world: World, user: User, request: ApiRequest): void {
  if (world.authorizer === undefined) return;
  const asked = attributesOf(requestInfo(request.method, segmentsOf(request.path), request.query ?? {}), request);
  const { allowed, reason } = world.authorizer.authorize(user, asked);
  if (!allowed) throw forbidden(user, asked, reason);
}
