import { needsOperation } from '../../api/disruption.ts';
import { journalOf } from '../records/memory.ts';
import type { AgentContext } from '../context.ts';
import { agentError, endOf } from '../errors.ts';
import type { Hook } from '../generation/spec.ts';
import { componentLayout } from '../disk/layout.ts';
import type { Manifest } from '../generation/manifest.ts';
import { keepNodeCredentials } from '../identity/node-credentials.ts';
import { writeNodeFile, removeOrLeave } from '../disk/node-files.ts';
import { environmentOf } from '../ports/environment.ts';
import { startProbes } from '../upkeep/probes.ts';
import { recordInstalled, recordRemoved } from '../records/installed.ts';
import { forgetStarts } from '../upkeep/memory.ts';
import type { Transaction } from '../records/state.ts';
import type { TransactionStage } from '../engine/steps.ts';

const REBOOT_AGAIN_MS = 60_000;

/** Carries out one stage of the open transaction. Every stage may be repeated. Errors: what made it fail. */
export async function actStage(ctx: AgentContext, stage: TransactionStage): Promise<void> {
  const { memory } = ctx;
  const tx = journalOf(memory).state.transaction;
  if (tx === undefined) throw new Error(`there is no transaction for ${stage}`);
  const parts = partsOf(ctx, tx);
  switch (stage) {
    case 'preInstall':
      await runHook(ctx, parts.target?.hooks.preInstall, stage);
      break;
    case 'postInstall':
      await runHook(ctx, parts.target?.hooks.postInstall, stage);
      break;
    case 'preRemove':
      await runPreRemove(ctx, tx, parts.others[0]);
      break;
    case 'writeFiles':
      await writeFiles(ctx, parts);
      break;
    case 'switchLink':
      if (parts.target !== undefined) await ctx.durable.link(componentLayout(ctx.layout, tx.name).current, parts.target.digest);
      break;
    case 'reboot':
      await askForReboot(ctx, tx);
      return;
    case 'startUnits':
      await startUnits(ctx, tx, parts);
      break;
    case 'stopUnits':
      for (const unit of parts.others.flatMap((each) => each.units)) await ctx.ports.units.stop(unit.name);
      break;
    case 'removeFiles':
      await removeFiles(ctx, parts, []);
      break;
    case 'removeLink':
      // Not synced: the receipt is, after it, and without a receipt the link means nothing.
      await ctx.durable.files.unlink(componentLayout(ctx.layout, tx.name).current);
      break;
    case 'writeReceipt':
      await receive(ctx, tx, parts);
      break;
    case 'removeReceipt':
      await recordRemoved(ctx, tx.name);
      break;
    case 'probe':
      probe(ctx, parts);
      return;
    default:
      stage satisfies never;
  }
  memory.transaction.progress = {
    ...memory.transaction.progress,
    done: new Set([...memory.transaction.progress.done, stage]),
    failures: 0,
    error: undefined,
  };
}

interface Parts {
  /** What is to run in the end. */
  target: Manifest | undefined;
  /** Every other generation that this transaction may have installed. */
  others: Manifest[];
  /** Digests that were begun in this transaction and are not to run. */
  left: Set<string>;
}

function partsOf({ memory }: AgentContext, tx: Transaction): Parts {
  const wanted = tx.back === undefined ? tx.to : tx.from;
  const target = wanted === undefined ? undefined : memory.transaction.manifests.get(wanted);
  // Without it the agent would write no file, and every file would seem to be there.
  if (wanted !== undefined && target === undefined) throw agentError('FileFailed', `generation ${wanted} of ${tx.name} is damaged`);
  const digests = new Set([tx.from, tx.to, ...tx.touched]);
  digests.delete(wanted);
  const others = [...digests].flatMap((digest) => memory.transaction.manifests.get(digest ?? '') ?? []);
  const left = new Set([tx.to, ...tx.touched].filter((digest) => digest !== undefined && digest !== wanted) as string[]);
  return { target, others, left };
}

async function runHook(ctx: AgentContext, hook: Hook | undefined, name: string): Promise<void> {
  if (hook === undefined) return;
  const { root } = ctx.layout;
  const command = {
    argv: hook.command,
    environment: environmentOf(root),
    cwd: root === '' ? '/' : root,
    timeoutMs: hook.timeoutSeconds * 1000,
  };
  const result = await ctx.ports.runner(command, ctx.signal);
  if (!result.ok) throw agentError('HookFailed', `${name}: ${endOf(result)}`);
}

