import { describe, expect, test } from 'vitest';
import { explore } from './explore.ts';
import { MUTANTS } from './mutants.ts';
import { REPAIR_MUTANTS } from './repair-mutants.ts';

const ALL = [...MUTANTS, ...REPAIR_MUTANTS];

describe('the explorer catches code that leaves a rule out', () => {
  test.each(ALL)(
    '$rule',
    ({ mutation, scenario, caughtBy }) => {
      const result = explore(scenario, { mutation, limit: 400_000 });
      expect(result.violation?.rule).toMatch(caughtBy);
      expect(result.violation?.trace.length).toBeGreaterThan(3);
    },
    120_000,
  );

  test.each(ALL)(
    'and finds nothing in the same world where the rule is kept: $rule',
    ({ scenario }) => {
      // Bounded: what matters is that the mutant and not the world is to blame; the worlds themselves are exhausted in their own tests.
      const result = explore(scenario, { limit: 4000 });
      expect(result.violation).toBeUndefined();
      expect(result.trap).toBeUndefined();
    },
    120_000,
  );
});
