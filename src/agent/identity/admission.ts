import { sha256Hex } from '../../api/digest.ts';
import { AGENT_LIMITS, createClient } from '../../kube/http-client.ts';
import { newPending } from './key.ts';
import { isSignerLate, notifyWaiters, pollMs, progress, take, use } from './session.ts';
import type { Session } from './session.ts';
import { isUnauthorized } from './wire.ts';

/** Between two reads of the bootstrap file while only a new one helps. */
const FILE_MS = 5_000;

/** Gets a first identity with the bootstrap token, which works once. Returns how long to wait before the next turn. Errors: those of the API server. */
export async function admit(session: Session): Promise<number> {
  const { machine, state, readToken } = session.ports;
  const token = await readToken();
  const hash = sha256Hex(token);
  if (hash === session.spent) return tokenSpent(session, hash);
  const { client: by } = await connectWith(session, token, hash);
  try {
    let pending = await state.pending();
    if (pending?.admittedBy === undefined) {
      pending = newPending(machine, { admittedBy: hash });
      await state.begin(pending);
    }
    const answer = await progress(session, by, pending);
    if (answer.is === 'Denied') {
      await state.drop();
      // The request of a token before this one; this one has its own.
      return pending.admittedBy === hash ? giveUp(session, `the agent is not admitted: ${answer.why}`, hash) : 0;
    }
    if (await take(session, by, pending, answer, hash)) return 0;
    if (pending.admittedBy !== hash && (answer.is === 'Failed' || isSignerLate(session))) {
      await state.drop();
      return 0;
    }
    return pollMs(session, 'admission');
  } catch (error) {
    if (isUnauthorized(error)) return giveUp(session, 'the bootstrap token is not accepted: it was replaced, or ran out', hash);
    throw error;
  }
}

function tokenSpent(session: Session, hash: string): number {
  const { hopeless, current, refused, using } = session;
  if (hopeless === undefined && (current === undefined || refused || using === undefined))
    return giveUp(session, 'this identity has run out or is not accepted, and the bootstrap token was used', hash);
  session.readmit = false;
  return FILE_MS;
}

/** As the holder of this token. */
async function connectWith(session: Session, token: string, hash: string): Promise<NonNullable<Session['admitting']>> {
  const { connect, userAgent } = session.ports;
  if (session.admitting?.hash === hash) return session.admitting;
  await session.admitting?.transport.close();
  const transport = connect({ token });
  const admitting = { hash, transport, client: createClient(transport, { userAgent, limits: AGENT_LIMITS }) };
  session.admitting = admitting;
  session.asked = undefined;
  session.hopeless = undefined;
  return admitting;
}

function giveUp(session: Session, why: string, hash: string): number {
  const { machine, log } = session.ports;
  const hopeless = `${why}; the node is kept as it is. next: admit it again, which puts a new token into its bootstrap file`;
  session.spent = hash;
  session.readmit = false;
  session.hopeless = hopeless;
  log.error({ machine: `${machine.namespace}/${machine.name}` }, hopeless);
  // An identity that seems to be out of date here is used still: the server decides.
  if (session.using === undefined && session.current !== undefined) use(session, session.current);
  notifyWaiters(session);
  return FILE_MS;
}
