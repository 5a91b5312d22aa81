import { messageOf } from '../../api/errors.ts';
import { halfJitterMs } from '../../kube/backoff.ts';
import { journalOf } from '../records/memory.ts';
import type { AgentContext } from '../context.ts';
import { describe, findDrift } from './drift.ts';
import { short } from '../errors.ts';
import { buildGeneration } from '../generation/generation.ts';
import { componentLayout } from '../disk/layout.ts';
import type { Manifest } from '../generation/manifest.ts';
import { LASTING_MS } from './memory.ts';
import type { DriftFinding } from './memory.ts';
import { beginSweep } from '../generation/memory.ts';
import { writeNodeFile } from '../disk/node-files.ts';
import { writeReceipt } from '../records/receipts.ts';
import { sweep } from '../generation/sweep.ts';
import { checkSoon } from './watches.ts';

/* The steps that keep a node as it is. A step that fails is reported, and tried again later: it must not block the rest. */

/** Between starts of a unit that does not stay up. */
const STARTS = { baseMs: 1_000, maxMs: 60_000 };
/** After a repair that did not work. */
const REPAIR_AGAIN_MS = 60_000;
const STRAY_AGAIN_MS = 60_000;

export async function check(ctx: AgentContext, name: string, full: boolean): Promise<void> {
  const { memory } = ctx;
  const { manifest, receipt } = memory.records.installed.get(name) ?? {};
  if (manifest === undefined || receipt === undefined) return;
  const before = memory.upkeep.drift.get(name);
  const beganMs = ctx.ports.clock.monotonic();
  const touched = full ? undefined : (memory.upkeep.touched.get(name) ?? new Set<string>());
  // What is touched from now on is checked another time.
  memory.upkeep.touched.delete(name);
  const findings = await findDrift(ctx, manifest, receipt, { before: before?.findings ?? [], touched });
  const nowMs = ctx.ports.clock.monotonic();
  const nextFullMs = full ? nowMs + CHECK_EVERY_MS : (before?.nextFullMs ?? nowMs);
  memory.upkeep.drift.set(name, { findings, checkedMs: nowMs, tookMs: nowMs - beganMs, nextMs: nextFullMs, nextFullMs });
  if (memory.upkeep.touched.has(name)) checkSoon(memory, name, nowMs);
  for (const finding of findings) {
    if (before?.findings.some((each) => each.path === finding.path && each.what === finding.what) === true) continue;
    ctx.happened({
      type: 'Warning',
      reason: 'DriftFound',
      message: `${name}: ${describe(finding)}${finding.repair ? '' : ' (only reported)'}`,
    });
  }
}

/** Artifacts and files are checked this often, whether or not a watch reported a change. */
const CHECK_EVERY_MS = 600_000;

export async function repair(ctx: AgentContext, name: string): Promise<void> {
  const { memory, ports, layout, durable } = ctx;
  const installed = memory.records.installed.get(name);
  const drift = memory.upkeep.drift.get(name);
  if (installed?.manifest === undefined || drift === undefined) return;
  const { manifest } = installed;
  await journalOf(memory).append({ t: 'repair', name, at: ports.clock.now() });
  const findings = drift.findings.filter((each) => each.repair);
  const has = (kind: DriftFinding['kind']): boolean => findings.some((each) => each.kind === kind);
  const nowMs = ports.clock.monotonic();
  const errors: unknown[] = [];
  // What one piece meets does not keep the others from being put right.
  const attempt = async (work: () => Promise<unknown>): Promise<void> => {
    await work().catch((error: unknown) => errors.push(error));
  };
  const paths = componentLayout(layout, name);
  await attempt(() => durable.folder(paths.folder));
  if (has('tree')) await attempt(() => repairTree(ctx, manifest));
  for (const file of manifest.files) {
    if (!findings.some((each) => each.kind === 'file' && each.path === file.path)) continue;
    await attempt(() => writeNodeFile(durable, layout.root, file));
  }
  if (has('link')) await attempt(() => durable.link(paths.current, manifest.digest));
  if (has('receipt')) await attempt(() => writeReceipt(durable, layout, installed.receipt));
  if (has('file')) {
    for (const unit of manifest.units) if (unit.reload === 'SIGHUP') await attempt(() => ports.units.reload(unit.name));
  }
  ctx.signal.throwIfAborted();
  if (errors.length === 0) {
    memory.upkeep.drift.set(name, { findings: [], checkedMs: nowMs, nextMs: nowMs, nextFullMs: has('tree') ? nowMs : drift.nextFullMs });
    await startAgain(ctx, manifest);
    return ctx.happened({ type: 'Normal', reason: 'DriftRepaired', message: `${name}: ${short(findings.map(describe).join('; '), 500)}` });
  }
  // Found again by the next check, which is not at once.
  const againMs = nowMs + REPAIR_AGAIN_MS;
  const nextFullMs = has('tree') ? againMs : Math.max(drift.nextFullMs, againMs);
  memory.upkeep.drift.set(name, { findings: [], checkedMs: againMs, nextMs: againMs, nextFullMs });
  ctx.happened({ type: 'Warning', reason: 'RepairFailed', message: `${name}: ${errors.map(messageOf).join('; ')}` });
}

