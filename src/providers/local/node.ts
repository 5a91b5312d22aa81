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
  /** How often the node's files are looked at. */
  lookMs: number;
  /** Resolves when the next agent may start: many at once would starve each other. */
  turn: (signal: AbortSignal) => Promise<void>;
}

type Wanted = 'on' | 'off' | 'reboot' | 'deleted';

const BACKOFF = { baseMs: 500, maxMs: 30_000 };
/** An agent that ran this long was not one that cannot start. */
const SETTLED_MS = 60_000;

/**
 * Keeps one node as its files say until it is deleted, or `signal` cuts its power. Never rejects: what fails is logged and tried again, save
 * that power is cut anyhow.
 */
export async function keepNode(ports: NodePorts, nodesDir: string, layout: NodeLayout, signal: AbortSignal): Promise<void> {
  const { clock, log, disk } = ports;
  const about = { node: layout.folder };
  let failures = 0;
  let agent: AgentProcess | undefined;
  let startedAt = 0;
  /** An agent of the host before this one may still be there. */
  let former = true;

  /** Resolves early when the signal ends it; the caller looks again in any case. */
  async function pause(ms: number): Promise<void> {
    await sleep(clock, ms, signal).catch(() => undefined);
  }

  async function off(): Promise<void> {
    await agent?.stop();
    agent = undefined;
    if (former) await endFormerAgent(ports, layout);
    former = false;
    await cutPower(ports, layout);
  }

  async function wanted(): Promise<Wanted> {
    const text = await disk.read(layout.instance);
    if (text === undefined) return 'off';
    const file = parseInstance(text, layout.instance);
    if (file.deleting === true) return 'deleted';
    await takeCuts(disk, layout);
    if ((await cyclesAsked(disk, layout)).length > 0) return 'reboot';
    if (await isKeptOff(disk, layout)) return 'off';
    return (await disk.read(layout.rebootRequest)) === undefined ? 'on' : 'reboot';
  }

  async function reboot(): Promise<void> {
    const operations = await cyclesAsked(disk, layout);
    log.info({ ...about, operations }, 'rebooting');
    await off();
    if (operations.length > 0) await noteCycled(disk, layout, operations);
  }

  async function remove(): Promise<void> {
    await off();
    // Moved away first: the provider takes the absence of the folder for proof, and never sees half of one.
    const trash = join(trashOf(nodesDir), basename(layout.folder));
    await disk.makeFolder(trashOf(nodesDir));
    await disk.remove(trash);
    await disk.rename(layout.folder, trash);
    await disk.syncFolder(nodesDir);
    await disk.remove(trash);
    log.info(about, 'deleted');
  }

  async function launch(): Promise<AgentProcess> {
    if (former) await endFormerAgent(ports, layout);
    former = false;
    const bootID = await bootNode(ports, layout);
    await ports.turn(signal);
    startedAt = clock.monotonic();
    const started = await startAgent(layout, ports.agentCommand, clock);
    // Known before anything else can fail: an agent that is forgotten would run beside the next.
    agent = started;
    const { identity } = started;
    const noted = identity === undefined ? {} : { agentPid: identity.pid, agentStart: identity.start };
    await writeHost(disk, layout, { bootID, hostBoot: await hostBoot(), ...noted });
    log.info({ ...about, bootID, pid: identity?.pid }, 'started the agent');
    return started;
  }

  async function on(): Promise<void> {
    const running = agent ?? (await launch());
    while (!running.hasEnded) {
      if (signal.aborted || (await wanted()) !== 'on') return;
      await Promise.race([running.ended, pause(ports.lookMs)]);
    }
    const why = await running.ended;
    agent = undefined;
    failures = clock.monotonic() - startedAt >= SETTLED_MS ? 1 : failures + 1;
    if ((await wanted()) !== 'on') return;
    const waitMs = ceilingMs(BACKOFF, failures);
    log.warn({ ...about, why, failures, waitMs }, 'the agent ended; it is started again');
    await waitWhile('on', waitMs);
  }

  async function waitWhile(state: Wanted, ms: number): Promise<void> {
    const until = clock.monotonic() + ms;
    while (!signal.aborted && clock.monotonic() < until) {
      await pause(Math.min(ports.lookMs, until - clock.monotonic()));
      if ((await wanted()) !== state) return;
    }
  }

  async function step(): Promise<'again' | 'done'> {
    const state = await wanted();
    if (state === 'on') await on();
    else if (state === 'reboot') await reboot();
    else if (state === 'deleted') await remove();
    else await off();
    if (state !== 'off') return state === 'deleted' ? 'done' : 'again';
    // A folder without instance.json is no node.
    if ((await disk.read(layout.instance)) === undefined) return 'done';
    if (await isKeptOff(disk, layout)) await noteOff(disk, layout);
    await waitWhile('off', Infinity);
    return 'again';
  }

  let troubles = 0;
  while (!signal.aborted) {
    try {
      if ((await step()) === 'done') return;
      troubles = 0;
    } catch (error) {
      if (signal.aborted) break;
      log.error({ ...about, error: messageOf(error) }, 'a node is in trouble; it is tried again');
      await pause(ceilingMs(BACKOFF, ++troubles));
    }
  }
  await off().catch((error: unknown) => log.error({ ...about, error: messageOf(error) }, 'the power of a node could not be cut'));
}
