/** `kubenode serve` in a process of its own. */
import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { loadKubeconfig, type LoadedConnection } from '../src/kube/kubeconfig.ts';
import { systemClock } from '../src/kube/clock.ts';
import { pause } from './system.ts';

export interface ServeProcess {
  pid: number;
  /** For programs of their own; there until `close`. */
  kubeconfig: string;
  connections: ReadonlyMap<string, LoadedConnection>;
  close(): Promise<void>;
}

const UP_MS = 30_000;

/** `state` is `memory` or a folder. */
export async function serveProcess(clusters: readonly string[], state: string): Promise<ServeProcess> {
  const dir = await mkdtemp(join(tmpdir(), 'kubenode-bench-serve-'));
  const path = join(dir, 'kubeconfig');
  const entry = fileURLToPath(new URL('../bin/kubenode.js', import.meta.url));
  const args = ['serve', '--state', state, '--clusters', clusters.join(','), '--listen', '127.0.0.1:0', '--write-kubeconfig', path];
  // It ends with this process, whose channel it has.
  const child = spawn(process.execPath, [entry, ...args], {
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    env: { ...process.env, KUBENODE_PARENT: 'ipc', KUBENODE_BENCH_REQUESTS: undefined },
  });
  let printed = '';
  child.stderr?.on('data', (chunk: Buffer) => (printed = (printed + chunk.toString()).slice(-2000)));
  const gone = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const close = async (): Promise<void> => {
    child.kill('SIGTERM');
    await gone;
    await rm(dir, { recursive: true, force: true });
  };
  try {
    const deadline = performance.now() + UP_MS;
    while (!existsSync(path)) {
      if (child.exitCode !== null || performance.now() > deadline) throw new Error(`the API server did not come up: ${printed}`);
      await pause(20);
    }
    const load = (context: string) => loadKubeconfig({ path, context, env: {}, clock: systemClock() });
    const connections = new Map(await Promise.all(clusters.map(async (name) => [name, await load(name)] as const)));
    return { pid: child.pid ?? 0, kubeconfig: path, connections, close };
  } catch (error) {
    await close();
    throw error;
  }
}

export function connectionOf({ connections }: ServeProcess, cluster: string): LoadedConnection {
  const found = connections.get(cluster);
  if (found === undefined) throw new Error(`no cluster ${cluster} is served`);
  return found;
}
