import { basename, join } from 'node:path';
import { messageOf } from '../../api/errors.ts';
import type { Log } from '../../api/ports.ts';
import { ceilingMs } from '../../kube/backoff.ts';
import { sleep } from '../../kube/clock.ts';
import { startAgent, type AgentProcess } from './agent-process.ts';
import { parseInstance, trashOf, type NodeLayout } from './layout.ts';
import {
  bootNode,
  cutPower,
  cyclesAsked,
  endFormerAgent,
  isKeptOff,
  noteCycled,
  noteOff,
  takeCuts,
  writeHost,
  type PowerPorts,
} from './power.ts';
import { hostBoot } from './process.ts';

export interface NodePorts extends PowerPorts {
  agentCommand: readonly [string, ...string[]];
  log: Log;
  /** How often the node's files are read. */
  pollMs: number;
  /** Resolves when the next agent may start: many at once would starve each other. */
  turn: (signal: AbortSignal) => Promise<void>;
}

type Wanted = 'on' | 'off' | 'reboot' | 'deleted';

const BACKOFF = { baseMs: 500, maxMs: 30_000 };
/** An agent that ran this long is able to start. */
const SETTLED_MS = 60_000;

/** A node while it is kept. */
interface KeptNode {
  readonly ports: NodePorts;
  readonly nodesDir: string;
  readonly layout: NodeLayout;
  /** Cuts its power. */
  readonly signal: AbortSignal;
  agent: AgentProcess | undefined;
  /** When the agent was started. */
  startedAtMs: number;
  /** Agents in a row that ended early. */
  failures: number;
  /** An agent of the host before this one may still run. */
  hasFormer: boolean;
}

/**
 * Keeps one node as its files declare until it is deleted, or `signal` cuts its power. Never rejects: what fails is logged and tried again, save
 * that power is cut anyhow.
 */
export async function keepNode(ports: NodePorts, nodesDir: string, layout: NodeLayout, signal: AbortSignal): Promise<void> {
  const node: KeptNode = { ports, nodesDir, layout, signal, agent: undefined, startedAtMs: 0, failures: 0, hasFormer: true };
  const { log } = ports;
  let troubles = 0;
  while (!signal.aborted) {
    try {
      if ((await step(node)) === 'done') return;
      troubles = 0;
    } catch (error) {
      if (signal.aborted) break;
      log.error({ ...about(node), error: messageOf(error) }, 'a node is in trouble; it is tried again');
      await pause(node, ceilingMs(BACKOFF, ++troubles));
    }
  }
  await off(node).catch((error: unknown) => log.error({ ...about(node), error: messageOf(error) }, 'the power of a node could not be cut'));
}

const about = ({ layout }: KeptNode): { node: string } => ({ node: layout.folder });

async function step(node: KeptNode): Promise<'again' | 'done'> {
  const { layout } = node;
  const { disk } = node.ports;
  const state = await wanted(node);
  if (state === 'on') await on(node);
  else if (state === 'reboot') await reboot(node);
  else if (state === 'deleted') await remove(node);
  else await off(node);
  if (state !== 'off') return state === 'deleted' ? 'done' : 'again';
  // A folder without instance.json is no node.
  if ((await disk.read(layout.instance)) === undefined) return 'done';
  if (await isKeptOff(disk, layout)) await noteOff(disk, layout);
  await waitWhile(node, 'off', Infinity);
  return 'again';
}

/** What the files declare now. */
async function wanted({ ports: { disk }, layout }: KeptNode): Promise<Wanted> {
  const text = await disk.read(layout.instance);
  if (text === undefined) return 'off';
  const file = parseInstance(text, layout.instance);
  if (file.deleting === true) return 'deleted';
  await takeCuts(disk, layout);
  if ((await cyclesAsked(disk, layout)).length > 0) return 'reboot';
  if (await isKeptOff(disk, layout)) return 'off';
  return (await disk.read(layout.rebootRequest)) === undefined ? 'on' : 'reboot';
}

async function on(node: KeptNode): Promise<void> {
  const { clock, log, pollMs } = node.ports;
  const running = node.agent ?? (await launch(node));
  while (!running.hasEnded) {
    if (node.signal.aborted || (await wanted(node)) !== 'on') return;
    await Promise.race([running.ended, pause(node, pollMs)]);
  }
  const why = await running.ended;
  node.agent = undefined;
  node.failures = clock.monotonic() - node.startedAtMs >= SETTLED_MS ? 1 : node.failures + 1;
  if ((await wanted(node)) !== 'on') return;
  const { failures } = node;
  const waitMs = ceilingMs(BACKOFF, failures);
  log.warn({ ...about(node), why, failures, waitMs }, 'the agent ended; it is started again');
  await waitWhile(node, 'on', waitMs);
}

async function launch(node: KeptNode): Promise<AgentProcess> {
  const { ports, layout } = node;
  await endFormer(node);
  const bootID = await bootNode(ports, layout);
  await ports.turn(node.signal);
  node.startedAtMs = ports.clock.monotonic();
  const started = await startAgent(layout, ports.agentCommand, ports.clock);
  // Known before anything else can fail: an agent that is forgotten would run beside the next.
  node.agent = started;
  const { identity } = started;
  const noted = identity === undefined ? {} : { agentPid: identity.pid, agentStart: identity.start };
  await writeHost(ports.disk, layout, { bootID, hostBoot: await hostBoot(), ...noted });
  ports.log.info({ ...about(node), bootID, pid: identity?.pid }, 'started the agent');
  return started;
}

async function endFormer(node: KeptNode): Promise<void> {
  if (node.hasFormer) await endFormerAgent(node.ports, node.layout);
  node.hasFormer = false;
}

async function off(node: KeptNode): Promise<void> {
  await node.agent?.stop();
  node.agent = undefined;
  await endFormer(node);
  await cutPower(node.ports, node.layout);
}

async function reboot(node: KeptNode): Promise<void> {
  const { disk, log } = node.ports;
  const operations = await cyclesAsked(disk, node.layout);
  log.info({ ...about(node), operations }, 'rebooting');
  await off(node);
  if (operations.length > 0) await noteCycled(disk, node.layout, operations);
}

async function remove(node: KeptNode): Promise<void> {
  const { nodesDir, layout } = node;
  const { disk, log } = node.ports;
  await off(node);
  // Moved away first: the provider takes the absence of the folder for proof, and never sees half of one.
  const trash = join(trashOf(nodesDir), basename(layout.folder));
  await disk.makeFolder(trashOf(nodesDir));
  await disk.remove(trash);
  await disk.rename(layout.folder, trash);
  await disk.syncFolder(nodesDir);
  await disk.remove(trash);
  log.info(about(node), 'deleted');
}

/** Resolves early when the signal ends it; callers read the files again in any case. */
async function pause({ ports: { clock }, signal }: KeptNode, ms: number): Promise<void> {
  await sleep(clock, ms, signal).catch(() => undefined);
}

async function waitWhile(node: KeptNode, state: Wanted, ms: number): Promise<void> {
  const { clock, pollMs } = node.ports;
  const until = clock.monotonic() + ms;
  while (!node.signal.aborted && clock.monotonic() < until) {
    await pause(node, Math.min(pollMs, until - clock.monotonic()));
    if ((await wanted(node)) !== state) return;
  }
}
