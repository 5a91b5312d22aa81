/* oxlint-disable vitest/no-standalone-expect -- every sentence is a test */
import { expect } from 'vitest';
import { WIDGETS } from '../../src/embedded/testing/widgets.ts';
import { at, pickTable, type JsonObject, type Scene } from './scene.ts';
import { conformance } from './suite.ts';
import { define, defineWidgets, WIDGET, widget } from './widgets.ts';

const CRDS = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';

const definition = (plural: string, schema: JsonObject, version: JsonObject = {}, spec: JsonObject = {}): JsonObject => ({
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: `${plural}.schema.io` },
  spec: {
    group: 'schema.io',
    scope: 'Namespaced',
    names: {
      plural,
      singular: plural.slice(0, -1),
      kind: plural[0]?.toUpperCase() + plural.slice(1, -1),
      listKind: `${plural[0]?.toUpperCase()}${plural.slice(1, -1)}List`,
    },
    versions: [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: schema }, ...version }],
    ...spec,
  },
});

const spec = (properties: JsonObject, more: JsonObject = {}): JsonObject => ({
  type: 'object',
  properties: { spec: { type: 'object', properties, ...more } },
});

const thing = (name: string, body: JsonObject): JsonObject => ({ apiVersion: 'schema.io/v1', kind: 'Thing', metadata: { name }, ...body });

const THINGS = definition(
  'things',
  spec({
    plain: { type: 'string' },
    nullable: { type: 'string', nullable: true },
    nullDefault: { type: 'string', nullable: true, default: 'x' },
    defaulted: {
      type: 'object',
      default: { deep: 'a' },
      properties: { deep: { type: 'string', default: 'b' }, more: { type: 'string', default: 'c' } },
    },
    nested: { type: 'object', properties: { deep: { type: 'string', default: 'b' } } },
    list: { type: 'array', items: { type: 'object', properties: { x: { type: 'integer', default: 7 } } } },
    either: { 'x-kubernetes-int-or-string': true },
    free: {
      type: 'object',
      'x-kubernetes-preserve-unknown-fields': true,
      properties: { known: { type: 'object', properties: { a: { type: 'string' } } } },
    },
    embedded: {
      type: 'object',
      'x-kubernetes-embedded-resource': true,
      properties: { spec: { type: 'object', properties: { a: { type: 'string' } } } },
    },
    dictionary: {
      type: 'object',
      additionalProperties: { type: 'object', properties: { a: { type: 'string', default: 'd' } } },
      maxProperties: 2,
    },
    bounded: { type: 'integer', minimum: 1, maximum: 5, exclusiveMaximum: true, multipleOf: 2 },
    text: { type: 'string', minLength: 2, maxLength: 4, pattern: '^[a-z]+$' },
    time: { type: 'string', format: 'date-time' },
    bytes: { type: 'string', format: 'byte' },
    number: { type: 'number' },
    flag: { type: 'boolean' },
    choice: { type: 'string', enum: ['a', 'b'] },
    logic: { type: 'integer', oneOf: [{ minimum: 10 }, { maximum: 3 }], not: { enum: [11] } },
    atomic: { type: 'array', items: { type: 'string' }, maxItems: 2, minItems: 1 },
    unique: { type: 'array', 'x-kubernetes-list-type': 'set', items: { type: 'integer' } },
    map: {
      type: 'array',
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['name', 'protocol'],
      items: {
        type: 'object',
        required: ['name'],
        properties: { name: { type: 'string' }, protocol: { type: 'string', default: 'TCP' }, value: { type: 'string' } },
      },
    },
  }),
);

const things = (scene: Scene, ...rest: string[]): string => scene.in('schema.io/v1/things', ...rest);

