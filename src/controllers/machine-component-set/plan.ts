/** What one observation of a set leads to: the status that is written first, and the entries that follow it. Pure. */
import { defenderError } from '../../defender/errors.ts';
import { isCoded, messageOf, objectErrorCodes } from '../../api/errors.ts';
import type { Machine } from '../../api/machine.ts';
import type { MachineComponentSet } from '../../api/machine-component-set.ts';
import type { Stored } from '../../api/wire.ts';
import { TerminalError } from '../../kube/queue.ts';
import type { CountedContent } from './content.ts';
import { decideSet, type EntryWrite } from './decide.ts';
import type { SetView } from './observe.ts';
import { statusOf, type SetStatus } from './report.ts';
import { isDeleting } from '../shared/selection.ts';
import { announced } from './writing.ts';

export type BatchPlan =
  /** The content is counted first; everything else is decided again then. `isNext`: it is a new number. */
  | { step: 'Count'; status: SetStatus; revision: CountedContent; isNext: boolean }
  | {
      step: 'Write';
      status: SetStatus;
      writes: EntryWrite[];
      /** Machines whose announced entry must not be written any more. */
      settle: Stored<Machine>[];
      /** More is to be written than is announced at once. */
      hasMore: boolean;
      isComplete: boolean;
    };

/** Entries announced, and written, before everything is decided again. */
const AT_ONCE = 50;

/** The status of a set that a term of leadership takes up. Throws `Deposed` where it bears a higher epoch. */
export function stampedWith(set: Stored<MachineComponentSet>, epoch: number): SetStatus {
  const later = set.status?.epoch;
  if (later !== undefined && later > epoch) {
    const { name } = set.metadata;
    throw defenderError('Deposed', `MachineComponentSet ${name} bears epoch ${later}, this leader's is ${epoch}: another term has begun`);
  }
  return { ...set.status, epoch };
}

/** `epoch`: of the leader's term. */
export function planOf(view: SetView, epoch: number): BatchPlan {
  stampedWith(view.set, epoch);
  const decision = decide(view);
  if (decision.step === 'Write') {
    const { facts } = decision;
    const wanted = decision.writes.slice(0, AT_ONCE);
    const names = new Set(wanted.map(({ machine }) => machine.metadata.uid));
    const settle = view.open.filter(({ metadata }) => !names.has(metadata.uid));
    // Nothing else is given before what is not wanted any more can come no more.
    const writes = settle.length > 0 ? [] : wanted;
    const writing = (settle.length > 0 ? view.open : writes.map(({ machine }) => machine)).map(announced);
    const status = { ...statusOf(view, facts), epoch, ...(writing.length === 0 ? {} : { writing }) };
    return { step: 'Write', status, writes, settle, hasMore: decision.writes.length > writes.length, isComplete: facts.isComplete };
  }
  const { revision } = decision;
  const { evidence, ...status } = view.set.status ?? {};
  const isNext = revision.number !== status.revision?.number;
  const kept = isNext || evidence === undefined ? {} : { evidence };
  return { step: 'Count', status: { ...status, ...kept, revision, epoch }, revision, isNext };
}

function decide(view: SetView): ReturnType<typeof decideSet> {
  try {
    return decideSet(view);
  } catch (error) {
    // Refused by the CRD as well; an older server may have one all the same.
    if (isCoded(error, objectErrorCodes, 'InvalidBatches', 'InvalidCount')) throw new TerminalError(messageOf(error), { cause: error });
    throw error;
  }
}

/** Whether the server still has the very set that was decided about, and in whose status everything is announced. */
export function isSame(live: Stored<MachineComponentSet> | undefined, set: Stored<MachineComponentSet>): boolean {
  const { uid, resourceVersion } = set.metadata;
  return live?.metadata.uid === uid && live.metadata.resourceVersion === resourceVersion && !isDeleting(live);
}
