import * as fc from 'fast-check';
import { describe, it } from 'vitest';
import { bad } from '../../rules/testing.ts';
import { openRemedyCell } from './testing/cell.ts';
import type { Fault } from './testing/faults.ts';
import { ATTEMPTS, MACHINES, PROVED_SECONDS, TYPES, World, type Step } from './testing/world.ts';

/** Everything that may go wrong does, in every order; the world judges, and once the faults stop all must come to rest. */
const machine = fc.constantFrom(...MACHINES);
const type = fc.constantFrom(...TYPES);
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant('fail' as const), machine, type }) },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constantFrom('recover' as const, 'forget', 'stopDetector', 'startDetector'), machine, type }),
  },
  { weight: 9, arbitrary: fc.record({ do: fc.constant('controller' as const) }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constantFrom('second' as const, 'crash', 'stall', 'resume') }) },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('agent' as const),
      machine,
      outcome: fc.constantFrom('Succeeded' as const, 'Succeeded', 'TransientFailure'),
      cures: fc.boolean(),
    }),
  },
  { weight: 9, arbitrary: fc.record({ do: fc.constant('pass' as const), seconds: fc.constantFrom(5, 20, 40, 70) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('jump' as const), ms: fc.constantFrom(600_000, -600_000) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('edit' as const),
      spec: fc.constantFrom({ priority: 20 }, { priority: 0 }, { holdsForSeconds: 10 }, { mode: 'Shadow' }, { mode: 'Enforce' }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('fault' as const),
      fault: fc.constantFrom<Fault>('refuse', 'loseAnswer', 'dieBefore', 'dieAfter'),
      after: fc.nat({ max: 2 }),
    }),
  },
);

describe('repairs under faults', () => {
  it('never act twice at once, never take absence for health, and come to rest', { timeout: 120_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 15, maxLength: 60 }), async (steps) => {
        const cell = await openRemedyCell(MACHINES);
        const ladder = [{ action: 'Reboot', attempts: ATTEMPTS, timeoutSeconds: 300 }, { action: 'Human' }];
        const rule = (type: string) => ({
          when: { all: [bad(type)] },
          holdsForSeconds: 20,
          ladder,
          healedWhen: { condition: type, is: 'False', forSeconds: PROVED_SECONDS },
        });
        try {
          await cell.rule('hung', rule('KernelDeadlock'));
          await cell.rule('readonly', { ...rule('ReadonlyFilesystem'), priority: 10 });
          const world = new World(cell);
          await world.begin();
          for (const each of steps) await world.play(each);
          await world.rest();
        } finally {
          await cell.close();
        }
      }),
      { numRuns: Number(process.env['RUNS'] ?? 8), endOnFailure: true },
    );
  });
});
