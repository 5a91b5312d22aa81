import { join } from 'node:path';
import { canonical, sha256Hex } from '../../api/digest.ts';
import { isCoded, messageOf } from '../../api/errors.ts';
import { machineComponentName } from '../../api/machine-component/values.ts';
import { fullJitterMs } from '../../kube/backoff.ts';
import { sleep } from '../../kube/clock.ts';
import { parseComponentSpec } from './spec.ts';
import type { AgentContext } from '../context.ts';
import { draftOf } from '../disk/durable.ts';
import { agentError, failureOf, short, agentErrorCodes } from '../errors.ts';
import { buildGeneration } from './generation.ts';
import { isLoopback, renderManifest } from './manifest.ts';
import type { Manifest } from './manifest.ts';
import type { Preparation } from './memory.ts';
import { requireAllowed, requireSigned } from './signature.ts';
import type { AcceptedEntry } from '../records/state.ts';
import { resolveUrl } from './store.ts';

type Source = Pick<AcceptedEntry, 'name' | 'version' | 'values' | 'labels' | 'content' | 'revision'>;

/** So that the nodes of one batch do not fetch at once. */
const SPREAD_MS = 30_000;
const BACKOFF = { baseMs: 5_000, maxMs: 300_000 };
/** Asking again cannot help: only another revision can. */
const FINAL = [
  'SpecInvalid',
  'NoPlatform',
  'TemplateInvalid',
  'TemplateUnknown',
  'PathRefused',
  'UrlRefused',
  'ArchiveInvalid',
  'TooLarge',
  'SignatureRefused',
  'ValuesRefused',
];
/** Asking again may help, but not for ever: a mirror that is behind, a transfer that was cut. */
const DOUBTFUL = ['ArtifactRefused', 'DigestMismatch'];
const DOUBTFUL_TRIES = 5;

/** Starts to make a generation ready, in the background. Nothing that runs is touched by it. */
export function startPreparation(ctx: AgentContext, name: string, source: Source, rebuild: boolean): void {
  const { memory } = ctx;
  const results = rebuild ? memory.generation.rebuilt : memory.generation.prepared;
  const key = `${name}${rebuild ? '!' : ''}`;
  const before = results.get(name);
  const failures = before?.revision === source.revision && before.status === 'retry' ? before.failures : 0;
  const { revision } = source;
  memory.generation.preparing.get(key)?.abort(new Error('another revision is wanted'));
  const controller = new AbortController();
  memory.generation.preparing.set(key, controller);
  const message = before?.status === 'retry' ? before.message : undefined;
  results.set(name, { status: 'working', revision, ...(message === undefined ? {} : { message }) });
  const onAbort = (): void => controller.abort(ctx.signal.reason);
  ctx.signal.addEventListener('abort', onAbort, { once: true });

  const task = async (): Promise<void> => {
    let result: Preparation;
    try {
      const manifest = await prepare(ctx, source, controller.signal);
      if (rebuild && manifest.digest !== memory.records.installed.get(name)?.receipt.generation) {
        throw agentError('SpecInvalid', 'what is made from its MachineComponent now is not what was installed');
      }
      result = { status: 'ready', revision, manifest };
    } catch (error) {
      if (controller.signal.aborted) return;
      result = outcomeOf(ctx, error, revision, failures + 1);
      ctx.ports.log.warn(
        { component: name, revision, failures: failures + 1, error: messageOf(error) },
        'a component could not be made ready',
      );
      if (result.status === 'failed' || failures === 0) {
        ctx.happened({ type: 'Warning', reason: 'FetchFailed', message: `${name} ${source.version}: ${messageOf(error)}` });
      }
    } finally {
      ctx.signal.removeEventListener('abort', onAbort);
      if (memory.generation.preparing.get(key) === controller) memory.generation.preparing.delete(key);
    }
    results.set(name, result);
    ctx.wake();
  };
  ctx.background(task());
}

function outcomeOf(ctx: AgentContext, error: unknown, revision: number, failures: number): Preparation {
  const failure = failureOf(error);
  if (FINAL.includes(failure.reason) || (DOUBTFUL.includes(failure.reason) && failures >= DOUBTFUL_TRIES)) {
    return { status: 'failed', revision, ...failure };
  }
  const { clock, random } = ctx.ports;
  const atMs = clock.monotonic() + BACKOFF.baseMs / 5 + fullJitterMs(BACKOFF, failures, random);
  return { status: 'retry', revision, atMs, failures, message: short(`${failure.reason}: ${failure.message}`, 500) };
}

/** Errors: those of `FINAL` and `DOUBTFUL`, of the API, of the network and of the disk. */
async function prepare(ctx: AgentContext, source: Source, signal: AbortSignal): Promise<Manifest> {
  const { clock, random, host } = ctx.ports;
  const read = await readSpec(ctx, source, signal);
  await requireAllowed(ctx, read, source);
  const spec = parseComponentSpec(read, host);
  const manifest = renderManifest(ctx.layout, ctx.node, source, spec);
  let spread = true;
  for (const artifact of manifest.artifacts) {
    if (!(await ctx.store.has(artifact.sha256))) {
      const url = new URL(resolveUrl(artifact.url, ctx.mirror));
      if (spread && !isLoopback(url)) await sleep(clock, random() * SPREAD_MS, signal);
      spread = false;
    }
    await ctx.store.ensure(artifact, signal);
  }
  await buildGeneration(ctx.durable, ctx.layout, ctx.store, manifest);
  return manifest;
}

/**
 * MachineComponents never change, except for who has signed them: the agent reads one once, then from this disk while its signature is accepted. The kept copy has
 * its digest in it, so that it needs no sync. Errors: those of `requireSigned`, before anything is fetched.
 */
async function readSpec(ctx: AgentContext, { name, version }: Source, signal: AbortSignal): Promise<unknown> {
  const { files } = ctx.ports;
  const objectName = machineComponentName(name, version);
  const path = specPath(ctx, name, version);
  const [sum, text] = (await files.read(path))?.toString().split('\n') ?? [];
  if (text !== undefined && sum === sha256Hex(text)) {
    const kept: unknown = JSON.parse(text);
    try {
      await requireSigned(ctx, name, version, kept);
      return kept;
    } catch (error) {
      if (!isCoded(error, agentErrorCodes, 'SignatureRefused')) throw error;
    }
  }
  const spec = await ctx.ports.cell.component(objectName, signal);
  await requireSigned(ctx, name, version, spec);
  const fresh = canonical(spec);
  try {
    if ((await files.stat(ctx.layout.specs)) === undefined) await files.mkdir(ctx.layout.specs);
    const draft = draftOf(path);
    await files.write(draft, Buffer.from(`${sha256Hex(fresh)}\n${fresh}`), { mode: 0o600 });
    await files.rename(draft, path);
  } catch (error) {
    if (isCoded(error)) throw error;
    // Only a cache: the next one reads it from the API again.
    ctx.ports.log.debug({ path, error: messageOf(error) }, 'a MachineComponent was not kept');
  }
  return spec;
}

export const specPath = ({ layout }: Pick<AgentContext, 'layout'>, name: string, version: string): string =>
  join(layout.specs, `${machineComponentName(name, version)}.json`);
