import type { LedgerReservation } from '../../../api/disruption-ledger.ts';
import type { CancelCause } from '../../../api/machine.ts';
import type { Decision } from '../view.ts';

/** Why a reservation without an order is given up (docs/protocols.md#d6). `why` is for people. */
export interface Cancellation {
  cause: CancelCause;
  why: string;
}

export const cancellationText = ({ cause, why }: Cancellation): string => `${cause}: ${why}`;

export const cancelReservation = (reservation: LedgerReservation, cancellation: Cancellation): Decision => ({
  steps: [
    {
      do: 'WriteCancelled',
      reservation,
      cause: cancellation.cause,
      reason: cancellationText(cancellation),
      why: cancellationText(cancellation),
    },
  ],
});
