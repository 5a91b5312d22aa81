import { spawn, type ChildProcess } from 'node:child_process';
import { closeSync, openSync, watch, type FSWatcher } from 'node:fs';
import { mkdir, readFile, rm, stat } from 'node:fs/promises';
import { randomUUID } from 'node:crypto';
import { dirname, join } from 'node:path';
import { messageOf } from '../../api/errors.ts';
import type { Clock, Log } from '../../api/ports.ts';
import { folders, isAbsent, nodeFolder, readInstance, removeFolder, writeWhole, type NodeFolder } from './folder.ts';

export interface LocalHostOptions {
  nodesDir: string;
  /** Program and first arguments of the agent; `--bootstrap`, `--root` and `--host local` follow. */
  agentCommand: [string, ...string[]];
  /** Ends every supervised unit of a node, by pid and start time. */
  stopUnits: (root: string) => Promise<void>;
  clock: Clock;
  log: Log;
  signal: AbortSignal;
}

export interface LocalHost {
  /** Powers every node off; their folders stay, and the next host boots them again. */
  stop(): Promise<void>;
}

const LOOK_MS = 1000;
const STOP_MS = 5000;
/** Nodes are booted one after the other, so that many at once do not starve each other. */
const STAGGER_MS = 50;

interface Node {
  folder: NodeFolder;
  agent: ChildProcess | undefined;
  /** Settles when the agent that runs now has ended. */
  ended: Promise<void>;
  failures: number;
  notBefore: number;
  startedAt: number;
}

/**
 * What a hypervisor is to virtual machines: boots the nodes that the local provider wrote down, keeps the agent of each
 * running, reboots and deletes them. A node goes on over a restart of the host: services that still run are adopted by its
 * agent, and its boot id stays. Agents end with this process, since each holds a channel to it.
 */
export async function startLocalHost({ nodesDir, agentCommand, stopUnits, clock, log, signal }: LocalHostOptions): Promise<LocalHost> {
  await mkdir(nodesDir, { recursive: true, mode: 0o700 });
  const nodes = new Map<string, Node>();
  let stopping = false;
  let turn: Promise<void> = Promise.resolve();
  let cancelTimer: () => void = () => undefined;

  async function boot(node: Node): Promise<string> {
    try {
      return (await readFile(node.folder.bootID, 'utf8')).trim();
    } catch (error) {
      if (!isAbsent(error)) throw error;
    }
    const bootID = randomUUID();
    await writeWhole(node.folder.bootID, `${bootID}\n`);
    return bootID;
  }

  async function startAgent(node: Node): Promise<void> {
    const { folder } = node;
    const bootID = await boot(node);
    const out = openSync(folder.agentLog, 'a', 0o600);
    const [program, ...first] = agentCommand;
    const agent = spawn(program, [...first, '--bootstrap', folder.bootstrap, '--root', folder.root, '--host', 'local'], { stdio: ['ignore', out, out, 'ipc'] });
    closeSync(out);
    node.agent = agent;
    node.startedAt = clock.monotonic();
    const { promise, resolve } = Promise.withResolvers<void>();
    node.ended = promise;
    const onEnd = (why: string): void => {
      if (node.agent !== agent) return;
      node.agent = undefined;
      node.failures = clock.monotonic() - node.startedAt > 30_000 ? 1 : node.failures + 1;
      node.notBefore = clock.monotonic() + Math.min(100 * 2 ** node.failures, 15_000);
      resolve();
      if (!stopping) log.info({ node: folder.dir, why }, 'an agent ended');
    };
    agent.once('exit', (code, by) => onEnd(by ?? `exit code ${code}`));
    agent.once('error', (error) => onEnd(error.message));
    if (agent.pid !== undefined) await writeWhole(folder.host, `${JSON.stringify({ bootID, agentPid: agent.pid })}\n`);
  }

  async function stopAgent(node: Node): Promise<void> {
    const { agent } = node;
    if (agent === undefined) return;
    agent.kill('SIGTERM');
    const cancel = clock.setTimer(STOP_MS, () => agent.kill('SIGKILL'));
    await node.ended;
    cancel();
  }

  /** What a power cycle takes away: processes, and everything under /run. */
  async function powerOff(node: Node): Promise<void> {
    await stopAgent(node);
    await stopUnits(node.folder.root);
    await rm(join(node.folder.root, 'run'), { recursive: true, force: true });
  }

  async function wantsReboot(folder: NodeFolder): Promise<boolean> {
    return await stat(folder.rebootRequest).then(
      () => true,
      () => false,
    );
  }

  async function look(): Promise<void> {
    const seen = new Set<string>();
    for (const uid of await folders(nodesDir)) {
      if (stopping) return;
      const folder = nodeFolder(nodesDir, uid);
      const instance = await readInstance(folder.instance);
      if (instance === undefined) continue;
      seen.add(uid);
      const node = nodes.get(uid) ?? { folder, agent: undefined, ended: Promise.resolve(), failures: 0, notBefore: 0, startedAt: 0 };
      nodes.set(uid, node);
      if (instance.deleting === true) {
        await powerOff(node);
        await removeFolder(folder.dir);
        nodes.delete(uid);
        continue;
      }
      if (await wantsReboot(folder)) {
        log.info({ node: folder.dir }, 'rebooting');
        await powerOff(node);
        node.notBefore = 0;
      }
      if (node.agent === undefined && clock.monotonic() >= node.notBefore) {
        await startAgent(node);
        await new Promise<void>((resolve) => clock.setTimer(STAGGER_MS, resolve));
      }
    }
  }

  function lookSoon(ms: number): void {
    cancelTimer();
    if (stopping) return;
    cancelTimer = clock.setTimer(ms, () => {
      turn = turn
        .then(look)
        .catch((error: unknown) => log.error({ error: messageOf(error) }, 'the local host failed; it looks again'))
        .then(() => lookSoon(LOOK_MS));
    });
  }

  let watcher: FSWatcher | undefined;
  try {
    watcher = watch(nodesDir, { persistent: false }, () => lookSoon(20));
    watcher.on('error', () => undefined);
  } catch (error) {
    log.warn({ error: messageOf(error), dir: dirname(nodesDir) }, 'the folder cannot be watched; it is looked at each second');
  }
  lookSoon(0);

  const host: LocalHost = {
    async stop() {
      if (stopping) return await turn;
      stopping = true;
      cancelTimer();
      watcher?.close();
      await turn;
      await Promise.all([...nodes.values()].map((node) => powerOff(node)));
    },
  };
  signal.addEventListener('abort', () => void host.stop(), { once: true });
  return host;
}
