import { isCoded, messageOf } from '../../api/errors.ts';
import { halfJitterMs } from '../../kube/backoff.ts';
import { expireReread, recordMachine, recordServerTime } from '../cell/memory.ts';
import type { WantedState } from '../cell/wanted.ts';
import { newMemory } from '../context.ts';
import type { AgentContext, Happening, AgentPorts } from '../context.ts';
import { createDurable } from '../disk/durable.ts';
import { layoutOf } from '../disk/layout.ts';
import { codeOf, agentErrorCodes } from '../errors.ts';
import type { TemplateNode } from '../generation/manifest.ts';
import { createStore } from '../generation/store.ts';
import { keepNodeCredentialsGood } from '../identity/node-credentials.ts';
import { closeJournal } from '../records/memory.ts';
import { openDisk } from '../records/open.ts';
import { stopUpkeep, suspend, syncUpkeep } from '../upkeep/upkeep.ts';
import { act } from './act.ts';
import { decide } from './decide.ts';
import { observe } from './observe.ts';
import type { ObservedNode } from './observed.ts';
import type { AgentStep } from './steps.ts';

export interface EngineOptions {
  ports: AgentPorts;
  root: string;
  node: TemplateNode;
  mirror: string | undefined;
  /** As in the context. */
  pinned?: string | undefined;
  signal: AbortSignal;
  /** After each step, and each decision that there is nothing to do. */
  observed?: () => void;
  happened: (what: Happening) => void;
}

/** Where a status comes from: what was observed, or why nothing could be. */
export type EngineView =
  | { observed: ObservedNode; trouble: undefined }
  | { observed: undefined; trouble: { reason: string; message: string } };

interface Stepped {
  step: AgentStep['do'] | 'trouble';
  waitUntilMs: number | undefined;
}

/** observe → decide → act, one step at a time. No step needs the API server, except to begin what is ordered. */
export interface Engine {
  /** One step. Returns how long to wait when there is nothing to do. Rejects only with the signal's reason. */
  step(): Promise<Stepped>;
  /** Steps until the signal. Settles when no step runs any more. */
  run(): Promise<void>;
  /** The Machine, as it was read or watched; `refetched`: read without reliance on what was read before. */
  seen(wanted: WantedState, refetched?: boolean): void;
  /** The API server's clock, of an answer that just came. */
  dated(serverMs: number): void;
  view(): Promise<EngineView>;
  /** True once what runs is known well enough to be reported. */
  settled(): boolean;
  /** Resolves when something happened after this call, or at that time. */
  woken(untilMs: number): Promise<void>;
  /** Keeps what components have of this node's credentials good, until the signal. */
  keepCredentials(): Promise<void>;
  /** Tasks beside the steps. */
  readonly tasks: ReadonlySet<Promise<void>>;
}

const BACKOFF = { baseMs: 1_000, maxMs: 60_000 };
/** After this time the agent reports health that it does not know as unknown. */
const SETTLED_AFTER_MS = 30_000;

/** The loop itself: what it works with, and how it fares. */
interface Loop {
  readonly ctx: AgentContext;
  readonly observed: () => void;
  readonly wakers: Set<() => void>;
  readonly tasks: Set<Promise<void>>;
  /** Monotonic ms. */
  readonly startedMs: number;
  failures: number;
  notBeforeMs: number;
}

export function createEngine(options: EngineOptions): Engine {
  const loop = newLoop(options);
  const { ctx } = loop;
  const { memory, ports } = ctx;
  const stopListening = ports.units.onExit(() => ctx.wake());
  return {
    tasks: loop.tasks,
    step: () => step(loop),
    woken: (untilMs) => woken(loop, untilMs),
    run: () => run(loop, stopListening),
    keepCredentials: () => keepNodeCredentialsGood(ctx),
    seen(wanted, refetched) {
      recordMachine(memory, wanted, refetched);
      ctx.wake();
    },
    dated: (serverMs) => recordServerTime(memory, serverMs, ports.clock),
    view: () => view(ctx),
    settled: () => isSettled(loop),
  };
}

