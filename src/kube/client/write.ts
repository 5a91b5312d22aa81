import { pathOf } from '../../api/resource.ts';
import type { ObjectKey, Resource } from '../../api/resource.ts';
import type { ApiRequest } from '../../api/transport.ts';
import type { KubeObject, Stored } from '../../api/wire.ts';
import type { ApplyOptions, Client, DeleteOptions, WriteOptions } from '../client.ts';
import { json } from './exchange.ts';
import type { Exchange } from './exchange.ts';
import { namespaceOf, objectPath, signalOf } from './request.ts';
import { storedObject } from './stored-object.ts';

const PATCH_TYPES = {
  merge: 'application/merge-patch+json',
  json: 'application/json-patch+json',
  strategic: 'application/strategic-merge-patch+json',
  apply: 'application/apply-patch+yaml',
};

type Body = Omit<ApiRequest, 'query' | 'signal'>;

async function write<T extends KubeObject>(
  exchange: Exchange,
  resource: Resource<T>,
  body: Body,
  options: WriteOptions & { force?: boolean } = {},
): Promise<Stored<T>> {
  const { fieldManager = exchange.fieldManager } = options;
  const request: ApiRequest = {
    ...body,
    query: {
      fieldValidation: 'Strict',
      ...(fieldManager === undefined ? {} : { fieldManager }),
      ...(options.dryRun === true ? { dryRun: 'All' } : {}),
      ...(options.force === true ? { force: 'true' } : {}),
    },
    ...signalOf(options),
  };
  return storedObject(resource, await json(exchange, request), request);
}

export async function create<T extends KubeObject>(
  exchange: Exchange,
  resource: Resource<T>,
  object: T,
  options?: WriteOptions,
): Promise<Stored<T>> {
  const path =
    options?.subresource === undefined
      ? pathOf(resource, namespaceOf(resource, object.metadata))
      : objectPath(resource, object.metadata, options.subresource);
  return await write(exchange, resource, { method: 'POST', path, body: JSON.stringify(object) }, options);
}

export async function update<T extends KubeObject>(
  exchange: Exchange,
  resource: Resource<T>,
  object: T,
  options?: WriteOptions,
): Promise<Stored<T>> {
  const path = objectPath(resource, object.metadata, options?.subresource);
  return await write(exchange, resource, { method: 'PUT', path, body: JSON.stringify(object) }, options);
}

export async function patch<T extends KubeObject>(
  exchange: Exchange,
  resource: Resource<T>,
  key: ObjectKey,
  patch: Parameters<Client['patch']>[2],
  options?: WriteOptions,
): Promise<Stored<T>> {
  const [type, body] =
    'merge' in patch
      ? (['merge', patch.merge] as const)
      : 'json' in patch
        ? (['json', patch.json] as const)
        : (['strategic', patch.strategic] as const);
  return await write(
    exchange,
    resource,
    {
      method: 'PATCH',
      path: objectPath(resource, key, options?.subresource),
      headers: { 'content-type': PATCH_TYPES[type] },
      body: JSON.stringify(body),
    },
    options,
  );
}

export async function apply<T extends KubeObject>(
  exchange: Exchange,
  resource: Resource<T>,
  object: KubeObject,
  options: ApplyOptions,
): Promise<Stored<T>> {
  return await write(
    exchange,
    resource,
    {
      method: 'PATCH',
      path: objectPath(resource, object.metadata, options.subresource),
      headers: { 'content-type': PATCH_TYPES.apply },
      // JSON is YAML.
      body: JSON.stringify(object),
    },
    options,
  );
}

export async function remove(exchange: Exchange, resource: Resource, key: ObjectKey, options: DeleteOptions = {}): Promise<void> {
  const { uid, resourceVersion, propagationPolicy, gracePeriodSeconds, dryRun } = options;
  const preconditions = { ...(uid === undefined ? {} : { uid }), ...(resourceVersion === undefined ? {} : { resourceVersion }) };
  await json(exchange, {
    method: 'DELETE',
    path: objectPath(resource, key),
    body: JSON.stringify({
      apiVersion: 'v1',
      kind: 'DeleteOptions',
      ...(Object.keys(preconditions).length === 0 ? {} : { preconditions }),
      ...(propagationPolicy === undefined ? {} : { propagationPolicy }),
      ...(gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds }),
      ...(dryRun === true ? { dryRun: ['All'] } : {}),
    }),
    ...signalOf(options),
  });
}
