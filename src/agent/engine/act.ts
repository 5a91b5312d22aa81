import { reread } from '../cell/reread.ts';
import type { AgentContext } from '../context.ts';
import { cancelPreparation, requestSweep } from '../generation/memory.ts';
import { startPreparation } from '../generation/prepare.ts';
import { finish } from '../operation/act.ts';
import { recordRevision } from '../records/installed.ts';
import { leave } from '../leave/act.ts';
import { journalOf } from '../records/memory.ts';
import { startOver } from '../records/open.ts';
import { componentOf } from '../records/state.ts';
import { askForReboot, clean, operate, restartUnits } from '../repair/act.ts';
import { begin, commit, fail, refuse, takeStage, turnBack } from '../transaction/lifecycle.ts';
import { check, repair, startUnit, stopStray, trySweep } from '../upkeep/act.ts';
import type { AgentStep } from './steps.ts';

/** Carries out one step. Errors: `DiskFailing` when the journal must be opened again; anything else is tried again later. */
export async function act(ctx: AgentContext, step: AgentStep): Promise<void> {
  const { memory } = ctx;
  const journal = journalOf(memory);
  switch (step.do) {
    case 'wait':
      return;
    case 'startOver':
      await startOver(ctx);
      return ctx.happened({
        type: 'Warning',
        reason: 'StartedOver',
        message: 'the disk was another machine’s: what it had installed was taken away',
      });
    case 'note':
      requestSweep(memory);
      return await journal.append({
        t: 'machine',
        held: step.held,
        verified: step.verified,
        reset: step.reset,
        ...(step.epoch === undefined ? {} : { epoch: step.epoch }),
      });
    case 'accept':
      requestSweep(memory);
      return await journal.append({ t: 'accept', accepted: step.accepted });
    case 'forget':
      cancelPreparation(memory, step.name);
      requestSweep(memory);
      return await journal.append({ t: 'forget', name: step.name });
    case 'advance':
      return await recordRevision(ctx, step.name);
    case 'removed':
      return await journal.append({ t: 'removed', name: step.name });
    case 'refuse':
      return await refuse(ctx, step.name, step.failed);
    case 'prepare':
      return prepare(ctx, step.name, step.rebuild);
    case 'check':
      return await check(ctx, step.name, step.full);
    case 'repair':
      return await repair(ctx, step.name);
    case 'startUnit':
      return await startUnit(ctx, step.name, step.unit);
    case 'stopUnit':
      return await stopStray(ctx, step.unit);
    case 'reread':
      return await reread(ctx);
    case 'begin':
      return await begin(ctx, step.transaction, step.operation);
    case 'operate':
      return await operate(ctx, step.operation);
    case 'restartUnits':
      return await restartUnits(ctx, step.operation, step.component);
    case 'clean':
      return await clean(ctx, step.operation, step.belowPercent);
    case 'reboot':
      return await askForReboot(ctx, step.operation);
    case 'withdraw':
      await ctx.ports.host.keepUp(step.operation.id);
      return await finish(ctx, step.finish);
    case 'stage':
      return await takeStage(ctx, step.stage);
    case 'turnBack':
      return await turnBack(ctx, step);
    case 'commit':
      return await commit(ctx);
    case 'fail':
      return await fail(ctx, step.failed);
    case 'finish':
      return await finish(ctx, step);
    case 'sweep':
      return await trySweep(ctx);
    case 'leave':
      return await leave(ctx, step.part);
    default:
      step satisfies never;
  }
}

function prepare(ctx: AgentContext, name: string, rebuild: boolean): void {
  const { records } = ctx.memory;
  const source = rebuild ? records.installed.get(name)?.receipt : componentOf(journalOf(ctx.memory).state, name);
  if (source !== undefined) startPreparation(ctx, name, source, rebuild);
}
