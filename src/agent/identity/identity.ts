import { IDENTITY_SECONDS } from '../../api/admission.ts';
import { messageOf } from '../../api/errors.ts';
import type { Transport } from '../../api/transport.ts';
import { halfJitterMs } from '../../kube/backoff.ts';
import { agentError } from '../errors.ts';
import { admit } from './admission.ts';
import { lifeOf } from './key.ts';
import { renew } from './renewal.ts';
import { newSession, nowMs, progress, remember, take, use } from './session.ts';
import type { IdentityPorts, Session } from './session.ts';

export interface IdentityOptions extends IdentityPorts {
  /** Life of a certificate as it is asked for; the server may give less. Default: a day. */
  seconds?: number;
}

export interface AgentIdentity {
  /** As this machine. Requests wait a while for an admission that is under way, and fail with `NotAdmitted` where none can be. */
  readonly transport: Transport;
  /** Admits, and renews, until the signal. */
  run(): Promise<void>;
  close(): Promise<void>;
}

/** How long a request waits for an admission. */
const WAIT_MS = 20_000;
const BACKOFF = { baseMs: 500, maxMs: 60_000 };
/** Between checks whether a request was signed after all, and whether it is time to renew. */
const CHECK_MS = 300_000;

/** Ends a pause of the loop that keeps an identity, if it is in one. */
interface Pause {
  end: (() => void) | undefined;
}

/**
 * Who this agent is: a key of its own and the certificate for it, issued for a token that works once, renewed at two thirds of its life; where the
 * cluster signs none, a token instead (docs/protocols.md#g1). Killed at any moment it goes on from what is on its disk. Even when every request is refused, the
 * node is kept as it is.
 */
export function createIdentity(options: IdentityOptions): AgentIdentity {
  const session = newSession(options, options.seconds ?? IDENTITY_SECONDS.usual);
  const pause: Pause = { end: undefined };
  return {
    transport: (request) => sendAs(session, pause, request),
    run: () => keepIdentity(session, pause),
    async close() {
      await session.using?.close();
      await session.admitting?.transport.close();
    },
  };
}

async function sendAs(session: Session, pause: Pause, request: Parameters<Transport>[0]): ReturnType<Transport> {
  if (session.using === undefined) await admitted(session, request.signal);
  const through = session.using;
  if (through === undefined) throw agentError('NotAdmitted', 'this agent is not admitted yet');
  const response = await through(request);
  const serverMs = Date.parse(response.headers['date'] ?? '');
  if (!Number.isNaN(serverMs)) session.aheadMs = serverMs - session.ports.clock.now();
  const refused = response.status === 401;
  if (through === session.using && session.refused !== refused) {
    session.refused = refused;
    if (refused) pause.end?.();
  }
  return response;
}

async function keepIdentity(session: Session, pause: Pause): Promise<void> {
  const { random, log, signal } = session.ports;
  let failures = 0;
  let loaded = false;
  while (!signal.aborted) {
    let ms;
    try {
      if (!loaded) await load(session);
      loaded = true;
      ms = await turn(session);
      failures = 0;
    } catch (error) {
      if (signal.aborted) return;
      ms = halfJitterMs(BACKOFF, ++failures, random);
      log.warn({ error: messageOf(error), failures }, 'the identity was not had, or not renewed; tries again');
    }
    if (ms > 0) await pauseFor(session, pause, ms);
  }
}

/** An identity that seems to be out of date is used only when there is no hope of another: requests wait for that first. */
async function load(session: Session): Promise<void> {
  const kept = await session.ports.state.current();
  if (kept === undefined) return;
  remember(session, kept);
  if (nowMs(session) < lifeOf(kept).until) use(session, kept);
}

/** Returns how long to wait before the next one. */
async function turn(session: Session): Promise<number> {
  const { current, client, refused, readmit } = session;
  if (current === undefined || client === undefined || refused || readmit || nowMs(session) >= lifeOf(current).until)
    return await admit(session);
  if (nowMs(session) >= session.dueMs) return await renew(session, current, client);
  const pending = current.kind === 'Token' ? await session.ports.state.pending() : undefined;
  if (pending !== undefined) {
    const answer = await progress(session, client, pending);
    if (answer.is === 'Issued') await take(session, client, pending, answer, current.admittedBy);
  }
  return Math.min(CHECK_MS, session.dueMs - nowMs(session));
}

function pauseFor({ ports: { clock, signal } }: Session, pause: Pause, ms: number): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      cancel();
      pause.end = undefined;
      signal.removeEventListener('abort', done);
      resolve();
    };
    const cancel = clock.setTimer(ms, done);
    pause.end = done;
    signal.addEventListener('abort', done, { once: true });
    if (signal.aborted) done();
  });
}

/** Until there is an identity, or no hope of one. */
function admitted(session: Session, until: AbortSignal | undefined): Promise<void> {
  const { ports, waiters } = session;
  return new Promise((resolve, reject) => {
    const check = (): void => {
      if (session.using === undefined && session.hopeless === undefined && until?.aborted !== true) return;
      end();
      if (until?.aborted === true) reject(asError(until.reason));
      else if (session.using === undefined) reject(agentError('NotAdmitted', session.hopeless ?? ''));
      else resolve();
    };
    const end = (): void => {
      cancel();
      waiters.delete(check);
      until?.removeEventListener('abort', check);
    };
    const cancel = ports.clock.setTimer(WAIT_MS, () => {
      end();
      reject(agentError('NotAdmitted', 'this agent is not admitted yet'));
    });
    waiters.add(check);
    until?.addEventListener('abort', check, { once: true });
    check();
  });
}

const asError = (reason: unknown): Error => (reason instanceof Error ? reason : new Error(String(reason)));
