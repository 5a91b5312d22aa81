import { afterAll, describe, expect, test } from 'vitest';
import { explore, exploreFaults } from '../testing/explore.ts';
import type { ExploreOptions, Fault } from '../testing/explore.ts';
import { scenarios } from '../testing/scenarios.ts';

/*
 * The agent is ended at every change of its disk, and goes on from every disk that may be found then: see testing/explore.ts. With
 * KUBENODE_THOROUGH=1 each life after a kill is ended a second time, in every scenario, and names reach the disk in order as well as in any.
 */

const THOROUGH = process.env['KUBENODE_THOROUGH'] === '1';

/** Caches that nothing depends on, and that would multiply what may be found; one test below leaves the store to chance. */
const eager = (path: string): boolean => path.includes('/specs/') || path.includes('/store/') || path.endsWith('/reserve');
const options: ExploreOptions = { models: THOROUGH ? ['weak', 'ordered'] : ['weak'], eager };
const counts = { points: 0, disks: 0, lives: 0, faults: 0 };

function count(result: { points: number; disks: number; lives: number }): void {
  counts.points += result.points;
  counts.disks += result.disks;
  counts.lives += result.lives;
}

afterAll(() => {
  const { points, disks, lives, faults } = counts;
  process.stdout.write(
    `agent: ended at ${points} points, ${disks} disks found after a loss of power, gone on from ${lives}; ${faults} faults\n`,
  );
});

describe('invariant 5: whenever it is killed or loses power, it comes to the same end, knows what it reported and did, and repeats nothing', () => {
  /** Those in which most can go wrong after a kill. */
  const twice = ['removal', 'the same content under a new revision'];

  test.each(scenarios.map((scenario) => [scenario.name, scenario] as const))(
    '%s',
    async (name, scenario) => {
      const result = await explore(scenario, { ...options, twice: THOROUGH || twice.includes(name) });
      count(result);
      expect(result.violations.slice(0, 3)).toEqual([]);
      expect(result.points).toBeGreaterThan(15);
    },
    600_000,
  );

  test.runIf(THOROUGH)('also when nothing of the store had reached the disk', async () => {
    const [scenario] = scenarios;
    if (scenario === undefined) throw new Error('there are scenarios');
    const result = await explore(scenario, { models: ['ordered'], eager: (path) => path.includes('/specs/') });
    count(result);
    expect(result.violations.slice(0, 3)).toEqual([]);
  });
});

describe('invariant 4: whichever write the disk refuses, it ends as it should once the disk works again, or went back and reported that', () => {
  const faults: Fault[] = THOROUGH ? ['sync fails', 'full once', 'full for a while'] : ['sync fails', 'full for a while'];

  test.each(faults.flatMap((fault) => scenarios.map((scenario) => [scenario.name, fault, scenario] as const)))(
    '%s: %s',
    async (_name, fault, scenario) => {
      const result = await exploreFaults(scenario, fault, options);
      counts.faults += result.points;
      expect(result.violations.slice(0, 3)).toEqual([]);
      expect(result.points).toBeGreaterThan(3);
    },
  );
});
