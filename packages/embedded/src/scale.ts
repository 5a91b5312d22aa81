import type { JsonObject } from '@kubenode/api-machinery/wire';
import { accepted, bodyText, contentType, objectOf, parseBody, requiredBody, writerOf, type Call, type Reply } from './call.ts';
import { at, copy, isObject, metaOf, numberAt, objectAt, put as setKey, textAt } from './json.ts';
import type { ScalePaths } from './kinds/served.ts';
import { jsonPatch } from './patch/json.ts';
import { mergePatch } from './patch/merge.ts';
import { APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH } from './patching.ts';
import { badRequest, conflict, internalError, methodNotAllowed, notFound, OUTDATED, unsupportedMediaType } from './refusal.ts';
import { keyOf } from './store/entry.ts';
import { modify, type Writer } from './write.ts';

/** Stands for the number in a Scale whose object has none, so that a request without it differs from one that sets 0. */
const NOT_THERE = -2_147_483_648;

const dotted = (path: readonly string[]): string => JSON.stringify(`.${path.join('.')}`);

/** The Scale that is shown; Go leaves out a number of 0 that is wanted, and a selector without text. */
function scaleOf(object: JsonObject, paths: ScalePaths, otherwise = 0): JsonObject {
  const metadata: JsonObject = {};
  for (const field of ['name', 'namespace', 'uid', 'resourceVersion', 'creationTimestamp']) {
    setKey(metadata, field, objectAt(object, 'metadata')[field]);
  }
  const selector = paths.selector === undefined ? undefined : textAt(object, ...paths.selector) || undefined;
  const status: JsonObject = { replicas: numberAt(object, ...paths.status) ?? 0 };
  setKey(status, 'selector', selector);
  const replicas = numberAt(object, ...paths.spec) ?? otherwise;
  return { kind: 'Scale', apiVersion: 'autoscaling/v1', metadata, spec: replicas === 0 ? {} : { replicas }, status };
}

/** Sets a path of plain keys, making the objects on the way. */
function setPath(object: JsonObject, path: readonly string[], value: number): void {
  let here = object;
  for (const key of path.slice(0, -1)) {
    const next = here[key];
    if (isObject(next)) here = next;
    else here = here[key] = {};
  }
  const last = path.at(-1);
  if (last !== undefined) here[last] = value;
}

function write(call: Call, paths: ScalePaths, writer: Writer, change: (scale: JsonObject) => JsonObject): JsonObject {
  const { world, served, info } = call;
  const { object } = modify(world, served, {
    namespace: info.namespace,
    name: info.name,
    subresource: 'scale',
    writer,
    allowCreate: false,
    recorded: false,
    change(live) {
      const current = scaleOf(live ?? {}, paths, NOT_THERE);
      const scale = change(current);
      const replicas = at(scale, 'spec', 'replicas') ?? 0;
      if (typeof replicas !== 'number' || !Number.isInteger(replicas)) throw badRequest('spec.replicas of a Scale is an integer');
      if (replicas === NOT_THERE) throw badRequest(`the spec replicas field ${dotted(paths.spec)} cannot be empty`);
      const version = textAt(scale, 'metadata', 'resourceVersion') ?? '';
      if (version !== '' && version !== textAt(current, 'metadata', 'resourceVersion')) throw conflict(served, info.name, OUTDATED);
      const object = copy(live ?? {});
      setPath(object, paths.spec, replicas);
      delete metaOf(object)['resourceVersion'];
      return object;
    },
    unconditional: true,
  });
  return scaleOf(object, paths);
}

/** The scale subresource of a custom resource. */
export async function scale(call: Call, paths: ScalePaths): Promise<Reply> {
  accepted(call);
  const { world, served, info } = call;
  if (info.verb === 'get') {
    const entry = world.store.table(served.storageKey).get(keyOf(info.namespace, info.name));
    if (entry === undefined) throw notFound(served, info.name);
    const object = objectOf(served, entry);
    if (numberAt(object, ...paths.spec) === undefined) throw internalError(`the spec replicas field ${dotted(paths.spec)} does not exist`);
    return { status: 200, object: scaleOf(object, paths) };
  }
  if (info.verb === 'update') {
    const { object } = await requiredBody(call);
    return { status: 200, object: write(call, paths, writerOf(call, 'UpdateOptions'), () => object) };
  }
  if (info.verb !== 'patch') throw methodNotAllowed(served, info.verb);
  const type = contentType(call.headers);
  if (![JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH].includes(type))
    throw unsupportedMediaType([JSON_PATCH, MERGE_PATCH, APPLY_PATCH]);
  const patch = await parseBody(bodyText(call.request), type === APPLY_PATCH);
  const writer = writerOf(call, 'PatchOptions');
  const result = write(call, paths, writer, (current) => {
    // A Scale is a number and a selector: applying one is merging it.
    const next = type === JSON_PATCH ? jsonPatch(current, patch as JsonObject) : mergePatch(current, patch as JsonObject);
    if (!isObject(next)) throw badRequest('the patch does not result in a Scale');
    return next;
  });
  return { status: 200, object: result };
}