function newLoop(options: EngineOptions): Loop {
  const { ports, root, mirror } = options;
  const { clock, files, network, log } = ports;
  const layout = layoutOf(root);
  const wakers = new Set<() => void>();
  const tasks = new Set<Promise<void>>();
  const ctx: AgentContext = {
    ports,
    layout,
    node: options.node,
    mirror,
    pinned: options.pinned,
    durable: createDurable(files, root),
    store: createStore({ files, folder: layout.store, network, mirror, clock }),
    memory: newMemory(clock),
    signal: options.signal,
    wake() {
      for (const waker of wakers) waker();
    },
    happened(what) {
      log.info({ reason: what.reason }, what.message);
      options.happened(what);
    },
    background(task) {
      const tracked: Promise<void> = task.finally(() => tasks.delete(tracked));
      tasks.add(tracked);
    },
  };
  const observed = (): void => options.observed?.();
  return { ctx, observed, wakers, tasks, startedMs: clock.monotonic(), failures: 0, notBeforeMs: 0 };
}

async function step(loop: Loop): Promise<Stepped> {
  const { ctx } = loop;
  const { memory, signal } = ctx;
  const { clock, log } = ctx.ports;
  signal.throwIfAborted();
  if (clock.monotonic() < loop.notBeforeMs) return { step: 'trouble', waitUntilMs: loop.notBeforeMs };
  if (memory.records.journal === undefined) await openDisk(ctx);
  if (memory.records.trouble !== undefined) return pause(loop);
  try {
    const observed = await observe(ctx);
    if (observed.holdFile) suspend(ctx);
    const next = decide(observed);
    if (next.do === 'wait') {
      loop.failures = 0;
      await syncUpkeep(ctx);
      loop.observed();
      return { step: 'wait', waitUntilMs: next.untilMs };
    }
    const what = { ...('name' in next ? { component: next.name } : {}), ...('stage' in next ? { stage: next.stage } : {}) };
    log.debug({ step: next.do, ...what }, 'step');
    if (next.do !== 'reread') expireReread(memory);
    await act(ctx, next);
    await syncUpkeep(ctx);
    loop.observed();
    return { step: next.do, waitUntilMs: undefined };
  } catch (error) {
    signal.throwIfAborted();
    log.error({ error: messageOf(error), code: codeOf(error) }, 'a step failed');
    // How much of a failed write is on the disk is not known: everything is read again.
    if (isCoded(error, agentErrorCodes, 'DiskFailing')) closeJournal(memory, { reason: 'DiskFailing', message: error.message });
    return pause(loop);
  }
}

function pause(loop: Loop): Stepped {
  const { memory, ports } = loop.ctx;
  loop.failures++;
  if (memory.records.trouble !== undefined) closeJournal(memory);
  loop.notBeforeMs = ports.clock.monotonic() + halfJitterMs(BACKOFF, loop.failures, ports.random);
  loop.observed();
  return { step: 'trouble', waitUntilMs: loop.notBeforeMs };
}

async function run(loop: Loop, stopListening: () => void): Promise<void> {
  const { ctx, wakers } = loop;
  const { signal } = ctx;
  try {
    while (!signal.aborted) {
      // Added before the step, so that what happens during it is not slept through.
      let awake = false;
      const waker = (): void => void (awake = true);
      wakers.add(waker);
      const { waitUntilMs } = await step(loop).finally(() => wakers.delete(waker));
      if (waitUntilMs !== undefined && !awake) await woken(loop, waitUntilMs);
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    stopListening();
    stopUpkeep(ctx);
    await Promise.allSettled(loop.tasks);
  }
}

function woken({ ctx, wakers }: Loop, untilMs: number): Promise<void> {
  const { signal } = ctx;
  const { clock } = ctx.ports;
  return new Promise((resolve) => {
    const done = (): void => {
      cancel();
      wakers.delete(done);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const cancel = clock.setTimer(untilMs - clock.monotonic(), done);
    wakers.add(done);
    signal.addEventListener('abort', done, { once: true });
  });
}

async function view(ctx: AgentContext): Promise<EngineView> {
  const { trouble, journal } = ctx.memory.records;
  if (trouble !== undefined) return { observed: undefined, trouble };
  if (journal === undefined) return { observed: undefined, trouble: { reason: 'Starting', message: 'the disk is being read' } };
  return { observed: await observe(ctx), trouble: undefined };
}

function isSettled({ ctx, startedMs }: Loop): boolean {
  const { records, upkeep } = ctx.memory;
  if (records.trouble !== undefined) return true;
  if (records.journal === undefined) return false;
  const changing = records.journal.state.transaction?.name;
  const known = [...records.installed.keys()].every((name) => upkeep.health.has(name) || changing === name);
  return known || ctx.ports.clock.monotonic() - startedMs >= SETTLED_AFTER_MS;
}
