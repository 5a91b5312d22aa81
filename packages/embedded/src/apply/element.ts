/**
 * One step of a field path, in its FieldsV1 spelling: `f:name` a field, `k:{"type":"Ready"}` an item of a keyed list,
 * `v:"x"` an item of a set, `i:0` an index in a list. The spelling is canonical, so equal steps are equal strings.
 */
import type { Json } from '@kubenode/api-machinery/wire';
import { goJson, pathText, quote } from './go-text.ts';
import type { ListType } from './schema.ts';
import { compareStrings, compareValues, isObject, own } from './value.ts';

export type Element = string;

export function fieldElement(name: string): Element {
  return `f:${name}`;
}

/** An item of an atomic list cannot be in a path; the message gives the reason in the server's words. */
export class ElementError {
  readonly message: string;

  constructor(message: string) {
    this.message = message;
  }
}

/** The step to an item of a set or keyed list. */
export function itemElement(list: ListType, item: Json): Element | ElementError {
  if (list.keyNames.length === 0) {
    if (item === null) return new ElementError("associative list without keys has an element that's an explicit null");
    if (Array.isArray(item)) return new ElementError('not supported: associative list with lists as elements');
    if (typeof item === 'object') return new ElementError("associative list without keys has an element that's a map type");
    return `v:${goJson(item)}`;
  }
  if (item === null) return new ElementError('associative list with keys may not have a null element');
  if (!isObject(item)) return new ElementError('associative list with keys may not have non-map elements');
  let text = '';
  for (const key of list.keys) {
    const value = own(item, key.name) ?? (Object.hasOwn(item, key.name) ? null : key.default);
    // An absent key without default is part of the identity by its absence.
    if (value !== undefined) text += text === '' ? key.label + goJson(value) : `,${key.label}${goJson(value)}`;
  }
  if (text === '') {
    const names = list.keyNames.map(quote).join(' ');
    return new ElementError(
      `associative list with keys has an element that omits all key fields [${names}] (and doesn't have default values for any key fields)`,
    );
  }
  return `k:{${text}}`;
}

/** Spellings that are known to be canonical without parsing, as nearly all are: one key or a value, of plain characters. */
const plain = /^(?:k:\{"[\w.-]+":"[\w./:-]*"\}|v:"[\w./:-]*")$/;

/** The canonical spelling of a stored step; undefined for a kind of step that this version does not know; throws on nonsense. */
export function parseElement(text: string): Element | undefined {
  if (text.length < 2) throw new SyntaxError('key must be 2 characters long:');
  if (text[1] !== ':') throw new SyntaxError(`missing colon: ${text}`);
  const kind = text[0];
  if (kind === 'f' || plain.test(text)) return text;
  const rest = text.slice(2);
  switch (kind ?? '') {
    case 'v':
      return `v:${goJson(JSON.parse(rest) as Json)}`;
    case 'k': {
      const fields = JSON.parse(rest) as Json;
      if (!isObject(fields)) throw new SyntaxError(`not the key of a list item: ${text}`);
      const keys = Object.keys(fields).sort(compareStrings);
      return `k:{${keys.map((key) => `${JSON.stringify(key)}:${goJson(fields[key] ?? null)}`).join(',')}}`;
    }
    case 'i':
      if (!/^[+-]?\d+$/.test(rest)) throw new SyntaxError(`not an index: ${text}`);
      return `i:${String(Number(rest))}`;
    default:
      return undefined;
  }
}

const kinds = 'fkvi';

/** The server's order: fields, keyed items, set items, indices; each among themselves by name, keys, value, number. */
export function compareElements(a: Element, b: Element): number {
  if (a === b) return 0;
  const kind = a[0] ?? '';
  if (kind !== b[0]) return kinds.indexOf(kind) - kinds.indexOf(b[0] ?? '');
  if (kind === 'f') return compareStrings(a, b);
  // In plain spellings the text has the order of the values: what ends a string sorts before what may go on in it.
  if (plain.test(a) && plain.test(b) && (kind === 'v' || a.startsWith(b.slice(0, b.indexOf(':', 2))))) return a < b ? -1 : 1;
  const x = JSON.parse(a.slice(2)) as Json;
  const y = JSON.parse(b.slice(2)) as Json;
  if (!isObject(x) || !isObject(y)) return compareValues(x, y);
  const left = Object.entries(x);
  const right = Object.entries(y);
  for (let i = 0; i < left.length && i < right.length; i++) {
    const [name, value] = left[i] ?? ['', null];
    const [otherName, otherValue] = right[i] ?? ['', null];
    const c = compareStrings(name, otherName) || compareValues(value, otherValue);
    if (c !== 0) return c;
  }
  return left.length - right.length;
}

/** As people and conflict causes read it: `.name`, `[type="Ready"]`, `[="x"]`, `[0]`. */
export function elementText(element: Element): string {
  const rest = element.slice(2);
  switch (element[0] ?? '') {
    case 'f':
      return `.${rest}`;
    case 'v':
      return `[=${pathText(JSON.parse(rest) as Json)}]`;
    case 'k':
      return `[${Object.entries(JSON.parse(rest) as Record<string, Json>)
        .map(([name, value]) => `${name}=${pathText(value)}`)
        .join(',')}]`;
    default:
      return `[${rest}]`;
  }
}

export function pathTextOf(path: readonly Element[]): string {
  return path.map(elementText).join('');
}
