/** What is decided is carried out, each cluster by itself (docs/protocols.md#e16). */
import type { Cluster } from '../../api/cluster.ts';
import { messageOf } from '../../api/errors.ts';
import { plainText } from '../../api/plain-text.ts';
import type { Clock, Log, Random } from '../../api/ports.ts';
import { hasReason } from '../../kube/api-error.ts';
import { halfJitterMs } from '../../kube/backoff.ts';
import type { Client } from '../../kube/client.ts';
import { sleep } from '../../kube/clock.ts';
import type { Recorder } from '../../kube/recorder.ts';
import type { Store } from '../../kube/store.ts';
import type { StoredUnit } from '../bundles.ts';
import type { Away } from '../cell/away.ts';
import { isCell, type Cell } from '../cell/cell.ts';
import type { Fence } from '../fence.ts';
import { act } from './act.ts';
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

export interface Executor {
  carryOut(byCluster: ReadonlyMap<string, readonly Step[]>, pass: Pass): Promise<void>;
  /** Why the last try failed, while the next is not due. */
  failing(unit: string, cluster: string): string | undefined;
  /** Whether a Namespace turned out to be lacking there. */
  isGone(unit: string, cluster: string): boolean;
  /** After how many ms what failed is tried again. */
  waits(): number[];
  /** Resolves when nothing is under way in any cell. */
  ended(): Promise<void>;
}

/** One pass over a fleet. */
export interface Pass {
  fleet: string;
  connections: ReadonlyMap<string, Cell | Away>;
  context: { client: Client; log: Log };
  /** When the next pass is due, ms. */
  waits: number[];
}

/** How long a pass waits for what it does in cells. */
const PATIENCE_MS = 3000;
const RETRY = { baseMs: 1000, maxMs: 60_000 };
const REMOVAL_POLL_MS = 2000;

export function openExecutor({ clusters, unitOf, wake, fence, recorder, clock, random, signal }: ExecutorOptions): Executor {
  const failures = new Map<string, { count: number; message: string; notBefore: number }>();
  /** Namespaces that a cell turned out to lack, by cluster and unit. They are not watched; only a writer into one learns of it. */
  const gone = new Set<string>();
  /** What is done in cells, by fleet and cluster. */
  const under = new Map<string, Promise<void>>();

  /**
   * Each cluster by itself: what takes longer than `PATIENCE_MS` goes on while the next pass does what is due elsewhere, and leads to another pass when it has
   * ended. Until then nothing else begins in that cell; what is only recorded is, as everything is conditioned on the records (docs/protocols.md#e16).
   */
  async function carryOutAll(byCluster: ReadonlyMap<string, readonly Step[]>, pass: Pass): Promise<void> {
    const waited = [...byCluster].map(async ([cluster, steps]) => {
      const id = `${pass.fleet} ${cluster}`;
      if (!under.has(id)) return await started(id, carryOut(cluster, steps, pass));
      const recorded = steps.filter((step) => !needsCell(step));
      if (recorded.length > 0) await carryOut(cluster, recorded, pass);
    });
    const all = Promise.all(waited);
    const patience = new AbortController();
    const late = sleep(clock, PATIENCE_MS, patience.signal).catch(() => undefined);
    await Promise.race([all, late]).finally(() => patience.abort());
    // It fails only where the hub ends.
    all.catch(() => undefined);
    signal.throwIfAborted();
  }

  function started(id: string, work: Promise<void>): Promise<void> {
    const [fleet = ''] = id.split(' ');
    let isLate = false;
    const cancel = clock.setTimer(PATIENCE_MS, () => (isLate = true));
    const ended = work.finally(() => {
      cancel();
      under.delete(id);
      if (isLate && !signal.aborted) wake(fleet);
    });
    ended.catch(() => undefined);
    under.set(id, ended);
    return ended;
  }

  async function carryOut(cluster: string, steps: readonly Step[], pass: Pass): Promise<void> {
    const { fleet, connections, context, waits } = pass;
    const connected = connections.get(cluster);
    const cell = isCell(connected) && connected.away() === undefined ? connected.content : undefined;
    for (const { do: step, unit, because } of steps) context.log.info({ step, unit, cluster }, because);
    const errors = await act(cluster, steps, {
      hub: context.client,
      fence: fence,
      fleet,
      clock,
      cell,
      corrected(step, corrections) {
        context.log.warn({ unit: step.unit, cluster, corrections }, 'put back what somebody changed');
        const about = clusters.get({ name: cluster });
        if (about !== undefined) recorder.event(about, { type: 'Warning', reason: 'DriftCorrected', message: correctedText(corrections) });
      },
      unit: (...wanted) => unitOf(fleet, ...wanted),
      signal,
    }).catch((error: unknown) => new Map(steps.map((step) => [step, error])));
    signal.throwIfAborted();
    for (const step of steps) {
      const id = `${cluster} ${step.unit}`;
      if (!errors.has(step)) {
        failures.delete(id);
        gone.delete(id);
        if (step.do === 'Remove') waits.push(REMOVAL_POLL_MS);
        // The hub's own record is seen by its watch; another pass is due anyway when nothing else moves.
        waits.push(5000);
        continue;
      }
      const lacking = namespaceLacking(errors.get(step));
      if (lacking !== undefined) gone.add(`${cluster} Namespace/${lacking}`);
      const error = plainText(messageOf(errors.get(step)));
      const count = (failures.get(id)?.count ?? 0) + 1;
      const delay = halfJitterMs(RETRY, count, random);
      failures.set(id, { count, message: error, notBefore: clock.monotonic() + delay });
      context.log.warn({ unit: step.unit, cluster, error }, `${step.do} failed`);
    }
  }

  const laterThanNow = ({ notBefore }: { notBefore: number }): boolean => notBefore > clock.monotonic();
  return {
    carryOut: carryOutAll,
    failing(unit, cluster) {
      const failed = failures.get(`${cluster} ${unit}`);
      return failed !== undefined && laterThanNow(failed) ? failed.message : undefined;
    },
    isGone: (unit, cluster) => gone.has(`${cluster} ${unit}`),
    waits: () => [...failures.values()].filter(laterThanNow).map(({ notBefore }) => notBefore - clock.monotonic()),
    async ended() {
      await Promise.allSettled(under.values());
    },
  };
}

const correctedText = (corrections: readonly string[]): string => `put back as Git has it: ${corrections.join('; ')}`.slice(0, 1000);

/** The namespace for want of which a write was refused. */
function namespaceLacking(error: unknown): string | undefined {
  return hasReason(error, 'NotFound') && error.details?.kind === 'namespaces' ? error.details.name : undefined;
}
