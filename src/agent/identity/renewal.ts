import { sha256Hex } from '../../api/digest.ts';
import type { Client } from '../../kube/client.ts';
import { agentError } from '../errors.ts';
import { lifeOf, newPending } from './key.ts';
import { adopt, nowMs, pollMs, progress, take } from './session.ts';
import type { Session } from './session.ts';
import type { Current } from './state.ts';
import { standInToken } from './wire.ts';

/** After a renewal that was denied. */
const DENIED_MS = 1_800_000;

/** Renews an identity that is good still, with itself. Returns how long to wait before the next turn. Errors: `NoToken`, those of the API server. */
export async function renew(session: Session, identity: Current, by: Client): Promise<number> {
  const { machine, state, random, log, readToken } = session.ports;
  if (identity.kind === 'Token') return await renewToken(session, identity, by);
  let pending = await state.pending();
  if (pending === undefined || pending.admittedBy !== undefined) {
    pending = newPending(machine, { voucherKey: identity.key });
    await state.begin(pending);
  }
  const answer = await progress(session, by, pending);
  if (await take(session, by, pending, answer, identity.admittedBy)) return 0;
  if (answer.is !== 'Denied') return pollMs(session, 'renewal');
  await state.drop();
  session.asked = undefined;
  log.error({ why: answer.why, until: new Date(lifeOf(identity).until).toISOString() }, 'the renewal of this identity is denied');
  session.readmit = sha256Hex(await readToken()) !== session.spent;
  return session.readmit ? 0 : DENIED_MS * (0.5 + random() / 2);
}

async function renewToken(session: Session, identity: Current & { kind: 'Token' }, by: Client): Promise<number> {
  const { machine, state, signal } = session.ports;
  const pending = await state.pending();
  const found = await standInToken(by, machine, session.seconds, signal);
  if (found === undefined) throw agentError('NoToken', 'the cluster gives this agent no further token');
  await adopt(session, { ...identity, ...found, since: nowMs(session) }, true);
  // The cluster may sign now. The request has the same key, which was admitted.
  await state.begin(newPending(machine, { key: pending?.key, admittedBy: pending?.admittedBy }));
  return 0;
}
