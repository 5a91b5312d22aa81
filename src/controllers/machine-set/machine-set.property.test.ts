import * as fc from 'fast-check';
import { expect, it } from 'vitest';
import { Machines } from '../../api/machine.ts';
import type { Fault } from '../machine-component-set/testing/api.ts';
import { createSetWorld } from './testing/world.ts';

const step = fc.oneof(
  { weight: 8, arbitrary: fc.constant({ do: 'run' as const }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('deliver' as const), count: fc.integer({ min: 1, max: 6 }) }) },
  { weight: 2, arbitrary: fc.constant({ do: 'relist' as const }) },
  { weight: 1, arbitrary: fc.constant({ do: 'restart' as const }) },
  { weight: 3, arbitrary: fc.constant({ do: 'retire' as const }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constantFrom('ready' as const, 'unready', 'delete', 'finish'), index: fc.nat({ max: 9 }) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('replicas' as const), replicas: fc.nat({ max: 6 }) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('label' as const), value: fc.constantFrom('1', '2', undefined) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('fault' as const),
      fault: fc.constantFrom<Fault>('dieBefore', 'dieAfter', 'loseAnswer', 'refuse'),
      after: fc.nat({ max: 3 }),
    }),
  },
);

it('never makes a machine beyond replicas, and ends with the right one, spread and labelled', { timeout: 60_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 80 }), fc.nat(), async (steps, seed) => {
      const world = createSetWorld({ seed });
      const domains = ['h', 'i', 'j'];
      world.set({ replicas: 3, failureDomains: domains, maxInFlight: 3 });
      let replicas = 3;
      let label: string | undefined;
      for (const each of steps) {
        const all = world.machines();
        const name = 'index' in each ? all[each.index % all.length]?.metadata.name : undefined;
        // More may be there already, when replicas was lowered meanwhile.
        const bound = Math.max(all.length, replicas);
        if (each.do === 'run') await world.run();
        else if (each.do === 'deliver') world.deliver(each.count);
        else if (each.do === 'relist') world.relist();
        else if (each.do === 'restart') world.restart();
        else if (each.do === 'finish') world.finishDeletions();
        else if (each.do === 'retire') world.retire();
        else if (each.do === 'fault') world.faults = [...Array.from({ length: each.after }, () => 'none' as const), each.fault];
        else if (each.do === 'label') {
          label = each.value;
          world.set({ template: label === undefined ? undefined : { labels: { of: label } } });
        } else if (each.do === 'replicas') {
          world.set({ replicas: each.replicas });
          ({ replicas } = each);
        } else if (name !== undefined && each.do === 'delete') world.api.remove(Machines, { namespace: 'web', name });
        else if (name !== undefined) world.ready(name, each.do === 'ready');
        expect(world.machines().length, 'machines').toBeLessThanOrEqual(bound);
      }

      world.faults = [];
      world.set({ replicas: 4 });
      for (let round = 0; round < 10; round++) {
        world.finishDeletions();
        await world.settle();
        for (const machine of world.alive()) world.ready(machine.metadata.name, true);
        await world.settle();
      }
      expect(world.machines()).toHaveLength(4);
      for (const machine of world.machines()) expect(machine.spec.labels?.['of']).toBe(label);
      expect(world.status()).toMatchObject({ replicas: 4, readyReplicas: 4, availableReplicas: 4 });
      expect(new Set(world.machines().map((machine) => machine.metadata.name)).size).toBe(4);
      const { writes } = world.api;
      await world.settle();
      expect(world.api.writes).toBe(writes);
    }),
    { numRuns: Number(process.env['RUNS'] ?? 60) },
  );
});
