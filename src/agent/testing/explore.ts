import { createDurable } from '../disk/durable.ts';
import { loadManifest } from '../generation/generation.ts';
import { componentLayout, layoutOf, onNode } from '../disk/layout.ts';
import { loadReceipts } from '../records/receipts.ts';
import { componentOf } from '../records/state.ts';
import type { JournalState } from '../records/state.ts';
import { damagedPaths } from '../generation/tree.ts';
import { simulatedFiles } from './disk.ts';
import type { Model } from './inodes.ts';
import type { DiskHooks } from './disk.ts';
import type { Scenario } from './scenarios.ts';
import { ROOT } from './world.ts';
import { begin, live } from './life.ts';
import type { Effect, World } from './world.ts';

/*
 * Crashes everywhere. A scenario is lived through once; before each change of the disk, and before and after everything else that can be
 * seen from outside, the world is copied. From each copy it goes on in every way it may: the process was killed there, or the power was
 * lost, with every disk that may be found then. On each of them nothing that was reported may be forgotten, nothing that was done may be
 * unknown, and the scenario must come to its end without doing a second time what cannot be taken back.
 */

export interface Exploration {
  /** Moments at which it was ended. */
  points: number;
  /** Different disks that were found after a loss of power. */
  disks: number;
  /** Lives that went on from there. */
  lives: number;
  violations: string[];
}

export interface ExploreOptions {
  models: Model[];
  /** A sync that does nothing. */
  skipSync?: (site: string) => boolean;
  /** Stop at the first violation. */
  first?: boolean;
  /** What is not left to chance; see `DiskHooks`. */
  eager?: (path: string) => boolean;
  /** Called at every sync in the undisturbed life. */
  onSync?: (site: string) => void;
  before?: DiskHooks['before'];
  /** Only the disks are checked; nothing goes on from them. */
  staticOnly?: boolean;
  /** The life after a kill may itself be ended by a loss of power, after any act or report. */
  twice?: boolean;
}

interface Snapshot {
  world: World;
  where: string;
}

export async function explore(scenario: Scenario, options: ExploreOptions): Promise<Exploration> {
  const result: Exploration = { points: 0, disks: 0, lives: 0, violations: [] };
  const snapshots = await record(scenario, options);
  const seen = new Set<string>();
  const enough = (): boolean => options.first === true && result.violations.length > 0;

  async function goOn(world: World, where: string, twice: boolean): Promise<void> {
    const key = keyOf(world);
    if (seen.has(key)) return;
    seen.add(key);
    const found = await staticViolations(scenario, world);
    result.violations.push(...found.map((each) => `${where}: ${each}`));
    if (found.length > 0 || options.staticOnly === true) return;
    result.lives++;
    const again: Snapshot[] = [];
    const take = twice ? (what: string): void => void again.push({ world: world.clone(), where: what }) : undefined;
    result.violations.push(...(await finishLife(scenario, world, options, take)).map((each) => `${where}: ${each}`));
    for (const second of again) {
      if (enough()) return;
      const dark = second.world.clone();
      dark.losePower(second.world.disk.darkest());
      result.disks++;
      await goOn(dark, `${where}, then power lost ${second.where}`, false);
    }
  }

  for (const { world, where } of snapshots) {
    result.points++;
    for (const model of options.models) {
      for (const disk of world.disk.legal(model)) {
        if (enough()) return result;
        const dark = world.clone();
        dark.losePower(disk);
        result.disks++;
        await goOn(dark, `${scenario.name}, power lost (${model}) ${where}`, false);
      }
    }
    if (enough()) return result;
    await goOn(world.clone(), `${scenario.name}, killed ${where}`, options.twice === true);
  }
  return result;
}

/** The undisturbed life, with a copy of the world at each moment that differs from the one before. */
async function record(scenario: Scenario, options: ExploreOptions): Promise<Snapshot[]> {
  const world = await scenario.prepare();
  const snapshots: Snapshot[] = [];
  let count = 0;
  const take = (where: string): void => void snapshots.push({ world: world.clone(), where: `at ${++count} (${where})` });
  await lifeOf(scenario, world, options, take);
  take('at the end');
  return snapshots;
}

/** More than any scenario asks for. */
const MOST_BOOTS = 5;

