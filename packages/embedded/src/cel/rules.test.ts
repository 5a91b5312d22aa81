import { describe, expect, it } from 'vitest';
import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import type { Schema } from '../schema/schema.ts';
import { compileRules } from './rules.ts';

interface GivenRule {
  rule: string;
  message?: string;
  messageExpression?: string;
  optionalOldSelf?: boolean;
}

const rules = (...given: GivenRule[]): Schema => ({ 'x-kubernetes-validations': given as unknown as Json });
const whole = (spec: Schema): Schema => ({ type: 'object', properties: { spec } });
const object = (spec: Json): JsonObject => ({ apiVersion: 'a/v1', kind: 'K', metadata: { name: 'n', namespace: 's' }, spec });

/** What the rules of a spec's schema report for a spec, as `path: message`. */
function brokenRules(schema: Schema, spec: Json, old?: Json, warn?: (text: string) => void): string[] {
  const { rules: compiled, problems } = compileRules(whole(schema), 'schema');
  expect(problems).toEqual([]);
  return (compiled?.evaluate(object(spec), old === undefined ? undefined : object(old), warn) ?? []).map(
    ({ path, problem }) => `${path}: ${problem.message}`,
  );
}

const problemsOf = (schema: Schema): string[] =>
  compileRules(schema, 'schema').problems.map(({ field, message }) => `${field}: ${message}`);

describe('an expression', () => {
  const spec: Schema = {
    type: 'object',
    properties: {
      n: { type: 'integer' },
      d: { type: 'number' },
      s: { type: 'string' },
      list: { type: 'array', maxItems: 100, items: { type: 'integer' } },
      names: { type: 'array', maxItems: 100, items: { type: 'string', maxLength: 100 } },
      map: { type: 'object', maxProperties: 100, additionalProperties: { type: 'string', maxLength: 100 } },
      maybe: { type: 'string', nullable: true },
    },
  };
  const values = { n: 7, d: 1.5, s: 'a-b-c', list: [3, 1, 2], names: ['a', 'b'], map: { k: 'v' }, maybe: null };

  it.each([
    'self.n / 2 == 3 && self.n % 2 == 1',
    'self.d * 2.0 == 3.0 && double(self.n) > self.d',
    "self.s.replace('-', '+') == 'a+b+c' && self.s.replace('-', '', 1) == 'ab-c'",
    "self.s.split('-').size() == 3 && self.s.charAt(0) == 'a' && self.s.upperAscii() == 'A-B-C'",
    "self.s.find('[b-z]') == 'b' && self.s.findAll('[a-z]').size() == 3",
    "self.names.join('/') == 'a/b' && self.names.isSorted() && self.names.indexOf('b') == 1",
    'self.list.sum() == 6 && self.list.min() == 1 && self.list.max() == 3 && !self.list.isSorted()',
    'self.list.all(x, x > 0) && self.list.exists(x, x == 2) && self.list.exists_one(x, x == 2) && self.list.lastIndexOf(2) == 2',
    'self.list.map(x, x * 2) == [6, 2, 4] && self.list.filter(x, x > 1) == [3, 2]',
    "'k' in self.map && self.map.k == 'v' && self.map.all(key, self.map[key] == 'v') && !has(self.map.other)",
    "has(self.maybe) && self.maybe == null && self.?s.orValue('') == 'a-b-c'",
    'cel.bind(x, self.n + 1, x * x == 64) && (self.n > 5 ? true : false) && type(self.n) == int',
    "timestamp('2020-01-01T00:00:00Z') + duration('1h') < timestamp('2020-01-01T02:00:00Z')",
  ])('knows %s', (rule) => {
    expect(brokenRules({ ...spec, ...rules({ rule }) }, values)).toEqual([]);
    expect(brokenRules({ ...spec, ...rules({ rule: `!(${rule})`, message: 'no' }) }, values)).toEqual([
      'spec: Invalid value: "object": no',
    ]);
  });

  it.each([
    ['[1][self.n] == 1', 'index out of bounds: 7'],
    ['self.n / (self.n - 7) == 1', 'division by zero'],
    ['self.n % (self.n - 7) == 1', 'modulus by zero'],
    ['self.n * 9223372036854775807 == 1', 'integer overflow'],
    ["self.map['x'] == ''", 'no such key: x'],
  ])('%s has no value', (rule, words) => {
    expect(brokenRules({ ...spec, ...rules({ rule, message: 'm' }) }, values)).toEqual([
      `spec: Invalid value: "object": ${words} evaluating rule: m`,
    ]);
  });

  it('sees of metadata the names only', () => {
    const schema = { type: 'object', properties: { metadata: { type: 'object' } }, ...rules({ rule: "self.metadata.name == 'n'" }) };
    expect(compileRules(schema, '').rules?.evaluate(object({}), undefined)).toEqual([]);
    expect(problemsOf({ ...schema, ...rules({ rule: 'has(self.metadata.labels)' }) })[0]).toContain("undefined field 'labels'");
  });

  it.each([
    ['self.spec.x > 1', "1:10: undefined field 'x'"],
    ['has(self.spec.x)', "1:14: undefined field 'x'"],
    ['self.spec.list.all(i, has(self.spec.x))', "1:36: undefined field 'x'"],
    ['other == 1', "1:1: undeclared reference to 'other'"],
    ['self.spec.n == 1.0', 'int == double'],
    ['self.spec.n ==', '1:15: '],
  ])('%s is refused, with the path', (rule, words) => {
    const [found] = problemsOf({ ...whole(spec), ...rules({ rule }) });
    expect(found).toContain('schema.x-kubernetes-validations[0].rule: Invalid value: ');
    expect(found).toContain('compilation failed: ERROR: <input>:');
    expect(found).toContain(words);
  });
});

