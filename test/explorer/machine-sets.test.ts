import { describe, expect, test } from 'vitest';
import { exhaustSpaces } from './exhaust.ts';
import { machineSetSpace } from './machine-sets.ts';
import { MACHINE_SET_MUTANTS, MACHINE_SETS } from './machine-set-scenarios.ts';
import { search } from './search.ts';

exhaustSpaces(
  'a MachineSet',
  MACHINE_SETS.map((scenario) => ({
    name: scenario.name,
    large: scenario.large === true,
    run: (limits) => search(machineSetSpace(scenario), limits),
  })),
);

describe('the explorer of MachineSets catches code that leaves a rule out', () => {
  test.each(MACHINE_SET_MUTANTS)(
    '$rule',
    ({ mutation, scenario, caughtBy }) => {
      const result = search(machineSetSpace({ ...scenario, mutation }), { limit: 200_000 });
      expect(result.violation?.rule ?? (result.trap === undefined ? 'nothing' : 'never converges')).toMatch(caughtBy);
    },
    120_000,
  );
  test.each(MACHINE_SET_MUTANTS)(
    'and finds nothing in the same world where the rule is kept: $rule',
    ({ scenario }) => {
      const result = search(machineSetSpace(scenario), { limit: 4000 });
      expect(result.violation).toBeUndefined();
      expect(result.trap).toBeUndefined();
    },
    120_000,
  );
});