/** One life after another until the end, since a reboot that is asked for ends one. */
async function lifeOf(
  scenario: Scenario,
  world: World,
  options: ExploreOptions,
  take?: (where: string) => void,
  everyChange = true,
): Promise<void> {
  for (let boots = 0; ; boots++) {
    if (boots > MOST_BOOTS) throw new Error(`it was rebooted ${boots} times`);
    const life = begin(world, {
      ...(take === undefined ? {} : { observe: take }),
      disk: {
        before: ({ what, path, site }) => {
          options.before?.({ what, path, site });
          if (what === 'sync') options.onSync?.(site);
          if (everyChange) take?.(`before ${what} ${path}`);
        },
        ...(options.eager === undefined ? {} : { eager: options.eager }),
        sites: options.onSync !== undefined,
        ...(options.skipSync === undefined ? {} : { skipSync: options.skipSync }),
      },
    });
    let rebooted = false;
    await live(
      world,
      life,
      (w) => rebooted || scenario.done(w),
      (w) => {
        rebooted ||= w.rebootAsked;
        return !rebooted && scenario.drive(w);
      },
    );
    life.end();
    if (!rebooted) return;
    world.reboot();
  }
}

export type Fault = 'sync fails' | 'full once' | 'full for a while';

/** Each change of the disk, one by one, fails; then the disk works again. No process is killed. */
export async function exploreFaults(scenario: Scenario, fault: Fault, options: ExploreOptions): Promise<Exploration> {
  const result: Exploration = { points: 0, disks: 0, lives: 0, violations: [] };
  const needsSpace = ['write', 'create', 'mkdir', 'symlink', 'rename'];
  for (let at = 0; ; at++) {
    const world = await scenario.prepare();
    let count = 0;
    let where = '';
    let fullUntilMs = 0;
    const before: NonNullable<DiskHooks['before']> = ({ what, path }) => {
      if (fault === 'sync fails' ? what !== 'sync' : !needsSpace.includes(what)) return;
      if (count++ === at) {
        where = `${what} ${path}`;
        fullUntilMs = fault === 'full for a while' ? world.ms + FULL_MS : 0;
      } else if (world.ms >= fullUntilMs) return;
      throw Object.assign(new Error(fault === 'sync fails' ? 'EIO' : 'ENOSPC'), { code: fault === 'sync fails' ? 'EIO' : 'ENOSPC' });
    };
    const judged: Scenario = { ...scenario, done: (w) => scenario.done(w) || scenario.safe?.(w) === true };
    let violations: string[];
    try {
      await lifeOf(judged, world, { ...options, before });
      violations = [...repeated(world.effects), ...(await staticViolations(scenario, world))];
      const dark = world.clone();
      dark.losePower(world.disk.darkest());
      violations.push(...(await staticViolations(scenario, dark)).map((each) => `after power was lost at the end: ${each}`));
    } catch (error) {
      violations = [error instanceof Error ? error.message : String(error)];
    }
    if (where === '') return result;
    result.points++;
    result.lives++;
    result.violations.push(...violations.map((each) => `${scenario.name}, ${fault} at ${at} (${where}): ${each}`));
  }
}

/** Longer than every deadline of the scenarios. */
const FULL_MS = 180_000;

/** Goes on from a crash to the end, and judges what was done on the way. */
async function finishLife(scenario: Scenario, world: World, options: ExploreOptions, take?: (where: string) => void): Promise<string[]> {
  const before = world.effects.length;
  try {
    await lifeOf(scenario, world, options, take, false);
  } catch (error) {
    return [error instanceof Error ? error.message : String(error)];
  }
  const violations = [...repeated(world.effects), ...(await staticViolations(scenario, world))];
  if (violations.length > 0)
    violations.push(`effects: ${JSON.stringify(world.effects.slice(0, before))} then ${JSON.stringify(world.effects.slice(before))}`);
  // What was found done by the next life may be in memory only: it was reported all the same.
  const dark = world.clone();
  dark.losePower(world.disk.darkest());
  violations.push(...(await staticViolations(scenario, dark)).map((each) => `and power lost at the end: ${each}`));
  return violations;
}

