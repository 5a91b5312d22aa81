import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { copy, isObject } from '../json.ts';

/** RFC 7386: members of the patch replace members of the target, null removes. Neither argument is changed. */
export function mergePatch(target: Json, patch: Json): Json {
  if (!isObject(patch)) return copy(patch);
  const out: JsonObject = isObject(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete out[key];
    else out[key] = mergePatch(out[key] ?? null, value);
  }
  return out;
}
