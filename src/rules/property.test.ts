/** What is true for rules with time on any node, in any process: attacked with generated histories. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { checkRule } from './check.ts';
import type { History } from './history.ts';
import { replay, type ReplayedJob } from './replay.ts';
import { bad, history, rule, ruleObject } from './testing.ts';

type Event = History['events'][number];
type Status = 'True' | 'False' | 'Unknown';

const TYPES = ['KernelDeadlock', 'KubeletUnhealthy'] as const;
const MATCH_SECONDS = 120;
const RULES = [
  rule('hung', { holdsForSeconds: MATCH_SECONDS }),
  rule('kubelet', {
    when: { any: [{ all: [bad('KubeletUnhealthy'), { fact: 'machine.phase', operator: 'equal', value: 'Running' }] }] },
    holdsForSeconds: 45,
    clearsAfterSeconds: 20,
    ladder: [
      { action: 'RestartComponent', args: { component: 'kubelet' }, attempts: 2, timeoutSeconds: 90, cooldownSeconds: 30 },
      { action: 'Reboot' },
      { action: 'Human' },
    ],
    healedWhen: { condition: 'KubeletUnhealthy', is: 'False', forSeconds: 60 },
  }),
  rule('often', {
    when: {
      all: [{ fact: 'condition.KubeletUnhealthy.rises', operator: 'greaterThanInclusive', value: 3, params: { windowSeconds: 600 } }],
    },
    holdsForSeconds: 0,
    ladder: [{ action: 'Human' }],
    healedWhen: { condition: 'KubeletUnhealthy', is: 'False', forSeconds: 60 },
  }),
  rule('old', {
    when: { all: [{ fact: 'condition.KernelDeadlock.ageSeconds', operator: 'greaterThan', value: 300 }] },
    holdsForSeconds: 10,
    ladder: [{ action: 'Human' }],
  }),
];

const gap = fc.integer({ min: 1, max: 200 });
const status = fc.constantFrom<Status>('True', 'True', 'False', 'Unknown');
const change: fc.Arbitrary<Omit<Event, 'at'>> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ type: fc.constantFrom(...TYPES), status }).map((each) => ({ conditions: { [each.type]: each.status } })),
  },
  { weight: 1, arbitrary: fc.constantFrom<Omit<Event, 'at'>>({ phase: 'Running' }, { phase: 'Degraded' }) },
  { weight: 1, arbitrary: fc.constantFrom<Omit<Event, 'at'>>({ acted: 'Succeeded' }, { acted: 'TransientFailure' }) },
  { weight: 1, arbitrary: fc.constant<Omit<Event, 'at'>>({ boot: true, detectors: 'Restarted' }) },
  { weight: 1, arbitrary: fc.constantFrom<Omit<Event, 'at'>>({ operation: 'Begins' }, { operation: 'Ends' }) },
  { weight: 1, arbitrary: fc.constantFrom<Omit<Event, 'at'>>({ detectors: 'Stale' }, { detectors: 'Alive' }) },
);
const START: Event = { at: 0, conditions: { KernelDeadlock: 'False', KubeletUnhealthy: 'False' } };

function timed(changes: readonly (readonly [number, Omit<Event, 'at'>])[]): Event[] {
  let at = 0;
  return [START, ...changes.map(([after, event]) => ({ ...event, at: (at += after) }))];
}
const events = fc.array(fc.tuple(gap, change), { minLength: 1, maxLength: 14 }).map(timed);
const firings = (jobs: readonly ReplayedJob[]) =>
  jobs.map(({ at, rule: name, action, ends, endsAt }) => ({ at, name, action, ends, endsAt }));
const run = async (list: Event[], rest: Partial<History> = {}) =>
  (await replay(RULES, history(list, { untilSeconds: (list.at(-1)?.at ?? 0) + 400, ...rest }))).jobs;

it('restarts between any two evaluations give the same firing times', async () => {
  await fc.assert(
    fc.asyncProperty(events, fc.array(fc.nat(13), { maxLength: 5 }), async (list, where) => {
      const restarted = list.flatMap((event, index): Event[] =>
        where.includes(index) ? [event, { at: event.at, controller: 'Restarts' }] : [event],
      );
      expect(firings(await run(restarted))).toEqual(firings(await run(list)));
    }),
    { numRuns: 60 },
  );
});

it('events that are seen twice, or repeat what is already so, give the same firing times', async () => {
  await fc.assert(
    fc.asyncProperty(events, fc.array(fc.nat(13), { maxLength: 5 }), async (list, where) => {
      const doubled = list.flatMap((event, index): Event[] => {
        const again = { at: event.at, ...(event.conditions === undefined ? {} : { conditions: event.conditions }) };
        return where.includes(index) ? [event, again] : [event];
      });
      expect(firings(await run(doubled))).toEqual(firings(await run(list)));
    }),
    { numRuns: 40 },
  );
});

it('the order of changes at one moment, and of the rules, makes no difference', async () => {
  const pairs = fc.array(fc.tuple(gap, status, status, fc.constantFrom('Running' as const, 'Degraded' as const)), {
    minLength: 1,
    maxLength: 10,
  });
  await fc.assert(
    fc.asyncProperty(pairs, fc.shuffledSubarray([0, 1, 2], { minLength: 3, maxLength: 3 }), async (list, order) => {
      let at = 0;
      const moments = list.map(([after, a, b, phase]): Event[] => {
        at += after;
        return [
          { at, conditions: { KernelDeadlock: a } },
          { at, conditions: { KubeletUnhealthy: b } },
          { at, phase },
        ];
      });
      const shuffled = moments.flatMap((moment) => order.flatMap((index) => moment[index] ?? []));
      const rest = { untilSeconds: at + 400 };
      const straight = await replay(RULES, history([START, ...moments.flat()], rest));
      const mixed = await replay(RULES.toReversed(), history([START, ...shuffled], rest));
      const sorted = (jobs: readonly ReplayedJob[]) => firings(jobs).sort((a, b) => a.at - b.at || (a.name < b.name ? -1 : 1));
      expect(sorted(mixed.jobs)).toEqual(sorted(straight.jobs));
    }),
    { numRuns: 40 },
  );
});

/** What truly was, second by second, of one condition that is reported by a detector with a right clock. */
function trulyMatched(list: readonly Event[], type: string, until: number): number {
  let matched = 0;
  let since: number | undefined;
  for (const { at, conditions } of [...list, { at: until, conditions: { [type]: 'False' as const } }]) {
    const now = conditions?.[type];
    if (now === undefined || at > until) continue;
    if (since !== undefined) matched += at - since;
    since = now === 'True' ? at : undefined;
  }
  return matched;
}

