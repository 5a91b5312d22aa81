/** What a kubelet asks a controller, and what it answers. */
import { createServer } from 'node:http';
import { messageOf } from '../api/errors.ts';
import type { Clock } from '../api/ports.ts';
import { serverTimes } from '../api/server-limits.ts';
import type { Labels, Metrics } from '../kube/metrics.ts';
import { listenAt, type ListeningServer } from './listen.ts';

export interface HealthOptions {
  role: 'hub' | 'cell';
  version: string;
  clock: Clock;
  /** Resolves when the API server answers. */
  reach: (signal: AbortSignal) => Promise<unknown>;
  /** What is shown, besides the process itself. */
  metrics: Metrics;
}

export interface TermHealth {
  /** Runs the work of one term. */
  lead<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T>;
  /** Why nothing is done; undefined when it is again. */
  blocked(why: string | undefined): void;
  /** Why this process should be ended. */
  dead(): string | undefined;
  /** Why it can do nothing. */
  unready(): Promise<string | undefined>;
  /** All metrics, in the text format of Prometheus. */
  metrics(): string;
}

/** A leader that was deposed, or stopped, must have ended within this time. */
const TO_END_MS = 60_000;
const REACH_MS = 3000;
/** Many, since a probe that gets no connection restarts this process; those that send nothing are ended soon. */
const MAX_CONNECTIONS = 1024;
/** How long an answer of the API server counts. */
const REACHED_MS = 5000;

export function createHealth({ role, version, clock, reach, metrics }: HealthOptions): TermHealth {
  const state = {
    leading: 0,
    overSince: undefined as number | undefined,
    reachedAt: undefined as number | undefined,
    blocked: undefined as string | undefined,
  };

  async function unready(): Promise<string | undefined> {
    if (state.blocked !== undefined) return state.blocked;
    if (state.reachedAt !== undefined && clock.monotonic() - state.reachedAt < REACHED_MS) return undefined;
    try {
      await reach(AbortSignal.timeout(REACH_MS));
      state.reachedAt = clock.monotonic();
      return undefined;
    } catch (error) {
      return `the API server is not reached: ${messageOf(error)}`;
    }
  }

  function dead(): string | undefined {
    const { overSince } = state;
    return overSince !== undefined && clock.monotonic() - overSince > TO_END_MS
      ? 'the work of a term that is over does not end'
      : undefined;
  }

  const own: [name: string, help: string, read: () => [Labels, number]][] = [
    ['kubenode_build_info', 'Version of this process.', () => [{ version }, 1]],
    ['kubenode_leader', 'Whether this process leads.', () => [{ role }, state.leading]],
    [
      'kubenode_blocked',
      'Whether the kinds of the API server keep this process from its work; /readyz reports why.',
      () => [{ role }, state.blocked === undefined ? 0 : 1],
    ],
    ['process_resident_memory_bytes', 'Resident memory.', () => [{}, process.memoryUsage.rss()]],
    ['process_start_time_seconds', 'When it was started.', () => [{}, Math.round((clock.now() - process.uptime() * 1000) / 1000)]],
  ];
  for (const [name, help, read] of own) metrics.gauge(name, help, () => [read()]);
  const terms = metrics.counter('kubenode_leader_terms_total', 'Terms that this process has led.');
  terms.add({ role }, 0);
  const cpu = metrics.counter('process_cpu_seconds_total', 'Processor time.');
  let spent = 0;

  function text(): string {
    const { user, system } = process.cpuUsage();
    cpu.add({}, (user + system) / 1e6 - spent);
    spent = (user + system) / 1e6;
    return metrics.text();
  }

  return {
    dead,
    unready,
    metrics: text,
    async lead(signal, work) {
      state.leading = 1;
      terms.add({ role });
      const over = (): void => void (state.overSince = clock.monotonic());
      signal.addEventListener('abort', over, { once: true });
      try {
        return await work();
      } finally {
        signal.removeEventListener('abort', over);
        state.leading = 0;
        state.overSince = undefined;
      }
    },
    blocked: (why) => void (state.blocked = why),
  };
}

/**
 * `/healthz`: this process should live on: it answers, and the work of a term that is over has ended. `/readyz`: it reaches an API server that
 * it can work with; one that waits for its turn to lead is ready. At `host:port`, or `:port` for every address.
 *
 * Errors: `Usage` for an address that is none; `ListenFailed`.
 */
export async function serveHealth({ dead, unready }: Pick<TermHealth, 'dead' | 'unready'>, listen: string): Promise<ListeningServer> {
  const server = createServer({ ...serverTimes() }, (request, response) => {
    const path = (request.url ?? '').split('?')[0];
    const answer = (status: number, text: string): void => {
      response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' }).end(text);
    };
    const judged = (problem: string | undefined): void => answer(problem === undefined ? 200 : 503, `${problem ?? 'ok'}\n`);
    if (request.method !== 'GET') answer(405, 'only GET\n');
    else if (path === '/healthz') judged(dead());
    else if (path === '/readyz') void unready().then(judged);
    else answer(404, 'there are /healthz and /readyz\n');
  });
  server.maxConnections = MAX_CONNECTIONS;
  return await listenAt(server, listen, '--health');
}