describe('equality', () => {
  const item: Schema = { type: 'object', properties: { name: { type: 'string' }, v: { type: 'integer' } } };
  const list = (type: 'map' | 'set' | 'atomic', items: Schema): Schema => ({
    type: 'array',
    items,
    'x-kubernetes-list-type': type,
    ...(type === 'map' ? { 'x-kubernetes-list-map-keys': ['name'] } : {}),
  });
  const same = rules({ rule: 'self.l == oldSelf.l', message: 'differ' });
  const differ = ['spec: Invalid value: "object": differ'];

  it('of list-maps and sets ignores the order; of other lists it does not', () => {
    const [a, b] = [{ name: 'a', v: 1 }, { name: 'b' }];
    const of = (l: Schema): Schema => ({ type: 'object', properties: { l }, ...same });
    expect(brokenRules(of(list('map', item)), { l: [a, b] }, { l: [b, a] })).toEqual([]);
    expect(brokenRules(of(list('map', item)), { l: [a, b] }, { l: [a, { name: 'b', v: 2 }] })).toEqual(differ);
    expect(brokenRules(of(list('set', { type: 'string' })), { l: ['x', 'y'] }, { l: ['y', 'x'] })).toEqual([]);
    expect(brokenRules(of(list('set', { type: 'string' })), { l: ['x', 'y'] }, { l: ['x', 'z'] })).toEqual(differ);
    expect(brokenRules(of(list('atomic', item)), { l: [a, b] }, { l: [b, a] })).toEqual(differ);
  });

  it('of objects compares what the schema does not know, too', () => {
    const open: Schema = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true };
    const schema: Schema = { type: 'object', properties: { l: open }, ...same };
    expect(brokenRules(schema, { l: { a: [1] } }, { l: { a: [1] } })).toEqual([]);
    expect(brokenRules(schema, { l: { a: [1] } }, { l: { a: [2] } })).toEqual(differ);
    expect(brokenRules(schema, { l: { a: 1 } }, { l: { a: 1, b: 2 } })).toEqual(differ);
  });
});

