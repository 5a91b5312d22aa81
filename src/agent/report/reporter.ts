import { canonical } from '../../api/digest.ts';
import { messageOf } from '../../api/errors.ts';
import type { Machine } from '../../api/machine.ts';
import type { Clock, Log, Random } from '../../api/ports.ts';
import type { Stored } from '../../api/wire.ts';
import { fullJitterMs } from '../../kube/backoff.ts';
import { sleep } from '../../kube/clock.ts';
import type { Engine } from '../engine/engine.ts';
import { report } from './status.ts';
import type { AgentStatus, AgentInfo } from './status.ts';
import { createNewest, wantedOf } from '../cell/wanted.ts';

export interface ReporterOptions {
  engine: Pick<Engine, 'view' | 'settled'>;
  identity: AgentInfo;
  apply: (uid: string, status: AgentStatus, signal: AbortSignal) => Promise<Stored<Machine>>;
  clock: Clock;
  random: Random;
  log: Log;
  signal: AbortSignal;
}

export interface Reporter {
  /** The Machine, as it was read; `again`: by one who does not rely on what was seen before. */
  seen(machine: Stored<Machine>, again?: boolean): void;
  /** Something may have to be reported. */
  poke(): void;
  /** Resolves when the signal has ended it. */
  run(): Promise<void>;
}

/**
 * One write a second in the long run, and a few in a row: that a change is seen, that it waits, that it is begun and that it is done follow upon
 * one another, and the controller that orders it waits for each.
 */
const EVERY_MS = 1_000;
const IN_A_ROW = 4;
/** Between two checks whether there is something to report: each reads the disk, and writes nothing. */
const CHECK_MS = 100;
const BACKOFF = { baseMs: 2_000, maxMs: 60_000 };

/** Writes what is true here into the Machine's status, when it is not there already. */
export function createReporter(options: ReporterOptions): Reporter {
  const { engine, identity, clock, random, log, signal } = options;
  const isNews = createNewest(clock);
  let latest: Stored<Machine> | undefined;
  /** What was reported last, and what the server made of it: the Machine must go on showing that. */
  let reported: { text: string; shown: string } | undefined;
  let failures = 0;
  let left = { writes: IN_A_ROW, at: clock.monotonic() };
  let poked = true;
  let wake: (() => void) | undefined;

  /** Whether something was written. */
  async function round(): Promise<boolean> {
    if (latest === undefined || !engine.settled()) return false;
    const view = await engine.view();
    // Between two readings of the disk there is nothing new to report.
    if (view.trouble?.reason === 'Starting') return false;
    const status = report(view, identity, wantedOf(latest), clock.now());
    const text = canonical(status);
    const shown = ownPart(latest);
    if (reported === undefined ? text === shown : text === reported.text && shown === reported.shown) return false;
    const answer = await options.apply(latest.metadata.uid, status, signal);
    if (isNews(answer.metadata.resourceVersion)) latest = answer;
    reported = { text, shown: ownPart(answer) };
    return true;
  }

  /** How long to wait after a write. */
  function pace(): number {
    const now = clock.monotonic();
    const writes = Math.min(IN_A_ROW, left.writes + (now - left.at) / EVERY_MS) - 1;
    left = { writes, at: now };
    return writes >= 1 ? CHECK_MS : (1 - writes) * EVERY_MS;
  }

  function poke(): void {
    poked = true;
    wake?.();
  }

  return {
    poke,
    seen(machine, again) {
      if (isNews(machine.metadata.resourceVersion, again)) latest = machine;
      poke();
    },
    async run() {
      signal.addEventListener('abort', () => wake?.(), { once: true });
      while (!signal.aborted) {
        if (!poked) await new Promise<void>((resolve) => (wake = resolve));
        if (signal.aborted) return;
        poked = false;
        let wrote = false;
        try {
          wrote = await round();
          failures = 0;
        } catch (error) {
          if (signal.aborted) return;
          failures++;
          poked = true;
          log.warn({ error: messageOf(error), failures }, 'the status was not written');
        }
        const pauseMs = failures === 0 ? (wrote ? pace() : CHECK_MS) : Math.max(EVERY_MS, fullJitterMs(BACKOFF, failures, random));
        await sleep(clock, pauseMs, signal).catch(() => undefined);
      }
    },
  };
}

/** What the agent reports, as the Machine shows it. */
function ownPart({ status = {} }: Stored<Machine>): string {
  const { agent, components, operation, conditions = [] } = status;
  return canonical({ agent, components, operation, conditions: conditions.filter((each) => each.type === 'AgentReady') });
}
