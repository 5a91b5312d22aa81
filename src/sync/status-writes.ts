/** Statuses that are written one after the other: a server may refuse one, such as one that is too large, and no other waits for it. */
import { messageOf } from '../api/errors.ts';
import { plainText } from '../api/plain-text.ts';
import type { Log } from '../api/ports.ts';
import type { KubeObject, Stored } from '../api/wire.ts';
import { hasReason } from '../kube/api-error.ts';
import type { Recorder } from '../kube/recorder.ts';

export interface StatusWrites {
  /** Every status was written, or needed no write. */
  isWhole: boolean;
  /** The first error that is not about the content: the hub's own server may be the one that does not answer. */
  failed?: { error: unknown };
}

/** Calls `write` for each object. What fails is logged, and is an Event of its object. Throws only what `signal` was aborted with. */
export async function writeEach<T extends Stored<KubeObject>>(
  objects: readonly T[],
  write: (object: T) => Promise<void>,
  { recorder, log, signal }: { recorder: Recorder; log: Log; signal: AbortSignal },
): Promise<StatusWrites> {
  let isWhole = true;
  let failed: StatusWrites['failed'];
  for (const object of objects) {
    try {
      await write(object);
    } catch (error) {
      signal.throwIfAborted();
      isWhole = false;
      const message = plainText(messageOf(error));
      log.warn({ [object.kind.toLowerCase()]: object.metadata.name, error: message }, 'its status cannot be written');
      recorder.event(object, { type: 'Warning', reason: 'StatusNotWritten', message });
      if (!hasReason(error, 'Invalid', 'BadRequest', 'RequestEntityTooLarge')) failed ??= { error };
    }
  }
  return { isWhole, ...(failed === undefined ? {} : { failed }) };
}
