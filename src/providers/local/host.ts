import { watch, type FSWatcher } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { resolve } from 'node:path';
import { messageOf } from '../../api/errors.ts';
import type { Clock, Log } from '../../api/ports.ts';
import { sleep } from '../../kube/clock.ts';
import { nodeDisk } from './disk.ts';
import { isUID, layoutOf, trashOf } from './layout.ts';
import { holderOf, hostRunning, takeLock } from './lock.ts';
import { keepNode, type NodePorts } from './node.ts';
import { cutPower, endFormerAgent } from './power.ts';

export interface LocalHostOptions {
  /** Made when it is not there. */
  nodesDir: string;
  /** Program and first arguments of the agent; `--bootstrap FILE --root DIR --host local` follow. */
  agentCommand: [string, ...string[]];
  /** Ends every supervised unit of the node with this root, each by process ID and start time. */
  stopUnits: (root: string) => Promise<void>;
  clock: Clock;
  log: Log;
  /** Aborting it is `stop`. */
  signal: AbortSignal;
  /** How often files are read again, where the system does not report changes. Default 500. */
  pollMs?: number;
}

export interface LocalHost {
  /** Cuts the power of every node: when it resolves none of their processes is left. Folders stay, and the next host boots them again. */
  stop(): Promise<void>;
}

/** Between the starts of two agents. */
const STAGGER_MS = 150;

/**
 * What a hypervisor is to virtual machines: boots the nodes that the local provider wrote down, keeps the agent of each running, reboots and
 * deletes them.
 *
 * Guarantees: one agent a node, also after the host itself was killed; a node whose services outlived the host goes on in the same boot; after
 * `stop`, and before a deleted node's folder goes, none of its processes is left. Processes are ended by number and start time, never by name.
 *
 * Errors: `HostRunning` when another process runs the nodes of this folder.
 */
export async function startLocalHost(options: LocalHostOptions): Promise<LocalHost> {
  const { clock, log, signal } = options;
  // The agents name their roots in full, and so are their processes found.
  const nodesDir = resolve(options.nodesDir);
  const disk = nodeDisk();
  await mkdir(nodesDir, { recursive: true, mode: 0o700 });
  const release = await takeLock(disk, nodesDir);
  await disk.remove(trashOf(nodesDir));

  const stopped = new AbortController();
  const pollMs = options.pollMs ?? 500;
  const { agentCommand, stopUnits } = options;
  const ports: NodePorts = { disk, clock, stopUnits, agentCommand, log, pollMs, turn: turns(clock, STAGGER_MS) };
  const kept = new Map<string, Promise<void>>();
  /** Folders that are no nodes yet: what makes them one is written last, and inside. */
  const halfMade = new Map<string, FSWatcher | undefined>();

  function endWatch(uid: string): void {
    halfMade.get(uid)?.close();
    halfMade.delete(uid);
  }

  async function reconcile(): Promise<void> {
    const names = ((await disk.list(nodesDir)) ?? []).filter(isUID);
    for (const uid of halfMade.keys()) if (!names.includes(uid)) endWatch(uid);
    for (const uid of names.filter((name) => !kept.has(name))) {
      const layout = layoutOf(nodesDir, uid);
      if (!halfMade.has(uid))
        halfMade.set(
          uid,
          watchFolder(layout.folder, () => wake?.()),
        );
      if ((await disk.read(layout.instance)) === undefined || stopped.signal.aborted) continue;
      endWatch(uid);
      kept.set(
        uid,
        keepNode(ports, nodesDir, layout, stopped.signal).finally(() => kept.delete(uid)),
      );
    }
  }

  let wake: (() => void) | undefined;
  async function run(): Promise<void> {
    while (!stopped.signal.aborted) {
      // Before reconciling, so that a change meanwhile is reconciled again.
      const changed = new Promise<void>((done) => {
        wake = done;
      });
      await reconcile().catch((error: unknown) => log.error({ nodesDir, error: messageOf(error) }, 'the nodes cannot be read'));
      await Promise.race([changed, sleep(clock, pollMs, stopped.signal).catch(() => undefined)]);
    }
    for (const uid of halfMade.keys()) endWatch(uid);
    await Promise.all(kept.values());
    await release();
  }

  const watcher = watchFolder(nodesDir, () => wake?.());
  const running = run();
  const stop = async (): Promise<void> => {
    stopped.abort(new Error('the local host stops'));
    watcher?.close();
    await running;
  };
  const onAbort = (): void => void stop();
  signal.addEventListener('abort', onAbort, { once: true });
  if (signal.aborted) onAbort();
  return {
    async stop() {
      signal.removeEventListener('abort', onAbort);
      await stop();
    },
  };
}

/** A hint only: the regular reconciliation finds what it misses. */
function watchFolder(path: string, changed: () => void): FSWatcher | undefined {
  try {
    const watcher = watch(path, { persistent: false }, changed);
    watcher.on('error', () => watcher.close());
    return watcher;
  } catch {
    return undefined;
  }
}

/** One after the other, some time apart. */
function turns(clock: Clock, apartMs: number): (signal: AbortSignal) => Promise<void> {
  let next = -Infinity;
  return async (signal) => {
    const now = clock.monotonic();
    const at = Math.max(now, next);
    next = at + apartMs;
    await sleep(clock, at - now, signal);
  };
}

/**
 * Cuts the power of every node of a folder whose host is gone, for instance because it was killed. Errors: `HostRunning`; `ProcessesLeft`
 * when something does not end, after all else did.
 */
export async function shutdownNodes(folder: string, options: Pick<LocalHostOptions, 'stopUnits' | 'clock'>): Promise<void> {
  const disk = nodeDisk();
  const nodesDir = resolve(folder);
  const pid = await holderOf(disk, nodesDir);
  if (pid !== undefined) throw hostRunning(nodesDir, pid);
  const ports = { disk, ...options };
  const results = await Promise.allSettled(
    ((await disk.list(nodesDir)) ?? []).filter(isUID).map(async (uid) => {
      const layout = layoutOf(nodesDir, uid);
      await endFormerAgent(ports, layout);
      await cutPower(ports, layout);
    }),
  );
  const failed = results.find((result) => result.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
}
