/** What the steps about changes observe: versions on machines, and rollouts. */
import { readFile, readdir, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { Fleets } from '../../api/fleet.ts';
import type { Machine } from '../../api/machine.ts';
import type { Rollout } from '../../api/rollout.ts';
import { CELLS, type CellName, type TourSystem } from './system.ts';
import { MACHINES } from './tour-step.ts';
import { cliError } from '../errors.ts';

export const statusOf = (machine: Machine, component: string) => machine.status?.components?.find((each) => each.name === component);
export const unitOf = (rollout: Rollout | undefined, component: string) =>
  rollout?.status?.units?.find((unit) => unit.unit.includes(component));

/** A version counts only when the API, the installed files and the process itself all report it. */
export async function runs(system: TourSystem, machine: Machine, component: string, version: string): Promise<boolean> {
  const found = statusOf(machine, component);
  if (found?.version !== version || found.state !== 'Healthy') return false;
  return (await onDisk(system.root(machine), component)) === version && (await system.ask(machine, component))?.version === version;
}

export async function everywhere(system: TourSystem, component: string, version: string): Promise<boolean> {
  for (const { machine } of await system.allMachines()) if (!(await runs(system, machine, component, version))) return false;
  return true;
}

export async function machinesWith(system: TourSystem, cell: CellName, component: string, version: string): Promise<number> {
  let count = 0;
  for (const machine of await system.machines(cell)) if (statusOf(machine, component)?.version === version) count += 1;
  return count;
}

/** Follows a rollout until it ends, and notes when each machine was first seen with the new version. */
export async function follow(
  system: TourSystem,
  { commit, component, version, ms }: { commit: string; component: string; version: string; ms: number },
  onRead?: () => Promise<void>,
): Promise<{ rollout: Rollout; order: { cell: CellName; name: string }[] }> {
  const order: { cell: CellName; name: string }[] = [];
  const rollout = await system.until(`commit ${commit.slice(0, 10)} is done everywhere`, ms, async () => {
    for (const { cell, machine } of await system.allMachines()) {
      const { name } = machine.metadata;
      if (statusOf(machine, component)?.version === version && !order.some((each) => each.name === name)) order.push({ cell, name });
    }
    assertStages(order);
    await onRead?.();
    const found = await system.rolloutOf(commit);
    if (unitOf(found, component)?.phase === 'Halted')
      throw cliError('Violated', `the rollout halted: ${unitOf(found, component)?.message}`);
    return unitOf(found, component)?.phase === 'Done' ? found : undefined;
  });
  return { rollout, order };
}

function assertStages(order: { cell: CellName; name: string }[]): void {
  for (const [index, { cell }] of order.entries()) {
    for (const earlier of CELLS.slice(0, CELLS.indexOf(cell))) {
      const before = order.slice(0, index).filter((each) => each.cell === earlier).length;
      if (before < MACHINES[earlier])
        throw cliError('Violated', `${cell} was changed while ${earlier} was not done: ${order.map((each) => each.name).join(', ')}`);
    }
  }
}

export async function accepted(system: TourSystem, commit: string): Promise<void> {
  await system.until(`commit ${commit.slice(0, 10)} is accepted`, 20_000, async () => {
    const [fleet] = (await system.client('hub').listAll(Fleets)).items;
    return fleet?.status?.commit === commit;
  });
}

/** The version in the files that the component's `current` link leads to. */
async function onDisk(root: string, component: string): Promise<string | undefined> {
  try {
    const dir = await realpath(join(root, 'var/lib/kubenode/components', component, 'current'));
    const release = await findRelease(dir, component);
    return release === undefined ? undefined : (JSON.parse(await readFile(release, 'utf8')) as { version: string }).version;
  } catch {
    return undefined;
  }
}

async function findRelease(dir: string, component: string): Promise<string | undefined> {
  for (const entry of await readdir(dir, { recursive: true }))
    if (entry.endsWith(join(component, 'release.json')) || entry === 'release.json') return join(dir, entry);
  return undefined;
}
