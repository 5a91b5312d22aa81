/** Makes answers of two servers comparable: what is random or is the time of day gets a name of its own. */
import type { Json, JsonObject } from '../../src/api/wire.ts';

/** UIDs that tests make up end like this, and stay. */
const GIVEN = '-2222-3333-4444-555555555555';
const UID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;
const TIME = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g;
const HOUR_MS = 60 * 60_000;

const isObject = (value: Json | undefined): value is JsonObject => value !== null && typeof value === 'object' && !Array.isArray(value);

/** Remembers what it named, so that the same value has the same name in every answer of one scenario. */
export class Normalizer {
  readonly #uids = new Map<string, string>();
  readonly #versions = new Map<string, string>();
  readonly #words: [string, string][];

  /** `words`: what is called otherwise in each run, with its common name. */
  constructor(words: readonly (readonly [string, string])[]) {
    this.#words = words.map(([from, to]) => [from, to]);
  }

  /** From now on `from` is called `to`. */
  call(from: string, to: string): void {
    if (!this.#words.some(([known]) => known === from)) this.#words.unshift([from, to]);
  }

  text(text: string): string {
    let out = text;
    for (const [from, to] of this.#words) out = out.replaceAll(from, to);
    return out
      .replaceAll(UID, (uid) => (uid.endsWith(GIVEN) ? uid : named(this.#uids, uid, 'uid')))
      .replaceAll(TIME, (time) =>
        Math.abs(Date.parse(time) - Date.now()) > HOUR_MS ? time : time.includes('.') ? '<micro time>' : '<time>',
      )
      .replaceAll(/"resourceVersion(\\*)":(\\*)"\d+/g, '"resourceVersion$1":$2"<number>')
      .replaceAll(/Invalid value: "\{.*\}": /gs, 'Invalid value: <object>: ')
      .replaceAll(/has \d+ currently/g, 'has <number> currently')
      .replaceAll(/(current: |in object meta: |in record \()\d+/g, '$1<number>');
  }

  version(version: string): string {
    return version === '' || version === '0' ? version : named(this.#versions, version, 'version');
  }

  value(value: Json): Json {
    if (typeof value === 'string') return this.text(value);
    if (Array.isArray(value)) return value.map((item) => this.value(item));
    if (!isObject(value)) return value;
    if (value['kind'] === 'Status' && typeof value['message'] === 'string') return this.#status(value, value['message']);
    return this.#object(value);
  }

  /** The causes name several errors in an order of their own: Go visits fields in a random one. */
  #status(status: JsonObject, message: string): JsonObject {
    const out = this.#object(status);
    const { details } = status;
    const several = status['reason'] === 'Invalid' && isObject(details) && Array.isArray(details['causes']) && details['causes'].length > 1;
    if (several) out['message'] = this.text(message).replace(/is invalid: \[.*\]$/s, 'is invalid: [<causes>]');
    return out;
  }

  #object(value: JsonObject): JsonObject {
    const list = Array.isArray(value['items']) || Array.isArray(value['rows']) || isBookmark(value);
    const generated = generatedName(value);
    if (generated !== undefined) this.call(...generated);
    const out: JsonObject = {};
    for (const [key, item] of Object.entries(value)) {
      if (key === 'metadata' && isObject(item)) out[key] = this.#metadata(item, list);
      else if (key === 'cells' && Array.isArray(item)) out[key] = item.map((cell) => this.#cell(cell));
      else if (key === 'causes' && Array.isArray(item)) out[key] = causes(this.value(item));
      else out[this.text(key)] = this.value(item);
    }
    return out;
  }

  #metadata(metadata: JsonObject, list: boolean): JsonObject {
    const out: JsonObject = {};
    for (const [key, item] of Object.entries(metadata)) {
      if (key === 'resourceVersion' && typeof item === 'string') out[key] = list ? '<list version>' : this.version(item);
      else if (key === 'managedFields' && Array.isArray(item)) out[key] = sortedManagers(this.value(item));
      else if (key === 'continue' && item !== '') out[key] = '<continue>';
      else out[key] = this.value(item);
    }
    return out;
  }

  #cell(cell: Json): Json {
    return typeof cell === 'string' && AGE.test(cell) ? '<age>' : this.value(cell);
  }
}

/** Every form of a duration that a table shows. The meaning of each form is tested beside `humanDuration`; here it would change with the date. */
const AGE = /^(?:\d+[smhdy]|\d+m\d+s|\d+h\d+m|\d+d\d+h|\d+y\d+d)$/;

/**
 * The real server names errors and conflicting managers in the random order of a Go map, and some errors twice because it
 * validates twice.
 */
function causes(value: Json): Json {
  if (!Array.isArray(value)) return value;
  const texts = new Set(value.map((cause) => JSON.stringify(cause)));
  return [...texts].sort().map((text) => JSON.parse(text) as Json);
}

/** Their order follows the second of the last write, which falls otherwise in every run. */
function sortedManagers(value: Json): Json {
  if (!Array.isArray(value)) return value;
  const name = (entry: Json): string =>
    isObject(entry) ? JSON.stringify(['operation', 'manager', 'subresource', 'apiVersion'].map((key) => entry[key] ?? '')) : '';
  return value.toSorted((a, b) => (name(a) < name(b) ? -1 : 1));
}

function isBookmark(value: JsonObject): boolean {
  const { metadata } = value;
  return isObject(metadata) && metadata['name'] === undefined && metadata['uid'] === undefined;
}

function generatedName(value: JsonObject): [string, string] | undefined {
  const { metadata } = value;
  if (!isObject(metadata)) return undefined;
  const { generateName: prefix, name } = metadata;
  if (typeof prefix !== 'string' || typeof name !== 'string' || prefix === '' || !name.startsWith(prefix)) return undefined;
  return name.length === prefix.length + 5 ? [name, `${prefix}<generated>`] : undefined;
}

function named(names: Map<string, string>, value: string, kind: string): string {
  const known = names.get(value);
  if (known !== undefined) return known;
  const name = `<${kind} ${names.size + 1}>`;
  names.set(value, name);
  return name;
}
