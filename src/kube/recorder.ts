import { kubeError } from './errors.ts';
import { Events } from '../api/builtin.ts';
import type { Event } from '../api/builtin.ts';
import { messageOf } from '../api/errors.ts';
import { plainText } from '../api/plain-text.ts';
import type { Clock, Log, Random } from '../api/ports.ts';
import type { KubeObject } from '../api/wire.ts';
import { hasReason } from './api-error.ts';
import type { Client } from './client.ts';
import { rfc3339, withDeadline } from './clock.ts';
import { createRecent } from './recent.ts';
import type { Recent } from './recent.ts';

export interface RecordedEvent {
  type: 'Normal' | 'Warning';
  /** UpperCamelCase, specific: what happened, never just `Error`. */
  reason: string;
  message: string;
}

/** Events are for people: they are lossy, and never a record. */
export interface Recorder {
  /** Returns at once and never throws. */
  event(about: KubeObject, event: RecordedEvent): void;
  /** Resolves when everything recorded so far was sent or given up. */
  flush(): Promise<void>;
}

export interface RecorderOptions {
  client: Client;
  clock: Clock;
  random: Random;
  log: Log;
  /** After it the recorder sends no more Events. */
  signal: AbortSignal;
  /** The reporting component, as in `kubectl describe`, e.g. `kubenode-machine`. */
  component: string;
  /** The process, e.g. its pod name. */
  instance: string;
}

/** As client-go's spam filter: this many events of one object at once, then one per interval. */
const BURST = 25;
const REFILL_MS = 300_000;
/** Objects and events remembered; the oldest are forgotten, which costs a new Event or some allowance. */
const REMEMBERED = 4096;
/** Waiting to be sent; beyond it events are dropped, so that a server that is away costs no memory. */
const WAITING = 1000;
const ANSWER_MS = 10_000;

/** One event, and how often it was recorded. */
interface Recorded {
  about: KubeObject;
  event: RecordedEvent;
  count: number;
  first: string;
  last: string;
  /** Name of the Event on the server, once it is there. */
  name: string | undefined;
  waiting: boolean;
}

interface RecorderState {
  readonly options: RecorderOptions;
  readonly recorded: Recent<Recorded>;
  /** By object. */
  readonly allowances: Recent<{ left: number; at: number }>;
  /** To be sent. */
  readonly queue: Recorded[];
  sending: Promise<void> | undefined;
}

/** Repeats of one event raise the count of one Event. An event that cannot be sent is logged and dropped. */
export function createRecorder(options: RecorderOptions): Recorder {
  const state: RecorderState = {
    options,
    recorded: createRecent(REMEMBERED),
    allowances: createRecent(REMEMBERED),
    queue: [],
    sending: undefined,
  };
  return {
    event(about, event) {
      if (!options.signal.aborted) record(state, about, event);
    },
    async flush() {
      await state.sending;
    },
  };
}

function record(state: RecorderState, about: KubeObject, { type, reason, message }: RecordedEvent): void {
  const { options, recorded, queue } = state;
  const event: RecordedEvent = { type, reason, message: plainText(message) };
  const { uid, namespace, name } = about.metadata;
  const object = JSON.stringify([about.kind, namespace, name, uid]);
  const id = JSON.stringify([object, type, reason, event.message]);
  const now = rfc3339(options.clock.now());
  const entry = recorded.get(id) ?? { about, event, count: 0, first: now, last: now, name: undefined, waiting: false };
  entry.count++;
  entry.last = now;
  recorded.set(id, entry);
  if (entry.waiting) return;
  if (!isAllowed(state, object) || queue.length >= WAITING) {
    options.log.debug({ kind: about.kind, name, reason }, 'too many Events; one is dropped');
    return;
  }
  entry.waiting = true;
  queue.push(entry);
  state.sending ??= sendAll(state).finally(() => (state.sending = undefined));
}

/** Takes one of the allowance of this object. */
function isAllowed({ options: { clock }, allowances }: RecorderState, object: string): boolean {
  const allowance = allowances.get(object) ?? { left: BURST, at: clock.monotonic() };
  const refilled = allowance.left + (clock.monotonic() - allowance.at) / REFILL_MS;
  const left = Math.min(BURST, refilled);
  const allowed = left >= 1;
  allowances.set(object, { left: allowed ? left - 1 : left, at: clock.monotonic() });
  return allowed;
}

async function sendAll({ options, queue }: RecorderState): Promise<void> {
  const { clock, log, signal } = options;
  for (let entry = queue.shift(); entry !== undefined && !signal.aborted; entry = queue.shift()) {
    entry.waiting = false;
    try {
      await withDeadline(clock, ANSWER_MS, signal, late, (signal) => send(options, entry, signal));
    } catch (error) {
      if (signal.aborted) return;
      const { kind, metadata } = entry.about;
      log.warn(
        { kind, name: metadata.name, reason: entry.event.reason, error: messageOf(error) },
        'an Event could not be sent; it is dropped',
      );
    }
  }
}

async function send(options: RecorderOptions, entry: Recorded, signal: AbortSignal): Promise<void> {
  const { client, random } = options;
  const { metadata } = entry.about;
  const namespace = metadata.namespace ?? 'default';
  if (entry.name !== undefined) {
    try {
      await client.patch(Events, { namespace, name: entry.name }, { merge: { count: entry.count, lastTimestamp: entry.last } }, { signal });
      return;
    } catch (error) {
      // Events live for an hour; what repeats after that begins again.
      if (!hasReason(error, 'NotFound')) throw error;
      entry.count = 1;
      entry.first = entry.last;
    }
  }
  const suffix = [random(), random()]
    .map((part) =>
      Math.floor(part * 2 ** 32)
        .toString(16)
        .padStart(8, '0'),
    )
    .join('');
  const name = `${metadata.name.slice(0, 230)}.${suffix}`;
  await client.create(Events, eventOf(options, entry, namespace, name), { signal });
  entry.name = name;
}

function eventOf(options: RecorderOptions, { about, event, count, first, last }: Recorded, namespace: string, name: string): Event {
  const { uid, resourceVersion } = about.metadata;
  return {
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { namespace, name },
    involvedObject: {
      apiVersion: about.apiVersion,
      kind: about.kind,
      name: about.metadata.name,
      ...(about.metadata.namespace === undefined ? {} : { namespace: about.metadata.namespace }),
      ...(uid === undefined ? {} : { uid }),
      ...(resourceVersion === undefined ? {} : { resourceVersion }),
    },
    ...event,
    count,
    firstTimestamp: first,
    lastTimestamp: last,
    source: { component: options.component, host: options.instance },
    reportingComponent: options.component,
    reportingInstance: options.instance,
  };
}

function late(): Error {
  return kubeError('Stalled', `no answer within ${ANSWER_MS} ms`);
}
