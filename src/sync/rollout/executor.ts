/** What is decided is carried out, each cluster by itself (docs/protocols.md#e16). */
import type { Cluster } from '../../api/cluster.ts';
import type { Clock, Log, Random } from '../../api/ports.ts';
import type { Client } from '../../kube/client.ts';
import { sleep } from '../../kube/clock.ts';
import type { Recorder } from '../../kube/recorder.ts';
import type { Store } from '../../kube/store.ts';
import type { StoredUnit } from '../bundles.ts';
import type { Away } from '../cell/away.ts';
import { isCell, type Cell } from '../cell/cell.ts';
import type { Fence } from '../fence.ts';
import { act } from './act.ts';
import { Contests } from './contests.ts';
import { StepFailures } from './failures.ts';
import { needsCell, type Step } from './world.ts';

export interface ExecutorOptions {
  clusters: Store<Cluster>;
  /** The unit's objects; renders the commit again when the cache lost them. */
  unitOf: (fleet: string, digest: string, commit: string, unit: string, cluster: string) => Promise<StoredUnit>;
  /** Asks for another pass over a fleet. */
  wake: (fleet: string) => void;
  /** Of this term; the controllers of one hub share it. */
  fence: Fence;
  recorder: Recorder;
  clock: Clock;
  random: Random;
  signal: AbortSignal;
}

/** One pass over a fleet. */
export interface RolloutPass {
  fleet: string;
  connections: ReadonlyMap<string, Cell | Away>;
  context: { client: Client; log: Log };
  /** When the next pass is due, ms. */
  waits: number[];
}

/** How long a pass waits for what it does in cells. */
const PATIENCE_MS = 3000;
const REMOVAL_POLL_MS = 2000;
const MOVED_POLL_MS = 5000;

export class Executor {
  readonly failures: StepFailures;
  readonly contests: Contests;
  readonly #options: ExecutorOptions;
  /** What is done in cells, by fleet and cluster. */
  readonly #under = new Map<string, Promise<void>>();

  constructor(options: ExecutorOptions) {
    this.#options = options;
    this.failures = new StepFailures(options.clock, options.random);
    this.contests = new Contests(options.clock, options.random);
  }

  /**
   * Each cluster by itself: what takes longer than `PATIENCE_MS` goes on while the next pass does what is due elsewhere, and leads to another pass when it has
   * ended. Until then nothing else begins in that cell; what is only recorded is, as everything is conditioned on the records (docs/protocols.md#e16).
   */
  async carryOut(byCluster: ReadonlyMap<string, readonly Step[]>, pass: RolloutPass): Promise<void> {
    const { clock, signal } = this.#options;
    const waited = [...byCluster].map(async ([cluster, steps]) => {
      const id = `${pass.fleet} ${cluster}`;
      if (!this.#under.has(id)) return await this.#started(id, pass.fleet, this.#carryOutIn(cluster, steps, pass));
      const recorded = steps.filter((step) => !needsCell(step));
      if (recorded.length > 0) await this.#carryOutIn(cluster, recorded, pass);
    });
    const all = Promise.all(waited);
    const patience = new AbortController();
    const late = sleep(clock, PATIENCE_MS, patience.signal).catch(() => undefined);
    await Promise.race([all, late]).finally(() => patience.abort());
    // It fails only where the hub ends.
    all.catch(() => undefined);
    signal.throwIfAborted();
  }

  /** Resolves when nothing is under way in any cell. */
  async ended(): Promise<void> {
    await Promise.allSettled(this.#under.values());
  }

  #started(id: string, fleet: string, work: Promise<void>): Promise<void> {
    const { clock, signal, wake } = this.#options;
    let isLate = false;
    const cancel = clock.setTimer(PATIENCE_MS, () => (isLate = true));
    const ended = work.finally(() => {
      cancel();
      this.#under.delete(id);
      if (isLate && !signal.aborted) wake(fleet);
    });
    ended.catch(() => undefined);
    this.#under.set(id, ended);
    return ended;
  }

  async #carryOutIn(cluster: string, steps: readonly Step[], { fleet, connections, context, waits }: RolloutPass): Promise<void> {
    const { unitOf, fence, clock, signal } = this.#options;
    const connected = connections.get(cluster);
    const cell = isCell(connected) && connected.away() === undefined ? connected.content : undefined;
    for (const { do: step, unit, because } of steps) context.log.info({ step, unit, cluster }, because);
    const errors = await act(cluster, steps, {
      hub: context.client,
      fence,
      fleet,
      clock,
      cell,
      corrected: ({ unit }, corrections) => {
        context.log.warn({ unit, cluster, corrections }, 'put back what a user changed');
        this.contests.add(unit, cluster, corrections);
        reportCorrected(this.#options, cluster, corrections);
      },
      unit: (...wanted) => unitOf(fleet, ...wanted),
      signal,
    }).catch((error: unknown) => new Map(steps.map((step) => [step, error])));
    signal.throwIfAborted();
    for (const step of steps) {
      if (errors.has(step)) {
        const error = this.failures.add(step.unit, cluster, errors.get(step));
        context.log.warn({ unit: step.unit, cluster, error }, `${step.do} failed`);
        continue;
      }
      this.failures.remove(step.unit, cluster);
      if (step.do === 'Remove') waits.push(REMOVAL_POLL_MS);
      // The hub's own record is seen by its watch; another pass is due anyway when nothing else moves.
      waits.push(MOVED_POLL_MS);
    }
  }
}

function reportCorrected({ clusters, recorder }: ExecutorOptions, cluster: string, corrections: readonly string[]): void {
  const about = clusters.get({ name: cluster });
  const message = `put back as Git has it: ${corrections.join('; ')}`.slice(0, 1000);
  if (about !== undefined) recorder.event(about, { type: 'Warning', reason: 'DriftCorrected', message });
}
