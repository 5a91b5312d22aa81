import type { JsonObject } from '@kubenode/api-machinery/wire';
import { wantsYaml, type Accepted } from './accept.ts';
import { accepted, objectOf, textOf, type Call, type Reply } from './call.ts';
import { EventStream } from './event-stream.ts';
import { forbidden, unsupported, type FieldProblem } from './field-error.ts';
import { apiVersion } from './kinds/served.ts';
import { limitOf, parseOwnVersion, selectionOf, selects, type Selection } from './list.ts';
import { expired, invalidObject, tooLargeResourceVersion, type Refusal, notAcceptable } from './refusal.ts';
import { keyOf, restamped, type Entry, type EntryEvent } from './store/entry.ts';
import type { Watcher } from './store/hub.ts';
import { includeObject, partialMetadata, tableOf, type TableOptions } from './table.ts';

/** A watch without a timeout ends after this long, or up to twice that. */
const MIN_TIMEOUT_MS = 30 * 60_000;

type EventType = 'ADDED' | 'MODIFIED' | 'DELETED';

function checkOptions(query: Call['query']): void {
  const problems: FieldProblem[] = [];
  const { resourceVersionMatch: match = '', sendInitialEvents, continue: token = '' } = query;
  if (sendInitialEvents !== undefined && match !== 'NotOlderThan') {
    problems.push(forbidden('resourceVersionMatch', 'sendInitialEvents requires setting resourceVersionMatch to NotOlderThan'));
  }
  if (match !== '') {
    if (sendInitialEvents === undefined) {
      problems.push(forbidden('resourceVersionMatch', 'resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided'));
    }
    if (match !== 'NotOlderThan') problems.push(unsupported('resourceVersionMatch', match, ['NotOlderThan']));
    if (token !== '') problems.push(forbidden('resourceVersionMatch', 'resourceVersionMatch is forbidden when continue is provided'));
  }
  if (problems.length > 0) throw invalidObject('meta.k8s.io', 'ListOptions', '', problems);
}

const isTrue = (text: string | undefined) => text === 'true' || text === '1';

/**
 * What a stored event means to a selection: an object that comes to match is ADDED, one that ceases to is DELETED with
 * its old body at the new resourceVersion.
 */
export function transition(selection: Selection, event: EntryEvent): { type: EventType; entry: Entry } | undefined {
  const before = event.previous !== undefined && selects(selection, event.previous);
  if (event.type === 'DELETED') return before ? { type: 'DELETED', entry: event.entry } : undefined;
  const after = selects(selection, event.entry);
  if (after) return { type: before ? 'MODIFIED' : 'ADDED', entry: event.entry };
  if (!before || event.previous === undefined) return undefined;
  return { type: 'DELETED', entry: restamped(event.previous, event.rv) };
}

/** Bytes of the event that is being dispatched, by form: many watchers, one serialisation. */
class Shared {
  #event: EntryEvent | undefined;
  #bytes = new Map<string, Uint8Array>();

  get(event: EntryEvent, form: string, make: () => Uint8Array): Uint8Array {
    if (this.#event !== event) {
      this.#event = event;
      this.#bytes = new Map();
    }
    let bytes = this.#bytes.get(form);
    if (bytes === undefined) this.#bytes.set(form, (bytes = make()));
    return bytes;
  }
}

const sharedBytes = new Shared();

const line = (type: string, text: string): Uint8Array => Buffer.from(`{"type":"${type}","object":${text}}\n`, 'utf8');

/** Writes events in the form that one watch asked for. */
class Writer {
  readonly #call: Call;
  readonly #form: Accepted;
  readonly #table: TableOptions;
  readonly #key: string;
  #headed = false;

  constructor(call: Call, form: Accepted) {
    this.#call = call;
    this.#form = form;
    this.#table = { version: form.version, include: includeObject(call.query['includeObject']) };
    this.#key = `${apiVersion(call.served)} ${form.shape} ${form.version} ${this.#table.include}`;
  }

