import { describe, expect, test } from 'vitest';
import { COMPONENT_SET_MUTANTS } from './component-set-mutants.ts';
import { componentSetSpace } from './component-sets.ts';
import { COMPONENT_SETS } from './component-set-scenarios.ts';
import { exhaustSpaces } from './exhaust.ts';
import { search } from './search.ts';

exhaustSpaces(
  'component sets',
  COMPONENT_SETS.map((scenario) => ({
    name: scenario.name,
    large: scenario.large === true,
    run: (limits) => search(componentSetSpace(scenario), limits),
  })),
);

describe('the explorer of component sets catches code that leaves a rule out', () => {
  test.each(COMPONENT_SET_MUTANTS)(
    '$rule',
    ({ rule, mutation, scenario, caughtBy }) => {
      const result = search(componentSetSpace({ ...scenario, name: rule, mutation }), { limit: 100_000 });
      expect(result.violation?.rule).toMatch(caughtBy);
    },
    120_000,
  );

  test.each(COMPONENT_SET_MUTANTS)(
    'and finds nothing in the same world where the rule is kept: $rule',
    ({ rule, scenario }) => {
      const result = search(componentSetSpace({ ...scenario, name: rule }), { limit: 600 });
      expect(result.violation).toBeUndefined();
      expect(result.trap).toBeUndefined();
    },
    120_000,
  );
});
