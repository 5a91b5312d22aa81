import { CodedError, isCoded, messageOf } from '../../api/errors.ts';
import { plainText } from '../../api/plain-text.ts';

/** Why nothing is done in a cell, nor believed of it. */
export interface Away {
  /** Of the condition and Event: `Unreachable`, `KindsNewer`, `CredentialsExpired` … */
  reason: string;
  message: string;
}

/** A request that was not sent, or whose answer is not believed; its code is the reason of the Away. */
export class CellAway extends CodedError {
  constructor({ reason, message }: Away) {
    super(reason, message);
    this.name = 'CellAway';
  }
}

/** Reason while a connection is being made: nothing is wrong yet. */
export const CONNECTING = 'Connecting';

/** As the schema of conditions has it. */
const REASON = /^[A-Za-z]([A-Za-z0-9_,:]{0,254}[A-Za-z0-9_])?$/;
const LONGEST = 4096;

/** A server may send any reason, and any message. */
export function awayOf(error: unknown, code = 'Unreachable'): Away {
  return plainAway({ reason: isCoded(error) ? error.code : code, message: messageOf(error) });
}

export function plainAway({ reason, message }: Away): Away {
  // oxlint-disable-next-line kubenode/no-sentence-decisions -- nothing is decided: a form that no condition may have is not passed on
  return { reason: REASON.test(reason) ? reason : 'Unreachable', message: plainText(message, LONGEST) };
}
