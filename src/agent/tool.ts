import { agentErrorCodes } from './errors.ts';
import '../kube/no-inspector.ts';
import { createHash } from 'node:crypto';
import { dirname, join, resolve } from 'node:path';
import { isCoded, messageOf } from '../api/errors.ts';
import { plainOutput } from '../api/plain-text.ts';
import { readBootstrap } from './bootstrap.ts';
import { createDurable, type Durable } from './disk/durable.ts';
import { describe, findDrift } from './upkeep/drift.ts';
import { loadManifest } from './generation/generation.ts';
import { lifeOf } from './identity/key.ts';
import { identityState } from './identity/state.ts';
import { decode, replay } from './records/journal.ts';
import { layoutOf, type DiskLayout } from './disk/layout.ts';
import { nodeFiles } from './ports/files.ts';
import { loadReceipts } from './records/receipts.ts';
import type { JournalState } from './records/state.ts';

const USAGE = `usage: kubenode-agent status | journal | verify [--root DIR]
  status   what this node is, what it runs, and what is under way
  journal  what the agent intended and what came of it, a line each
  verify   whether everything that was installed is as it was installed`;

/*
 * What a node reports about itself, from its disk alone: without a network, and whether or not its agent runs. It changes nothing, and prints no secret.
 * Exit codes: 0 all is well, 1 something is wrong, 64 wrong arguments.
 */

interface Disk {
  root: string;
  layout: DiskLayout;
  durable: Durable;
}

const print = (text: string): void => void process.stdout.write(`${plainOutput(text, { format: true })}\n`);

async function main(): Promise<number> {
  let parsed;
  try {
    parsed = process.getBuiltinModule('node:util').parseArgs({ allowPositionals: true, options: { root: { type: 'string' } } });
  } catch (error) {
    process.stderr.write(`${messageOf(error)}\n${USAGE}\n`);
    return 64;
  }
  const folder = resolve(parsed.values.root ?? '/');
  const root = folder === '/' ? '' : folder;
  const disk: Disk = { root, layout: layoutOf(root), durable: createDurable(nodeFiles(), root) };
  const [command, more] = parsed.positionals;
  if (more === undefined && command === 'status') return await status(disk);
  if (more === undefined && command === 'journal') return await journal(disk);
  if (more === undefined && command === 'verify') return await verify(disk);
  process.stderr.write(`${USAGE}\n`);
  return 64;
}

async function status({ root, layout, durable }: Disk): Promise<number> {
  let code = 0;
  const line = (name: string, text: string): void => print(`${name.padEnd(12)}${text}`);
  const bad = (name: string, text: string): void => {
    code = 1;
    line(name, text);
  };
  let uid: string | undefined;
  try {
    const { machine, server } = await readBootstrap(join(root, '/etc/kubenode/bootstrap.json'));
    uid = machine.uid;
    line('machine', `${machine.namespace}/${machine.name} (${machine.uid}) of ${server}`);
  } catch (error) {
    bad('machine', `not known: ${messageOf(error)}`);
  }
  if (uid !== undefined) {
    const identity = await identityState(durable, layout.state, uid).current();
    if (identity === undefined) bad('identity', 'none: the agent is not admitted');
    else {
      const { until } = lifeOf(identity);
      const validity = `${identity.kind}, until ${new Date(until).toISOString()}`;
      if (until < Date.now()) bad('identity', `${validity}: it has run out, by this clock`);
      else line('identity', validity);
    }
  }
  if (await durable.files.stat(layout.hold)) line('hold', `${layout.hold} is there: nothing is changed`);
  const state = await stateOf({ root, layout, durable }, (text) => bad('journal', text));
  if (state === undefined) return code;
  if (uid !== undefined && state.machineUID !== uid) bad('journal', `it belongs to another Machine, ${state.machineUID}`);
  if (state.leaving !== undefined) line('leaving', 'the agent takes itself away, and changes nothing any more');
  if (state.held) line('held', 'the Machine is held, paused or being deleted');
  const receipts = await loadReceipts(durable, layout).catch((error: unknown) => {
    bad('installed', messageOf(error));
    return [];
  });
  for (const { name, version, revision, failed, removed } of Object.values(state.components)) {
    const runs = receipts.find((each) => each.name === name);
    const what = runs === undefined ? (removed ? 'removed' : 'not installed yet') : `${runs.version} (revision ${runs.revision})`;
    const wanted = removed || runs?.revision === revision ? '' : `, wanted: ${version} (revision ${revision})`;
    const why = failed === undefined ? '' : `, failed: ${failed.reason}: ${failed.message}`;
    if (failed === undefined) line('component', `${name} ${what}${wanted}`);
    else bad('component', `${name} ${what}${wanted}${why}`);
  }
  const { transaction } = state;
  if (transaction !== undefined) {
    const way = transaction.back === undefined ? 'goes on' : `goes back: ${transaction.back.reason}`;
    line('under way', `${transaction.name}, revision ${transaction.revision}, for ${transaction.why}, and ${way}`);
  }
  for (const { id, kind, outcome, message } of state.operations.slice(-5)) {
    line('operation', `${id} ${kind} ${outcome ?? 'runs'}${message === undefined || message === '' ? '' : `: ${message}`}`);
  }
  return code;
}

