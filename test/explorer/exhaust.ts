import { describe, expect, test } from 'vitest';
import { explore } from './explore.ts';
import type { Named } from './scenarios.ts';

const LARGE = process.env['KUBENODE_EXPLORE'] === 'large';

/** One test a scenario: every state of it is visited, none breaks a rule, and from each one the cell can converge. */
export function exhaust(what: string, scenarios: readonly Named[]): void {
  describe(`every interleaving of ${what} keeps the rules and leads back`, () => {
    test.each(scenarios.filter(({ large }) => LARGE || large !== true))(
      '$name',
      ({ name, scenario }) => {
        const begun = performance.now();
        const result = explore(scenario);
        const seconds = ((performance.now() - begun) / 1000).toFixed(1);
        process.stdout.write(
          `explorer: ${name}: ${result.states} states, ${result.transitions} steps, ${result.converged} converged, ${seconds} s\n`,
        );
        expect(result.violation).toBeUndefined();
        expect(result.trap?.trace).toBeUndefined();
        expect(result.complete).toBe(true);
        expect(result.converged).toBeGreaterThan(0);
      },
      3_600_000,
    );
  });
}
