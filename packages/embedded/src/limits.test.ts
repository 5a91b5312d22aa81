/** What one request may ask of the server: limits that keep every other cluster of the process answering. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { closeRig, openRig, pick, text, type Rig } from './testing/rig.ts';
import { settled } from './testing/clock.ts';
import { configMap, DEFINITION_PATH, defineWidgets, MAPS, WIDGET_PATH, widget } from './testing/widgets.ts';

let rig: Rig;

beforeEach(async () => {
  rig = await openRig();
});

afterEach(() => closeRig(rig));

const nested = (depth: number): string => `${'['.repeat(depth)}${']'.repeat(depth)}`;

describe('security 8: nesting', () => {
  const path = `${WIDGET_PATH}/deep`;
  const body = (depth: number) =>
    `{"apiVersion":"example.io/v1","kind":"Widget","metadata":{"name":"deep"},"spec":{"color":"red","free":{"x":${nested(depth)}}}}`;

  beforeEach(() => defineWidgets(rig.api));

  it.each(['application/json', 'application/yaml'])(
    'that is too deep is refused in %s, and what is let in can be deleted',
    async (type) => {
      for (const depth of [600, 4300, 100_000]) {
        const refused = await rig.api.send('POST', WIDGET_PATH, body(depth), type);
        expect([depth, refused.status, refused.body['message']]).toEqual([depth, 400, expect.stringContaining('nested too deeply')]);
      }
      expect((await rig.api.send('POST', WIDGET_PATH, body(400), type)).status).toBe(201);
      expect((await rig.api.get(path)).status).toBe(200);
      expect((await rig.api.remove(path)).status).toBe(200);
      expect((await rig.api.get(path)).status).toBe(404);
    },
  );

  it('cannot be reached by patches either', async () => {
    await rig.api.create(WIDGET_PATH, widget('deep', { color: 'red', free: { x: {} } }));
    const patch = JSON.stringify({ spec: { free: { x: 1 } } }).replace('1', nested(4300));
    for (const type of ['application/merge-patch+json', 'application/apply-patch+yaml'])
      expect((await rig.api.send('PATCH', path, patch, type, { query: { fieldManager: 'm' } })).status).toBe(
        type.includes('apply') ? 400 : 400,
      );
    // Each operation is small; each makes the value one deeper.
    const wrap: Json[] = Array.from({ length: 1200 }, () => [
      { op: 'move', from: '/spec/free/x', path: '/spec/free/y' },
      { op: 'add', path: '/spec/free/x', value: {} },
      { op: 'move', from: '/spec/free/y', path: '/spec/free/x/x' },
    ]).flat();
    expect((await rig.api.json(path, wrap)).status).toBe(400);
  });
});

describe('security 8: a JSON patch', () => {
  it('that copies what it copied ends before it has filled the memory', async () => {
    await rig.api.create(MAPS, configMap('c', { a: 'x'.repeat(1000) }));
    const copies: Json[] = Array.from({ length: 40 }, (_, i) => ({ op: 'copy', from: '/data', path: `/data/c${i}` }));
    const refused = await rig.api.json(`${MAPS}/c`, copies);
    expect([refused.status, refused.body['message']]).toEqual([413, expect.stringContaining('accumulated size increase of copy')]);
  });
});

describe('security 8: a definition', () => {
  const definition = (spec: JsonObject): JsonObject => ({
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: 'slows.example.io' },
    spec: {
      group: 'example.io',
      scope: 'Namespaced',
      names: { plural: 'slows', kind: 'Slow' },
      versions: [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: { type: 'object', properties: { spec } } } }],
    },
  });
  const slow = (spec: JsonObject): JsonObject => ({ apiVersion: 'example.io/v1', kind: 'Slow', metadata: { name: 's' }, spec });
  const path = '/apis/example.io/v1/namespaces/default/slows';

  it.each([
    ['^(a+)+$', 'a'.repeat(2000)],
    ['^(([a-z])+.)+[A-Z]([a-z])+$', 'a'.repeat(2000)],
    ['(x+x+)+y', 'x'.repeat(2000)],
    ['^(a|a)*$', 'a'.repeat(2000)],
    ['^(.*)*$', '\n'.repeat(2000)],
  ])('with the pattern %s, which takes JavaScript for ever, is answered at once', async (pattern, value) => {
    await rig.api.create(DEFINITION_PATH, definition({ type: 'object', properties: { s: { type: 'string', pattern } } }));
    await settled();
    const began = performance.now();
    const answer = await rig.api.create(path, slow({ s: `${value}!` }));
    expect([201, 422]).toContain(answer.status);
    expect(performance.now() - began).toBeLessThan(1000);
  });

  it('whose pattern would take seconds for a text is answered with a refusal, not with seconds', async () => {
    const pattern = '[ab].{0,500}.{0,500}[cd]$';
    await rig.api.create(DEFINITION_PATH, definition({ type: 'object', properties: { s: { type: 'string', pattern } } }));
    await settled();
    const began = performance.now();
    const answer = await rig.api.create(path, slow({ s: 'ab'.repeat(500_000) }));
    expect([answer.status, text(answer.body['message'])]).toEqual([422, expect.stringContaining('running out of cost budget')]);
    expect(performance.now() - began).toBeLessThan(1000);
  });

  it.each(['(a)\\1', '(?=a)b', '(?<!a)b', '(a{900}){900}'])('with the pattern %s, which is none of RE2, is refused', async (pattern) => {
    const answer = await rig.api.create(DEFINITION_PATH, definition({ type: 'object', properties: { s: { type: 'string', pattern } } }));
    expect([answer.status, pick(answer.body, 'details.causes.0.field')]).toEqual([422, expect.stringContaining('pattern')]);
  });

  it('with more rules than can be compiled in a moment is refused', async () => {
    const rules: Json[] = Array.from({ length: 20_000 }, () => ({ rule: 'true' }));
    const began = performance.now();
    const answer = await rig.api.create(DEFINITION_PATH, definition({ type: 'object', 'x-kubernetes-validations': rules }));
    expect([answer.status, text(answer.body['message'])]).toEqual([422, expect.stringContaining('running out of cost budget')]);
    expect(performance.now() - began).toBeLessThan(5000);
  });
});
