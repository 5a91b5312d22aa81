import { describe, expect, test } from 'vitest';
import { exploreNodeKeys, NODE_KEYS_MUTANTS } from './node-keys.ts';

const SMALL = { changes: 2, deaths: 1, others: 1 };

describe('C11, explored: what KubeNode puts on a Node', () => {
  test('is removed when no Machine wants it, and what others put there stays, whatever two leaders do late', () => {
    const found = exploreNodeKeys(SMALL);
    expect(found.violation).toBeUndefined();
    expect(found.trap).toBeUndefined();
    expect(found.complete).toBe(true);
    expect(found.converged).toBeGreaterThan(3);
    process.stderr.write(
      `explorer: one label of a Node: ${found.states} states, ${found.transitions} steps, ${found.converged} converged\n`,
    );
  }, 120_000);

  test.each(NODE_KEYS_MUTANTS)(
    'and not where it is left out that $rule',
    ({ mutation, caughtBy }) => {
      const { violation, trap } = exploreNodeKeys(SMALL, mutation, { limit: 400_000 });
      if (caughtBy === 'trap') {
        expect(violation).toBeUndefined();
        // A name whose write can still arrive is kept, and nothing ever makes that one lose.
        expect(trap).toBeDefined();
      } else expect(violation?.rule).toMatch(caughtBy);
    },
    120_000,
  );
});
