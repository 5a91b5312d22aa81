import { describe, expect, it } from 'vitest';
import { decode, MAX_DEPTH } from './decode.ts';
import { isVerdict, RenderError } from './errors.ts';
import { findingText } from './finding.ts';

const good = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'web' } };
const hub = { apiVersion: 'kubenode.io/v1alpha1', kind: 'Cluster', metadata: { name: 'prod' } };
const rendered = (objects: unknown[], more: object = {}, whole: object = {}) =>
  decode(
    JSON.stringify({
      ok: true,
      unsigned: [],
      clusters: [{ name: 'prod', object: hub, location: 'fleet/main.ts:1:1', objects, ...more }],
      ...whole,
    }),
  );
const one = (object: unknown) => rendered([{ object, location: 'fleet/a.ts:2:3', path: 'a/b' }]);

describe('what a child wrote', () => {
  it('is clusters with their objects, each with its location', () => {
    expect(one(good)).toEqual({
      clusters: [
        {
          name: 'prod',
          object: hub,
          location: 'fleet/main.ts:1:1',
          objects: [{ object: good, location: 'fleet/a.ts:2:3', constructPath: 'a/b' }],
        },
      ],
      findings: [],
      unsigned: [],
    });
  });

  it.each<[string, string]>([
    ['no JSON', '{'],
    ['no object', '[]'],
    ['nothing', 'null'],
    ['no answer', '{}'],
    ['a refusal without findings', '{"ok":false}'],
    ['a refusal with none', '{"ok":false,"findings":[]}'],
    ['a refusal with findings that are none', '{"ok":false,"findings":[3]}'],
    ['findings of something else', '{"ok":"false","findings":[{"code":"X"}]}'],
    ['no clusters', '{"ok":true,"unsigned":[]}'],
    ['no unsigned', '{"ok":true,"clusters":[]}'],
    ['an answer that is neither', '{"ok":1,"clusters":[],"unsigned":[]}'],
    ['a cluster that is none', '{"ok":true,"unsigned":[],"clusters":[3]}'],
    ['a cluster without a name', '{"ok":true,"unsigned":[],"clusters":[{"objects":[]}]}'],
    ['a cluster without objects', '{"ok":true,"unsigned":[],"clusters":[{"name":"prod"}]}'],
    ['an object that is none', '{"ok":true,"unsigned":[],"clusters":[{"name":"prod","objects":[3]}]}'],
  ])('is nothing where it is %s', (_, text) => {
    expect(decode(text)).toBeUndefined();
  });

  it('may be that no cluster is there', () => {
    expect(decode('{"ok":true,"unsigned":[],"clusters":[]}')).toEqual({ clusters: [], findings: [], unsigned: [] });
  });

  it.each<[string, unknown]>([
    ['no metadata', { apiVersion: 'v1', kind: 'Namespace' }],
    ['no apiVersion', { ...good, apiVersion: undefined }],
    ['an empty kind', { ...good, kind: '' }],
    ['a name that is no text', { ...good, metadata: { name: 3 } }],
    ['a namespace that is no text', { ...good, metadata: { name: 'web', namespace: 3 } }],
    ['nothing in it', null],
    ['a list instead of it', [good]],
  ])('is refused with its location where an object has %s', (_, object) => {
    const found = one(object);
    expect(found?.clusters[0]?.objects).toEqual([]);
    expect(found?.findings).toMatchObject([
      {
        code: 'RenderValue',
        cluster: 'prod',
        file: 'fleet/a.ts',
        line: 2,
        column: 3,
        message: 'must have text in `apiVersion`, `kind` and `metadata.name`',
      },
    ]);
  });

  it('is refused where the object of a cluster is none, and then that cluster is left out', () => {
    expect(rendered([], { object: {} })).toMatchObject({
      clusters: [],
      findings: [{ code: 'RenderValue', file: 'fleet/main.ts', line: 1 }],
    });
  });

  it('is refused where it contains what no server would take', () => {
    const message = (spec: unknown) => one({ ...good, spec })?.findings.map((each) => each.message);
    const nested = (levels: number): unknown => (levels === 0 ? {} : { a: nested(levels - 1) });
    // The object itself is the first level.
    expect(message(nested(MAX_DEPTH - 1))).toEqual([]);
    expect(message(nested(MAX_DEPTH))).toEqual([`must not be nested deeper than ${MAX_DEPTH}`]);
    expect(message([null])).toEqual(['must not have null in a list']);
    expect(message({ a: null, b: [{ c: null }] })).toEqual([]);
    const polluted = JSON.parse('{"__proto__":{"x":1}}') as unknown;
    const text = JSON.stringify({
      ok: true,
      unsigned: [],
      clusters: [{ name: 'prod', object: hub, objects: [{ object: { ...good, spec: 'SPEC' } }] }],
    });
    expect(decode(text.replace('"SPEC"', JSON.stringify(polluted)))?.findings).toMatchObject([
      { message: 'must not have a key "__proto__"' },
    ]);
  });

  it('is one line that a terminal can show, wherever it reports something', () => {
    const evil = 'a\u001b[31m\n\u202eb';
    const found = rendered([{ object: good, location: evil, path: evil }], { name: evil, location: evil });
    expect(found?.clusters).toMatchObject([
      { name: 'a [31m b', location: 'a [31m b', objects: [{ location: 'a [31m b', constructPath: 'a [31m b' }] },
    ]);
    const long = rendered([{ object: good, location: 'x'.repeat(2000) }]);
    expect(long?.clusters[0]?.objects[0]).toMatchObject({ location: 'x'.repeat(1000), constructPath: 'undefined' });
    expect(rendered([{ object: good, location: 3 }])?.clusters[0]?.objects[0]?.location).toBe('');
  });
});

