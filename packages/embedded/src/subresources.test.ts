import { beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '@kubenode/api-machinery/wire';
import { closeRig, names, openRig, pick, text, type Answer, type Rig } from './testing/rig.ts';
import { defineWidgets, WIDGET_PATH as W, widget } from './testing/widgets.ts';

let rig: Rig;

beforeEach(async () => {
  rig = await openRig();
  await defineWidgets(rig.api);
  return () => closeRig(rig);
});

const version = (answer: Answer) => text(pick(answer.body, 'metadata.resourceVersion'));
const at = (answer: Answer, path: string) => pick(answer.body, path);

describe('status', () => {
  beforeEach(async () => void (await rig.api.create(W, widget('a'))));

  it('is written by its subresource, which writes nothing else and does not count as a change of spec', async () => {
    const patched = await rig.api.merge(`${W}/a/status`, {
      metadata: { labels: { x: 'y' } },
      spec: { color: 'blue' },
      status: { replicas: 4 },
    });
    expect(patched.body).toMatchObject({ spec: { color: 'red' }, status: { replicas: 4 }, metadata: { generation: 1 } });
    expect(at(patched, 'metadata.labels')).toBeUndefined();
  });

  it('is not touched by a write to the object', async () => {
    await rig.api.merge(`${W}/a/status`, { status: { replicas: 4 } });
    expect(at(await rig.api.merge(`${W}/a`, { status: null }), 'status.replicas')).toBe(4);
  });

  it('is validated, and still conflicts on a stale version', async () => {
    const invalid = await rig.api.merge(`${W}/a/status`, { status: { replicas: 'x' } });
    expect([invalid.status, pick(invalid.body, 'details.causes.0.field')]).toEqual([422, 'status.replicas']);
    const live = await rig.api.get(`${W}/a`);
    await rig.api.merge(`${W}/a`, { spec: { color: 'blue' } });
    expect((await rig.api.put(`${W}/a/status`, { ...live.body, status: { replicas: 1 } })).status).toBe(409);
  });
});

describe('a dry run', () => {
  it('answers as the real thing would, and leaves no trace', async () => {
    await rig.api.create(W, widget('a'));
    const before = rig.cluster.resourceVersion;
    const all = { dryRun: 'All' };
    expect((await rig.api.create(W, widget('b'), all)).status).toBe(201);
    expect(at(await rig.api.merge(`${W}/a`, { spec: { color: 'blue' } }, all), 'spec.color')).toBe('blue');
    expect((await rig.api.apply(`${W}/c`, widget('c'), 'm', all)).status).toBe(201);
    expect((await rig.api.remove(`${W}/a`, undefined, all)).status).toBe(200);
    expect((await rig.api.create(W, widget('x', { color: 'pink' }), all)).status).toBe(422);
    expect([rig.cluster.resourceVersion, names((await rig.api.get(W)).body)]).toEqual([before, ['a']]);
  });

  it('of another word is refused', async () => {
    expect((await rig.api.create(W, widget('b'), { dryRun: 'Some' })).status).toBe(422);
  });
});

describe('a server-side apply', () => {
  it('creates, owns what it applied, and leaves the rest to others', async () => {
    const made = await rig.api.apply(`${W}/a`, widget('a', { color: 'red' }), 'one');
    expect(made.status).toBe(201);
    const [entry] = at(made, 'metadata.managedFields') as JsonObject[];
    expect(entry).toMatchObject({
      manager: 'one',
      operation: 'Apply',
      apiVersion: 'example.io/v1',
      fieldsV1: { 'f:spec': { 'f:color': {} } },
    });
    const other = await rig.api.apply(`${W}/a`, widget('a', { max: 3 }), 'two');
    expect([other.status, at(other, 'spec')]).toEqual([200, { color: 'red', replicas: 1, max: 3 }]);
    const gone = await rig.api.apply(`${W}/a`, widget('a', {}), 'two');
    expect(at(gone, 'spec')).toEqual({ color: 'red', replicas: 1 });
  });

  it('conflicts field by field, and takes over by force', async () => {
    await rig.api.apply(`${W}/a`, widget('a', { color: 'red' }), 'one');
    const conflict = await rig.api.apply(`${W}/a`, widget('a', { color: 'blue' }), 'two');
    expect([conflict.status, conflict.body['reason'], pick(conflict.body, 'details.causes.0')]).toEqual([
      409,
      'Conflict',
      { reason: 'FieldManagerConflict', message: 'conflict with "one"', field: '.spec.color' },
    ]);
    const forced = await rig.api.apply(`${W}/a`, widget('a', { color: 'blue' }), 'two', { force: 'true' });
    expect([forced.status, at(forced, 'spec.color')]).toEqual([200, 'blue']);
  });

  it('of the same again changes nothing', async () => {
    const made = await rig.api.apply(`${W}/a`, widget('a'), 'one');
    await rig.clock.advance(5000);
    expect(version(await rig.api.apply(`${W}/a`, widget('a'), 'one'))).toBe(version(made));
  });

  it('of status goes by its subresource, which creates nothing', async () => {
    const status = {
      apiVersion: 'example.io/v1',
      kind: 'Widget',
      metadata: { name: 'a' },
      status: { conditions: [{ type: 'A', status: 'True' }] },
    };
    expect((await rig.api.apply(`${W}/a/status`, status, 'm')).status).toBe(404);
    await rig.api.create(W, widget('a'));
    const applied = await rig.api.apply(`${W}/a/status`, status, 'm');
    expect([at(applied, 'status.conditions.0.type'), at(applied, 'spec.color')]).toEqual(['A', 'red']);
  });

  it.each([
    [{}, { fieldManager: '' }, 422, 'fieldManager: Required value: is required for apply patch'],
    [{ spec: { color: 'red', bogus: 1 } }, {}, 500, '.spec.bogus: field not declared in schema'],
    [{ metadata: { name: 'a', managedFields: [{}] } }, {}, 400, 'metadata.managedFields must be nil'],
    [{ metadata: { name: 'a', uid: 'x' } }, {}, 409, 'uid mismatch'],
  ] as [JsonObject, Record<string, string>, number, string][])(
    'of %j with %j is refused with %i',
    async (change, query, status, message) => {
      const answer = await rig.api.apply(`${W}/a`, { ...widget('a'), ...change }, 'm', query);
      expect([answer.status, text(answer.body['message'])]).toEqual([status, expect.stringContaining(message)]);
    },
  );

  it('may be written in YAML', async () => {
    const yaml = 'apiVersion: example.io/v1\nkind: Widget\nmetadata: {name: y}\nspec: {color: green}\n';
    const answer = await rig.api.send('PATCH', `${W}/y`, yaml, 'application/apply-patch+yaml', { query: { fieldManager: 'm' } });
    expect([answer.status, at(answer, 'spec.color')]).toEqual([201, 'green']);
  });
});

describe('scale', () => {
  beforeEach(async () => void (await rig.api.create(W, widget('a', { color: 'red', replicas: 2 }))));

  it('shows and changes the replicas alone', async () => {
    await rig.api.merge(`${W}/a/status`, { status: { replicas: 1, selector: 'app=x' } });
    const shown = await rig.api.get(`${W}/a/scale`);
    expect(shown.body).toMatchObject({
      kind: 'Scale',
      apiVersion: 'autoscaling/v1',
      metadata: { name: 'a' },
      spec: { replicas: 2 },
      status: { replicas: 1, selector: 'app=x' },
    });
    const put = await rig.api.put(`${W}/a/scale`, { ...shown.body, spec: { replicas: 4 } });
    expect([put.status, pick(put.body, 'spec.replicas')]).toEqual([200, 4]);
    expect((await rig.api.merge(`${W}/a/scale`, { spec: { replicas: 5 } })).status).toBe(200);
    expect((await rig.api.get(`${W}/a`)).body).toMatchObject({ spec: { color: 'red', replicas: 5 }, metadata: { generation: 3 } });
  });

  it('obeys the schema, and conflicts on a stale version', async () => {
    const shown = await rig.api.get(`${W}/a/scale`);
    expect((await rig.api.merge(`${W}/a/scale`, { spec: { replicas: 70 } })).status).toBe(422);
    expect((await rig.api.merge(`${W}/a/scale`, { spec: { replicas: -1 } })).status).toBe(422);
    await rig.api.merge(`${W}/a`, { spec: { color: 'blue' } });
    expect((await rig.api.put(`${W}/a/scale`, { ...shown.body, spec: { replicas: 4 } })).status).toBe(409);
  });
});
