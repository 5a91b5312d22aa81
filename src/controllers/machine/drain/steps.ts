import { isCordonedFor } from '../cordon/cordon.ts';
import { normal } from '../events.ts';
import { base, ledgerWith, stop, type Act, type ActContext, type Guarded } from '../guards.ts';
import type { StepKinds, StepOf } from '../step-kind.ts';

/**
 * N, L; the eviction follows. There is no other fence: nothing can stop an eviction after these reads, so one step evicts one pod, by its UID. N alone is not
 * enough: a cordon that was on its way when its ledger was lost may arrive when r is forgotten (docs/protocols.md#d1).
 */
function evict({ reservation, pod, graceSeconds }: StepOf<'Evict'>, context: ActContext): Act {
  return {
    ...base('evict', context),
    reads: ['node', 'ledger'],
    writes: 'effect',
    judge(seen): Guarded {
      if (ledgerWith(reservation, seen, context.epoch) === undefined) return stop('the ledger lacks the reservation');
      if (seen.node === undefined || !isCordonedFor(seen.node, reservation.id))
        return stop("the Node's cordon does not name the reservation");
      return { effect: { do: 'Evict', pod, ...(graceSeconds === undefined ? {} : { graceSeconds }) } };
    },
  };
}

export const DRAIN_STEPS: StepKinds<'Evict'> = {
  Evict: { guarded: evict, event: ({ why }, _, note) => normal('PodEvicted', note ?? why) },
};
