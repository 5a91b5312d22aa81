import { beforeEach, describe, expect, it } from 'vitest';
import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { names, closeRig, openRig, pick, text, type Rig } from './testing/rig.ts';
import { settled } from './testing/clock.ts';
import { DEFINITION_PATH as D, defineWidgets, WIDGET_PATH as W, WIDGETS, widget } from './testing/widgets.ts';

let rig: Rig;

beforeEach(async () => {
  rig = await openRig();
  return () => closeRig(rig);
});

const SPEC = '/spec/versions/0/schema/openAPIV3Schema/properties/spec';
const edit = (...operations: Json[]) => rig.api.json(`${D}/widgets.example.io`, operations);

describe('a definition', () => {
  it('is established, and served at once', async () => {
    await defineWidgets(rig.api);
    const { body } = await rig.api.get(`${D}/widgets.example.io`);
    expect(body['status']).toMatchObject({
      acceptedNames: { plural: 'widgets', kind: 'Widget' },
      storedVersions: ['v1'],
      conditions: [
        { type: 'NamesAccepted', status: 'True', reason: 'NoConflicts' },
        { type: 'Established', status: 'True', reason: 'InitialNamesAccepted' },
      ],
    });
    expect((await rig.api.get(W)).body).toMatchObject({ kind: 'WidgetList', items: [] });
  });

  it('whose names another has is not established', async () => {
    await defineWidgets(rig.api);
    const other = structuredClone(WIDGETS) as { metadata: JsonObject; spec: { names: JsonObject } };
    other.metadata['name'] = 'gadgets.example.io';
    other.spec.names = { plural: 'gadgets', kind: 'Gadget', shortNames: ['wd'] };
    await rig.api.create(D, other);
    await settled();
    const { body } = await rig.api.get(`${D}/gadgets.example.io`);
    expect(pick(body, 'status.conditions.0')).toMatchObject({ type: 'NamesAccepted', status: 'False', message: '"wd" is already in use' });
    expect((await rig.api.get('/apis/example.io/v1/namespaces/default/gadgets')).status).toBe(404);
  });

  it.each([
    [[{ op: 'replace', path: '/metadata/name', value: 'x.example.io' }], 'metadata.name', 'must be spec.names.plural+"."+spec.group'],
    [[{ op: 'replace', path: '/spec/scope', value: 'Galaxy' }], 'spec.scope', 'supported values: "Cluster", "Namespaced"'],
    [[{ op: 'replace', path: '/spec/versions', value: [] }], 'spec.versions', 'must have at least one version'],
    [
      [{ op: 'replace', path: '/spec/versions/0/storage', value: false }],
      'spec.versions',
      'must have exactly one version marked as storage version',
    ],
    [[{ op: 'remove', path: '/spec/versions/0/schema' }], 'spec.versions[0].schema.openAPIV3Schema', 'schemas are required'],
    [
      [{ op: 'remove', path: `${SPEC}/type` }],
      'spec.validation.openAPIV3Schema.properties[spec].type',
      'must not be empty for specified object fields',
    ],
    [
      [{ op: 'replace', path: '/spec/versions/0/additionalPrinterColumns/0/jsonPath', value: '.a[' }],
      'spec.versions[0].additionalPrinterColumns[0].jsonPath',
      'is not a simple JSONPath',
    ],
    [
      [{ op: 'add', path: '/spec/versions/0/selectableFields/0/jsonPath', value: '.spec.parts[0]' }],
      'spec.versions[0].selectableFields[0].jsonPath',
      'invalid path',
    ],
    [
      [{ op: 'remove', path: '/spec/versions/0/subresources/scale/specReplicasPath' }],
      'spec.versions[0].subresources.scale.specReplicasPath',
      'Required value',
    ],
    [[{ op: 'add', path: '/spec/conversion', value: { strategy: 'Webhook' } }], 'spec.conversion.strategy', 'supported values: "None"'],
  ] as [Json[], string, string][])('changed by %j is refused at %s', async (operations, field, message) => {
    const { jsonPatch } = await import('./patch/json.ts');
    const { status, body } = await rig.api.create(D, jsonPatch(WIDGETS, operations) as JsonObject);
    expect(status).toBe(422);
    const causes = pick(body, 'details.causes') as JsonObject[];
    expect(causes).toContainEqual(expect.objectContaining({ field, message: expect.stringContaining(message) }));
  });

  it('cannot change scope or names once established', async () => {
    await defineWidgets(rig.api);
    const { status, body } = await edit({ op: 'replace', path: '/spec/scope', value: 'Cluster' });
    expect([status, pick(body, 'details.causes.0.field')]).toEqual([422, 'spec.scope']);
  });

  it('that changes shows what is there as it now wants it, without a write', async () => {
    await defineWidgets(rig.api);
    await rig.api.create(W, widget('a', { color: 'red', max: 3 }));
    const before = await rig.api.get(`${W}/a`);
    await edit(
      { op: 'remove', path: `${SPEC}/properties/max` },
      { op: 'add', path: `${SPEC}/properties/mode`, value: { type: 'string', default: 'slow' } },
    );
    const after = await rig.api.get(`${W}/a`);
    expect(after.body['spec']).toEqual({ color: 'red', replicas: 1, mode: 'slow' });
    expect(pick(after.body, 'metadata.resourceVersion')).toBe(pick(before.body, 'metadata.resourceVersion'));
    expect(pick((await rig.api.get(W)).body, 'items.0.spec.mode')).toBe('slow');
  });

  it('that grows stricter does not refuse a change elsewhere for old values', async () => {
    await defineWidgets(rig.api);
    await rig.api.create(W, widget('a', { color: 'red', replicas: 9 }));
    await edit({ op: 'replace', path: `${SPEC}/properties/replicas/maximum`, value: 5 });
    expect((await rig.api.merge(`${W}/a`, { spec: { color: 'blue' } })).status).toBe(200);
    expect((await rig.api.merge(`${W}/a`, { spec: { replicas: 8 } })).status).toBe(422);
  });

  it('with a new selectable field selects what is there by it', async () => {
    await defineWidgets(rig.api);
    await rig.api.create(W, widget('a', { color: 'red', max: 7 }));
    await edit({ op: 'add', path: '/spec/versions/0/selectableFields/-', value: { jsonPath: '.spec.max' } });
    expect(names((await rig.api.get(W, { fieldSelector: 'spec.max=7' })).body)).toEqual(['a']);
  });

  it('with two versions serves the objects in both, and warns of a deprecated one', async () => {
    await defineWidgets(rig.api);
    await rig.api.create(W, widget('a'));
    const [v1] = pick(WIDGETS, 'spec.versions') as JsonObject[];
    await edit({ op: 'add', path: '/spec/versions/-', value: { ...v1, name: 'v2', storage: false, deprecated: true } });
    const path = '/apis/example.io/v2/namespaces/default/widgets';
    const got = await rig.api.get(`${path}/a`);
    expect([got.body['apiVersion'], got.headers['warning']]).toEqual(['example.io/v2', '299 - "example.io/v2 Widget is deprecated"']);
    expect(pick((await rig.api.get(path)).body, 'items.0.apiVersion')).toBe('example.io/v2');
    const watch = await rig.api.watch(path, { resourceVersion: rig.cluster.resourceVersion });
    const patched = await rig.api.merge(`${path}/a`, { spec: { color: 'blue' } });
    expect(patched.body['apiVersion']).toBe('example.io/v2');
    expect(pick((await watch.next())?.object, 'apiVersion')).toBe('example.io/v2');
    watch.stop();
    expect((await rig.api.get(`${W}/a`)).body).toMatchObject({ apiVersion: 'example.io/v1', spec: { color: 'blue' } });
  });

  it('that is deleted takes its objects with it', async () => {
    await defineWidgets(rig.api);
    await rig.api.create(W, widget('a'));
    const gone = await rig.api.remove(`${D}/widgets.example.io`);
    expect(pick(gone.body, 'metadata.finalizers')).toEqual(['customresourcecleanup.apiextensions.k8s.io']);
    await settled();
    expect((await rig.api.get(`${D}/widgets.example.io`)).status).toBe(404);
    expect((await rig.api.get(W)).status).toBe(404);
    await defineWidgets(rig.api);
    expect(names((await rig.api.get(W)).body)).toEqual([]);
  });

  it('waits for objects with finalizers, and admits no new ones meanwhile', async () => {
    await defineWidgets(rig.api);
    await rig.api.create(W, widget('a', { color: 'red' }, { finalizers: ['x.io/y'] }));
    await rig.api.remove(`${D}/widgets.example.io`);
    await settled();
    const late = await rig.api.create(W, widget('b'));
    expect([late.status, text(late.body['message'])]).toEqual([
      403,
      expect.stringContaining('create not allowed while custom resource definition is terminating'),
    ]);
    expect((await rig.api.get(`${D}/widgets.example.io`)).status).toBe(200);
    await rig.api.merge(`${W}/a`, { metadata: { finalizers: null } });
    await settled();
    expect((await rig.api.get(`${D}/widgets.example.io`)).status).toBe(404);
  });
});

