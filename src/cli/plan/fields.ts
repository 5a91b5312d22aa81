/** How an object of one commit differs from that of another, field by field. Pure. */
import { canonical } from '../../api/digest.ts';
import type { KubeObject } from '../../api/wire.ts';

export interface FieldChange {
  /** `spec.template.metadata.labels.team`; of what is made or removed `` is the whole object. */
  path: string;
  from?: unknown;
  to?: unknown;
}

/** Lists are compared whole: what became of an item is not known without its key. */
export function fieldChanges(from: unknown, to: unknown, path: readonly string[] = []): FieldChange[] {
  if (canonical(from ?? null) === canonical(to ?? null)) return [];
  if (isMap(from) && isMap(to)) {
    const keys = [...new Set([...Object.keys(from), ...Object.keys(to)])].sort();
    return keys.flatMap((key) => fieldChanges(from[key], to[key], [...path, key]));
  }
  return [{ path: path.join('.'), ...(from === undefined ? {} : { from }), ...(to === undefined ? {} : { to }) }];
}

/** Of an object what a fleet declares of it. What is in a Secret nobody reads in a plan. */
export function declared(object: KubeObject): unknown {
  const { metadata, ...rest } = object;
  const { labels, annotations } = metadata;
  const hidden = object.kind === 'Secret' ? { data: '…', stringData: '…' } : {};
  return {
    ...rest,
    ...hidden,
    metadata: { ...(labels === undefined ? {} : { labels }), ...(annotations === undefined ? {} : { annotations }) },
  };
}

const isMap = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value);