/** A machine that goes away is not kept by a hook that fails. */
async function runPreRemove(ctx: AgentContext, tx: Transaction, manifest: Manifest | undefined): Promise<void> {
  try {
    await runHook(ctx, manifest?.hooks.preRemove, 'preRemove');
  } catch (error) {
    if (tx.why !== 'Delete') throw error;
    ctx.happened({
      type: 'Warning',
      reason: 'HookFailed',
      message: `${tx.name}: ${error instanceof Error ? error.message : String(error)}`,
    });
  }
}

async function writeFiles(ctx: AgentContext, parts: Parts): Promise<void> {
  const { root } = ctx.layout;
  const files = parts.target?.files ?? [];
  for (const file of files) {
    if (await writeNodeFile(ctx.durable, root, file)) ctx.memory.transaction.switching.filesChanged = true;
  }
  if (parts.target?.nodeCredentials !== undefined) await keepNodeCredentials(ctx, parts.target.nodeCredentials);
  await removeFiles(ctx, parts, files.map((each) => each.path).concat(credentialPaths(parts.target)));
}

/** Removes files of the generation that is not to run, except those that the generation to run has too. */
async function removeFiles(ctx: AgentContext, { others }: Parts, kept: string[]): Promise<void> {
  for (const path of others.flatMap((each) => each.files.map((file) => file.path).concat(credentialPaths(each)))) {
    if (kept.includes(path)) continue;
    await removeOrLeave(ctx, path);
  }
}

const credentialPaths = (manifest: Manifest | undefined): string[] => Object.values(manifest?.nodeCredentials ?? {}) as string[];

async function startUnits(ctx: AgentContext, tx: Transaction, { target, others, left }: Parts): Promise<void> {
  const { units } = ctx.ports;
  const { switching } = ctx.memory.transaction;
  const wanted = target?.units ?? [];
  for (const unit of others.flatMap((each) => each.units)) {
    if (!wanted.some((each) => each.name === unit.name)) await units.stop(unit.name);
  }
  const restarts = needsOperation(tx.class) || tx.from === undefined;
  const digest = target?.digest ?? '';
  for (const unit of wanted) {
    let status = (await units.list()).find((each) => each.name === unit.name);
    // A unit may run for an earlier generation that needed no restart; it only must not run for one that is left.
    const stale = digest === tx.from ? left.has(status?.generation ?? '') : status?.generation !== digest;
    if (status?.running !== true || (restarts && (stale || status.hash !== unit.hash))) {
      status = await units.start({ ...unit, generation: digest });
      forgetStarts(ctx.memory, unit.name);
    } else if (!restarts && unit.reload === 'SIGHUP' && switching.filesChanged) {
      await units.reload(unit.name);
    }
    switching.invocations.set(unit.name, status.invocation);
  }
}

async function askForReboot(ctx: AgentContext, tx: Transaction): Promise<void> {
  const { memory, ports } = ctx;
  const journal = journalOf(memory);
  if ((tx.back === undefined ? tx.rebootThere : tx.rebootBack) === undefined) {
    await journal.append({ t: 'reboot', bootID: ports.host.bootID });
  }
  await ports.host.reboot(tx.operation ?? `${tx.name}-${tx.revision}`);
  ctx.happened({ type: 'Normal', reason: 'Rebooting', message: `for ${tx.name}` });
  memory.transaction.progress = { ...memory.transaction.progress, notBeforeMs: ports.clock.monotonic() + REBOOT_AGAIN_MS };
}

function probe(ctx: AgentContext, { target }: Parts): void {
  const { memory, ports, layout } = ctx;
  const { switching } = memory.transaction;
  if (target === undefined) return;
  switching.probing = startProbes(target, 'switch', switching.invocations, { ...ports, root: layout.root }, () => ctx.wake());
  switching.deadlineMs = ports.clock.monotonic() + target.healthDeadlineSeconds * 1000;
}

async function receive(ctx: AgentContext, tx: Transaction, { target }: Parts): Promise<void> {
  const { memory, ports, node } = ctx;
  if (target === undefined) return;
  const before = memory.records.installed.get(tx.name)?.receipt;
  const { name, version, values, labels, content, digest } = target;
  const previous =
    before === undefined || before.generation === digest ? before?.previous : { generation: before.generation, version: before.version };
  const receipt = {
    machineUID: node.uid,
    name,
    version,
    values,
    labels,
    content,
    revision: tx.revision,
    generation: digest,
    ...(previous === undefined ? {} : { previous }),
    switchedAt: ports.clock.now(),
  };
  await recordInstalled(ctx, receipt, target);
}