describe('a rule', () => {
  it('of the old value is not asked on a create, unless it takes absence', () => {
    const schema: Schema = { type: 'integer', ...rules({ rule: 'self >= oldSelf', message: 'fell' }) };
    expect(brokenRules(schema, 1)).toEqual([]);
    expect(brokenRules(schema, 1, 2)).toEqual(['spec: Invalid value: "integer": fell']);
    const begins = rules({ rule: 'oldSelf.hasValue() || self == 0', message: 'begins at 0', optionalOldSelf: true });
    expect(brokenRules({ type: 'integer', ...begins }, 1)).toEqual(['spec: Invalid value: "integer": begins at 0']);
    expect(brokenRules({ type: 'integer', ...begins }, 1, 5)).toEqual([]);
  });

  it('that a value broke before is only warned of while the value stays; what changes is refused', () => {
    const schema: Schema = {
      type: 'object',
      properties: { a: { type: 'integer', ...rules({ rule: 'self > 0', message: 'above' }) }, b: { type: 'string' } },
    };
    const warnings: string[] = [];
    const warn = (text: string) => void warnings.push(text);
    expect(brokenRules(schema, { a: 0, b: 'y' }, { a: 0, b: 'x' }, warn)).toEqual([]);
    expect(warnings).toEqual(['spec.a: Invalid value: "integer": above']);
    expect(brokenRules(schema, { a: -1 }, { a: 0 }, warn)).toEqual(['spec.a: Invalid value: "integer": above']);
  });

  it('reports its own message when the one it computes fails', () => {
    const schema = (messageExpression: string): Schema => ({
      type: 'string',
      ...rules({ rule: "self == 'x'", message: 'plain', messageExpression }),
    });
    expect(brokenRules(schema("'got ' + self"), 'y')).toEqual(['spec: Invalid value: "string": got y']);
    expect(brokenRules(schema("['a'][size(self)]"), 'y')).toEqual(['spec: Invalid value: "string": plain']);
    expect(brokenRules(schema("' '"), 'y')).toEqual(['spec: Invalid value: "string": plain']);
  });

  it('may name no old value in lists whose items have no key', () => {
    const items: Schema = { type: 'integer', ...rules({ rule: 'self == oldSelf' }) };
    expect(problemsOf(whole({ type: 'array', items }))[0]).toContain(
      'oldSelf cannot be used on the uncorrelatable portion of the schema within schema.properties[spec]',
    );
  });

  it('evaluates a value that the schema would no longer accept, instead of failing', () => {
    const schema: Schema = { type: 'object', properties: { a: { type: 'integer' } }, ...rules({ rule: 'self.a > 0', message: 'above' }) };
    expect(brokenRules(schema, { a: 'text' }, { a: 'text', b: 1 })).toEqual([
      'spec: Invalid value: "object": "text" is no integer evaluating rule: above',
    ]);
  });
});

describe('security 8: the cost of a rule', () => {
  const list = (maxItems?: number): Schema => ({
    type: 'array',
    items: { type: 'integer' },
    ...(maxItems === undefined ? {} : { maxItems }),
  });
  const of = (l: Schema, rule: string): Schema => ({ type: 'object', properties: { l }, ...rules({ rule, message: 'm' }) });
  const cubed = 'self.l.all(a, self.l.all(b, self.l.all(c, a + b + c > 0)))';

  it('is estimated from what the schema lets in, and refused with the definition when it is too high', () => {
    expect(problemsOf(whole(of(list(), cubed)))).toEqual([
      expect.stringContaining('Forbidden: estimated rule cost exceeds budget by factor of more than 100x'),
    ]);
    expect(problemsOf(whole(of(list(300), cubed)))).toEqual([expect.stringMatching(/exceeds budget by factor of \d+\.\dx/)]);
    expect(problemsOf(whole(of(list(20), cubed)))).toEqual([]);
  });

  it('counts how often its path can be in one object', () => {
    const items = of(list(20), 'self.l.all(a, self.l.all(b, a + b > 0))');
    expect(problemsOf(whole({ type: 'array', items, maxItems: 10 }))).toEqual([]);
    expect(problemsOf(whole({ type: 'array', items }))).toEqual([expect.stringContaining('more than 100x')]);
  });

  it('is counted while it runs, also where the evaluator takes a failure for an answer', () => {
    const l = Array.from({ length: 300 }, (_, i) => i + 1);
    for (const rule of [cubed, `true || ${cubed}`, `${cubed} || true`]) {
      const began = performance.now();
      // More items than the schema lets in: what the estimate did not see.
      const found = brokenRules(of(list(20), rule), { l });
      expect(performance.now() - began).toBeLessThan(2000);
      expect(found).toEqual(
        rule.startsWith('true')
          ? []
          : ['spec: Invalid value: "object": call cost exceeds limit for rule: m, no further validation rules will be run'],
      );
    }
  });

  it.each([
    ["'x'.matches(self.s)", 'self.s.matches("(a*)*(a*)*(a*)*b{1,1000}$")'],
    ['a text that grows', 'self.s.replace("a", self.s).replace("a", self.s).size() > 0'],
    ['a text that is joined', 'self.s.split("").join(self.s).split("").join(self.s).size() > 0'],
  ])('bounds %s', (_, rule) => {
    const schema: Schema = { type: 'object', properties: { s: { type: 'string', maxLength: 10 } }, ...rules({ rule, message: 'm' }) };
    const began = performance.now();
    expect(brokenRules(schema, { s: 'a'.repeat(20_000) })).toEqual([expect.stringMatching(/call cost exceeds limit/)]);
    expect(performance.now() - began).toBeLessThan(2000);
  });
});
