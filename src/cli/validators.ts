import { ALL_KINDS } from '../api/kinds.ts';
import type { Validator } from '../embedded/index.ts';

/** What the CRDs' CEL rules say on a real server, for the embedded one. By `plural.group`. */
export const VALIDATORS: ReadonlyMap<string, Validator> = new Map(
  ALL_KINDS.map((kind) => [`${kind.plural}.${kind.group}`, (object, old) => kind.compare(object, old)]),
);
