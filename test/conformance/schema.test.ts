/* oxlint-disable vitest/no-standalone-expect -- every sentence is a test */
import { expect } from 'vitest';
import { WIDGETS } from '@kubenode/embedded/testing';
import { at, pickTable, type Json, type JsonObject, type Scene } from './scene.ts';
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

/** Of each format that the real server knows: texts that have it, and texts that are near it. */
const FORMATS: Record<string, readonly string[]> = {
  'date-time': [
    '2020-02-29T23:59:59Z',
    '2020-01-01t00:00:00.5z',
    '2020-01-01T00:00:00,5+25:61',
    '2020-01-01T00:00:60Z',
    '2020-01-01T24:00:00Z',
    '2021-02-29T00:00:00Z',
    '2020-01-01T00:00:00',
    '2020-01-01',
  ],
  datetime: ['2020-01-01T00:00:00Z', 'noon'],
  date: ['2020-02-29', '2021-02-29', '2020-1-1', '2020-00-10', '2020-04-31', '2020-01-01T00:00:00Z'],
  duration: [
    '1h30m',
    '-1.5h',
    '0',
    '2 days',
    '3 hours and 4 mins',
    '1 frog',
    '',
    '22',
    '5 W',
    '99999999999999999999 s',
    '.5s',
    '1 microseconds',
  ],
  ipv4: ['10.0.0.1', '010.0.0.001', '256.0.0.1', '1.2.3', '1.2.3.4.5', '::ffff:1.2.3.4', '1.2.3.x', '::1'],
  ipv6: ['::1', 'fe80::1%eth0', '::ffff:1.2.3.4', '::ffff:01.2.3.4', '1.2.3.4', '1::2::3', '2001:db8:0:0:0:0:0:1', '12345::'],
  cidr: [
    '10.0.0.0/8',
    '10.0.0.1/33',
    '::/0',
    '::/129',
    '10.0.0.0',
    '10.0.0.0/',
    '10.0.0.0/08',
    '010.0.0.0/8',
    '10.0.0.0/-1',
    'fe80::%x/64',
  ],
  mac: [
    '00:00:5e:00:53:01',
    '00-00-5E-00-53-01',
    '0000.5e00.5301',
    '00:00:5e:00:53',
    '00:00-5e:00:53:01',
    '02:00:5e:10:00:00:00:01',
    '0000.5e00.5301.0001',
  ],
  email: [
    'a@b',
    'A B <a@b.example>',
    '<a@b>',
    '"a b"@c',
    'a@b c',
    'a.@b',
    '.a@b',
    'a..b@c',
    'a b@c',
    '@b',
    'a@',
    'a@[127.0.0.1]',
    'a@b, c@d',
    '"x" <a@b> (c)',
    'ä@ö',
    ' a@b ',
    'a@b.',
  ],
  hostname: [
    'a',
    'a.example',
    'a-b',
    'ab-c',
    'ab-c.example',
    'a.b',
    'a_b.example',
    '-a.example',
    'a.example.',
    'example.123',
    'a'.repeat(64),
    'a'.repeat(65),
    '☃.example',
    '',
  ],
  uri: [
    'http://a/b?c#d',
    '/path',
    'path',
    'urn:a:b',
    'http://',
    'http://a b/',
    'http://a/%zz',
    'http://a:b/',
    'http://[::1]:80/',
    'http://[::1',
    '//a/b',
    ':a',
    '1a:b',
    '*',
    'http://u:p@h/',
    'http://u p@h/',
    'a b:c',
    '',
    'http://a%41/',
    'http://a/\tb',
    'mailto:%zz',
  ],
  uuid: [
    '6ba7b810-9dad-11d1-80b4-00c04fd430c8',
    '6BA7B8109DAD11D180B400C04FD430C8',
    '6ba7b810-9dad-11d1-80b4-00c04fd430cg',
    '{6ba7b810-9dad-11d1-80b4-00c04fd430c8}',
  ],
  uuid3: ['6ba7b810-9dad-31d1-80b4-00c04fd430c8', '6ba7b810-9dad-11d1-80b4-00c04fd430c8'],
  uuid4: ['6ba7b810-9dad-41d1-80b4-00c04fd430c8', '6ba7b810-9dad-41d1-c0b4-00c04fd430c8'],
  uuid5: ['6ba7b810-9dad-51d1-80b4-00c04fd430c8', '6ba7b810-9dad-51d1-00b4-00c04fd430c8'],
  byte: ['eQ==', 'eQ=', '', 'eHl6', 'eQ==\n', '-_=='],
  bsonobjectid: ['507f1f77bcf86cd799439011', '507f1f77bcf86cd79943901'],
  isbn: ['0321751043', '978-0321751041', '978-0321751042'],
  isbn10: ['0321751043', '0-321-75104-3', '0321751044', '080442957X'],
  isbn13: ['978-0321751041', '0321751043'],
  creditcard: ['4111 1111 1111 1111', '4111 1111 1111 1112', '5105105105105100'],
  ssn: ['111-11-1111', '111111111', '111 11 111'],
  hexcolor: ['#FFFFFF', 'abc', '#abcd'],
  rgbcolor: ['rgb(255, 255,0)', 'rgb(256,0,0)', 'rgb(0,0)'],
  password: [''],
  'k8s-short-name': ['a-b', 'a.b', 'A', 'a'.repeat(64)],
  'k8s-long-name': ['a.b-c', 'a..b', `${'a'.repeat(70)}.b`, 'A'],
  'micro-time': ['noon'],
  int32: ['x'],
  frog: ['x'],
};

