import { isCoded, messageOf } from '../../api/errors.ts';
import { halfJitterMs } from '../../kube/backoff.ts';
import { act } from './act.ts';
import { newMemory } from '../context.ts';
import type { Context, Happening, Ports } from '../context.ts';
import { decide } from './decide.ts';
import { createDurable } from '../disk/durable.ts';
import { codeOf } from '../errors.ts';
import { layoutOf } from '../disk/layout.ts';
import type { Node } from '../generation/manifest.ts';
import { renewNodeCredentials } from '../identity/node-credentials.ts';
import { observe } from './observe.ts';
import type { Observed } from './observed.ts';
import { openDisk } from './open.ts';
import { createStore } from '../generation/store.ts';
import type { Step } from './steps.ts';
import { stopUpkeep, suspend, syncUpkeep } from '../upkeep/upkeep.ts';
import type { Wanted } from '../cell/wanted.ts';

export interface EngineOptions {
  ports: Ports;
  root: string;
  node: Node;
  mirror: string | undefined;
  /** As in the context. */
  pinned?: string | undefined;
  signal: AbortSignal;
  /** After each step, and each look that found nothing to do. */
  looked?: () => void;
  happened: (what: Happening) => void;
}

/** Where a status comes from: what was observed, or why nothing could be. */
export type View = { observed: Observed; trouble: undefined } | { observed: undefined; trouble: { reason: string; message: string } };

/** observe → decide → act, one step at a time. Nothing of it needs the API server, save beginning what is ordered. */
export interface Engine {
  /** One step. Returns how long to wait when there is nothing to do. Never rejects, save with the signal's reason. */
  step(): Promise<{ step: Step['do'] | 'trouble'; waitUntilMs: number | undefined }>;
  /** Steps until the signal. Settles when nothing of it runs any more. */
  run(): Promise<void>;
  /** The Machine, as it was read or as a watch told; `again`: by one who does not rely on what was seen before. */
  seen(wanted: Wanted, again?: boolean): void;
  /** The API server's clock, of an answer just had. */
  heard(serverMs: number): void;
  view(): Promise<View>;
  /** True once what runs is known well enough to be reported. */
  settled(): boolean;
  /** Resolves when something happened after this call, or at that time. */
  woken(untilMs: number): Promise<void>;
  /** Keeps what components have of this node's credentials good, until the signal. */
  keepCredentials(): Promise<void>;
  /** Tasks beside the steps. */
  readonly tasks: ReadonlySet<Promise<void>>;
}

const AGAIN = { baseMs: 1_000, maxMs: 60_000 };
/** Between looks whether a node's credentials want renewal. */
const CREDENTIALS_MS = 300_000;
/** Health that is not known by then is reported as unknown. */
const SETTLED_AFTER_MS = 30_000;

export function createEngine(options: EngineOptions): Engine {
  const { ports, signal } = options;
  const { clock, log } = ports;
  const memory = newMemory(clock);
  const layout = layoutOf(options.root);
  const durable = createDurable(ports.files, options.root);
  const tasks = new Set<Promise<void>>();
  const wakers = new Set<() => void>();
  const began = clock.monotonic();
  let failures = 0;

  const ctx: Context = {
    ports,
    layout,
    node: options.node,
    mirror: options.mirror,
    pinned: options.pinned,
    durable,
    store: createStore({ files: ports.files, folder: layout.store, network: ports.network, mirror: options.mirror, clock }),
    memory,
    signal,
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
  const stopListening = ports.units.onExit(() => ctx.wake());

  async function step(): ReturnType<Engine['step']> {
    signal.throwIfAborted();
    const nowMs = clock.monotonic();
    if (nowMs < memory.notBeforeMs) return { step: 'trouble', waitUntilMs: memory.notBeforeMs };
    if (memory.journal === undefined) await openDisk(ctx);
    if (memory.trouble !== undefined) return pause();
    try {
      const observed = await observe(ctx);
      if (observed.holdFile) suspend(ctx);
      const next = decide(observed);
      if (next.do === 'wait') {
        failures = 0;
        await syncUpkeep(ctx);
        options.looked?.();
        return { step: 'wait', waitUntilMs: next.untilMs };
      }
      log.debug(
        { step: next.do, ...('name' in next ? { component: next.name } : {}), ...('stage' in next ? { stage: next.stage } : {}) },
        'step',
      );
      // What was read live is good for the very next step only.
      if (next.do !== 'reread') memory.reread = undefined;
      await act(ctx, next);
      await syncUpkeep(ctx);
      options.looked?.();
      return { step: next.do, waitUntilMs: undefined };
    } catch (error) {
      signal.throwIfAborted();
      log.error({ error: messageOf(error), code: codeOf(error) }, 'a step failed');
      if (isCoded(error, 'DiskFailing')) {
        // Nobody knows what of a failed write is there: everything is read again.
        memory.journal = undefined;
        memory.trouble = { reason: 'DiskFailing', message: error.message };
      }
      return pause();
    }
  }

  function pause(): Awaited<ReturnType<Engine['step']>> {
    failures++;
    if (memory.trouble !== undefined) memory.journal = undefined;
    memory.notBeforeMs = clock.monotonic() + halfJitterMs(AGAIN, failures, ports.random);
    options.looked?.();
    return { step: 'trouble', waitUntilMs: memory.notBeforeMs };
  }

  function pauseFor(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        cancel();
        signal.removeEventListener('abort', done);
        resolve();
      };
      const cancel = clock.setTimer(ms, done);
      signal.addEventListener('abort', done, { once: true });
    });
  }

  function woken(untilMs: number): Promise<void> {
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

  return {
    step,
    woken,
    tasks,

    async run() {
      try {
        while (!signal.aborted) {
          // Asked before the step, so that what happens during it is not slept through.
          let awake = false;
          const waker = (): void => void (awake = true);
          wakers.add(waker);
          const { waitUntilMs } = await step().finally(() => wakers.delete(waker));
          if (waitUntilMs !== undefined && !awake) await woken(waitUntilMs);
        }
      } catch (error) {
        if (!signal.aborted) throw error;
      } finally {
        stopListening();
        stopUpkeep(ctx);
        await Promise.allSettled(tasks);
      }
    },

    async keepCredentials() {
      while (!signal.aborted) {
        await pauseFor(CREDENTIALS_MS * (0.75 + ports.random() / 2));
        if (signal.aborted || memory.trouble !== undefined || memory.journal === undefined) continue;
        const held = (await ports.files.stat(layout.hold)) !== undefined;
        const manifests = [...memory.installed.values()].flatMap(({ manifest }) => manifest ?? []);
        if (!held) await renewNodeCredentials(ctx, manifests).catch(() => undefined);
      }
    },

    seen(wanted, again) {
      if (memory.isNews(wanted.resourceVersion, again)) memory.wanted = wanted;
      ctx.wake();
    },

    heard(serverMs) {
      memory.server = { ms: serverMs, atMs: clock.monotonic() };
    },

    async view() {
      if (memory.trouble !== undefined) return { observed: undefined, trouble: memory.trouble };
      if (memory.journal === undefined) return { observed: undefined, trouble: { reason: 'Starting', message: 'the disk is being read' } };
      return { observed: await observe(ctx), trouble: undefined };
    },

    settled() {
      if (memory.trouble !== undefined) return true;
      if (memory.journal === undefined) return false;
      const known = [...memory.installed.keys()].every(
        (name) => memory.health.has(name) || memory.journal?.state.transaction?.name === name,
      );
      return known || clock.monotonic() - began >= SETTLED_AFTER_MS;
    },
  };
}
