import { IDENTITY_SECONDS } from '../../api/admission.ts';
import { sha256Hex } from '../../api/digest.ts';
import { isCoded, messageOf } from '../../api/errors.ts';
import type { Clock, Log, Random } from '../../api/ports.ts';
import type { Transport } from '../../api/transport.ts';
import { halfJitterMs } from '../../kube/backoff.ts';
import type { Client } from '../../kube/client.ts';
import { AGENT_LIMITS, createClient } from '../../kube/http-client.ts';
import type { RetirableTransport } from '../../kube/https-transport.ts';
import { agentError } from '../errors.ts';
import { certified, lifeOf, newPending } from './key.ts';
import type { MachineIdentity } from './key.ts';
import type { Current, IdentityState, Pending } from './state.ts';
import { ask, isUnauthorized, look, standInToken } from './wire.ts';
import type { Answer } from './wire.ts';

export type Credentials = { token: string } | { clientCert: string; clientKey: string };

export interface IdentityOptions {
  machine: MachineIdentity;
  /** The bootstrap file's token, as the file is now: whoever owns the node replaces it to admit the node again. */
  readToken: () => Promise<string>;
  state: IdentityState;
  connect: (credentials: Credentials) => RetirableTransport;
  userAgent: string;
  clock: Clock;
  random: Random;
  log: Log;
  signal: AbortSignal;
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

/** Between two looks at the bootstrap file while only a new one helps. */
const FILE_MS = 5_000;
/** How long a request waits for an admission. */
const HOLD_MS = 20_000;
const POLL = { admission: { baseMs: 60, maxMs: 60_000 }, renewal: { baseMs: 200, maxMs: 300_000 } };
/** A signer that has not signed by then may never; from then on the token in its place is asked for, too. */
const SIGNER_MS = 5_000;
const AGAIN = { baseMs: 500, maxMs: 60_000 };
/** Whether a request was signed after all, and whether it is time. */
const LOOK_MS = 300_000;
/** After a renewal that was denied. */
const DENIED_MS = 1_800_000;

/**
 * Who this agent is: a key of its own and the certificate for it, had with a token that works once, renewed at two thirds of its life; where the
 * cluster signs none, a token in its place (docs/protocols.md#g1). Killed at any moment it goes on from what is on its disk. Whatever it is refused, the
 * node is kept as it is.
 */
export function createIdentity(options: IdentityOptions): AgentIdentity {
  const { machine, state, clock, random, log, signal, userAgent } = options;
  const seconds = options.seconds ?? IDENTITY_SECONDS.usual;
  let current: Current | undefined;
  let due = 0;
  let using: RetirableTransport | undefined;
  let client: Client | undefined;
  /** The server said 401 to it. */
  let refused = false;
  /** A renewal was denied, and the bootstrap file has a token that was not tried. */
  let readmit = false;
  /** SHA-256 of a bootstrap token that admits nobody any more. */
  let spent: string | undefined;
  let hopeless: string | undefined;
  let admitting: { hash: string; transport: RetirableTransport; client: Client } | undefined;
  /** The name that was asked for, how often its answer was looked for, and since when only the signer is missing. */
  let asked: { name: string; looks: number; approvedAt: number | undefined } | undefined;
  /** By the API server's clock. */
  let aheadMs = 0;
  const waiters = new Set<() => void>();
  let wake: (() => void) | undefined;

  const nowMs = (): number => clock.now() + aheadMs;
  const changed = (): void => {
    for (const waiter of waiters) waiter();
  };

  function use(identity: Current): void {
    const former = using;
    using = options.connect(
      identity.kind === 'Token' ? { token: identity.token } : { clientCert: identity.certificate, clientKey: identity.key },
    );
    client = createClient(using, { userAgent, limits: AGENT_LIMITS });
    former?.retire();
    refused = false;
    hopeless = undefined;
    changed();
  }

  function remember(identity: Current): void {
    current = identity;
    spent = identity.admittedBy;
    const { from, until } = lifeOf(identity);
    // Many agents that were admitted together do not come back together.
    due = from + (until - from) * (2 / 3 + (random() - 0.5) / 10);
  }

  async function adopt(identity: Current, keepPending = false): Promise<void> {
    await state.adopt(identity, keepPending);
    remember(identity);
    use(identity);
    readmit = false;
    asked = undefined;
    await admitting?.transport.close();
    admitting = undefined;
    log.info({ as: identity.kind, until: new Date(lifeOf(identity).until).toISOString() }, 'the agent has its identity');
  }

  async function progress(by: Client, pending: Pending): Promise<Answer> {
    if (asked?.name !== pending.name) asked = { name: pending.name, looks: 0, approvedAt: undefined };
    const answer = asked.looks++ === 0 ? await ask(by, pending, seconds, signal) : await look(by, pending, signal);
    if (answer.is === 'Gone') asked = undefined;
    else if (answer.is === 'Waiting' && answer.approved) asked.approvedAt ??= clock.monotonic();
    return answer;
  }

  /** Takes what was issued, or the token in its place. Returns whether there is a new identity. */
  async function take(by: Client, pending: Pending, answer: Answer, admittedBy: string): Promise<boolean> {
    if (answer.is === 'Issued') {
      try {
        await adopt(certified(machine, pending, answer.certificate, admittedBy));
        return true;
      } catch (error) {
        if (isCoded(error, 'CertificateForeign')) await state.drop();
        throw error;
      }
    }
    if (answer.is !== 'Failed' && !isSilent()) return false;
    const found = await standInToken(by, machine, seconds, signal);
    if (found === undefined) return false;
    // Its request stays: the signer may only have been slow.
    await adopt({ kind: 'Token', machineUID: machine.uid, ...found, since: nowMs(), admittedBy }, true);
    return true;
  }

  const isSilent = (): boolean => asked?.approvedAt !== undefined && clock.monotonic() - asked.approvedAt >= SIGNER_MS;

  const pauseMs = (kind: 'admission' | 'renewal'): number => halfJitterMs(POLL[kind], asked?.looks ?? 1, random);

  function give(why: string, hash: string): number {
    spent = hash;
    readmit = false;
    hopeless = `${why}; the node is kept as it is. next: admit it again, which puts a new token into its bootstrap file`;
    log.error({ machine: `${machine.namespace}/${machine.name}` }, hopeless);
    // The server has the last word on what looks out of date here.
    if (using === undefined && current !== undefined) use(current);
    changed();
    return FILE_MS;
  }

  async function admission(): Promise<number> {
    const token = await options.readToken();
    const hash = sha256Hex(token);
    if (hash === spent) {
      if (hopeless === undefined && (current === undefined || refused || using === undefined))
        return give('this identity has run out or is not accepted, and the bootstrap token was used', hash);
      readmit = false;
      return FILE_MS;
    }
    if (admitting?.hash !== hash) {
      await admitting?.transport.close();
      const transport = options.connect({ token });
      admitting = { hash, transport, client: createClient(transport, { userAgent, limits: AGENT_LIMITS }) };
      asked = undefined;
      hopeless = undefined;
    }
    const by = admitting.client;
    try {
      let pending = await state.pending();
      if (pending?.admittedBy === undefined) {
        pending = newPending(machine, { admittedBy: hash });
        await state.begin(pending);
      }
      const answer = await progress(by, pending);
      if (answer.is === 'Denied') {
        await state.drop();
        // The request of a token before this one; this one has its own.
        return pending.admittedBy === hash ? give(`the agent is not admitted: ${answer.why}`, hash) : 0;
      }
      if (await take(by, pending, answer, hash)) return 0;
      if (pending.admittedBy !== hash && (answer.is === 'Failed' || isSilent())) {
        await state.drop();
        return 0;
      }
      return pauseMs('admission');
    } catch (error) {
      if (isUnauthorized(error)) return give('the bootstrap token is not accepted: it was replaced, or ran out', hash);
      throw error;
    }
  }

  async function renewal(identity: Current, by: Client): Promise<number> {
    let pending = await state.pending();
    if (identity.kind === 'Certificate' && (pending === undefined || pending.admittedBy !== undefined)) {
      pending = newPending(machine, { voucherKey: identity.key });
      await state.begin(pending);
    }
    if (identity.kind === 'Token') {
      const found = await standInToken(by, machine, seconds, signal);
      if (found === undefined) throw agentError('NoToken', 'the cluster gives this agent no further token');
      await adopt({ ...identity, ...found, since: nowMs() }, true);
      // Perhaps the cluster signs by now. With the same key, which is the one that was admitted.
      const again = newPending(machine, { key: pending?.key, admittedBy: pending?.admittedBy });
      await state.begin(again);
      return 0;
    }
    if (pending === undefined) return 0;
    const answer = await progress(by, pending);
    if (await take(by, pending, answer, identity.admittedBy)) return 0;
    if (answer.is !== 'Denied') return pauseMs('renewal');
    await state.drop();
    asked = undefined;
    log.error({ why: answer.why, until: new Date(lifeOf(identity).until).toISOString() }, 'the renewal of this identity is denied');
    readmit = sha256Hex(await options.readToken()) !== spent;
    return readmit ? 0 : DENIED_MS * (0.5 + random() / 2);
  }

  /** One that looks out of date is used only when there is no hope of another: requests wait for that first. */
  async function load(): Promise<void> {
    const kept = await state.current();
    if (kept === undefined) return;
    remember(kept);
    if (nowMs() < lifeOf(kept).until) use(kept);
  }

  async function turn(): Promise<number> {
    if (current === undefined || client === undefined || refused || readmit || nowMs() >= lifeOf(current).until) return await admission();
    if (nowMs() >= due) return await renewal(current, client);
    const pending = current.kind === 'Token' ? await state.pending() : undefined;
    if (pending !== undefined) {
      const answer = await progress(client, pending);
      if (answer.is === 'Issued') await take(client, pending, answer, current.admittedBy);
    }
    return Math.min(LOOK_MS, due - nowMs());
  }

  function pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        cancel();
        wake = undefined;
        signal.removeEventListener('abort', done);
        resolve();
      };
      const cancel = clock.setTimer(ms, done);
      wake = done;
      signal.addEventListener('abort', done, { once: true });
      if (signal.aborted) done();
    });
  }

  /** Until there is an identity, or no hope of one. */
  function admitted(until: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const look = (): void => {
        if (using === undefined && hopeless === undefined && until?.aborted !== true) return;
        end();
        if (until?.aborted === true) reject(asError(until.reason));
        else if (using === undefined) reject(agentError('NotAdmitted', hopeless ?? ''));
        else resolve();
      };
      const end = (): void => {
        cancel();
        waiters.delete(look);
        until?.removeEventListener('abort', look);
      };
      const cancel = clock.setTimer(HOLD_MS, () => {
        end();
        reject(agentError('NotAdmitted', 'this agent is not admitted yet'));
      });
      waiters.add(look);
      until?.addEventListener('abort', look, { once: true });
      look();
    });
  }

  return {
    async transport(request) {
      if (using === undefined) await admitted(request.signal);
      const through = using;
      if (through === undefined) throw agentError('NotAdmitted', 'this agent is not admitted yet');
      const response = await through(request);
      const serverMs = Date.parse(response.headers['date'] ?? '');
      if (!Number.isNaN(serverMs)) aheadMs = serverMs - clock.now();
      if (through === using && refused !== (response.status === 401)) {
        refused = response.status === 401;
        if (refused) wake?.();
      }
      return response;
    },

    async run() {
      let failures = 0;
      let loaded = false;
      while (!signal.aborted) {
        let ms;
        try {
          if (!loaded) await load();
          loaded = true;
          ms = await turn();
          failures = 0;
        } catch (error) {
          if (signal.aborted) return;
          ms = halfJitterMs(AGAIN, ++failures, random);
          log.warn({ error: messageOf(error), failures }, 'the identity was not had, or not renewed; tries again');
        }
        if (ms > 0) await pause(ms);
      }
    },

    async close() {
      await using?.close();
      await admitting?.transport.close();
    },
  };
}

const asError = (reason: unknown): Error => (reason instanceof Error ? reason : new Error(String(reason)));
