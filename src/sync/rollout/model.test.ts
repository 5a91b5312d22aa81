import fc from 'fast-check';
import { expect, it } from 'vitest';
import { rolloutModel } from './testing/model.ts';

const RUNS = process.env['KUBENODE_THOROUGH'] === '1' ? 20_000 : 600;
const CLUSTERS = ['t1', 't2', 'p1', 'p2', 'p3'];
const cluster = fc.constantFrom(...CLUSTERS);
const digest = fc.constantFrom('A', 'B', 'C');

const event = fc.oneof(
  { weight: 10, arbitrary: fc.record({ do: fc.constant('turn' as const) }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('prove' as const), cluster }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('proveAll' as const) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.integer({ min: 1, max: 60_000 }) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('commit' as const), digest }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('special' as const), digest, cluster, other: digest }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('halt' as const), cluster }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('away' as const), cluster, is: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('pause' as const), ago: fc.integer({ min: 0, max: 2 }), paused: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('retry' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('join' as const), cluster }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('drop' as const), cluster }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('forget' as const), cluster }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('erase' as const), cluster }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('die' as const), after: fc.integer({ min: 0, max: 12 }) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('depose' as const) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('late' as const), requests: fc.integer({ min: 1, max: 6 }) }) },
);
type Event = typeof event extends fc.Arbitrary<infer E> ? E : never;
const stageOf = (name: string): string => (name.startsWith('t') ? 'test' : 'prod');

function happen(model: ReturnType<typeof rolloutModel>, each: Event): void {
  switch (each.do) {
    case 'turn':
      model.turn();
      return;
    case 'prove':
      return model.prove(each.cluster);
    case 'proveAll':
      return CLUSTERS.forEach((name) => model.prove(name));
    case 'pass':
      return model.pass(each.ms);
    case 'commit':
      return model.commit(each.digest);
    case 'special':
      return model.commit(each.digest, { [each.cluster]: each.other });
    case 'halt':
      return model.halt(each.cluster);
    case 'away':
      return model.away(each.cluster, each.is);
    case 'pause':
      return model.pause(each.ago, each.paused);
    case 'retry':
      return model.retry();
    case 'join':
      return model.join(each.cluster, stageOf(each.cluster));
    case 'drop':
      model.drop(each.cluster);
      return;
    case 'forget':
      return model.forget(each.cluster);
    case 'erase':
      return model.erase(each.cluster);
    case 'die':
      model.turn(each.after);
      return;
    case 'depose':
      return model.depose();
    case 'late':
      return model.late(each.requests);
    default:
      each satisfies never;
  }
}

/**
 * Stages with evidence and soak, pauses, revocations, clusters that left: the model throws at the write that breaks one of them. From
 * wherever it has come to, with all cells answering and proving, every rollout ends with every cluster at what is wanted.
 */
it('E5, E6, E11 to E14: whatever happens, no promise is broken, and nothing is stuck', () => {
  const total = { forward: 0, restored: 0, fenced: 0 };
  fc.assert(
    fc.property(
      fc.constantFrom('MachineComponentSet/runtime', 'NodeRemedier/hung'),
      fc.integer({ min: 1, max: 2 }),
      fc.boolean(),
      fc.array(event, { minLength: 20, maxLength: 100, size: 'max' }),
      (unit, maxClusters, terms, events) => {
        const model = rolloutModel(unit, maxClusters, terms);
        for (const name of ['t1', 'p1', 'p2']) model.join(name, stageOf(name));
        model.commit('A');
        model.turn();
        for (const each of events) happen(model, each);
        model.settle();
        expect(model.wrong()).toEqual([]);
        for (const key of ['forward', 'restored', 'fenced'] as const) total[key] += model.count[key];
      },
    ),
    { numRuns: RUNS },
  );
  // It tried what it is about.
  expect(total.forward).toBeGreaterThan(RUNS);
  expect(total.restored).toBeGreaterThan(RUNS / 20);
  expect(total.fenced).toBeGreaterThan(RUNS / 100);
});