it('never fires early, though no pass runs for a while', async () => {
  const away = fc.tuple(fc.integer({ min: 0, max: 1500 }), fc.integer({ min: 1, max: 400 }));
  const flaps = fc.array(fc.tuple(gap, fc.constantFrom('True' as const, 'False' as const)), { minLength: 1, maxLength: 16 });
  const tally = { fired: 0 };
  await fc.assert(
    fc.asyncProperty(flaps, fc.array(away, { maxLength: 3 }), async (list, absences) => {
      const reported = timed(list.map(([after, each]) => [after, { conditions: { KernelDeadlock: each } }] as const));
      const stops = absences.flatMap(([at, length]): Event[] => [
        { at, controller: 'Stops' },
        { at: at + length, controller: 'Restarts' },
      ]);
      const all = [...reported, ...stops].sort((a, b) => a.at - b.at);
      const { jobs } = await replay([rule('hung', { holdsForSeconds: MATCH_SECONDS })], history(all));
      const [first] = jobs;
      if (first === undefined) return;
      tally.fired += 1;
      expect(trulyMatched(reported, 'KernelDeadlock', first.at)).toBeGreaterThanOrEqual(MATCH_SECONDS);
    }),
    { numRuns: 150 },
  );
  expect(tally.fired).toBeGreaterThan(20);
});

it('a clock that is off makes it fire later, never earlier', async () => {
  const flaps = fc.array(fc.tuple(gap, fc.constantFrom('True' as const, 'False' as const)), { minLength: 1, maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(flaps, fc.constantFrom(-3600, -30, 30, 3600), fc.nat(1000), async (list, clockSkewSeconds, jump) => {
      const reported = timed(list.map(([after, each]) => [after, { conditions: { KernelDeadlock: each } }] as const));
      const all = [...reported, { at: jump, clockSkewSeconds }].sort((a, b) => a.at - b.at);
      const [first] = (await replay([rule('hung', { holdsForSeconds: MATCH_SECONDS })], history(all))).jobs;
      if (first !== undefined) expect(trulyMatched(reported, 'KernelDeadlock', first.at)).toBeGreaterThanOrEqual(MATCH_SECONDS);
    }),
    { numRuns: 80 },
  );
});

it('no rule is due while an operation has reserved the machine, nor before it has matched again since', async () => {
  await fc.assert(
    fc.asyncProperty(events, async (list) => {
      let reserved = false;
      let ended = 0;
      const jobs = await run(list);
      const of = jobs.filter(({ rule: name }) => name === 'hung');
      for (const { at } of of) {
        reserved = false;
        ended = 0;
        for (const event of list)
          if (event.at <= at && event.operation !== undefined) {
            if (reserved && event.operation === 'Ends') ended = event.at;
            reserved = event.operation === 'Begins';
          }
        expect(reserved).toBe(false);
        expect(at).toBeGreaterThanOrEqual(ended === 0 ? 0 : ended + MATCH_SECONDS);
      }
    }),
    { numRuns: 60 },
  );
});

it('the ladder ends: no history makes more attempts than it has', async () => {
  await fc.assert(
    fc.asyncProperty(events, async (list) => {
      const jobs = (await run(list)).filter(({ rule: name }) => name === 'kubelet');
      expect(jobs.filter(({ action }) => action === 'RestartComponent').length).toBeLessThanOrEqual(2);
      expect(jobs.filter(({ action }) => action === 'Reboot').length).toBeLessThanOrEqual(1);
      expect(jobs.map(({ rung }) => rung)).toEqual(jobs.map(({ rung }) => rung).sort((a, b) => a - b));
    }),
    { numRuns: 60 },
  );
});

it('the check answers anything with paths and hints, and never throws', () => {
  const words = fc.constantFrom(
    'all',
    'any',
    'not',
    'fact',
    'operator',
    'value',
    'path',
    'params',
    'condition',
    'equal',
    'machine.phase',
    'Running',
  );
  const junk = fc.letrec((tie) => ({
    any: fc.oneof(
      { maxDepth: 4 },
      words,
      fc.integer(),
      fc.boolean(),
      fc.constant(null),
      fc.array(tie('any'), { maxLength: 3 }),
      fc.dictionary(words, tie('any'), { maxKeys: 4 }),
    ),
  })).any;
  fc.assert(
    fc.property(fc.dictionary(words, junk, { maxKeys: 3 }), (when) => {
      for (const { path, message, hint } of checkRule(ruleObject('r', { when }))) {
        expect(path).toMatch(/^spec/);
        expect(message.length * hint.length).toBeGreaterThan(0);
      }
    }),
    { numRuns: 300 },
  );
});