/** A unit that runs is taken down at most once on the way there and once on the way back, for one operation. */
function repeated(effects: readonly Effect[]): string[] {
  const counts = new Map<string, number>();
  for (const { what, name, transaction } of effects) {
    if (!['restart', 'stop', 'reboot'].includes(what) || transaction?.operation === undefined) continue;
    const { operation, revision, back } = transaction;
    const key = `${what === 'reboot' ? 'rebooted' : `${name} taken down`} for ${operation}, revision ${revision}${back ? ', on the way back' : ''}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return [...counts].filter(([, count]) => count > 1).map(([key, count]) => `${key}: ${count} times`);
}

/** What must be true of a world at any moment at which no part of the agent runs. */
async function staticViolations(scenario: Scenario, world: World): Promise<string[]> {
  const out: string[] = [];
  const files = simulatedFiles(world.disk.clone());
  const durable = createDurable(files, ROOT);
  const layout = layoutOf(ROOT);
  let state: JournalState | undefined;
  let receipts;
  try {
    state = world.journal();
    receipts = await loadReceipts(durable, layout);
  } catch (error) {
    return [`the disk cannot be read: ${error instanceof Error ? error.message : String(error)}`];
  }

  // What was reported is known.
  for (const reported of world.status.components ?? []) {
    const known = state === undefined ? undefined : componentOf(state, reported.name);
    // An entry that is gone from the Machine may be forgotten.
    if (!world.machine.spec.components?.some((each) => each.name === reported.name)) continue;
    if ((known?.revision ?? 0) < reported.revision)
      out.push(`revision ${reported.revision} of ${reported.name} was reported and is forgotten`);
    const receipt = receipts.find((each) => each.name === reported.name);
    const tx = state?.transaction?.name === reported.name ? state.transaction : undefined;
    if (reported.running > 0 && tx === undefined && known?.removed !== true && (receipt?.revision ?? 0) < reported.running) {
      out.push(`${reported.name} was reported to run revision ${reported.running}, the receipt records ${receipt?.revision ?? 'nothing'}`);
    }
    if (reported.failed !== undefined && known?.revision === reported.failed.revision && known.failed === undefined) {
      out.push(`the failure of ${reported.name} revision ${reported.failed.revision} was reported and is forgotten`);
    }
    if (reported.state === 'Removed' && (receipt !== undefined || (await files.read(onNode(ROOT, '/etc/app/app.conf'))) !== undefined)) {
      out.push(`${reported.name} was reported removed, and something of it is there`);
    }
  }
  const operation = world.status.operation;
  if (operation !== undefined) {
    const known = state?.operations.find((each) => each.id === operation.id);
    if (known === undefined) out.push(`operation ${operation.id} was reported and is forgotten`);
    else if (operation.state === 'Done' && known.outcome !== operation.outcome)
      out.push(`operation ${operation.id} was reported ${operation.outcome}, it is ${known.outcome}`);
  }

  // What was done is known.
  for (const { what, transaction } of world.effects) {
    if (transaction === undefined) continue;
    const known = state === undefined ? undefined : componentOf(state, transaction.name);
    const open = state?.transaction?.name === transaction.name && state.transaction.revision >= transaction.revision;
    const ended =
      (receipts.find((each) => each.name === transaction.name)?.revision ?? 0) >= transaction.revision ||
      known?.failed !== undefined ||
      known?.removed === true ||
      // Of a revision that another has replaced the operation is known: nothing more is begun under it.
      ((known?.revision ?? 0) > transaction.revision && state?.operations.some((each) => each.id === transaction.operation) === true) ||
      // Forgotten, because the Machine names it no more.
      (known === undefined && world.machine.spec.components?.length === 0);
    if (!open && !ended) out.push(`${what} for revision ${transaction.revision} of ${transaction.name} was done and nothing knows of it`);
    if (transaction.operation !== undefined && !state?.operations.some((each) => each.id === transaction.operation)) {
      out.push(`${what} was done for operation ${transaction.operation} and the journal does not know it`);
    }
    const same = open && state?.transaction?.revision === transaction.revision;
    if (transaction.back && same && state?.transaction?.back === undefined) out.push(`it had turned back and does not know it`);
  }

  // What is recorded as installed is there, whole.
  for (const receipt of receipts) {
    if (state?.transaction?.name === receipt.name || scenario.disturbed === true || receipt.machineUID !== world.machine.metadata.uid)
      continue;
    const manifest = await loadManifest(durable, layout, receipt.name, receipt.generation);
    const paths = componentLayout(layout, receipt.name);
    if (manifest === undefined) {
      out.push(`the generation of ${receipt.name} is not there`);
      continue;
    }
    const damaged = await damagedPaths(files, paths.generation(receipt.generation), receipt.generation);
    if (damaged.length > 0) out.push(`the generation of ${receipt.name} is damaged: ${damaged.join(', ')}`);
    if ((await files.readlink(paths.current)) !== receipt.generation) out.push(`${receipt.name} is installed and its link leads elsewhere`);
    for (const file of manifest.files) {
      if ((await files.read(onNode(ROOT, file.path)))?.toString() !== file.content)
        out.push(`${file.path} is not as ${receipt.name} was installed`);
    }
  }
  return out;
}

/** Two worlds with one key go on in the same way. */
function keyOf(world: World): string {
  const { machine, units, effects, boots, reachable } = world;
  return JSON.stringify([machine, [...units], effects, boots, reachable, world.disk.pending.length, world.disk.key()]);
}
