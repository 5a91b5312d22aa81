import { describe, expect, test } from 'vitest';
import { explore } from './explore.ts';
import type { Named } from './scenarios.ts';
import type { Limits, Search } from './search.ts';

/** `large`: the worlds that have too many states for every change too. */
const LARGE = process.env['KUBENODE_EXPLORE'] === 'large';
/** With `large`: seconds for each of those worlds; what is not visited within this time is not judged. Absent: to the end. */
const SECONDS = process.env['KUBENODE_EXPLORE_SECONDS'];
const LIMIT_MS = SECONDS === undefined || SECONDS === '' ? undefined : Number(SECONDS) * 1000;

interface Explored extends Omit<Search, 'trap'> {
  trap: { trace: string[] } | undefined;
}

export function exhaust(what: string, scenarios: readonly Named[]): void {
  exhaustSpaces(
    what,
    scenarios.map(({ name, scenario, large }) => ({ name, large: large === true, run: (limits) => explore(scenario, limits) })),
  );
}

/** One test a world: every state of it is visited, none breaks a rule, and from each one it can converge. */
export function exhaustSpaces(what: string, worlds: readonly { name: string; large: boolean; run: (limits: Limits) => Explored }[]): void {
  describe(`every interleaving of ${what} keeps the rules and leads back`, () => {
    test.each(worlds.filter(({ large }) => LARGE || !large))(
      '$name',
      ({ name, run, large }) => {
        const begun = performance.now();
        const limitMs = large ? LIMIT_MS : undefined;
        const result = run(limitMs === undefined ? {} : { limitMs });
        const seconds = ((performance.now() - begun) / 1000).toFixed(1);
        const extent = result.complete ? 'all' : `the first ${seconds} s of it`;
        process.stdout.write(
          `explorer: ${name}: ${result.states} states, ${result.transitions} steps, ${result.converged} converged, ${extent}, ${seconds} s\n`,
        );
        expect(result.violation).toBeUndefined();
        expect(result.states).toBeGreaterThan(1);
        if (limitMs !== undefined && !result.complete) return;
        expect(result.trap?.trace).toBeUndefined();
        expect(result.complete).toBe(true);
        expect(result.converged).toBeGreaterThan(0);
      },
      3_600_000,
    );
  });
}
