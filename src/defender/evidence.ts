import type { ObjectKey } from '../api/resource.ts';

/**
 * What was known of a machine when its reservation was released. A reservation that is judged by older stores could count neither the reservation
 * (it is gone) nor what the operation left behind, and so give one slot away twice (docs/protocols.md#d4).
 */
export interface ReleaseMark {
  machine: { key: ObjectKey; uid: string; /** Absent: there is no Machine of this UID any more. */ resourceVersion?: string };
  /** `goneUID`: there was no such Node, and this is the UID of the one the machine had. undefined where it makes no difference. */
  node: { name: string; resourceVersion: string } | { name: string; goneUID: string } | undefined;
}

/**
 * The releases of this leader that its stores have not been seen to pass. `kube/writes.ts` blocks one key by the version of what it wrote; a release
 * is passed when the stores of other objects show what the operation left on them, and until then blocks the whole pass.
 */
export interface ReleaseMarks {
  /** Recorded before the release is sent: its answer may be lost while it took effect. `passed`: the stores show this state, or a later one. */
  record(passed: () => boolean): void;
  /** True when the stores have passed every one. */
  allPassed(): boolean;
}

export function createReleaseMarks(): ReleaseMarks {
  let open: (() => boolean)[] = [];
  return {
    record: (passed) => void open.push(passed),
    allPassed() {
      open = open.filter((passed) => !passed());
      return open.length === 0;
    },
  };
}