async function journal({ layout, durable }: Disk): Promise<number> {
  const bytes = await durable.files.read(layout.journal);
  if (bytes === undefined) {
    print('this node has no journal: no agent ran here');
    return 1;
  }
  const lines = bytes.toString().split('\n');
  lines.pop();
  for (const [index, each] of lines.entries()) {
    const entry = decode(each);
    if (entry === undefined) print(`${index + 1} damaged`);
    else {
      const { t, ...rest } = entry;
      print(`${index + 1} ${t} ${JSON.stringify(rest)}`);
    }
  }
  return lines.every((each) => decode(each) !== undefined) ? 0 : 1;
}

async function verify(disk: Disk): Promise<number> {
  const { layout, durable } = disk;
  let checked = 0;
  const findings: string[] = [];
  for (const receipt of await loadReceipts(durable, layout)) {
    checked += 1;
    try {
      const manifest = await loadManifest(durable, layout, receipt.name, receipt.generation);
      if (manifest === undefined) {
        findings.push(`${receipt.name}: what was installed is not known: its manifest is missing or damaged`);
        continue;
      }
      const found = await findDrift(disk, manifest, receipt, { before: [], touched: undefined });
      findings.push(...found.map((each) => `${receipt.name}: ${describe(each)}`));
    } catch (error) {
      findings.push(`${receipt.name}: ${messageOf(error)}`);
    }
  }
  await stateOf(disk, (text) => findings.push(`journal: ${text}`));
  findings.push(...(await ownDamage(durable)));
  for (const each of findings) print(each);
  print(
    findings.length === 0
      ? `${checked === 1 ? '1 component' : `${checked} components`} and the agent are as they were installed`
      : `${findings.length} differ`,
  );
  return findings.length === 0 ? 0 : 1;
}

/** What of the agent's own package is not as it was packed. Not run from a package: nothing. */
async function ownDamage(durable: Durable): Promise<string[]> {
  const folder = dirname(process.argv[1] ?? '');
  const sums = await durable.files.read(join(folder, 'SHA256SUMS'));
  const damaged: string[] = [];
  for (const each of (sums?.toString() ?? '').split('\n').filter((line) => line !== '')) {
    const name = each.slice(66);
    // The Node among them is larger than what is read at once.
    const digest = await digestOf(durable, join(folder, name)).catch(() => undefined);
    if (digest !== each.slice(0, 64)) damaged.push(`agent: ${join(folder, name)} is missing or differs`);
  }
  return damaged;
}

async function digestOf({ files }: Durable, path: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of files.chunks(path)) hash.update(chunk);
  return hash.digest('hex');
}

async function stateOf({ layout, durable }: Disk, trouble: (text: string) => void): Promise<JournalState | undefined> {
  const bytes = await durable.files.read(layout.journal);
  if (bytes === undefined) return undefined;
  try {
    return replay(bytes.toString()).state;
  } catch (error) {
    if (!isCoded(error, agentErrorCodes, 'JournalDamaged')) throw error;
    trouble(error.message);
    return undefined;
  }
}

try {
  process.exitCode = await main();
} catch (error) {
  process.stderr.write(`kubenode-agent: ${messageOf(error)}\n`);
  process.exitCode = 1;
}
