import { join } from 'node:path';
import { messageOf } from '../../api/errors.ts';
import { OWN_FOLDERS } from '../../api/machine-component/values.ts';
import { ruleOf } from './candidates.ts';
import type { Kept } from './candidates.ts';
import { createCleaner } from './cleaner.ts';
import type { Cleaner } from './cleaner.ts';
import { endRepairing } from './memory.ts';
import { isPreparing } from '../generation/memory.ts';
import { journalOf } from '../records/memory.ts';
import { forgetStarts } from '../upkeep/memory.ts';
import type { AgentContext } from '../context.ts';
import { backoffMs } from '../transaction/decide.ts';
import { CLEAN_WITHIN_MS, REBOOT_WITHIN_MS } from './decide.ts';
import { short } from '../errors.ts';
import { loadManifest } from '../generation/generation.ts';
import { componentLayout, onNode } from '../disk/layout.ts';
import type { Manifest } from '../generation/manifest.ts';
import { bytesOf } from '../ports/folders.ts';
import { LOG_FOLDER } from '../ports/logs.ts';
import { startProbes } from '../upkeep/probes.ts';
import { nameOf } from './task.ts';
import type { Acting, OperationRecord } from '../records/state.ts';
import { sweep } from '../generation/sweep.ts';

/* The three repairs. Each step may be repeated, by this process or the next. */

const REBOOT_AGAIN_MS = 60_000;

export async function operate(ctx: AgentContext, operation: OperationRecord): Promise<void> {
  await journalOf(ctx.memory).append({ t: 'operate', operation });
  endRepairing(ctx);
  const what = operation.task === undefined ? '' : nameOf(operation.task);
  ctx.happened({ type: 'Normal', reason: 'RepairBegun', message: `${what} (operation ${operation.id})` });
}

/** Written before the first thing that cannot be taken back. */
async function setOut(ctx: AgentContext, operation: OperationRecord, rest: Omit<Acting, 'at'> = {}): Promise<Acting> {
  if (operation.acting !== undefined) return operation.acting;
  const acting = { at: ctx.ports.clock.now(), ...rest };
  await journalOf(ctx.memory).append({ t: 'act', id: operation.id, acting });
  return acting;
}

/** Restarts those units that were not restarted yet, and begins to probe. A unit that was started again has another invocation. */
export async function restartUnits(ctx: AgentContext, operation: OperationRecord, component: string): Promise<void> {
  const { memory, ports, layout } = ctx;
  const manifest = memory.records.installed.get(component)?.manifest;
  if (manifest === undefined) return;
  const { running } = memory.repair;
  const listed = await ports.units.list();
  const ran = manifest.units.flatMap(({ name }) => listed.filter((each) => each.name === name && each.running));
  const before = Object.fromEntries(ran.map(({ name, invocation }) => [name, invocation]));
  const { invocations = {} } = await setOut(ctx, operation, { invocations: before });
  running.deadlineMs ??= ports.clock.monotonic() + manifest.healthDeadlineSeconds * 1000;
  const now = new Map<string, string>();
  try {
    for (const unit of manifest.units) {
      const status = (await ports.units.list()).find((each) => each.name === unit.name);
      const due = status?.running !== true || (Object.hasOwn(invocations, unit.name) && invocations[unit.name] === status.invocation);
      const started = due ? await ports.units.start({ ...unit, generation: manifest.digest }) : status;
      if (due) forgetStarts(memory, unit.name);
      now.set(unit.name, started.invocation);
    }
  } catch (error) {
    running.failures++;
    running.error = short(messageOf(error));
    running.notBeforeMs = ports.clock.monotonic() + backoffMs(running.failures);
    return;
  }
  running.probing = startProbes(manifest, 'switch', now, { ...ports, root: layout.root }, () => ctx.wake());
}

/** Asks for it, again and again within one boot, which is asking once. */
export async function askForReboot(ctx: AgentContext, operation: OperationRecord): Promise<void> {
  const { memory, ports } = ctx;
  const { running } = memory.repair;
  const { at } = await setOut(ctx, operation);
  const nowMs = ports.clock.monotonic();
  // A process that began since goes on with the same deadline, whichever way the clock was set.
  const spentMs = Math.min(Math.max(ports.clock.now() - at, 0), REBOOT_WITHIN_MS);
  running.deadlineMs ??= nowMs + REBOOT_WITHIN_MS - spentMs;
  running.notBeforeMs = nowMs + REBOOT_AGAIN_MS;
  if (nowMs >= running.deadlineMs) return;
  try {
    await ports.host.reboot(operation.id);
    running.error = undefined;
    ctx.happened({ type: 'Normal', reason: 'Rebooting', message: `for operation ${operation.id}` });
  } catch (error) {
    running.error = short(messageOf(error));
    ports.log.warn({ error: running.error }, 'the reboot could not be asked for');
  }
}