const formatted = (format: string): string => `f${format.replaceAll(/[^a-z0-9]/g, '')}`;

const FORMATTED = definition(
  'formatteds',
  spec({
    ...Object.fromEntries(Object.keys(FORMATS).map((format) => [formatted(format), { type: 'string', format }])),
    small: { type: 'integer', format: 'int32' },
    real: { type: 'number', format: 'float' },
    either: { 'x-kubernetes-int-or-string': true, format: 'date' },
  }),
);

const EMBEDDEDS = definition(
  'embeddeds',
  spec({
    one: { type: 'object', 'x-kubernetes-embedded-resource': true, 'x-kubernetes-preserve-unknown-fields': true },
    closed: {
      type: 'object',
      'x-kubernetes-embedded-resource': true,
      properties: { spec: { type: 'object', properties: { a: { type: 'string' } } } },
    },
    list: {
      type: 'array',
      items: { type: 'object', 'x-kubernetes-embedded-resource': true, 'x-kubernetes-preserve-unknown-fields': true },
    },
    map: {
      type: 'object',
      additionalProperties: { type: 'object', 'x-kubernetes-embedded-resource': true, 'x-kubernetes-preserve-unknown-fields': true },
    },
  }),
);

const SIZED = definition(
  'sizeds',
  {
    type: 'object',
    properties: {
      spec: {
        type: 'object',
        properties: { size: { type: 'object', properties: { replicas: { type: 'integer' } } }, other: { type: 'string' } },
      },
      status: { type: 'object', properties: { replicas: { type: 'integer' }, selector: { type: 'string' } } },
    },
  },
  {
    subresources: {
      status: {},
      scale: { specReplicasPath: '.spec.size.replicas', statusReplicasPath: '.status.replicas', labelSelectorPath: '.status.selector' },
    },
  },
);

const things = (scene: Scene, ...rest: string[]): string => scene.in('schema.io/v1/things', ...rest);

