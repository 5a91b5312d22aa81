import { agentErrorCodes } from '../errors.ts';
import { isCoded } from '../../api/errors.ts';
import type { Clock, Log, Random } from '../../api/ports.ts';
import { halfJitterMs } from '../../kube/backoff.ts';
import type { Client } from '../../kube/client.ts';
import { AGENT_LIMITS, createClient } from '../../kube/http-client.ts';
import type { RetirableTransport } from '../../kube/https-transport.ts';
import { certified, lifeOf } from './key.ts';
import type { MachineIdentity } from './key.ts';
import type { Current, IdentityState, PendingRequest } from './state.ts';
import { ask, readAnswer, standInToken } from './wire.ts';
import type { SigningAnswer } from './wire.ts';

export type ApiCredentials = { token: string } | { clientCert: string; clientKey: string };

/** What a session works with. */
export interface IdentityPorts {
  machine: MachineIdentity;
  /** The bootstrap file's token, as the file is now: the node's owner replaces it to admit the node again. */
  readToken: () => Promise<string>;
  state: IdentityState;
  connect: (credentials: ApiCredentials) => RetirableTransport;
  userAgent: string;
  clock: Clock;
  random: Random;
  log: Log;
  signal: AbortSignal;
}

/** What this process knows of its identity beside the disk. */
export interface Session {
  readonly ports: IdentityPorts;
  /** Life of a certificate as it is asked for. */
  readonly seconds: number;
  current: Current | undefined;
  /** Wall ms by the API server's clock: when to renew. */
  dueMs: number;
  using: RetirableTransport | undefined;
  client: Client | undefined;
  /** The server answered 401 to it. */
  refused: boolean;
  /** A renewal was denied, and the bootstrap file has a token that was not tried. */
  readmit: boolean;
  /** SHA-256 of a bootstrap token that admits no machine any more. */
  spent: string | undefined;
  /** Why no admission can succeed until the bootstrap file has another token. */
  hopeless: string | undefined;
  admitting: { hash: string; transport: RetirableTransport; client: Client } | undefined;
  /** The name that was asked for, how often its answer was read, and since when only the signer is missing. */
  asked: { name: string; reads: number; approvedAt: number | undefined } | undefined;
  /** By which the API server's clock is ahead of this one. */
  aheadMs: number;
  /** Called when there is an identity, or no hope of one. */
  readonly waiters: Set<() => void>;
}

const POLL = { admission: { baseMs: 60, maxMs: 60_000 }, renewal: { baseMs: 200, maxMs: 300_000 } };
/** A signer that has not signed within this time may never sign; from then on a token is asked for, too. */
const SIGNER_MS = 5_000;

export function newSession(ports: IdentityPorts, seconds: number): Session {
  return {
    ports,
    seconds,
    current: undefined,
    dueMs: 0,
    using: undefined,
    client: undefined,
    refused: false,
    readmit: false,
    spent: undefined,
    hopeless: undefined,
    admitting: undefined,
    asked: undefined,
    aheadMs: 0,
    waiters: new Set(),
  };
}

/** Wall ms by the API server's clock. */
export const nowMs = ({ ports, aheadMs }: Session): number => ports.clock.now() + aheadMs;

export function notifyWaiters({ waiters }: Session): void {
  for (const waiter of waiters) waiter();
}

export function use(session: Session, identity: Current): void {
  const { connect, userAgent } = session.ports;
  const former = session.using;
  session.using = connect(
    identity.kind === 'Token' ? { token: identity.token } : { clientCert: identity.certificate, clientKey: identity.key },
  );
  session.client = createClient(session.using, { userAgent, limits: AGENT_LIMITS });
  former?.retire();
  session.refused = false;
  session.hopeless = undefined;
  notifyWaiters(session);
}

export function remember(session: Session, identity: Current): void {
  session.current = identity;
  session.spent = identity.admittedBy;
  const { from, until } = lifeOf(identity);
  // Many agents that were admitted together do not come back together.
  session.dueMs = from + (until - from) * (2 / 3 + (session.ports.random() - 0.5) / 10);
}

export async function adopt(session: Session, identity: Current, keepPending = false): Promise<void> {
  const { state, log } = session.ports;
  await state.adopt(identity, keepPending);
  remember(session, identity);
  use(session, identity);
  session.readmit = false;
  session.asked = undefined;
  await session.admitting?.transport.close();
  session.admitting = undefined;
  log.info({ as: identity.kind, until: new Date(lifeOf(identity).until).toISOString() }, 'the agent has its identity');
}

/** Makes the request, or reads its answer. */
export async function progress(session: Session, by: Client, pending: PendingRequest): Promise<SigningAnswer> {
  const { clock, signal } = session.ports;
  let { asked } = session;
  if (asked?.name !== pending.name) session.asked = asked = { name: pending.name, reads: 0, approvedAt: undefined };
  const answer = asked.reads++ === 0 ? await ask(by, pending, session.seconds, signal) : await readAnswer(by, pending, signal);
  if (answer.is === 'Gone') session.asked = undefined;
  else if (answer.is === 'Waiting' && answer.approved) asked.approvedAt ??= clock.monotonic();
  return answer;
}

/** Takes what was issued, or the token instead. Returns whether there is a new identity. */
export async function take(
  session: Session,
  by: Client,
  pending: PendingRequest,
  answer: SigningAnswer,
  admittedBy: string,
): Promise<boolean> {
  const { machine, state, signal } = session.ports;
  if (answer.is === 'Issued') {
    try {
      await adopt(session, certified(machine, pending, answer.certificate, admittedBy));
      return true;
    } catch (error) {
      if (isCoded(error, agentErrorCodes, 'CertificateForeign')) await state.drop();
      throw error;
    }
  }
  if (answer.is !== 'Failed' && !isSignerLate(session)) return false;
  const found = await standInToken(by, machine, session.seconds, signal);
  if (found === undefined) return false;
  // Its request stays: the signer may only have been slow.
  await adopt(session, { kind: 'Token', machineUID: machine.uid, ...found, since: nowMs(session), admittedBy }, true);
  return true;
}

/** The request is approved, and the signer does not sign it. */
export const isSignerLate = ({ asked, ports }: Session): boolean =>
  asked?.approvedAt !== undefined && ports.clock.monotonic() - asked.approvedAt >= SIGNER_MS;

export const pollMs = ({ asked, ports }: Session, kind: 'admission' | 'renewal'): number =>
  halfJitterMs(POLL[kind], asked?.reads ?? 1, ports.random);