/** From the store, which is verified first; what is damaged or gone there is fetched again. */
async function repairTree(ctx: AgentContext, manifest: Manifest): Promise<void> {
  for (const artifact of manifest.artifacts) await ctx.store.ensure(artifact, ctx.signal);
  await buildGeneration(ctx.durable, ctx.layout, ctx.store, manifest);
  ctx.memory.upkeep.folders.delete(manifest.name);
}

/** A unit may have been down because of what was repaired: it need not wait any longer. */
async function startAgain({ memory, ports }: AgentContext, { units }: Manifest): Promise<void> {
  const running = (await ports.units.list()).filter((each) => each.running).map((each) => each.name);
  for (const { name } of units) if (!running.includes(name)) memory.upkeep.starts.delete(name);
}

export async function startUnit(ctx: AgentContext, name: string, unitName: string): Promise<void> {
  const { memory, ports } = ctx;
  const tx = journalOf(memory).state.transaction;
  const manifest =
    tx?.name === name
      ? memory.transaction.manifests.get((tx.back === undefined ? tx.to : tx.from) ?? '')
      : memory.records.installed.get(name)?.manifest;
  const unit = manifest?.units.find((each) => each.name === unitName);
  if (manifest === undefined || unit === undefined) return;
  const nowMs = ports.clock.monotonic();
  const before = memory.upkeep.starts.get(unitName);
  const failures = before === undefined || nowMs - before.lastMs > LASTING_MS ? 0 : before.failures + 1;
  memory.upkeep.starts.set(unitName, { failures, lastMs: nowMs, notBeforeMs: nowMs + halfJitterMs(STARTS, failures + 1, ports.random) });
  const ended = (await ports.units.list()).find((each) => each.name === unitName);
  try {
    await ports.units.start({ ...unit, generation: manifest.digest });
  } catch (error) {
    return ctx.happened({ type: 'Warning', reason: 'UnitFailed', message: `${name}: ${messageOf(error)}` });
  }
  if (ended !== undefined) {
    const how = ended.exit === undefined ? '' : ` (${ended.exit})`;
    ctx.happened({ type: 'Warning', reason: 'UnitStarted', message: `${name}: unit ${unitName} had ended${how} and was started again` });
  }
}

export async function stopStray(ctx: AgentContext, unit: string): Promise<void> {
  const { memory, ports } = ctx;
  const nowMs = ports.clock.monotonic();
  memory.upkeep.starts.set(unit, { failures: 0, lastMs: nowMs, notBeforeMs: nowMs + STRAY_AGAIN_MS });
  try {
    await ports.units.stop(unit);
    memory.upkeep.starts.delete(unit);
  } catch (error) {
    ctx.happened({
      type: 'Warning',
      reason: 'UnitFailed',
      message: `unit ${unit} belongs to no component and does not end: ${messageOf(error)}`,
    });
  }
}

/** What cannot be removed now is removed another time. */
export async function trySweep(ctx: AgentContext): Promise<void> {
  beginSweep(ctx.memory);
  try {
    await sweep(ctx);
    await keepReserve(ctx);
  } catch (error) {
    ctx.ports.log.warn({ error: messageOf(error) }, 'what is needed no more could not be removed');
  }
}

/** More than a journal takes that is written again. */
const RESERVE = 64 * 1024;

/** On a disk that is full even the order to clean it could not be written down. Not durable: what is lost of it is made another time. */
async function keepReserve({ durable, layout }: AgentContext): Promise<void> {
  const { files } = durable;
  if ((await files.stat(layout.reserve))?.size === RESERVE) return;
  try {
    await files.write(layout.reserve, Buffer.alloc(RESERVE, 'kubenode'), { mode: 0o600 });
  } catch {
    await files.unlink(layout.reserve);
  }
}
