import type { Json } from '@kubenode/api-machinery/wire';
import { copy, equal, isObject, MAX_DEPTH, tooDeep } from '../json.ts';
import { badRequest, entityTooLarge, unprocessable } from '../refusal.ts';

/** A patch of more operations is refused unread. */
export const MAX_OPERATIONS = 10_000;

interface Operation {
  op: string;
  path: string[];
  from: string[] | undefined;
  value: Json | undefined;
}

function pointer(text: string): string[] {
  if (text === '') return [];
  if (!text.startsWith('/')) throw unprocessable();
  return text
    .slice(1)
    .split('/')
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
}

function operationOf(item: Json): Operation {
  if (!isObject(item)) throw badRequest('error decoding patch: json: cannot unmarshal into Go value of type jsonpatch.Operation');
  const { op, path, from } = item;
  if (typeof op !== 'string' || typeof path !== 'string') throw unprocessable();
  return { op, path: pointer(path), from: typeof from === 'string' ? pointer(from) : undefined, value: item['value'] };
}

function index(list: Json[], token: string, inserting: boolean): number {
  if (token === '-' && inserting) return list.length;
  if (!/^(0|[1-9]\d*)$/.test(token)) throw unprocessable();
  const at = Number(token);
  if (at > (inserting ? list.length : list.length - 1)) throw unprocessable();
  return at;
}

function read(root: Json, path: readonly string[]): Json {
  let here = root;
  for (const token of path) {
    const next: Json | undefined = Array.isArray(here) ? here[index(here, token, false)] : isObject(here) ? here[token] : undefined;
    if (next === undefined) throw unprocessable();
    here = next;
  }
  return here;
}

/** Changes the value that `path` names inside its parent; returns the new root. */
function write(root: Json, path: readonly string[], how: 'add' | 'replace' | 'remove', value: Json): Json {
  const last = path.at(-1);
  if (last === undefined) {
    if (how === 'remove') throw unprocessable();
    return value;
  }
  const parent = read(root, path.slice(0, -1));
  if (Array.isArray(parent)) {
    const at = index(parent, last, how === 'add');
    if (how === 'add') parent.splice(at, 0, value);
    else if (how === 'remove') parent.splice(at, 1);
    else parent[at] = value;
  } else if (isObject(parent)) {
    // Upstream's library lets `replace` set what is not there.
    if (how === 'remove' && parent[last] === undefined) throw unprocessable();
    if (how === 'remove') delete parent[last];
    else parent[last] = value;
  } else throw unprocessable();
  return root;
}

/** What `copy` operations of one patch may add up to: the patch is small, what it makes of an object need not be. */
const MAX_COPIED_BYTES = 3 * 1024 * 1024;

interface Copied {
  bytes: number;
}

/** Throws a Refusal 413. */
function count(copied: Copied, value: Json): void {
  copied.bytes += Buffer.byteLength(JSON.stringify(value), 'utf8');
  if (copied.bytes <= MAX_COPIED_BYTES) return;
  throw entityTooLarge(
    `Unable to complete json patch: Unable to complete the copy, the accumulated size increase of copy is ${copied.bytes}, exceeding the limit ${MAX_COPIED_BYTES}`,
  );
}

function apply(root: Json, { op, path, from, value }: Operation, copied: Copied): Json {
  switch (op) {
    case 'add':
    case 'replace':
      if (value === undefined) throw unprocessable();
      return write(root, path, op, copy(value));
    case 'remove':
      return write(root, path, 'remove', null);
    case 'test': {
      let found: Json = null;
      try {
        found = read(root, path);
      } catch (error) {
        // An absent value equals null, as in the library that the API server uses, in a map that is there.
        if ((value !== null && value !== undefined) || !isObject(read(root, path.slice(0, -1)))) throw error;
      }
      if (!equal(found, value ?? null)) throw unprocessable();
      return root;
    }
    case 'copy':
    case 'move': {
      if (from === undefined) throw unprocessable();
      const moved = read(root, from);
      if (tooDeep(moved)) throw badRequest(`the patch nests values deeper than ${MAX_DEPTH}`);
      if (op === 'copy') count(copied, moved);
      const rest = op === 'move' ? write(root, from, 'remove', null) : root;
      return write(rest, path, 'add', copy(moved));
    }
    default:
      throw unprocessable();
  }
}

/**
 * RFC 6902. The target is not changed. Throws a Refusal: 400 for what is no patch, 413 for too many operations, 422 when
 * an operation does not apply or a test fails.
 */
export function jsonPatch(target: Json, patch: Json): Json {
  if (!Array.isArray(patch))
    throw badRequest('error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp');
  if (patch.length > MAX_OPERATIONS) {
    throw entityTooLarge(`The allowed maximum operations in a JSON patch is ${MAX_OPERATIONS}, got ${patch.length}`);
  }
  const copied: Copied = { bytes: 0 };
  return patch.map(operationOf).reduce((root, operation) => apply(root, operation, copied), copy(target));
}
