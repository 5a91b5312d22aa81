import { Events } from '../../api/builtin.ts';
import type { Event } from '../../api/builtin.ts';
import { messageOf } from '../../api/errors.ts';
import type { Clock, Log, Random } from '../../api/ports.ts';
import { AGENT_REPORTER } from '../../api/names.ts';
import { apiVersionOf } from '../../api/resource.ts';
import type { Client } from '../../kube/client.ts';
import { rfc3339, sleep } from '../../kube/clock.ts';
import type { Happening } from '../context.ts';
import { short } from '../errors.ts';
import { Machines } from '../cell/wanted.ts';

export interface EventsOptions {
  client: Client;
  machine: { namespace: string; name: string; uid: string };
  clock: Clock;
  random: Random;
  log: Log;
  signal: AbortSignal;
}

/** Shortest time between two equal Events; a more frequent one is only in the log. */
const REPEAT_MS = 300_000;
const WAITING = 20;
const PACE_MS = 200;

/** Sends Events about the Machine, in the background: for people, never a record. Those that cannot be sent are dropped. */
export function createEvents({ client, machine, clock, random, log, signal }: EventsOptions): {
  send(what: Happening): void;
  done(): Promise<void>;
} {
  const { namespace, name, uid } = machine;
  const lastSent = new Map<string, number>();
  const queue: Event[] = [];
  let sending: Promise<void> = Promise.resolve();
  let active = false;

  function eventOf({ type, reason, message }: Happening): Event {
    const time = rfc3339(clock.now());
    // As client-go names them, so that no name is made twice.
    const unique = `${Math.floor(clock.now()).toString(16)}${Math.floor(random() * 2 ** 32)
      .toString(16)
      .padStart(8, '0')}`;
    return {
      apiVersion: 'v1',
      kind: 'Event',
      metadata: { name: `${name}.${unique}`, namespace },
      involvedObject: { apiVersion: apiVersionOf(Machines), kind: Machines.kind, namespace, name, uid },
      type,
      reason,
      message: short(message),
      firstTimestamp: time,
      lastTimestamp: time,
      count: 1,
      source: { component: AGENT_REPORTER.component, host: name },
      reportingComponent: AGENT_REPORTER.controller,
      reportingInstance: name,
    };
  }

  async function drain(): Promise<void> {
    for (let event = queue.shift(); event !== undefined && !signal.aborted; event = queue.shift()) {
      try {
        await client.create(Events, event, { signal });
      } catch (error) {
        if (!signal.aborted) log.debug({ reason: event.reason, error: messageOf(error) }, 'an Event was not sent');
      }
      await sleep(clock, PACE_MS, signal).catch(() => undefined);
    }
    active = false;
  }

  return {
    send(what) {
      const key = `${what.reason}/${what.message}`;
      const nowMs = clock.monotonic();
      for (const [each, at] of lastSent) if (nowMs - at > REPEAT_MS) lastSent.delete(each);
      if (lastSent.has(key) || queue.length >= WAITING || signal.aborted) return;
      lastSent.set(key, nowMs);
      queue.push(eventOf(what));
      if (active) return;
      active = true;
      sending = drain();
    },
    done: () => sending,
  };
}