conformance(
  'schema',
  {
    async prepare(api) {
      await defineWidgets(api);
      await define(api, THINGS);
    },
  },
  (it) => {
    it('defaults are filled after fields that are not known were dropped', async (scene) => {
      const made = await scene.api.create(
        things(scene),
        thing('a', { spec: { defaulted: {}, nested: {}, list: [{}, { y: 1 }], dictionary: { k: {} } } }),
      );
      expect(at(made, 'spec')).toEqual({
        nullDefault: 'x',
        defaulted: { deep: 'b', more: 'c' },
        nested: { deep: 'b' },
        list: [{ x: 7 }, { x: 7 }],
        dictionary: { k: { a: 'd' } },
      });
      await scene.api.create(things(scene), thing('b', { spec: {} }));
      await scene.api.create(things(scene), thing('c', {}));
      await scene.api.create(things(scene), thing('d', { spec: { map: [{ name: 'x' }, { name: 'x', protocol: 'UDP' }] } }));
      await scene.api.create(things(scene), thing('e', { spec: { map: [{ name: 'x' }, { name: 'x', protocol: 'TCP' }] } }));
    });

    it('null is kept where it is allowed, gives way to a default, and is dropped or refused elsewhere', async (scene) => {
      await scene.api.create(things(scene), thing('a', { spec: { nullable: null, nullDefault: null } }));
      await scene.api.create(things(scene), thing('b', { spec: { plain: null } }));
      await scene.api.create(things(scene), thing('c', { spec: { defaulted: null, nested: null, list: null } }));
      await scene.api.create(things(scene), thing('d', { spec: { defaulted: { deep: null } } }));
      await scene.api.create(things(scene), thing('e', { spec: null }));
      await scene.api.create(things(scene), thing('f', { spec: { list: [null] } }));
      await scene.api.create(things(scene), thing('g', { metadata: { name: 'g', labels: null, annotations: null, finalizers: null } }));
    });

    it('values are checked, all of them, with their paths', async (scene) => {
      const bad: JsonObject[] = [
        { plain: 1 },
        { plain: ['x'] },
        { flag: 'true' },
        { number: '1' },
        { either: 1.5 },
        { either: true },
        { bounded: 0 },
        { bounded: 5 },
        { bounded: 3 },
        { text: 'a' },
        { text: 'abcde' },
        { text: 'AB' },
        { time: 'noon' },
        { bytes: '***' },
        { choice: 'c' },
        { logic: 5 },
        { logic: 11 },
        { atomic: [] },
        { atomic: ['a', 'b', 'c'] },
        { atomic: 'a' },
        { atomic: { a: 1 } },
        { unique: [1, 2, 1] },
        { map: [{ name: 'a' }, { name: 'a', value: 'x' }] },
        { map: [{ protocol: 'TCP' }] },
        { dictionary: { a: {}, b: {}, c: {} } },
        { dictionary: { a: { a: 1 } } },
        { nested: 'x' },
        { nested: [] },
        { list: [1] },
        { plain: 1, choice: 'c', text: 'A' },
        { embedded: { apiVersion: 'v1', kind: 'X', metadata: { name: 'A_b' } } },
        { embedded: { spec: { a: 'x' } } },
      ];
      for (const value of bad) {
        await scene.api.create(things(scene), thing('a', { spec: value }), { dryRun: 'All' });
      }
    });

    it('what is good stays as it was written', async (scene) => {
      const good: JsonObject = {
        either: '25%',
        bounded: 4,
        text: 'abc',
        time: '2020-01-01T00:00:00+02:00',
        number: 1.5,
        flag: false,
        logic: 2,
        unique: [3, 1, 2],
        free: { any: [1, { thing: null }], known: { a: 'x', dropped: 1 } },
        embedded: { apiVersion: 'v1', kind: 'X', metadata: { name: 'ok', labels: { a: 'b' }, bogus: 1 }, spec: { a: 'x', b: 'dropped' } },
      };
      const made = await scene.api.create(things(scene), thing('a', { spec: good }));
      expect(made.status).toBe(201);
      await scene.api.get(things(scene, 'a'));
      await scene.api.create(things(scene), thing('b', { spec: { either: 7, number: 3, bounded: 4 } }));
      await scene.api.create(things(scene), thing('c', { spec: { number: 1e21, free: { big: 1e19 } } }));
    });

    it('a value that was allowed once may stay while it does not change', async (scene) => {
      const name = 'ratchets';
      const loose = definition(name, spec({ old: { type: 'string' }, other: { type: 'string' } }));
      await define(scene.quiet, loose);
      const object = { apiVersion: 'schema.io/v1', kind: 'Ratchet', metadata: { name: 'a' }, spec: { old: 'UPPER', other: 'x' } };
      const path = scene.in('schema.io/v1/ratchets');
      await scene.quiet.create(path, object);
      await scene.quiet.merge(`${CRDS}/${name}.schema.io`, {
        spec: {
          versions: [
            {
              name: 'v1',
              served: true,
              storage: true,
              schema: {
                openAPIV3Schema: spec({
                  old: { type: 'string', pattern: '^[a-z]+$' },
                  other: { type: 'string' },
                  added: { type: 'string', default: 'now' },
                }),
              },
            },
          ],
        },
      });
      await scene.until('the new schema', async () => at(await scene.quiet.get(`${path}/a`), 'spec.added') === 'now', 30);
      expect(at(await scene.api.get(`${path}/a`), 'spec.added')).toBe('now');
      expect((await scene.api.merge(`${path}/a`, { spec: { other: 'y' } })).status).toBe(200);
      expect((await scene.api.merge(`${path}/a`, { spec: { old: 'STILL' } })).status).toBe(422);
      expect((await scene.api.create(path, { ...object, metadata: { name: 'b' } })).status).toBe(422);
    });

    it('a definition says what is wrong with it', async (scene) => {
      const string = { type: 'string' };
      const bad: JsonObject[] = [
        { ...definition('bads', spec({ a: string })), metadata: { name: 'wrong.schema.io' } },
        definition('bads', { type: 'string' }),
        definition('bads', { type: 'object', properties: { spec: { properties: { a: string } } } }),
        definition('bads', spec({ a: { type: 'array' } })),
        definition('bads', spec({ a: { type: 'array', items: string, 'x-kubernetes-list-type': 'map' } })),
        definition(
          'bads',
          spec({ a: { type: 'array', items: { type: 'object' }, 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['x'] } }),
        ),
        definition('bads', spec({ a: { type: 'array', items: { type: 'object' }, 'x-kubernetes-list-type': 'set' } })),
        definition('bads', spec({ a: { type: 'string', default: 1 } })),
        definition('bads', spec({ a: { type: 'object', properties: { b: string }, additionalProperties: string } })),
        definition('bads', spec({ a: { type: 'frog' } })),
        definition('bads', spec({ a: { $ref: '#/x' } })),
        definition('bads', spec({ a: { type: 'string', pattern: '(' } })),
        definition('bads', spec({ a: string }), { storage: false }),
        definition('bads', spec({ a: string }), { name: 'V1' }),
        definition('bads', spec({ a: string }), {}, { scope: 'Galaxy' }),
        definition('bads', spec({ a: string }), {}, { versions: [] }),
        definition('bads', spec({ a: string }), { additionalPrinterColumns: [{ name: 'X', type: 'frog', jsonPath: 'x' }] }),
        definition('bads', spec({ a: string }), { selectableFields: [{ jsonPath: '.spec.none' }] }),
        definition('bads', spec({ a: string }), {
          subresources: { scale: { specReplicasPath: '.status.x', statusReplicasPath: '.spec.y' } },
        }),
        { apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition', metadata: { name: 'bads.schema.io' }, spec: {} },
      ];
      for (const crd of bad) {
        await scene.api.create(CRDS, crd, { dryRun: 'All' });
      }
    });

    it('a definition gets defaults, names and conditions, and some of it cannot change', async (scene) => {
      const made = await scene.api.create(CRDS, definition('gets', spec({ a: { type: 'string' } })), { dryRun: 'All' });
      expect(made.status).toBe(201);
      const live = await scene.quiet.get(`${CRDS}/widgets.example.io`);
      scene.see('conditions', pickTable(at(live, 'status.conditions'), ['type', 'status', 'reason', 'message']));
      scene.see('accepted', at(live, 'status.acceptedNames') ?? null);
      scene.see('stored', at(live, 'status.storedVersions') ?? null);
      await scene.api.merge(`${CRDS}/widgets.example.io`, { spec: { scope: 'Cluster' } }, { dryRun: 'All' });
      await scene.api.merge(`${CRDS}/widgets.example.io`, { spec: { group: 'other.io' } }, { dryRun: 'All' });
      await scene.api.merge(`${CRDS}/widgets.example.io`, { spec: { names: { kind: 'Gadget' } } }, { dryRun: 'All' });
    });

    it('a definition whose names are taken is not established', async (scene) => {
      const twin = structuredClone(WIDGETS);
      const name = 'gadgets.example.io';
      Object.assign(twin['metadata'] as JsonObject, { name });
      Object.assign((twin['spec'] as JsonObject)['names'] as JsonObject, { plural: 'gadgets', singular: 'gadget' });
      await scene.quiet.create(CRDS, twin);
      const live = await scene.until('its conditions', async () => {
        const found = await scene.quiet.get(`${CRDS}/${name}`);
        const conditions = at(found, 'status.conditions');
        return Array.isArray(conditions) && conditions.length >= 2 ? found : undefined;
      });
      scene.see('conditions', pickTable(at(live, 'status.conditions'), ['type', 'status', 'reason', 'message']));
      await scene.quiet.remove(`${CRDS}/${name}`);
      await scene.gone(`${CRDS}/${name}`);
      await scene.api.get(scene.in(WIDGET));
    });

    it(
      'a definition that is deleted takes its objects with it',
      async (scene) => {
        await define(scene.quiet, definition('doomeds', spec({ a: { type: 'string' } })));
        const path = scene.in('schema.io/v1/doomeds');
        await scene.quiet.create(path, { apiVersion: 'schema.io/v1', kind: 'Doomed', metadata: { name: 'a' }, spec: { a: 'x' } });
        const watch = await scene.watch(path);
        await scene.take(watch, 1);
        await scene.quiet.remove(`${CRDS}/doomeds.schema.io`);
        expect((await scene.take(watch, 1))[0]?.type).toBe('DELETED');
        await scene.gone(`${CRDS}/doomeds.schema.io`);
        await scene.until('the path is gone', async () => (await scene.quiet.get(path)).status === 404);
        await scene.api.get(path);
      },
      { within: 60 },
    );

    it('versions of a kind share their objects', async (scene) => {
      const two = definition('twos', spec({ a: { type: 'string' } }));
      const versions = (two['spec'] as JsonObject)['versions'] as JsonObject[];
      versions.push({ ...versions[0], name: 'v2', storage: false, deprecated: true, deprecationWarning: 'v2 is going' });
      await define(scene.quiet, two);
      await scene.api.create(scene.in('schema.io/v1/twos'), {
        apiVersion: 'schema.io/v1',
        kind: 'Two',
        metadata: { name: 'a' },
        spec: { a: 'x' },
      });
      const other = await scene.api.get(scene.in('schema.io/v2/twos', 'a'));
      expect([other.body['apiVersion'], other.headers['warning']]).toEqual(['schema.io/v2', '299 - "v2 is going"']);
      await scene.api.apply(
        scene.in('schema.io/v2/twos', 'a'),
        { apiVersion: 'schema.io/v2', kind: 'Two', metadata: { name: 'a' }, spec: { a: 'y' } },
        'm',
        { force: 'true' },
      );
      await scene.api.get(scene.in('schema.io/v1/twos'));
    });

    it('widgets keep what their schema says', async (scene) => {
      await scene.api.create(scene.in(WIDGET), widget('a', { color: 'red', free: { x: [1, 'y', null] }, size: '5%', labels: { a: 'b' } }));
    });
  },
);