describe('rules in CEL', () => {
  /** Widgets whose spec has rules. */
  async function ruled(...rules: JsonObject[]) {
    const crd = structuredClone(WIDGETS);
    const [version] = pick(crd, 'spec.versions') as JsonObject[];
    Object.assign(pick(version ?? {}, 'schema.openAPIV3Schema.properties.spec') as JsonObject, { 'x-kubernetes-validations': rules });
    await rig.api.create(D, crd);
    await settled();
  }
  const LIMIT = { rule: '!has(self.max) || self.replicas <= self.max', message: 'must not exceed max', fieldPath: '.replicas' };
  const FIXED = { rule: 'self.color == oldSelf.color', message: 'color is fixed' };

  it('are enforced on create and update', async () => {
    await ruled(LIMIT, FIXED);
    const refused = await rig.api.create(W, widget('a', { color: 'red', replicas: 4, max: 3 }));
    expect([refused.status, refused.body['message']]).toEqual([
      422,
      'Widget.example.io "a" is invalid: spec.replicas: Invalid value: "object": must not exceed max',
    ]);
    await rig.api.create(W, widget('a', { color: 'red', replicas: 2, max: 3 }));
    const changed = await rig.api.merge(`${W}/a`, { spec: { color: 'blue' } });
    expect(changed.body['message']).toBe('Widget.example.io "a" is invalid: spec: Invalid value: "object": color is fixed');
    expect((await rig.api.merge(`${W}/a`, { spec: { replicas: 3 } })).status).toBe(200);
  });

  it('wait while the object has not the shape they rely on', async () => {
    await ruled(LIMIT);
    const refused = await rig.api.create(W, widget('a', { replicas: 9, max: 1 }));
    expect((pick(refused.body, 'details.causes') as JsonObject[]).map((cause) => cause['field'])).toEqual(['spec.color', '<nil>']);
  });
});