conformance(
  'schema',
  {
    async prepare(api) {
      await defineWidgets(api);
      for (const made of [THINGS, FORMATTED, EMBEDDEDS, SIZED]) await define(api, made);
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

    it('a string has the format that its schema names, where the format is known', async (scene) => {
      const path = scene.in('schema.io/v1/formatteds');
      const object = (value: JsonObject): JsonObject => ({
        apiVersion: 'schema.io/v1',
        kind: 'Formatted',
        metadata: { name: 'a' },
        spec: value,
      });
      for (const [format, values] of Object.entries(FORMATS)) {
        const taken: string[] = [];
        const words: Json[] = [];
        for (const value of values) {
          const made = await scene.unrecorded.create(path, object({ [formatted(format)]: value }), { dryRun: 'All' });
          if (made.status === 201) taken.push(value);
          else words.push(made.status, at(made, 'message') ?? null);
        }
        scene.see(format, { taken, words });
      }
      expect((await scene.api.create(path, object({ small: 4294967296, real: 1e300 }), { dryRun: 'All' })).status).toBe(201);
      expect((await scene.api.create(path, object({ either: 'noon' }), { dryRun: 'All' })).status).toBe(422);
      await scene.api.create(path, object({ either: 7 }), { dryRun: 'All' });
      const unfit = definition('unfits', spec({ a: { type: 'string', format: 'ipv4', default: 'none' } }));
      expect((await scene.unrecorded.create(CRDS, unfit, { dryRun: 'All' })).status).toBe(422);
    });

    it('a whole object inside another has a type, a kind and metadata that can be', async (scene) => {
      const path = scene.in('schema.io/v1/embeddeds');
      const object = (name: string, value: JsonObject): JsonObject => ({
        apiVersion: 'schema.io/v1',
        kind: 'Embedded',
        metadata: { name },
        spec: value,
      });
      const type = { apiVersion: 'v1', kind: 'Pod' };
      const values: JsonObject[] = [
        { one: {} },
        { one: { apiVersion: 'v1' } },
        { one: { kind: 'Pod' } },
        { one: { apiVersion: '', kind: '' } },
        { one: { apiVersion: 'a/b/c', kind: 'Pod' } },
        { one: { apiVersion: 'a/', kind: 'Pod' } },
        { one: { apiVersion: 'v1', kind: 'a b' } },
        { one: { apiVersion: 1, kind: 'Pod' } },
        { one: { apiVersion: 'v1', kind: ['Pod'] } },
        { one: { ...type, metadata: {} } },
        { one: { ...type, metadata: { name: 'a/b' } } },
        { one: { ...type, metadata: { name: 'A_b', namespace: 'A' } } },
        { one: { ...type, metadata: { labels: { 'a b': 'c d' }, annotations: { 'x y': 'z' } } } },
        { one: { ...type, metadata: { finalizers: ['a b'], ownerReferences: [{ apiVersion: 'v1', kind: 'Pod', name: 'x', uid: '' }] } } },
        { one: { ...type, metadata: { generateName: 'a/' } } },
        { closed: { spec: { a: 'x' } } },
        { closed: { ...type, spec: { a: 1 } } },
        { list: [{ ...type }, { kind: 'Pod' }] },
        { map: { k: { apiVersion: 'v1' }, 'l.m': { ...type, metadata: { name: 'a/b' } } } },
      ];
      for (const value of values) await scene.api.create(path, object('a', value), { dryRun: 'All' });
      for (const metadata of ['x', { name: 1 }, { labels: ['a'] }, { labels: { a: 1 } }]) {
        const made = await scene.unrecorded.create(path, object('a', { one: { ...type, metadata } }), { dryRun: 'All' });
        scene.see(`metadata ${JSON.stringify(metadata)}`, made.status);
      }
      const made = await scene.api.create(
        path,
        object('b', {
          one: { ...type, metadata: { name: 'x', frog: 1, creationTimestamp: null }, more: { a: 1 } },
          closed: { ...type, metadata: { labels: { a: 'b' } }, more: 1 },
        }),
      );
      expect(at(made, 'spec.closed')).toEqual({ ...type, metadata: { labels: { a: 'b' } } });
      await scene.api.merge(`${path}/b`, { spec: { one: { kind: null } } });
      await scene.api.apply(`${path}/b`, object('b', { one: { apiVersion: 'v1', metadata: { name: 'y' } } }), 'm', { force: 'true' });
    });

    it('a Scale can be written, and not read, where the object has no size', async (scene) => {
      const path = scene.in('schema.io/v1/sizeds');
      const object = (name: string, value: JsonObject): JsonObject => ({
        apiVersion: 'schema.io/v1',
        kind: 'Sized',
        metadata: { name },
        spec: value,
      });
      await scene.unrecorded.create(path, object('a', { other: 'x' }));
      expect((await scene.api.get(`${path}/a/scale`)).status).toBe(500);
      expect((await scene.api.merge(`${path}/a/scale`, { metadata: { labels: { a: 'b' } } })).status).toBe(400);
      await scene.api.merge(`${path}/a/scale`, {});
      await scene.api.send('PATCH', `${path}/a/scale`, [{ op: 'test', path: '/spec/replicas', value: 1 }], 'application/json-patch+json');
      const put = { apiVersion: 'autoscaling/v1', kind: 'Scale', metadata: { name: 'a' }, spec: {} };
      expect((await scene.api.put(`${path}/a/scale`, put)).status).toBe(200);
      await scene.api.get(`${path}/a/scale`);
      await scene.api.get(`${path}/a`);
      await scene.unrecorded.create(path, object('b', {}));
      expect((await scene.api.merge(`${path}/b/scale`, { spec: { replicas: 3 } })).status).toBe(200);
      await scene.unrecorded.create(path, object('c', {}));
      expect((await scene.api.put(`${path}/c/scale`, { ...put, metadata: { name: 'c' }, spec: { replicas: -2_147_483_648 } })).status).toBe(
        400,
      );
      await scene.api.send(
        'PATCH',
        `${path}/c/scale`,
        [{ op: 'replace', path: '/spec/replicas', value: 2 }],
        'application/json-patch+json',
      );
      await scene.unrecorded.merge(`${path}/c/status`, { status: { selector: '' } });
      await scene.api.get(`${path}/c/scale`);
      await scene.unrecorded.merge(`${path}/c/status`, { status: { replicas: 2, selector: 'a=b' } });
      await scene.api.get(`${path}/c/scale`);
      await scene.api.get(`${path}/none/scale`);
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
      await define(scene.unrecorded, loose);
      const object = { apiVersion: 'schema.io/v1', kind: 'Ratchet', metadata: { name: 'a' }, spec: { old: 'UPPER', other: 'x' } };
      const path = scene.in('schema.io/v1/ratchets');
      await scene.unrecorded.create(path, object);
      await scene.unrecorded.merge(`${CRDS}/${name}.schema.io`, {
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
      await scene.until('the new schema', async () => at(await scene.unrecorded.get(`${path}/a`), 'spec.added') === 'now', 30);
      expect(at(await scene.api.get(`${path}/a`), 'spec.added')).toBe('now');
      expect((await scene.api.merge(`${path}/a`, { spec: { other: 'y' } })).status).toBe(200);
      expect((await scene.api.merge(`${path}/a`, { spec: { old: 'STILL' } })).status).toBe(422);
      expect((await scene.api.create(path, { ...object, metadata: { name: 'b' } })).status).toBe(422);
    });

    it('a definition reports what is wrong with it', async (scene) => {
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
      const live = await scene.unrecorded.get(`${CRDS}/widgets.example.io`);
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
      await scene.unrecorded.create(CRDS, twin);
      const live = await scene.until('its conditions', async () => {
        const found = await scene.unrecorded.get(`${CRDS}/${name}`);
        const conditions = at(found, 'status.conditions');
        return Array.isArray(conditions) && conditions.length >= 2 ? found : undefined;
      });
      scene.see('conditions', pickTable(at(live, 'status.conditions'), ['type', 'status', 'reason', 'message']));
      await scene.unrecorded.remove(`${CRDS}/${name}`);
      await scene.gone(`${CRDS}/${name}`);
      await scene.api.get(scene.in(WIDGET));
    });

    it(
      'a definition that is deleted takes its objects with it',
      async (scene) => {
        await define(scene.unrecorded, definition('doomeds', spec({ a: { type: 'string' } })));
        const path = scene.in('schema.io/v1/doomeds');
        await scene.unrecorded.create(path, { apiVersion: 'schema.io/v1', kind: 'Doomed', metadata: { name: 'a' }, spec: { a: 'x' } });
        const watch = await scene.watch(path);
        await scene.take(watch, 1);
        await scene.unrecorded.remove(`${CRDS}/doomeds.schema.io`);
        expect((await scene.take(watch, 1))[0]?.type).toBe('DELETED');
        await scene.gone(`${CRDS}/doomeds.schema.io`);
        await scene.until('the path is gone', async () => (await scene.unrecorded.get(path)).status === 404);
        await scene.api.get(path);
      },
      { within: 60 },
    );

    it('versions of a kind share their objects', async (scene) => {
      const two = definition('twos', spec({ a: { type: 'string' } }));
      const versions = (two['spec'] as JsonObject)['versions'] as JsonObject[];
      versions.push({ ...versions[0], name: 'v2', storage: false, deprecated: true, deprecationWarning: 'v2 is going' });
      await define(scene.unrecorded, two);
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

    it('widgets keep what their schema declares', async (scene) => {
      await scene.api.create(scene.in(WIDGET), widget('a', { color: 'red', free: { x: [1, 'y', null] }, size: '5%', labels: { a: 'b' } }));
    });
  },
);