/** One bounded piece of deleting. */
export async function clean(ctx: AgentContext, operation: OperationRecord, belowPercent: number): Promise<void> {
  const { memory, ports } = ctx;
  const { running } = memory.repair;
  const acting = await setOut(ctx, operation);
  running.deadlineMs ??= ports.clock.monotonic() + CLEAN_WITHIN_MS;
  const enough = async (): Promise<boolean> => {
    const { used, available } = await ports.files.space(rootOf(ctx));
    const percent = used + available === 0 ? 0 : (100 * used) / (used + available);
    running.percent = Math.floor(percent * 10) / 10;
    return percent < belowPercent;
  };
  const first = running.cleaner === undefined;
  const before = { ...(running.cleaner?.freed ?? { files: 0, bytes: 0 }) };
  const gone = { files: 0, bytes: 0 };
  let end: Awaited<ReturnType<Cleaner['step']>> = 'more';
  if (first) {
    if (await enough()) end = 'enough';
    else Object.assign(gone, await sweepStore(ctx));
    running.cleaner = await cleanerOf(ctx, enough);
  }
  const { cleaner } = running;
  if (cleaner === undefined) return;
  if (!first) end = await cleaner.step();
  gone.files += cleaner.freed.files - before.files;
  gone.bytes += cleaner.freed.bytes - before.bytes;
  running.cleaning = { end: end === 'more' ? undefined : end, notes: [...cleaner.notes].join('; ') };
  if (gone.files === 0) return;
  const known = acting.freed ?? { files: 0, bytes: 0 };
  const freed = { files: known.files + gone.files, bytes: known.bytes + gone.bytes };
  await journalOf(memory).append({ t: 'act', id: operation.id, acting: { ...acting, freed } });
}

/** What the agent keeps and no longer needs: it goes first. */
async function sweepStore(ctx: AgentContext): Promise<{ files: number; bytes: number }> {
  const { memory, ports } = ctx;
  if (isPreparing(memory)) return { files: 0, bytes: 0 };
  try {
    return await sweep(ctx);
  } catch (error) {
    ports.log.warn({ error: messageOf(error) }, 'what is needed no more could not be removed');
    return { files: 0, bytes: 0 };
  }
}

const rootOf = ({ layout }: AgentContext): string => (layout.root === '' ? '/' : layout.root);

async function cleanerOf(ctx: AgentContext, enough: () => Promise<boolean>): Promise<Cleaner> {
  const { memory, ports, layout, durable } = ctx;
  const inUse = [...memory.records.installed.values()].flatMap(({ manifest }) => manifest ?? []);
  const kept = [...inUse];
  for (const { receipt } of memory.records.installed.values()) {
    if (receipt.previous === undefined) continue;
    const manifest = await loadManifest(durable, layout, receipt.name, receipt.previous.generation);
    if (manifest !== undefined) kept.push(manifest);
  }
  const rules = [{ path: LOG_FOLDER, olderThanMs: 0 }, ...inUse.flatMap((each) => (each.disposable ?? []).map(ruleOf))];
  return createCleaner({ files: ports.files, root: layout.root, rules, kept: await keptOf(ctx, kept), nowMs: ports.clock.now(), enough });
}

/** Everything that an installed component consists of, where it really is. */
async function keptOf(ctx: AgentContext, manifests: readonly Manifest[]): Promise<Kept> {
  const { layout, ports } = ctx;
  const { files } = ports;
  const paths = new Set<string>();
  for (const { files, units } of manifests) {
    for (const { path } of files) paths.add(onNode(layout.root, path));
    for (const { exec } of units) for (const each of exec) if (each.startsWith('/')) paths.add(each);
  }
  const real = new Set<string>();
  for (const path of paths) {
    const found = await files.realpath(path).catch(() => undefined);
    if (found !== undefined) real.add(bytesOf(found));
  }
  const folders = new Set<string>();
  const own = OWN_FOLDERS.map((each) => onNode(layout.root, each));
  for (const name of await files.list(layout.components)) own.push(componentLayout(layout, name).folder);
  for (const { name, digest } of manifests) own.push(componentLayout(layout, name).generation(digest));
  for (const path of [...own, layout.store, layout.components, join(layout.state, 'units')]) {
    const folder = await files.open(path);
    if (folder === undefined) continue;
    folders.add(folder.identity);
    await folder.close();
  }
  return { files: real, folders, logs: LOG_FOLDER };
}
