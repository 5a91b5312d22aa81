import { messageOf } from '../../api/errors.ts';
import { hasReason } from '../../kube/api-error.ts';
import { halfJitterMs } from '../../kube/backoff.ts';
import type { AgentContext } from '../context.ts';
import { recordMachine, recordServerTime } from './memory.ts';

const BACKOFF = { baseMs: 2_000, maxMs: 30_000 };

/** Reads the Machine live, before an operation is begun or the agent leaves. A failure is only logged: it is tried again later. */
export async function reread(ctx: AgentContext): Promise<void> {
  const { memory, ports } = ctx;
  const { cell } = memory;
  try {
    const { wanted, serverMs } = await ports.cell.machine(ctx.signal);
    cell.unknown = wanted.uid !== ctx.node.uid;
    if (cell.unknown) throw new Error(`the Machine has UID ${wanted.uid}: it is another one`);
    if (serverMs === undefined) throw new Error('the answer of the API server has no date');
    recordServerTime(memory, serverMs, ports.clock);
    // The watch may have brought a newer state meanwhile; that one is kept.
    recordMachine(memory, wanted);
    cell.reread = cell.wanted?.operation?.id ?? '';
  } catch (error) {
    cell.unknown ||= hasReason(error, 'NotFound', 'Forbidden', 'Unauthorized');
    cell.rereadNotBeforeMs = ports.clock.monotonic() + halfJitterMs(BACKOFF, 3, ports.random);
    ports.log.warn({ error: messageOf(error) }, 'the Machine could not be read again: the operation is not begun');
  }
}
