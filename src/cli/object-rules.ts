import { ALL_KINDS } from '../api/kinds.ts';
import type { FieldError } from '../api/kind.ts';
import type { Json, JsonObject, KubeObject } from '../api/wire.ts';
import { rulesOf } from '@kubenode/embedded/cel';

/** As it is sent: without what is undefined. */
const plain = (object: KubeObject): JsonObject => JSON.parse(JSON.stringify(object)) as JsonObject;

const compiled = new Map<string, (object: Json, spent?: (cost: number) => void) => FieldError[]>();

/** The findings of the CEL rules of its kind about an object that its schema lets in: what any API server would refuse it for. Rules are compiled when they are first asked. `spent` gets what they cost, by the measure of an API server. */
export function judgeObject(object: KubeObject, spent?: (cost: number) => void): FieldError[] {
  const kind = ALL_KINDS.find((each) => each.kind === object.kind && object.apiVersion === `${each.group}/${each.version}`);
  if (kind === undefined) return [];
  let judge = compiled.get(kind.kind);
  if (judge === undefined) {
    judge = rulesOf(plain(kind.crd()));
    compiled.set(kind.kind, judge);
  }
  return judge(plain(object), spent);
}
