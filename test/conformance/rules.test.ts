/* oxlint-disable vitest/no-standalone-expect -- every sentence is a test */
/** Rules in CEL, as any definition may have them. */
import { expect } from 'vitest';
import { pick } from '@kubenode/embedded/testing';
import { at, type JsonObject, type Scene } from './scene.ts';
import { conformance } from './suite.ts';
import { define } from './widgets.ts';

const CRDS = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';

function definition(plural: string, spec: JsonObject, status: JsonObject = {}): JsonObject {
  const kind = `${plural[0]?.toUpperCase()}${plural.slice(1, -1)}`;
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.rules.io` },
    spec: {
      group: 'rules.io',
      scope: 'Namespaced',
      names: { plural, singular: plural.slice(0, -1), kind, listKind: `${kind}List` },
      versions: [
        {
          name: 'v1',
          served: true,
          storage: true,
          subresources: { status: {} },
          schema: { openAPIV3Schema: { type: 'object', properties: { spec, status: { type: 'object', ...status } } } },
        },
      ],
    },
  };
}

const rules = (...given: JsonObject[]): JsonObject => ({ 'x-kubernetes-validations': given });
const text = (more: JsonObject = {}): JsonObject => ({ type: 'string', maxLength: 64, ...more });
const whole = (more: JsonObject = {}): JsonObject => ({ type: 'integer', ...more });
const fixed = (message: string): JsonObject => rules({ rule: 'self == oldSelf', message });
const listMap = (items: JsonObject): JsonObject => ({
  type: 'array',
  maxItems: 8,
  'x-kubernetes-list-type': 'map',
  'x-kubernetes-list-map-keys': ['name'],
  items: { type: 'object', required: ['name'], ...items },
});
const list = (kind: string, items: JsonObject, more: JsonObject = {}): JsonObject => ({
  type: 'array',
  maxItems: 8,
  'x-kubernetes-list-type': kind,
  items,
  ...more,
});

/** Each field has a rule of its own, so that a sentence can break the one that it is about. */
const RULED = definition(
  'ruleds',
  {
    type: 'object',
    properties: {
      plain: text(rules({ rule: "self.startsWith('a')" })),
      word: text(rules({ rule: "self != 'bad'", message: ' must not be bad ', messageExpression: "'is \"' + self + '\"'" })),
      fails: text(rules({ rule: "self != 'bad'", message: 'fallback', messageExpression: "['x'][size(self)]" })),
      empty: text(rules({ rule: "self != 'bad'", message: 'fallback', messageExpression: "''" })),
      forbidden: whole(rules({ rule: 'self < 3', message: 'too much', reason: 'FieldValueForbidden' })),
      required: whole(rules({ rule: 'self < 3', message: 'is needed', reason: 'FieldValueRequired' })),
      duplicate: whole(rules({ rule: 'self < 3', message: 'twice', reason: 'FieldValueDuplicate' })),
      divided: whole(rules({ rule: '10 / self > 1', message: 'big' })),
      indexed: list('atomic', whole(), rules({ rule: 'self[2] > 0', message: 'third' })),
      absent: {
        type: 'object',
        properties: { a: text(), b: text() },
        ...rules({ rule: "self.a != '' && self.b != ''", message: 'both' }, { rule: "!has(self.a) || self.a != 'x'", message: 'no x' }),
      },
      either: {
        'x-kubernetes-int-or-string': true,
        ...rules({ rule: "type(self) == int ? self > 0 : self.endsWith('%')", message: 'count or percent' }),
      },
      untyped: { 'x-kubernetes-int-or-string': true, ...rules({ rule: 'self > 0', message: 'above' }) },
      number: { type: 'number', ...rules({ rule: 'self * 2.0 <= 3.0' }) },
      time: { type: 'string', format: 'date-time', ...rules({ rule: "self > timestamp('2020-01-01T00:00:00Z')", message: 'old' }) },
      duration: { type: 'string', format: 'duration', ...rules({ rule: "self <= duration('1h')", message: 'long' }) },
      dictionary: {
        type: 'object',
        maxProperties: 4,
        additionalProperties: whole({ ...rules({ rule: 'self > 0', message: 'entry' }) }),
        ...rules({ rule: "self.all(key, key.matches('^[a-z]+$'))", message: 'keys' }, { rule: "!('no' in self)", message: 'no no' }),
      },
      items: list(
        'atomic',
        { type: 'object', properties: { 'a-b': whole(), namespace: text() } },
        {
          ...rules(
            { rule: 'self.map(x, has(x.a__dash__b) ? x.a__dash__b : 0).filter(n, n > 0).size() < 3', message: 'few' },
            { rule: "self.exists_one(x, has(x.__namespace__) && x.__namespace__ == 'n')", message: 'one n' },
          ),
        },
      ),
      placed: {
        type: 'object',
        properties: { 'x.y': { type: 'object', properties: { z: whole() } } },
        ...rules({ rule: '!has(self.x__dot__y) || self.x__dot__y.z > 0', message: 'above', fieldPath: "['x.y'].z" }),
      },
      fixed: text(fixed('is fixed')),
      fixedObject: {
        type: 'object',
        'x-kubernetes-preserve-unknown-fields': true,
        properties: { a: text(), list: listMap({ properties: { name: text(), v: whole() } }), set: list('set', text()) },
        ...fixed('object is fixed'),
      },
      keyed: listMap({ properties: { name: text(), v: whole(fixed('v is fixed')) } }),
      grown: list('set', text(), rules({ rule: 'oldSelf.all(x, x in self)', message: 'only grows' })),
      atomic: {
        type: 'object',
        'x-kubernetes-map-type': 'atomic',
        properties: { v: whole(fixed('atomic v is fixed')) },
      },
      optional: whole({
        'x-kubernetes-validations': [
          { rule: 'oldSelf.hasValue() ? self >= oldSelf.value() : self == 0', message: 'begins at 0', optionalOldSelf: true },
        ],
      }),
    },
  },
  {
    properties: { epoch: whole(rules({ rule: 'self >= oldSelf', message: 'never falls' })) },
  },
);

const ruled = (scene: Scene, ...rest: string[]): string => scene.in('rules.io/v1/ruleds', ...rest);
const object = (spec: JsonObject, name = 'a'): JsonObject => ({ apiVersion: 'rules.io/v1', kind: 'Ruled', metadata: { name }, spec });

const BAD: JsonObject[] = [
  { plain: 'b' },
  { word: 'bad' },
  { fails: 'bad' },
  { empty: 'bad' },
  { forbidden: 3 },
  { required: 3 },
  { duplicate: 3 },
  { divided: 20 },
  { divided: 0 },
  { indexed: [1, 2] },
  { indexed: [1, 2, 0] },
  { absent: {} },
  { absent: { a: 'x', b: 'y' } },
  { absent: { b: 'y' } },
  { either: 0 },
  { either: '5' },
  { untyped: 'x' },
  { number: 1.6 },
  { time: '2019-12-31T23:59:59Z' },
  { duration: '61m' },
  { dictionary: { a: 0 } },
  { dictionary: { A: 1 } },
  { dictionary: { no: 1 } },
  { items: [{ 'a-b': 1 }, { 'a-b': 2 }, { 'a-b': 3, namespace: 'n' }] },
  { items: [{ namespace: 'n' }, { namespace: 'n' }] },
  { placed: { 'x.y': { z: 0 } } },
  { placed: { 'x.y': {} } },
  { optional: 1 },
];

const GOOD: JsonObject = {
  plain: 'a',
  word: 'good',
  forbidden: 2,
  divided: 3,
  indexed: [0, 0, 1],
  absent: { a: 'a', b: 'b' },
  either: '5%',
  untyped: 1,
  number: 1.5,
  time: '2021-01-01T00:00:00Z',
  duration: '59m',
  dictionary: { a: 1 },
  items: [{ 'a-b': 1 }, { namespace: 'n' }],
  placed: { 'x.y': { z: 1 } },
  optional: 0,
};

conformance(
  'rules',
  {
    async prepare(api) {
      await define(api, RULED);
    },
  },
  (it) => {
    it('a write that breaks a rule is refused in the words of the rule, at its path', async (scene) => {
      for (const spec of BAD) {
        const { status } = await scene.api.create(ruled(scene), object(spec), { dryRun: 'All' });
        expect([JSON.stringify(spec), status]).toEqual([JSON.stringify(spec), 422]);
      }
      expect((await scene.api.create(ruled(scene), object(GOOD))).status).toBe(201);
      for (const spec of BAD.slice(0, 4)) await scene.api.merge(ruled(scene, 'a'), { spec }, { dryRun: 'All' });
      await scene.api.create(ruled(scene), object({ plain: 'b', forbidden: 3 }, 'b'), { dryRun: 'All' });
    });

    it('rules are not asked of an object whose shape is wrong', async (scene) => {
      await scene.api.create(ruled(scene), object({ plain: 1, forbidden: 3 }), { dryRun: 'All' });
    });

    it('a rule that knows the old value is asked where there is one', async (scene) => {
      const first = {
        fixed: 'x',
        fixedObject: { a: 'a', more: { x: [1] }, list: [{ name: 'a', v: 1 }, { name: 'b' }], set: ['x', 'y'] },
        keyed: [
          { name: 'a', v: 1 },
          { name: 'b', v: 2 },
        ],
        grown: ['x'],
        atomic: { v: 1 },
        optional: 0,
      };
      await scene.unrecorded.create(ruled(scene), object(first));
      const patch = (spec: JsonObject) => scene.api.merge(ruled(scene, 'a'), { spec }, { dryRun: 'All' });
      const refused: JsonObject[] = [
        { fixed: 'y' },
        { fixedObject: { a: 'b' } },
        { fixedObject: { more: { x: [2] } } },
        { fixedObject: { added: 1 } },
        { fixedObject: { list: [{ name: 'a', v: 2 }, { name: 'b' }] } },
        { fixedObject: { set: ['x'] } },
        { keyed: [{ name: 'b', v: 3 }] },
        { grown: ['y'] },
        { atomic: { v: 2 } },
        { optional: -1 },
      ];
      for (const spec of refused) expect([JSON.stringify(spec), (await patch(spec)).status]).toEqual([JSON.stringify(spec), 422]);
      const taken: JsonObject[] = [
        { fixed: null },
        { fixedObject: { list: [{ name: 'b' }, { name: 'a', v: 1 }], set: ['y', 'x'] } },
        { keyed: [{ name: 'c', v: 3 }] },
        { keyed: [{ name: 'b', v: 2 }] },
        { grown: ['y', 'x'] },
        { atomic: {} },
        { optional: 1 },
      ];
      for (const spec of taken) expect([JSON.stringify(spec), (await patch(spec)).status]).toEqual([JSON.stringify(spec), 200]);
    });

    it('every way to write is checked by them', async (scene) => {
      await scene.unrecorded.create(ruled(scene), object({ fixed: 'x' }));
      const path = ruled(scene, 'a');
      const live = (await scene.unrecorded.get(path)).body;
      await scene.api.put(path, { ...live, spec: { fixed: 'y' } });
      await scene.api.merge(path, { spec: { fixed: 'y' } });
      await scene.api.json(path, [{ op: 'replace', path: '/spec/fixed', value: 'y' }]);
      await scene.api.apply(path, object({ fixed: 'y' }), 'm', { force: 'true' });
      await scene.api.apply(ruled(scene, 'b'), object({ plain: 'b' }, 'b'), 'm');
      await scene.unrecorded.merge(`${path}/status`, { status: { epoch: 2 } });
      await scene.api.merge(`${path}/status`, { status: { epoch: 1 } });
      await scene.api.apply(
        `${path}/status`,
        { apiVersion: 'rules.io/v1', kind: 'Ruled', metadata: { name: 'a' }, status: { epoch: 1 } },
        'm',
        { force: 'true' },
      );
      expect(at(await scene.unrecorded.get(path), 'status.epoch')).toBe(2);
    });

    it('what broke a rule before the rule was made may stay while it does not change', async (scene) => {
      const loose = (given: JsonObject) =>
        definition('laters', {
          type: 'object',
          properties: {
            old: text(given),
            other: text(),
            items: list('atomic', {
              type: 'object',
              properties: {
                v: whole(given['x-kubernetes-validations'] === undefined ? {} : rules({ rule: 'self > 0', message: 'above' })),
              },
            }),
            ...(given['x-kubernetes-validations'] === undefined ? {} : { marker: text({ default: 'now' }) }),
          },
        });
      await define(scene.unrecorded, loose({}));
      const path = scene.in('rules.io/v1/laters');
      await scene.unrecorded.create(path, { ...object({ old: 'bad', other: 'x', items: [{ v: 0 }] }), kind: 'Later' });
      const strict = loose(rules({ rule: "self != 'bad'", message: 'must not be bad' }));
      await scene.unrecorded.merge(`${CRDS}/laters.rules.io`, { spec: { versions: (strict['spec'] as JsonObject)['versions'] ?? [] } });
      await scene.until('the new schema', async () => at(await scene.unrecorded.get(`${path}/a`), 'spec.marker') === 'now', 30);
      const kept = await scene.unrecorded.merge(`${path}/a`, { spec: { other: 'y' } });
      // The real server warns in any order.
      scene.see('what is warned of', [kept.status, ...(kept.headers['warning'] ?? '').split(/, (?=299)/).sort()]);
      expect((await scene.api.merge(`${path}/a`, { spec: { items: [{ v: 0 }, { v: 1 }] } })).status).toBe(422);
      expect((await scene.api.merge(`${path}/a`, { spec: { old: 'good' } })).status).toBe(200);
      expect((await scene.api.merge(`${path}/a`, { spec: { old: 'bad' } })).status).toBe(422);
      await scene.unrecorded.remove(`${CRDS}/laters.rules.io`);
    });

    it('a definition whose rules cannot be compiled is refused, with the path', async (scene) => {
      const bad: [string, JsonObject][] = [
        ['a field that is not there', { type: 'object', properties: { a: text() }, ...rules({ rule: 'self.b == 1' }) }],
        ['a field that is not there in has()', { type: 'object', properties: { a: text() }, ...rules({ rule: 'has(self.b)' }) }],
        ['a type that does not fit', { type: 'object', properties: { a: text() }, ...rules({ rule: 'self.a == 1' }) }],
        ['no truth', { type: 'object', properties: { a: text() }, ...rules({ rule: 'self.a' }) }],
        ['no sense', { type: 'object', properties: { a: text() }, ...rules({ rule: 'self.a ==' }) }],
        ['a function that is not there', { type: 'object', properties: { a: text() }, ...rules({ rule: 'self.a.foo()' }) }],
        ['no rule', { type: 'object', properties: { a: text() }, ...rules({ rule: ' ' }) }],
        [
          'metadata that rules may not read',
          { type: 'object', properties: { a: text() }, ...rules({ rule: "self.metadata.namespace == 'a'" }) },
        ],
        ['a place that is not there', { type: 'object', properties: { a: text() }, ...rules({ rule: 'true', fieldPath: '.b' }) }],
        ['a reason that is not there', { type: 'object', properties: { a: text() }, ...rules({ rule: 'true', reason: 'Because' }) }],
        ['a message of two lines', { type: 'object', properties: { a: text() }, ...rules({ rule: 'true', message: 'a\nb' }) }],
        ['a message that is no text', { type: 'object', properties: { a: text() }, ...rules({ rule: 'true', messageExpression: '1' }) }],
        ['old items that cannot be found', { type: 'object', properties: { a: list('atomic', whole(fixed('x'))) } }],
        ['old items of a set', { type: 'object', properties: { a: list('set', text(fixed('x'))) } }],
      ];
      for (const [what, schema] of bad) {
        const answer = await scene.unrecorded.create(CRDS, definition('bads', schema), { dryRun: 'All' });
        const causes = at(answer, 'details.causes');
        const fields = Array.isArray(causes) ? causes.map((cause) => [pick(cause, 'reason') ?? null, pick(cause, 'field') ?? null]) : [];
        scene.see(what, [answer.status, ...fields]);
      }
    });
  },
);
