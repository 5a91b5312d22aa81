/** The whole system on real processes, with a fleet that waits for nothing it need not wait for. */
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Fleets } from '../src/api/fleet.ts';
import { Rollouts } from '../src/api/rollout.ts';
import { cloneFleet } from '../src/cli/tour/fleet.ts';
import { CELLS, startSystem, type TourSystem } from '../src/cli/tour/system.ts';
import { until } from '../src/cli/tour/wait.ts';
import { systemClock } from '../src/kube/clock.ts';
import { createClient } from '../src/kube/http-client.ts';
import { httpTransport } from '../src/kube/http-transport.ts';
import { loadKubeconfig, type LoadedConnection } from '../src/kube/kubeconfig.ts';
import { requestsBetween, type LoggedRequest } from './requests.ts';

export const ROOT = fileURLToPath(new URL('..', import.meta.url));
/** Of the reference fleet, over all three cells. */
export const NODES = 7;
/** Versions that the bench fleet knows beside those that are packed: the same bytes under another name, so that every bump goes forward. */
const FURTHER = ['1.0.2', '1.0.3', '1.0.4', '1.0.5', '1.0.6', '1.0.7', '1.0.8', '1.0.9'];
export const BUMPS = ['1.0.1', ...FURTHER];
export const BUMPED = 'local-detector';

export interface BenchSystem extends TourSystem {
  dir: string;
  /** What the servers were asked; see `requests.ts`. */
  requestsBetween(fromMs: number, untilMs: number): Promise<LoggedRequest[]>;
  /** Commits; `atMs` is when the branch was moved. */
  bump(version: string): Promise<{ commit: string; atMs: number }>;
  remark(): Promise<{ commit: string; atMs: number }>;
  /** Resolves when the commit was accepted. */
  accepted(commit: string): Promise<void>;
  /** Ends the system and keeps its folder, until `close`. */
  stop(): Promise<void>;
  close(): Promise<void>;
}

/** Milliseconds since the epoch, finer than Date.now() and the same in every process. */
export const now = (): number => performance.timeOrigin + performance.now();

export const pause = (ms: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, ms));

/** Resolves when all nodes run and their first rollouts are done. */
export async function openSystem(): Promise<BenchSystem> {
  const dir = await mkdtemp(join(tmpdir(), 'kubenode-bench-'));
  const requests = join(dir, 'requests.jsonl');
  process.env['KUBENODE_BENCH_REQUESTS'] = requests;
  process.execArgv.push('--import', new URL('./request-log.ts', import.meta.url).href);
  let system: TourSystem | undefined;
  const close = async (): Promise<void> => {
    await system?.stop();
    await rm(dir, { recursive: true, force: true });
  };
  const onSignal = (): void => void close().finally(() => process.exit(1));
  for (const name of ['SIGINT', 'SIGTERM', 'disconnect'] as const) process.once(name, onSignal);

  try {
    const fleet = await cloneFleet(ROOT, join(dir, 'fleet'));
    await unhurried(fleet.dir);
    await fleet.remark();
    const started = await startSystem(fleet.dir, join(dir, 'state'));
    system = started;
    const hub = started.client('hub');
    await soakNowhere(started.state);
    await until('all nodes run', 180_000, async () => {
      const machines = await started.allMachines();
      return machines.length === NODES && machines.every(({ machine }) => machine.status?.phase === 'Running');
    });
    await until('the first rollouts are done', 60_000, async () =>
      (await hub.listAll(Rollouts)).items.every((rollout) => rollout.status?.phase === 'Done'),
    );
    const at = async (commit: string): Promise<{ commit: string; atMs: number }> => ({
      commit,
      atMs: (await stat(join(fleet.dir, '.git', 'refs', 'heads', 'tour'))).mtimeMs,
    });
    return {
      ...started,
      dir,
      requestsBetween: async (fromMs, untilMs) => await requestsBetween(requests, await clusterPorts(started.state), fromMs, untilMs),
      close,
      bump: async (version) => await at(await fleet.bump(BUMPED, version)),
      remark: async () => await at(await fleet.remark()),
      async accepted(commit) {
        await until(`commit ${commit} is accepted`, 60_000, async () => {
          const { status } = await hub.get(Fleets, { name: 'main' });
          return status?.commit === commit;
        });
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Each API server has a port of its own. */
async function clusterPorts(state: string): Promise<Map<number, string>> {
  const ports = new Map<number, string>();
  for (const context of ['hub', ...CELLS]) ports.set(Number(new URL((await connectionTo(state, context)).server).port), context);
  return ports;
}

async function connectionTo(state: string, context: string): Promise<LoadedConnection> {
  return await loadKubeconfig({ path: join(state, 'kubeconfig'), context, env: {}, clock: systemClock() });
}

/** No stage of the Fleet soaks. Only an administrator may write that. */
async function soakNowhere(state: string): Promise<void> {
  const transport = httpTransport(await connectionTo(state, 'hub'));
  try {
    const hub = createClient(transport, { userAgent: 'kubenode-bench' });
    const { spec } = await until('the Fleet is there', 30_000, () => hub.find(Fleets, { name: 'main' }));
    const stages = spec.stages.map((stage) => ({ ...stage, soakSeconds: 0 }));
    await hub.patch(Fleets, { name: 'main' }, { merge: { spec: { stages } } });
  } finally {
    await transport.close();
  }
}

/** One batch, no soak, no budget: what is left is what the system itself takes. */
async function unhurried(dir: string): Promise<void> {
  await edit(join(dir, 'fleet/nodes.ts'), [
    [/batches: \[.*?\]/, "batches: ['100%']"],
    [/soakSeconds: \d+/, 'soakSeconds: 0'],
    [/maxUnavailable: \d+/, "maxUnavailable: '100%'"],
  ]);
  await edit(join(dir, 'rules/defender.ts'), [
    [/maxUnavailable: 1\b/, "maxUnavailable: '100%'"],
    [/maxUnavailable: '25%'/, "maxUnavailable: '100%'"],
  ]);
  const path = join(dir, 'fleet/artifacts.lock.json');
  const lock = JSON.parse(await readFile(path, 'utf8')) as Record<string, Record<string, unknown>>;
  const known = lock[BUMPED] ?? {};
  for (const version of FURTHER) known[version] ??= known['1.0.1'];
  await writeFile(path, JSON.stringify(lock));
}

async function edit(path: string, changes: [RegExp, string][]): Promise<void> {
  let text = await readFile(path, 'utf8');
  for (const [from, to] of changes) {
    if (!from.test(text)) throw new Error(`${path} has no ${from.source} that the bench could change`);
    text = text.replace(from, to);
  }
  await writeFile(path, text);
}
