import { kubeError } from '../../kube/errors.ts';
import * as builtin from '../../api/builtin.ts';
import { objectError } from '../../api/errors.ts';
import type { Clock } from '../../api/ports.ts';
import type { Client } from '../../kube/client.ts';
import { withDeadline } from '../../kube/clock.ts';
import { troubleWithKinds, type KindTrouble } from '../../kube/served.ts';
import { awayOf, CONNECTING, type Away } from './away.ts';
import { WRITTEN } from './kinds.ts';

/** How long a probe may take, and the time from one to the next while the cell is away. */
const PROBE_MS = 5000;
/** As the schema of Clusters has it. */
const LONGEST_UID = 128;

export interface CellProbeOptions {
  client: Client;
  clock: Clock;
  signal: AbortSignal;
  /** What is known by probes has changed. */
  onChange: () => void;
}

/** Asks a cell which kinds it has, and which cluster it is. */
export class CellProbe {
  /** What is wrong with its kinds. */
  kinds: KindTrouble | undefined;
  /** Of its Namespace kube-system; undefined while it is not known. */
  uid: string | undefined;
  /** Why it is not known which cluster this is. */
  unidentified: Away = { reason: CONNECTING, message: 'it was not asked yet which cluster it is' };
  readonly #options: CellProbeOptions;
  #probedAt = -Infinity;
  #probing: Promise<void> | undefined;
  #cancelNext: (() => void) | undefined;

  constructor(options: CellProbeOptions) {
    this.#options = options;
  }

  /** One at a time. */
  run(): Promise<void> {
    return (this.#probing ??= this.#ask().finally(() => (this.#probing = undefined)));
  }

  /** Never fails. While it is not known which cluster this is, it is repeated: nothing else leads to another probe. */
  async runInBackground(): Promise<void> {
    try {
      await this.run();
    } catch (error) {
      if (this.#options.signal.aborted || this.uid !== undefined) return;
      this.unidentified = awayOf(error);
      this.#options.onChange();
      this.#runLater(PROBE_MS);
    }
  }

  /** In the background, `PROBE_MS` after the last probe at the earliest. */
  runSoon(): void {
    const waitMs = this.#probedAt + PROBE_MS - this.#options.clock.monotonic();
    if (waitMs > 0) this.#runLater(waitMs);
    else void this.runInBackground();
  }

  stop(): void {
    this.#cancelNext?.();
  }

  #runLater(ms: number): void {
    this.#cancelNext ??= this.#options.clock.setTimer(ms, () => {
      this.#cancelNext = undefined;
      void this.runInBackground();
    });
  }

  async #ask(): Promise<void> {
    const { client, clock, signal, onChange } = this.#options;
    const late = (): Error => kubeError('Unreachable', `the cluster did not list the kinds that it has within ${PROBE_MS / 1000} s`);
    const [found, system] = await withDeadline(clock, PROBE_MS, signal, late, (signal) =>
      Promise.all([
        troubleWithKinds(client, WRITTEN, { signal }),
        // Each cluster has one, and it lives as long as the cluster does.
        client.get(builtin.Namespaces, { name: 'kube-system' }, { signal }),
      ]),
    ).finally(() => (this.#probedAt = clock.monotonic()));
    if (system.metadata.uid.length > LONGEST_UID)
      throw objectError('InvalidObject', `the UID of its Namespace kube-system is longer than ${LONGEST_UID} characters`);
    const isNew = found?.message !== this.kinds?.message || system.metadata.uid !== this.uid;
    this.kinds = found;
    this.uid = system.metadata.uid;
    if (isNew) onChange();
  }
}
