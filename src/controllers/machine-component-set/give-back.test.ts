/** A set, and a machine of it that is given back in the moment in which it fails (docs/protocols.md#c14, #b4). */
import { expect, test } from 'vitest';
import { MachineComponentSets } from '../../api/machine-component-set.ts';
import { FINALIZERS } from '../../api/names.ts';
import { decide } from '../machine/decide.ts';
import { cellSets } from '../machine/observe/cell-sets.ts';
import { facts, view } from '../machine/testing/objects.ts';
import { createWorld, type World } from './testing/world.ts';

/** The turn of the machine controller. */
function machineTurn(world: World, name: string): void {
  const sets = cellSets(world.api.list(MachineComponentSets));
  const machine = world.machine(name);
  const { steps } = decide(
    view({ machine, claim: { state: 'None' }, facts: facts({ sets: sets.facts }), uncounted: sets.uncounted(machine) }),
  );
  if (steps.some((step) => step.do === 'Finalize')) world.editMachine(name, ({ metadata }) => void (metadata.finalizers = []));
}

/** It fails at its content, and its agent leaves. */
function failAndLeave(world: World, name: string): void {
  for (let steps = 0; steps < 5; steps++) world.agentStep(name);
  expect(world.machine(name).status?.components?.[0]?.failed).toBeDefined();
  world.editMachine(name, ({ spec, metadata, status }) => {
    metadata.finalizers = [FINALIZERS.machine];
    spec.deletionPolicy = 'Orphan';
    if (status?.agent !== undefined) status.agent.leaving = true;
  });
}

const isThere = (world: World, name: string): boolean => world.machines().some(({ metadata }) => metadata.name === name);

test.each([
  ['before it is deleted, and the set has not counted it', true],
  ['after it was deleted', false],
])('B4: a failure that its entry records %s is counted before the Machine goes, and no other machine is tried', async (_, isFirst) => {
  const world = createWorld({ machines: 5, fails: (_name, { version }) => version === '2.0.0' });
  world.set({ version: '1.0.0' });
  await world.rest();
  world.set({ version: '2.0.0', batches: [1, '100%'], maxFailed: 1 });
  const tried = new Set<string>();
  for (let turn = 0; turn < 20; turn++) {
    world.process.relist();
    await world.process.runSet();
    for (const name of world.given('2.0.0').filter((each) => !tried.has(each))) {
      tried.add(name);
      failAndLeave(world, name);
      world.process.relist();
      if (isFirst) await world.process.runMachine(name);
      world.leave(name);
      machineTurn(world, name);
      expect(isThere(world, name)).toBe(true);
    }
    for (const name of tried) {
      if (!isThere(world, name)) continue;
      world.process.relist();
      await world.process.runMachine(name);
      machineTurn(world, name);
    }
  }
  expect([...tried]).toHaveLength(1);
  expect([...tried].filter((name) => isThere(world, name))).toEqual([]);
  expect(world.status().failures).toMatchObject([{ reason: 'ProbesFailed' }]);
  expect(world.condition('Halted')).toBe('True/MaxFailed');
});
