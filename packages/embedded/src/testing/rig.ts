import type { ApiRequest, Transport } from '@kubenode/api-machinery/transport';
import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { openCluster, type ClusterOptions, type EmbeddedCluster } from '../cluster.ts';
import { isObject } from '../json.ts';
import { FakeClock } from './clock.ts';

export interface Answer {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: JsonObject;
}

export interface WatchLine {
  readonly type: string;
  readonly object: JsonObject;
}

type More = Partial<Pick<ApiRequest, 'query' | 'headers' | 'signal'>>;

function parse(text: string): JsonObject {
  const value: unknown = text === '' ? {} : JSON.parse(text);
  if (!isObject(value)) throw new Error(`not an object: ${text.slice(0, 80)}`);
  return value;
}

/** Requests in as few words as a test wants. */
export class Api {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  async send(
    method: ApiRequest['method'],
    path: string,
    body?: Json | string,
    type = 'application/json',
    more: More = {},
  ): Promise<Answer> {
    const response = await this.#transport({
      method,
      path,
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      ...more,
      headers: { 'user-agent': 'test/1.0', ...(body === undefined ? {} : { 'content-type': type }), ...more.headers },
    });
    const chunks: Uint8Array[] = [];
    for await (const chunk of response.body) chunks.push(chunk);
    const text = Buffer.concat(chunks).toString('utf8');
    const json = (response.headers['content-type'] ?? '').startsWith('application/json');
    return { status: response.status, headers: response.headers, body: json ? parse(text) : { text } };
  }

  get = (path: string, query: Record<string, string> = {}, headers: Record<string, string> = {}) =>
    this.send('GET', path, undefined, undefined, { query, headers });
  create = (path: string, object: JsonObject, query: Record<string, string> = {}) => this.send('POST', path, object, undefined, { query });
  put = (path: string, object: JsonObject, query: Record<string, string> = {}) => this.send('PUT', path, object, undefined, { query });
  merge = (path: string, patch: JsonObject, query: Record<string, string> = {}) =>
    this.send('PATCH', path, patch, 'application/merge-patch+json', { query });
  json = (path: string, patch: Json[], query: Record<string, string> = {}) =>
    this.send('PATCH', path, patch, 'application/json-patch+json', { query });
  strategic = (path: string, patch: JsonObject, query: Record<string, string> = {}) =>
    this.send('PATCH', path, patch, 'application/strategic-merge-patch+json', { query });
  apply = (path: string, object: JsonObject, manager: string, query: Record<string, string> = {}) =>
    this.send('PATCH', path, object, 'application/apply-patch+yaml', { query: { fieldManager: manager, ...query } });
  remove = (path: string, options?: JsonObject, query: Record<string, string> = {}) =>
    this.send('DELETE', path, options, undefined, { query });

  /** Opens a watch; `next` waits for one event more. */
  async watch(path: string, query: Record<string, string> = {}, headers: Record<string, string> = {}): Promise<Watch> {
    const stop = new AbortController();
    const response = await this.#transport({ method: 'GET', path, query: { watch: 'true', ...query }, headers, signal: stop.signal });
    return new Watch(response.status, response.body, stop);
  }
}

export class Watch {
  readonly status: number;
  readonly #body: AsyncIterator<Uint8Array>;
  readonly #stop: AbortController;
  #lines: WatchLine[] = [];
  #text = '';

  constructor(status: number, body: AsyncIterable<Uint8Array>, stop: AbortController) {
    this.status = status;
    this.#body = body[Symbol.asyncIterator]();
    this.#stop = stop;
  }

  /** The next event; undefined when the stream has ended. */
  async next(): Promise<WatchLine | undefined> {
    for (;;) {
      const line = this.#lines.shift();
      if (line !== undefined) return line;
      const chunk = await this.#body.next();
      if (chunk.done === true) return undefined;
      const parts = `${this.#text}${Buffer.from(chunk.value).toString('utf8')}`.split('\n');
      this.#text = parts.pop() ?? '';
      this.#lines = parts.map((part) => JSON.parse(part) as WatchLine);
    }
  }

  async take(count: number): Promise<WatchLine[]> {
    const out: WatchLine[] = [];
    while (out.length < count) {
      const line = await this.next();
      if (line === undefined) break;
      out.push(line);
    }
    return out;
  }

  /** Everything until the stream ends. */
  async rest(): Promise<WatchLine[]> {
    return this.take(Number.POSITIVE_INFINITY);
  }

  stop(): void {
    this.#stop.abort(new Error('stopped'));
  }
}

/** A small generator of its own, so that names and UIDs are the same in every run. */
export function seeded(seed = 1): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
    return state / 0x80000000;
  };
}

export interface Rig {
  readonly cluster: EmbeddedCluster;
  readonly api: Api;
  readonly clock: FakeClock;
  /** Faults inside the server; `closeRig` throws for any. */
  readonly faults: unknown[];
}

export async function openRig(options: Partial<ClusterOptions> = {}): Promise<Rig> {
  const clock = new FakeClock();
  const faults: unknown[] = [];
  const cluster = await openCluster({
    name: 'test',
    state: 'memory',
    clock,
    random: seeded(),
    log: { error: (fields) => void faults.push(fields) },
    ...options,
  });
  return { cluster, api: new Api(cluster.asUser()), clock, faults };
}

export const text = (value: Json | undefined): string => (typeof value === 'string' ? value : '');

/** A value deep inside an answer, by a dotted path; numbers index lists. */
export function pick(value: Json | undefined, path: string): Json | undefined {
  let here = value;
  for (const key of path.split('.')) {
    if (Array.isArray(here)) here = here[Number(key)];
    else if (isObject(here)) here = here[key];
    else return undefined;
  }
  return here;
}

export const names = (list: JsonObject): string[] => {
  const items = list['items'];
  return Array.isArray(items) ? items.map((item) => text(pick(item, 'metadata.name'))) : [];
};

/** Closes a rig; throws when something inside the server went wrong meanwhile. */
export async function closeRig({ cluster, faults }: Rig): Promise<void> {
  await cluster.close();
  if (faults.length > 0) throw new Error(`faults inside the server: ${JSON.stringify(faults)}`);
}
