import { describe, expect, test } from 'vitest';
import { exhaustSpaces } from './exhaust.ts';
import { ROLLOUT_MUTANTS } from './rollout-mutants.ts';
import { exploreRollouts } from './rollouts.ts';
import { ROLLOUTS } from './rollout-scenarios.ts';

exhaustSpaces(
  'rollouts',
  ROLLOUTS.map(({ name, plan, large }) => ({ name, large: large === true, run: (limits) => exploreRollouts(plan, limits) })),
);

describe('the explorer catches rollouts that leave a rule out', () => {
  test.each(ROLLOUT_MUTANTS)(
    '$rule',
    ({ seams, plan, caughtBy }) => {
      const result = exploreRollouts(plan, { seams, limit: 200_000 });
      if (caughtBy === 'trap') {
        expect(result.violation).toBeUndefined();
        expect(result.trap?.trace.length).toBeGreaterThan(1);
        return;
      }
      expect(result.violation?.rule).toMatch(caughtBy);
      expect(result.violation?.trace.length).toBeGreaterThan(1);
    },
    120_000,
  );

  test.each(ROLLOUT_MUTANTS)(
    'and finds nothing in the same world where the rule is kept: $rule',
    ({ plan }) => {
      const result = exploreRollouts(plan, { limit: 1500 });
      expect(result.violation).toBeUndefined();
      expect(result.trap).toBeUndefined();
    },
    120_000,
  );
});
