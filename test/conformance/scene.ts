import { setTimeout as delay } from 'node:timers/promises';
import type { Transport } from '../../src/api/transport.ts';
import type { Json, JsonObject } from '../../src/api/wire.ts';
import { Api, pick, text, type Answer, type Watch, type WatchLine } from '@kubenode/embedded/testing';
import { Normalizer } from './normalize.ts';

/** An API whose answers are written down. */
class Recorder extends Api {
  readonly #note: (did: string, answer: Answer) => void;

  constructor(transport: Transport, note: (did: string, answer: Answer) => void) {
    super(transport);
    this.#note = note;
  }

  override async send(...args: Parameters<Api['send']>): Promise<Answer> {
    const [method, path, , , more] = args;
    const answer = await super.send(...args);
    const query = new URLSearchParams(more?.query).toString();
    this.#note(`${method} ${path}${query === '' ? '' : `?${decodeURIComponent(query)}`}`, answer);
    return answer;
  }
}

/** One run of one scenario against one server. */
export class Scene {
  readonly server: 'embedded' | 'real';
  /** A namespace that only this scenario uses; its name also starts the names of its cluster-scoped objects. */
  readonly ns: string;
  /** What was seen, in order, with random parts named. */
  readonly steps: Json[] = [];
  /** Every answer of it is compared. */
  readonly api: Api;
  /** For what is not compared: waiting, and what differs with a reason. */
  readonly unrecorded: Api;
  readonly #names: Normalizer;
  readonly #watches: Watch[] = [];

  constructor(server: 'embedded' | 'real', transport: Transport, ns: string) {
    this.server = server;
    this.ns = ns;
    this.#names = new Normalizer([[ns, '<ns>']]);
    this.unrecorded = new Api(transport);
    this.api = new Recorder(transport, (did, { status, headers, body }) => {
      const warning = headers['warning'];
      const retry = headers['retry-after'];
      const seen = this.#names.value(body);
      this.steps.push({
        did: this.#names.text(did).replaceAll(/(resourceVersion|continue)=[^&]{2,}/g, '$1=…'),
        status,
        ...(warning === undefined ? {} : { warning }),
        ...(retry === undefined ? {} : { retryAfter: retry }),
        body: seen,
      });
    });
  }

  /** Path of a namespaced resource of this scenario: `configmaps` or `apps/v1/deployments`; then name and subresource. */
  in(resource: string, ...rest: string[]): string {
    const parts = resource.split('/');
    const plural = parts.pop() ?? '';
    const base = parts.length === 0 ? '/api/v1' : `/apis/${parts.join('/')}`;
    return [base, 'namespaces', this.ns, plural, ...rest].join('/');
  }

  /** From now on the value has a name of its own in what is compared. */
  call(value: string, name: string): void {
    this.#names.call(value, name);
  }

  /** Adds something to what is compared. */
  see(did: string, value: Json): void {
    this.steps.push({ did, seen: this.#names.value(value) });
  }

  async watch(path: string, query: Record<string, string> = {}, headers: Record<string, string> = {}): Promise<Watch> {
    const watch = await this.unrecorded.watch(path, query, headers);
    this.#watches.push(watch);
    return watch;
  }

  /** The next events of a watch, which are compared; those that are not there within ten seconds are missed. */
  async take(watch: Watch, count: number): Promise<WatchLine[]> {
    const lines: WatchLine[] = [];
    while (lines.length < count) {
      const line = await deadline(watch.next(), `event ${lines.length + 1} of ${count}`);
      if (line === undefined) break;
      lines.push(line);
    }
    this.see(
      `${count} events`,
      lines.map(({ type, object }) => ({ type, object })),
    );
    return lines;
  }

  /** Events until the server ends the watch. */
  async rest(watch: Watch): Promise<WatchLine[]> {
    return this.take(watch, 1000);
  }

  /** Waits until a value is there. */
  async until<T>(what: string, value: () => Promise<T | undefined | false>, seconds = 20): Promise<T> {
    const end = performance.now() + seconds * 1000;
    for (;;) {
      const found = await value();
      if (found !== undefined && found !== false) return found;
      if (performance.now() > end) throw new Error(`${this.server}: ${what}: not within ${seconds} s`);
      await delay(20);
    }
  }

  async gone(path: string): Promise<void> {
    await this.until(`${path} is gone`, async () => (await this.unrecorded.get(path)).status === 404, 60);
  }

  end(): void {
    for (const watch of this.#watches) watch.stop();
  }
}

async function deadline<T>(value: Promise<T>, what: string): Promise<T> {
  const late = new AbortController();
  const timer = delay(10_000, undefined, { signal: late.signal, ref: false }).then(() => {
    throw new Error(`${what} did not come within 10 s`);
  });
  timer.catch(() => undefined);
  try {
    return await Promise.race([value, timer]);
  } finally {
    late.abort();
  }
}

export const version = (answer: Answer | WatchLine | undefined): string => {
  if (answer === undefined) return '';
  return text(pick('body' in answer ? answer.body : answer.object, 'metadata.resourceVersion'));
};

export const at = (answer: Answer, path: string): Json | undefined => pick(answer.body, path);

export type { Answer, Json, JsonObject, WatchLine };

/** Of every object of a list only some fields. */
export function pickTable(list: Json | undefined, keys: readonly string[]): Json {
  if (!Array.isArray(list)) return null;
  return list.map((item) => Object.fromEntries(keys.flatMap((key) => [[key, pick(item, key) ?? null]])));
}
