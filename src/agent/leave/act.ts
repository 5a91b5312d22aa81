import { join } from 'node:path';
import { reread } from '../cell/reread.ts';
import type { AgentContext, Happening } from '../context.ts';
import type { AgentStep } from '../engine/steps.ts';
import { journalOf } from '../records/memory.ts';
import { pauseLeaving } from './memory.ts';

/** Between two questions whether the cell has the report. */
const CONFIRM_MS = 5_000;
/** The process is ended meanwhile; else it is tried again. */
const LEAVE_MS = 30_000;

export const LEAVING: Happening = {
  type: 'Normal',
  reason: 'Leaving',
  message: 'the agent takes itself away, and changes nothing any more',
};

export async function leave(ctx: AgentContext, part: Extract<AgentStep, { do: 'leave' }>['part']): Promise<void> {
  switch (part) {
    case 'Announce':
      return await announce(ctx);
    case 'Confirm':
      return await confirm(ctx);
    case 'Go':
      return await go(ctx);
    default:
      part satisfies never;
  }
}

/** From here on there is no way back: what runs is kept by nobody. */
async function announce(ctx: AgentContext): Promise<void> {
  await journalOf(ctx.memory).append({ t: 'leave', acknowledged: false });
  pauseLeaving(ctx.memory, ctx.ports.clock.monotonic() + CONFIRM_MS);
  ctx.happened(LEAVING);
}

async function confirm(ctx: AgentContext): Promise<void> {
  await reread(ctx);
  pauseLeaving(ctx.memory, ctx.ports.clock.monotonic() + CONFIRM_MS);
}

/** Credentials first; the journal last, with the package: it is what a process that was cut short goes on by. */
async function go(ctx: AgentContext): Promise<void> {
  const { durable, layout, memory, ports } = ctx;
  const journal = journalOf(memory);
  if (journal.state.leaving !== 'Acknowledged') await journal.append({ t: 'leave', acknowledged: true });
  for (const folder of [join(layout.state, 'identity'), layout.store, layout.specs]) await durable.discard(folder);
  await durable.files.unlink(layout.reserve);
  pauseLeaving(memory, ports.clock.monotonic() + LEAVE_MS);
  await ports.host.takeAgentAway();
}
