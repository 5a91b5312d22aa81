import { describe, expect, test } from 'vitest';
import { explore } from '../testing/explore.ts';
import type { ExploreOptions } from '../testing/explore.ts';
import { scenarios } from '../testing/scenarios.ts';

const eager = (path: string): boolean => path.includes('/specs/') || path.includes('/store/') || path.endsWith('/reserve');
const options: ExploreOptions = { models: ['weak'], eager };

describe('no sync is there for nothing', () => {
  /** Repairs of drift are not reported as done: what is lost of one is found and repaired again, by the code that also builds what is new. */
  const shared = (site: string): boolean => /^buildGeneration@.*(repairTree|attempt)@upkeep\/act$/.test(site);

  test('each one removed is detected', async () => {
    const sites = new Map<string, Set<string>>();
    for (const scenario of scenarios) {
      const onSync = (site: string): void => void sites.set(site, (sites.get(site) ?? new Set()).add(scenario.name));
      await explore(scenario, { ...options, models: [], staticOnly: true, onSync });
    }
    const missed: string[] = [];
    let removed = 0;
    for (const [site, names] of sites) {
      if (shared(site)) continue;
      const found = await isFoundOut(site, names);
      if (!found) missed.push(site);
      removed++;
    }
    process.stdout.write(`agent: ${removed} syncs removed, one by one\n`);
    expect(missed).toEqual([]);
    expect(removed).toBeGreaterThan(15);
  }, 600_000);

  async function isFoundOut(site: string, names: ReadonlySet<string>): Promise<boolean> {
    const without: ExploreOptions = { ...options, first: true, skipSync: (each) => each === site };
    const fitting = scenarios.filter((scenario) => names.has(scenario.name));
    for (const scenario of fitting) {
      if ((await explore(scenario, { ...without, staticOnly: true })).violations.length > 0) return true;
    }
    const last = fitting.toReversed();
    for (const scenario of last) {
      if ((await explore(scenario, { ...without, twice: true })).violations.length > 0) return true;
    }
    return false;
  }
});
