/** How an object differs between two commits, field by field. Pure. */
import { canonical } from '../../api/digest.ts';
import { own } from '../../api/own.ts';
import { plainText } from '../../api/plain-text.ts';
import type { KubeObject } from '../../api/wire.ts';

export interface FieldChange {
  /** `spec.template.metadata.labels.team`, one line, cut where it is long; of what is made or removed `` is the whole object. */
  path: string;
  from?: unknown;
  to?: unknown;
}

/** Lists are compared whole: what became of an item is not known without its key. */
export function fieldChanges(from: unknown, to: unknown, path: readonly string[] = []): FieldChange[] {
  if (canonical(from ?? null) === canonical(to ?? null)) return [];
  if (isMap(from) && isMap(to)) {
    const keys = [...new Set([...Object.keys(from), ...Object.keys(to)])].sort();
    return keys.flatMap((key) => fieldChanges(own(from, key), own(to, key), [...path, key]));
  }
  return [{ path: pathText(path), ...(from === undefined ? {} : { from }), ...(to === undefined ? {} : { to }) }];
}

/** The fields of an object that a fleet declares. A plan shows nothing of the content of a Secret. */
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

const LONGEST_PATH = 160;
const PLAIN_KEY = /^[\w./-]+$/;

/** The author of the fleet chooses the keys. One that is no plain word is quoted as in JSON, so that it begins no line and resembles no change. */
function pathText(path: readonly string[]): string {
  const text = path.reduce((before, key) => {
    if (!PLAIN_KEY.test(key)) return `${before}[${JSON.stringify(plainText(key, LONGEST_PATH))}]`;
    return before === '' ? key : `${before}.${key}`;
  }, '');
  return plainText(text, LONGEST_PATH);
}

const isMap = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value);