  line(type: EventType, entry: Entry, event?: EntryEvent): Uint8Array {
    // The first event of a table carries its columns and is like no other watch's.
    const unique = event === undefined || (this.#form.shape === 'table' && !this.#headed);
    if (unique) return line(type, this.#text(entry));
    return sharedBytes.get(event, `${type} ${this.#key}`, () => line(type, this.#text(entry)));
  }

  #text(entry: Entry): string {
    const { served, world } = this.#call;
    if (this.#form.shape === 'json') return textOf(served, entry);
    const object = objectOf(served, entry);
    if (this.#form.shape === 'partial') return JSON.stringify(partialMetadata(object, this.#form.version));
    const headed = this.#headed;
    this.#headed = true;
    return JSON.stringify(tableOf(served, [object], { resourceVersion: String(entry.rv) }, this.#table, world.clock.now(), !headed));
  }

  bookmark(rv: number, initialEnd = false): Uint8Array {
    const { served, world } = this.#call;
    const metadata: JsonObject = { resourceVersion: String(rv) };
    if (initialEnd) metadata['annotations'] = { 'k8s.io/initial-events-end': 'true' };
    const bare: JsonObject = { kind: served.kind, apiVersion: apiVersion(served), metadata };
    if (this.#form.shape === 'json') return line('BOOKMARK', JSON.stringify(bare));
    const partial = partialMetadata(bare, this.#form.version);
    if (this.#form.shape === 'partial') return line('BOOKMARK', JSON.stringify(partial));
    const table = tableOf(served, [], { resourceVersion: String(rv) }, this.#table, world.clock.now(), false);
    return line('BOOKMARK', JSON.stringify({ ...table, rows: initialEnd ? [{ cells: [], object: partial }] : [] }));
  }
}

const errorLine = (refusal: Refusal): Uint8Array => line('ERROR', JSON.stringify(refusal.body));

interface Opening {
  /** What is sent before live events. */
  readonly initial: Iterable<Uint8Array>;
  /** Live events up to this version were seen. */
  readonly seen: number;
  readonly failed?: boolean;
}

function* additions(writer: Writer, entries: Iterable<Entry>, end: Uint8Array | undefined): Iterable<Uint8Array> {
  for (const entry of entries) yield writer.line('ADDED', entry);
  if (end !== undefined) yield end;
}

/** What a watch finds when it opens. One that pins a name reads that key only: thousands of agents open such watches at once. */
function present(call: Call, selection: Selection): Entry[] {
  const table = call.world.store.table(call.served.storageKey);
  if (selection.name !== '' && (selection.namespace !== '' || !call.served.namespaced)) {
    const entry = table.get(keyOf(selection.namespace, selection.name));
    return entry !== undefined && selects(selection, entry) ? [entry] : [];
  }
  const prefix = selection.namespace === '' ? '' : `${selection.namespace}/`;
  return [...(table.at(call.world.store.rv)?.range(prefix, '') ?? [])].filter((entry) => selects(selection, entry));
}

function open(call: Call, selection: Selection, writer: Writer, form: Accepted): Opening {
  const { store } = call.world;
  const table = store.table(call.served.storageKey);
  const given = parseOwnVersion(call.query['resourceVersion']);
  const wantsInitial = call.query['sendInitialEvents'];
  if (wantsInitial !== undefined && given !== undefined && given > store.rv) throw tooLargeResourceVersion(given, store.rv);
  const rv = store.rv;
  if (isTrue(wantsInitial) || (wantsInitial === undefined && (given === undefined || given === 0))) {
    const entries = present(call, selection);
    const bookmarked = isTrue(wantsInitial) && isTrue(call.query['allowWatchBookmarks']);
    const initial = additions(writer, entries, bookmarked ? writer.bookmark(rv, true) : undefined);
    // The first line of a table has the columns, so it must be written before any live one.
    return { initial: form.shape === 'table' ? [...initial] : initial, seen: rv };
  }
  if (given === undefined || given === 0) return { initial: [], seen: rv };
  if (given < table.compacted) {
    return { initial: [errorLine(expired(`too old resource version: ${given} (${table.compacted})`))], seen: rv, failed: true };
  }
  const missed = table.since(given).flatMap((event) => {
    const found = transition(selection, event);
    return found === undefined ? [] : [writer.line(found.type, found.entry)];
  });
  return { initial: missed, seen: Math.max(rv, given) };
}

/** Opens a watch. Throws a Refusal; a resourceVersion that is too old is answered 200 with an ERROR event. */
export function watch(call: Call): Reply {
  checkOptions(call.query);
  if (wantsYaml(call.headers['accept'])) throw notAcceptable(['application/json;stream=watch']);
  const form = accepted(call);
  const selection = selectionOf(call);
  const seconds = limitOf(call.query['timeoutSeconds']);
  const writer = new Writer(call, form);
  const { initial, seen, failed } = open(call, selection, writer, form);
  const { world, served } = call;
  const closers: (() => void)[] = [];
  const stream = new EventStream(
    initial,
    () => {
      for (const close of closers) close();
    },
    call.request.signal,
  );
  if (failed === true) {
    stream.end();
    return { status: 200, stream };
  }
  const watcher: Watcher = {
    resource: served.storageKey,
    namespace: selection.namespace,
    name: selection.name,
    deliver(event) {
      if (event.rv <= seen) return;
      const found = transition(selection, event);
      if (found !== undefined) stream.push(writer.line(found.type, found.entry, found.entry === event.entry ? event : undefined));
    },
    end: () => stream.end(),
  };
  closers.push(world.store.hub.add(watcher));
  const bookmarks = isTrue(call.query['allowWatchBookmarks']);
  const bookmark = () => stream.push(writer.bookmark(Math.max(world.store.rv, seen)));
  if (bookmarks) closers.push(world.bookmarks.add(bookmark));
  const timeout = seconds > 0 ? seconds * 1000 : MIN_TIMEOUT_MS * (1 + world.random());
  closers.push(
    world.clock.setTimer(timeout, () => {
      if (bookmarks) bookmark();
      stream.end();
    }),
  );
  if (call.request.signal?.aborted === true) stream.end();
  return { status: 200, stream };
}
