/** Values as Go prints them, because the server's messages and stored FieldsV1 keys contain them. */
import type { Json } from '@kubenode/api-machinery/wire';
import { compareStrings, isObject } from './value.ts';

const hex = (char: string, width: number) => char.charCodeAt(0).toString(16).padStart(width, '0');

/** JSON as Go's encoder writes it: keys sorted, `<`, `>`, `&` and the line separators escaped. */
export function goJson(value: Json): string {
  if (typeof value === 'string' && /^[\w ./:@-]*$/.test(value)) return `"${value}"`;
  if (Array.isArray(value)) return `[${value.map(goJson).join(',')}]`;
  if (isObject(value)) {
    const keys = Object.keys(value).sort(compareStrings);
    return `{${keys.map((key) => `${goJson(key)}:${goJson(value[key] ?? null)}`).join(',')}}`;
  }
  const text = JSON.stringify(value);
  if (typeof value !== 'string' || !/[<>&\u2028\u2029\b\f]/.test(value)) return text;
  return text
    .replace(/[<>&\u2028\u2029]/g, (char) => `\\u${hex(char, 4)}`)
    .replace(/\\\\|\\b|\\f/g, (pair) => (pair === '\\b' ? '\\u0008' : pair === '\\f' ? '\\u000c' : pair));
}

const escapes: Record<string, string> = {
  '\u0007': '\\a',
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\v': '\\v',
  '"': '\\"',
  '\\': '\\\\',
};

/** `%q` */
export function quote(text: string): string {
  const inner = text.replace(/["\\]|\p{Cc}/gu, (char) => escapes[char] ?? (char < '\u0080' ? `\\x${hex(char, 2)}` : `\\u${hex(char, 4)}`));
  return `"${inner}"`;
}

/** The value of a list-map key or set item inside a path. */
export function pathText(value: Json): string {
  if (typeof value === 'string') return quote(value);
  if (Array.isArray(value)) return `[${value.map(pathText).join(',')}]`;
  if (isObject(value)) {
    return Object.entries(value)
      .map(([key, child]) => `${key}=${pathText(child)}`)
      .join('');
  }
  return String(value);
}

/** `%v` of the wrapped value. */
function plain(value: Json): string {
  if (value === null) return '<nil>';
  if (Array.isArray(value)) return `[${value.map(plain).join(' ')}]`;
  if (isObject(value)) {
    const keys = Object.keys(value).sort(compareStrings);
    return `map[${keys.map((key) => `${key}:${plain(value[key] ?? null)}`).join(' ')}]`;
  }
  return String(value);
}

/** `%v` of a value: `&{5}` */
export function valueText(value: Json): string {
  return `&{${plain(value)}}`;
}

function syntax(value: Json): string {
  if (value === null) return 'interface {}(nil)';
  if (typeof value === 'string') return quote(value);
  if (Array.isArray(value)) return `[]interface {}{${value.map(syntax).join(', ')}}`;
  if (isObject(value)) {
    const keys = Object.keys(value).sort(compareStrings);
    return `map[string]interface {}{${keys.map((key) => `${quote(key)}:${syntax(value[key] ?? null)}`).join(', ')}}`;
  }
  return String(value);
}

/** `%#v` of a value: `&value.valueUnstructured{Value:5}` */
export function valueSyntax(value: Json): string {
  return `&value.valueUnstructured{Value:${syntax(value)}}`;
}

/** `%T` of the wrapped value. */
export function typeText(value: Json): string {
  if (value === null) return '<nil>';
  if (Array.isArray(value)) return '[]interface {}';
  if (typeof value === 'object') return 'map[string]interface {}';
  if (typeof value === 'boolean') return 'bool';
  if (typeof value === 'string') return 'string';
  return Number.isInteger(value) ? 'int64' : 'float64';
}
