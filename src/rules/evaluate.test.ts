import fc from 'fast-check';
import { Engine } from 'json-rules-engine';
import { describe, expect, it } from 'vitest';
import { evaluate, memoized, truthWithout, type Truth } from './evaluate.ts';
import { compileRule, type CompiledRule } from './index.ts';
import type { Reading } from './read.ts';
import { bad, good, rule } from './testing.ts';
import type { Leaf } from './leaf.ts';
import type { When } from './when.ts';

const compiled = (when: object, name = 'r'): CompiledRule => compileRule(rule(name, { when: when as Record<string, unknown> }));
const known = (value: Reading['value']): Reading => ({ value, known: true, note: '' });
const missing: Reading = { value: undefined, known: false, note: 'missing' };
const stale: Reading = { value: 'Unknown', known: false, note: 'stale' };

async function truth(when: object, readings: Record<string, Reading>): Promise<Truth | undefined> {
  const [found] = await evaluate([compiled(when)], (leaf) => readings[leaf.ref.name] ?? missing);
  return found?.truth;
}

/** Past the check, which refuses these: what is true of the engine must not be true of us. */
function unchecked(when: When): CompiledRule {
  return { ...compiled({ all: [bad('A')] }), when, leaves: [...leaves(when)] };
}
function* leaves(when: When): Generator<Leaf> {
  if (when.kind === 'leaf') yield when;
  else for (const each of when.of) yield* leaves(each);
}
const leafOf = (type: string, operator: Leaf['operator'], value: string): Leaf => {
  const [leaf] = compiled({ all: [bad(type)] }).leaves;
  if (leaf === undefined) throw new Error('no leaf');
  return { ...leaf, operator, value };
};

it('asks json-rules-engine, with facts by name or by dotted path', async () => {
  const byPath = { fact: 'condition', path: 'A.status', operator: 'equal', value: 'True' };
  const byBoth = { fact: 'condition.A', path: 'status', operator: 'in', value: ['True'] };
  const readings = { 'condition.A.status': known('True') };
  expect(await truth({ all: [bad('A'), byPath, byBoth] }, readings)).toBe('True');
  expect(await truth({ any: [good('A'), byPath] }, readings)).toBe('True');
  expect(await truth({ all: [good('A')] }, readings)).toBe('False');
});

it('takes a negation for true where what it negates is known to be false', async () => {
  const inBuild = { fact: 'machine.pool', operator: 'equal', value: 'build' };
  expect(await truth({ not: inBuild }, { 'machine.pool': known('web') })).toBe('True');
  expect(await truth({ not: inBuild }, { 'machine.pool': known('build') })).toBe('False');
});

it('reads a fact once for all the rules of a run', async () => {
  const asked: string[] = [];
  const read = memoized((leaf) => {
    asked.push(leaf.key);
    return known(asked.length === 1 ? 'True' : 'False');
  });
  const found = await evaluate([compiled({ all: [bad('A')] }, 'a'), compiled({ any: [bad('A')] }, 'b')], read);
  expect([found.map((each) => each.truth), asked]).toEqual([['True', 'True'], ['condition.A.status']]);
});

it('distinguishes labels whose keys go on where another ends', async () => {
  const label = (fact: string, path?: string) => ({ fact, ...(path === undefined ? {} : { path }), operator: 'equal', value: 'x' });
  const readings = { 'node.label.a': known('x'), 'node.label.a.b': known('x') };
  expect(await truth({ all: [label('node.label.a'), label('node.label.a', 'b')] }, readings)).toBe('True');
});

it('reads one fact with different parameters as different facts', async () => {
  const rises = (windowSeconds: number, value: number) => ({
    fact: 'condition.A.rises',
    operator: 'equal',
    value,
    params: { windowSeconds },
  });
  const [found] = await evaluate([compiled({ all: [rises(5, 5), rises(9, 9)] })], (leaf) => known(Number(leaf.params['windowSeconds'])));
  expect(found?.truth).toBe('True');
});

