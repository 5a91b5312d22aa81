import { errorsOf, surroundings, type ErrorTable } from '../api/errors.ts';

/** Why the ledger is not written. */
export const defenderErrorCodes = {
  Deposed: surroundings('another term has begun: this one writes nothing more'),
  LedgerFull: surroundings('no room for another reservation'),
  NoEvidence: surroundings('what is known does not prove that an operation has ended'),
  ReservationAbsent: surroundings('a reservation that the ledger does not have'),
  ReservationExists: surroundings('a second reservation of one machine'),
  VersionInvalid: surroundings('a ledger whose version is no number'),
} as const satisfies ErrorTable;

export const defenderError = errorsOf(defenderErrorCodes);