describe('a finding of a child', () => {
  const refused = (...findings: unknown[]) => decode(JSON.stringify({ ok: false, findings }))?.findings;
  it('is what it reports, where it reports something that can be', () => {
    const whole = { code: 'RenderThrew', message: 'm', file: 'a.ts', line: 1, column: 2, cluster: 'c', object: 'o', path: 'p', next: 'n' };
    expect(refused({ ...whole, trace: ['a', 3, 'b', 'c', 'd', 'e', 'f'] })).toEqual([{ ...whole, trace: ['a', 'b', 'c', 'd', 'e'] }]);
    expect(refused({})).toEqual([{ code: 'RenderThrew', message: '' }]);
    expect(refused({ code: 3, message: 3, file: 3, line: '1', column: 1.5, trace: 'x' })).toEqual([{ code: 'RenderThrew', message: '' }]);
    expect(refused({ line: 2 ** 60, column: 0 })?.[0]).toMatchObject({ line: undefined, column: 0 });
  });

  it('is one of at most a thousand, and of those that are none nothing is kept', () => {
    expect(refused(3, { message: 'a' }, null)).toMatchObject([{ message: 'a' }]);
    expect(refused(...Array.from({ length: 1200 }, () => ({})))).toHaveLength(1000);
  });

  it('may report what is not signed', () => {
    expect(rendered([], {}, { unsigned: [{ code: 'X', message: 'y' }] })?.unsigned).toMatchObject([{ code: 'X', message: 'y' }]);
  });
});

describe('a rendering that gave nothing', () => {
  const threw = { code: 'RenderThrew', message: 'it threw', next: 'check there' };
  it('reports the first finding, and how many more there are', () => {
    expect(new RenderError([threw])).toMatchObject({
      code: 'RenderThrew',
      message: 'it threw',
      next: 'check there',
      log: '',
      verdict: true,
    });
    const cause = new Error('x');
    const many = new RenderError([{ code: 'RenderTimeout', message: 'slow' }, threw, threw], { log: 'l', isolation: 'process', cause });
    expect(many).toMatchObject({ name: 'RenderError', findings: [{ code: 'RenderTimeout' }, threw, threw] });
    expect(many).toMatchObject({ message: 'slow (and 2 more)', next: undefined, log: 'l', isolation: 'process', cause, verdict: false });
  });

  it('judges the content only where every finding does', () => {
    const verdict = (...codes: string[]) => isVerdict(codes.map((code) => ({ code, message: '' })));
    expect([verdict('RenderThrew'), verdict('RenderThrew', 'RenderMemory'), verdict('OfAConstruct'), verdict()]).toEqual([
      true,
      false,
      true,
      true,
    ]);
  });
});

it('a finding in one line has its location, its object and its field, as far as they are known', () => {
  const text = (more: object) => findingText({ code: 'X', message: 'm', ...more });
  expect([text({}), text({ file: 'a.ts' }), text({ file: 'a.ts', line: 3 }), text({ file: 'a.ts', line: 3, column: 4 })]).toEqual([
    'm',
    'a.ts: m',
    'a.ts:3: m',
    'a.ts:3:4: m',
  ]);
  expect(text({ object: 'Namespace/web' })).toBe('Namespace/web: m');
  expect(text({ object: 'Namespace/web', cluster: 'prod', path: 'spec' })).toBe('Namespace/web in prod: `spec`: m');
  expect(text({ cluster: 'prod' })).toBe('m');
});