describe('what is not known', () => {
  it('matches nothing, save by the name Unknown', async () => {
    expect(await truth({ all: [bad('A')] }, { 'condition.A.status': stale })).toBe('Unknown');
    expect(await truth({ all: [bad('A')] }, {})).toBe('Unknown');
    const ready = { all: [{ fact: 'condition.Ready.status', operator: 'in', value: ['False', 'Unknown'] }] };
    expect(await truth(ready, { 'condition.Ready.status': stale })).toBe('True');
    expect(await truth(ready, {})).toBe('Unknown');
  });

  it('does not hide what is known', async () => {
    const readings = { 'condition.A.status': stale, 'condition.B.status': known('True') };
    expect(await truth({ any: [bad('A'), bad('B')] }, readings)).toBe('True');
    expect(await truth({ all: [bad('A'), good('B')] }, readings)).toBe('False');
  });

  it('never fires a negation that json-rules-engine would fire', async () => {
    for (const reading of [missing, stale])
      for (const when of [
        { kind: 'all', at: 'w', of: [leafOf('A', 'notEqual', 'False')] },
        { kind: 'any', at: 'w', of: [leafOf('A', 'notIn', 'False')] },
        { kind: 'not', at: 'w', of: [leafOf('A', 'equal', 'False')] },
      ] satisfies When[]) {
        const [found] = await evaluate([unchecked(when)], () => reading);
        expect(found?.truth).toBe('Unknown');
      }
  });

  it('property: never changes an answer that was believed', async () => {
    const types = ['A', 'B', 'C'] as const;
    const { tree } = fc.letrec<{ tree: When; leaf: When }>((tie) => ({
      leaf: fc
        .record({
          type: fc.constantFrom(...types),
          operator: fc.constantFrom('equal', 'notEqual'),
          value: fc.constantFrom('True', 'False'),
        })
        .map(({ type, operator, value }) => leafOf(type, operator, value)),
      tree: fc.oneof(
        { maxDepth: 3 },
        tie('leaf'),
        fc
          .record({ kind: fc.constantFrom('all', 'any'), of: fc.array(tie('tree'), { minLength: 1, maxLength: 3 }) })
          .map(({ kind, of }): When => ({ kind, at: 'w', of })),
        tie('tree').map((each): When => ({ kind: 'not', at: 'w', of: [each] })),
      ),
    }));
    const value = fc.constantFrom('True', 'False');
    const world = fc.record({ A: value, B: value, C: value });
    const blind = fc.subarray([...types]);
    await fc.assert(
      fc.asyncProperty(tree, world, blind, async (inner, values, unknowns) => {
        const subject = unchecked({ kind: 'all', at: 'w', of: [inner] });
        const full = (leaf: Leaf) => known(values[leaf.ref.subjects[0] as 'A']);
        const [truly] = await evaluate([subject], full);
        const [partly] = await evaluate([subject], (leaf) => (unknowns.includes(leaf.ref.subjects[0] as 'A') ? missing : full(leaf)));
        expect(truly?.truth).not.toBe('Unknown');
        if (partly?.truth !== 'Unknown') expect(partly?.truth).toBe(truly?.truth);
        if (truly !== undefined && partly !== undefined)
          expect(truthWithout(truly.judged, (leaf) => unknowns.includes(leaf.ref.subjects[0] as 'A'))).toBe(partly.truth);
      }),
      { numRuns: 150 },
    );
  });
});

it('a hundred evaluations at once lose no rule, because each has an Engine of its own', async () => {
  const rules = [compiled({ all: [bad('A')] }, 'a'), compiled({ any: [bad('A'), good('A')] }, 'b'), compiled({ all: [good('A')] }, 'c')];
  const all = await Promise.all(
    Array.from({ length: 100 }, (_, index) => evaluate(rules, () => known(index % 2 === 0 ? 'True' : 'False'))),
  );
  for (const [index, found] of all.entries())
    expect(found.map(({ truth }) => truth)).toEqual(index % 2 === 0 ? ['True', 'True', 'False'] : ['False', 'True', 'True']);
});

it('still needs to: two runs on one Engine lose a rule without a word', async () => {
  const engine = new Engine();
  const slow = Promise.withResolvers<number>();
  const answers = [Promise.resolve(3), slow.promise];
  engine.addFact('h', () => answers.shift() ?? 3, { cache: false });
  for (const [name, priority] of [
    ['a', 10],
    ['b', 1],
  ] as const)
    engine.addRule({ name, priority, conditions: { all: [{ fact: 'h', operator: 'equal', value: 3 }] }, event: { type: name } });
  const [first, second] = [engine.run(), engine.run()];
  await first;
  slow.resolve(3);
  expect((await second).results.map(({ name }) => name)).toEqual(['a']);
});
