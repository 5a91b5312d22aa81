import { beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '@kubenode/api-machinery/wire';
import { closeRig, names, openRig, pick, text, type Answer, type Rig } from './testing/rig.ts';
import { configMap, defineWidgets, MAPS, WIDGET_PATH as W, widget } from './testing/widgets.ts';

let rig: Rig;

beforeEach(async () => {
  rig = await openRig();
  await defineWidgets(rig.api);
  return () => closeRig(rig);
});

const version = (answer: Answer) => text(pick(answer.body, 'metadata.resourceVersion'));
const at = (answer: Answer, path: string) => pick(answer.body, path);

describe('a create', () => {
  it('gives identity, generation 1 and defaults, drops status, and is answered 201', async () => {
    const { status, body } = await rig.api.create(W, { ...widget('a', { color: 'red', nest: {} }), status: { replicas: 9 } });
    expect(status).toBe(201);
    expect(body).toMatchObject({
      metadata: { name: 'a', namespace: 'default', generation: 1, creationTimestamp: '2026-11-20T12:00:00Z' },
      spec: { color: 'red', replicas: 1, nest: { a: 'hello' } },
    });
    expect(body).not.toHaveProperty('status');
    expect(pick(body, 'metadata.uid')).toMatch(/^[0-9a-f-]{36}$/);
    expect((await rig.api.get(`${W}/a`)).body).toEqual(body);
  });

  it('ignores what the server sets: uid, times, namespace of cluster-scoped objects', async () => {
    const node = await rig.api.create('/api/v1/nodes', {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: 'n', namespace: 'web', uid: 'x', creationTimestamp: '2000-01-01T00:00:00Z' },
    });
    expect(node.status).toBe(201);
    expect(at(node, 'metadata.namespace')).toBeUndefined();
    expect([at(node, 'metadata.uid') === 'x', at(node, 'metadata.creationTimestamp')]).toEqual([false, '2026-11-20T12:00:00Z']);
  });

  it('of a name that exists is refused with AlreadyExists', async () => {
    await rig.api.create(W, widget('a'));
    const again = await rig.api.create(W, widget('a'));
    expect([again.status, again.body['reason'], again.body['message']]).toEqual([
      409,
      'AlreadyExists',
      'widgets.example.io "a" already exists',
    ]);
  });

  it('with generateName makes a name, and makes another when it is taken', async () => {
    const first = await rig.api.send('POST', W, { ...widget(''), metadata: { generateName: 'g-' } });
    expect(at(first, 'metadata.name')).toMatch(/^g-[bcdfghjklmnpqrstvwxz2-9]{5}$/);
    const given = new Set<string>();
    for (let n = 0; n < 50; n++)
      given.add(text(at(await rig.api.send('POST', W, { ...widget(''), metadata: { generateName: 'g-' } }), 'metadata.name')));
    expect(given.size).toBe(50);
  });

  it('gives up on generateName after eight names that are taken', async () => {
    const stuck = await openRig({ random: () => 0.5 });
    const make = () => stuck.api.send('POST', MAPS, { ...configMap(''), metadata: { generateName: 'g-' } });
    expect((await make()).status).toBe(201);
    const refused = await make();
    expect([refused.status, refused.body['message']]).toEqual([
      409,
      expect.stringContaining('the server was not able to generate a unique name'),
    ]);
    await stuck.cluster.close();
  });

  it.each([
    [{ metadata: { name: 'a' }, spec: { color: 'red' } }, 400, "Object 'Kind' is missing"],
    [{ ...widget('a'), apiVersion: 'example.io/v9' }, 400, 'does not match the expected API version (example.io/v1)'],
    [{ ...widget('a'), kind: 'Gadget' }, 422, 'kind: Invalid value: "Gadget": must be Widget'],
    [widget(''), 422, 'metadata.name: Required value: name or generateName is required'],
    [widget('A_b'), 422, 'metadata.name: Invalid value: "A_b": a lowercase RFC 1123 subdomain'],
    [widget('a', { color: 'red' }, { namespace: 'other' }), 400, 'the namespace of the provided object does not match'],
    [
      widget('a', { color: 'red' }, { labels: { a: 1 } }),
      400,
      'json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string',
    ],
    [widget('a', { color: 'red' }, { labels: { 'a b': 'x' } }), 422, 'metadata.labels: Invalid value: "a b"'],
    [widget('a', { color: 'red' }, { finalizers: ['a b'] }), 422, 'metadata.finalizers: Invalid value: "a b"'],
    [
      widget('a', { color: 'red' }, { ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: '', uid: 'u' }] }),
      422,
      'metadata.ownerReferences.name: Invalid value: ""',
    ],
    [widget('a', { color: 'red' }, { annotations: { big: 'x'.repeat(300_000) } }), 422, 'metadata.annotations: Too long'],
    [widget('a', { color: 'red' }, { resourceVersion: '5' }), 500, 'resourceVersion should not be set on objects to be created'],
    [widget('a', { color: 'pink' }), 422, 'spec.color: Unsupported value: "pink": supported values: "red", "green", "blue"'],
    [widget('a', { color: 'red', parts: [{ name: 'x' }, { name: 'x' }] }), 422, 'spec.parts[1]: Duplicate value: {"name":"x"}'],
    [{ apiVersion: 'example.io/v1', kind: 'Widget', metadata: { name: 'a' } }, 422, 'spec: Required value'],
  ] as [JsonObject, number, string][])('of %j is refused with %i', async (object, status, message) => {
    const answer = await rig.api.create(W, object);
    expect([answer.status, text(answer.body['message'])]).toEqual([status, expect.stringContaining(message)]);
    expect(names((await rig.api.get(W)).body)).toEqual([]);
  });

  it.each([
    ['{"a":', 400],
    ['[]', 400],
    ['', 400],
  ])('with the body %j is refused with %i', async (body, status) => {
    expect((await rig.api.send('POST', W, body)).status).toBe(status);
  });

  it('nested without end is refused with 400', async () => {
    const deep = `${'['.repeat(200_000)}${']'.repeat(200_000)}`;
    const body = `{"apiVersion":"example.io/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"color":"red","free":{"deep":${deep}}}}`;
    expect((await rig.api.send('POST', W, body)).status).toBe(400);
  });

  it('in YAML works, and in another language is refused with 415', async () => {
    const yaml = 'apiVersion: example.io/v1\nkind: Widget\nmetadata: {name: y}\nspec: {color: blue}\n';
    expect((await rig.api.send('POST', W, yaml, 'application/yaml')).status).toBe(201);
    expect((await rig.api.send('POST', W, yaml, 'text/plain')).status).toBe(415);
  });

  it('of more than three megabytes is refused with 413', async () => {
    expect((await rig.api.create(MAPS, configMap('big', { a: 'x'.repeat(3 * 1024 * 1024) }))).status).toBe(413);
  });

  it('in a namespace that is not there is refused, with no trace', async () => {
    const answer = await rig.api.create('/api/v1/namespaces/nope/configmaps', configMap('a'));
    expect([answer.status, answer.body['message']]).toEqual([404, 'namespaces "nope" not found']);
  });
});

const odd = () => ({ ...widget('a', { color: 'red', bogus: 1, nest: { zz: 1 } }, { foo: 1 }), extra: true });

describe('unknown fields', () => {
  const paths = ['metadata.foo', 'extra', 'spec.bogus', 'spec.nest.zz'];

  it('are refused, all at once, when validation is Strict', async () => {
    const { status, body } = await rig.api.create(W, odd(), { fieldValidation: 'Strict' });
    expect([status, body['message']]).toEqual([
      400,
      `Widget in version "v1" cannot be handled as a Widget: strict decoding error: ${paths.map((path) => `unknown field "${path}"`).join(', ')}`,
    ]);
  });

  it('are dropped with warnings by default, and without warnings when validation is Ignore', async () => {
    const warned = await rig.api.create(W, odd());
    expect(warned.headers['warning']).toBe(paths.map((path) => `299 - "unknown field \\"${path}\\""`).join(', '));
    expect(warned.body['spec']).toEqual({ color: 'red', replicas: 1, nest: { a: 'hello' } });
    const ignored = await rig.api.create(W, { ...odd(), metadata: { name: 'b' } }, { fieldValidation: 'Ignore' });
    expect([ignored.status, ignored.headers['warning']]).toEqual([201, undefined]);
  });

  it('in a patch make the patch invalid when validation is Strict', async () => {
    await rig.api.create(W, widget('a'));
    const { status, body } = await rig.api.merge(`${W}/a`, { spec: { bogus: 1 } }, { fieldValidation: 'Strict' });
    expect([status, pick(body, 'details.causes.0.field')]).toEqual([422, 'patch']);
    expect(text(body['message'])).toContain('strict decoding error: unknown field "spec.bogus"');
  });

  it('of built-in kinds are treated the same', async () => {
    const answer = await rig.api.create(MAPS, { ...configMap('a'), bogus: 1 }, { fieldValidation: 'Strict' });
    expect([answer.status, text(answer.body['message'])]).toEqual([400, expect.stringContaining('unknown field "bogus"')]);
  });
});

describe('a PUT', () => {
  it('changes the object, its version and its generation, and never its status', async () => {
    const made = await rig.api.create(W, widget('a'));
    await rig.api.merge(`${W}/a/status`, { status: { replicas: 2 } });
    const live = await rig.api.get(`${W}/a`);
    const put = await rig.api.put(`${W}/a`, {
      ...widget('a', { color: 'blue' }, { resourceVersion: version(live) }),
      status: { replicas: 7 },
    });
    expect(put.status).toBe(200);
    expect([at(put, 'metadata.generation'), at(put, 'spec.color'), at(put, 'status.replicas'), at(put, 'metadata.uid')]).toEqual([
      2,
      'blue',
      2,
      at(made, 'metadata.uid'),
    ]);
    expect(Number(version(put))).toBeGreaterThan(Number(version(live)));
  });

  it('that changes nothing leaves the resourceVersion, however much later it comes', async () => {
    const made = await rig.api.create(W, widget('a'));
    const before = rig.cluster.resourceVersion;
    expect(version(await rig.api.put(`${W}/a`, made.body))).toBe(version(made));
    expect(version(await rig.api.merge(`${W}/a`, { spec: { color: 'red' } }))).toBe(version(made));
    await rig.clock.advance(60_000);
    expect(version(await rig.api.put(`${W}/a`, made.body))).toBe(version(made));
    expect(rig.cluster.resourceVersion).toBe(before);
  });

  it('without a resourceVersion is refused for custom resources and allowed for ConfigMaps', async () => {
    await rig.api.create(W, widget('a'));
    const refused = await rig.api.put(`${W}/a`, widget('a', { color: 'blue' }));
    expect([refused.status, pick(refused.body, 'details.causes.0')]).toEqual([
      422,
      { field: 'metadata.resourceVersion', message: 'Invalid value: 0: must be specified for an update', reason: 'FieldValueInvalid' },
    ]);
    await rig.api.create(MAPS, configMap('c', { a: '1' }));
    expect((await rig.api.put(`${MAPS}/c`, configMap('c', { a: '2' }))).status).toBe(200);
  });

  it('at an older version, or of another UID, is a Conflict', async () => {
    const made = await rig.api.create(W, widget('a'));
    await rig.api.merge(`${W}/a`, { spec: { color: 'green' } });
    const stale = await rig.api.put(`${W}/a`, widget('a', { color: 'blue' }, { resourceVersion: version(made) }));
    expect([stale.status, stale.body['message']]).toEqual([
      409,
      'Operation cannot be fulfilled on widgets.example.io "a": the object has been modified; please apply your changes to the latest version and try again',
    ]);
    const other = await rig.api.put(`${W}/a`, widget('a', { color: 'blue' }, { resourceVersion: version(made), uid: 'other' }));
    expect([other.status, other.body['reason']]).toEqual([409, 'Conflict']);
  });

  it('of another name is refused, and of none', async () => {
    await rig.api.create(W, widget('a'));
    expect((await rig.api.put(`${W}/a`, widget('b', { color: 'blue' }, { resourceVersion: '1' }))).status).toBe(400);
    expect((await rig.api.put(`${W}/a`, widget('', { color: 'blue' }, { resourceVersion: '1' }))).status).toBe(400);
  });

  it('of an absent object is NotFound, but creates a Lease', async () => {
    expect((await rig.api.put(`${W}/a`, widget('a', { color: 'blue' }, { resourceVersion: '1' }))).status).toBe(404);
    const lease = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: { name: 'l' }, spec: { holderIdentity: 'me' } };
    expect((await rig.api.put('/apis/coordination.k8s.io/v1/namespaces/default/leases/l', lease)).status).toBe(201);
  });
});

describe('a patch', () => {
  beforeEach(async () => void (await rig.api.create(W, widget('a'))));

  it('merges, counts a change of spec, and not a change of labels', async () => {
    const spec = await rig.api.merge(`${W}/a`, { spec: { color: 'blue', nest: { c: 'x' } } });
    const labels = await rig.api.merge(`${W}/a`, { metadata: { labels: { x: 'y' } } });
    expect([at(spec, 'metadata.generation'), at(labels, 'metadata.generation'), at(labels, 'spec.nest')]).toEqual([
      2,
      2,
      { a: 'hello', c: 'x' },
    ]);
  });

  it('without a resourceVersion is applied to the newest object, with one is conditioned on it', async () => {
    const first = await rig.api.get(`${W}/a`);
    await rig.api.merge(`${W}/a`, { spec: { color: 'green' } });
    expect((await rig.api.merge(`${W}/a`, { spec: { replicas: 2 } })).status).toBe(200);
    const stale = await rig.api.merge(`${W}/a`, { metadata: { resourceVersion: version(first) }, spec: { replicas: 3 } });
    expect([stale.status, stale.body['reason']]).toEqual([409, 'Conflict']);
  });

  it('by JSON operations tests before it changes', async () => {
    const good = await rig.api.json(`${W}/a`, [
      { op: 'test', path: '/spec/color', value: 'red' },
      { op: 'add', path: '/spec/tags', value: ['x'] },
      { op: 'add', path: '/spec/tags/-', value: 'y' },
    ]);
    expect(at(good, 'spec.tags')).toEqual(['x', 'y']);
    const bad = await rig.api.json(`${W}/a`, [{ op: 'test', path: '/spec/color', value: 'blue' }]);
    expect([bad.status, bad.body['reason'], bad.body['message']]).toEqual([
      422,
      'Invalid',
      'the server rejected our request due to an error in our request',
    ]);
  });

  it('is refused for another media type: custom resources take no strategic merge', async () => {
    const strategic = await rig.api.strategic(`${W}/a`, { spec: { color: 'blue' } });
    expect([strategic.status, strategic.body['reason']]).toEqual([415, 'UnsupportedMediaType']);
    expect((await rig.api.send('PATCH', `${W}/a`, {}, 'application/json')).status).toBe(415);
  });

  it('cannot change identity or kind', async () => {
    expect((await rig.api.merge(`${W}/a`, { metadata: { name: 'b' } })).status).toBe(400);
    expect(pick((await rig.api.merge(`${W}/a`, { metadata: { uid: 'x' } })).body, 'details.causes.0.field')).toBe('metadata.uid');
    expect((await rig.api.merge(`${W}/a`, { kind: 'Gadget' })).body['message']).toBe(
      'Gadget.example.io "a" is invalid: kind: Invalid value: "Gadget": must be Widget',
    );
  });

  it('that makes the object invalid changes nothing', async () => {
    const refused = await rig.api.merge(`${W}/a`, { spec: { color: 'pink' } });
    expect([refused.status, at(await rig.api.get(`${W}/a`), 'spec.color')]).toEqual([422, 'red']);
  });

  it('of an absent object is NotFound', async () => {
    expect((await rig.api.merge(`${W}/none`, {})).status).toBe(404);
  });
});

describe('paths', () => {
  it.each([
    ['GET', '/api/v1/foos', 404],
    ['GET', '/apis/nope.io/v1/foos', 404],
    ['GET', '/nothing', 404],
    ['GET', `${W}/a/nope`, 404],
    ['GET', '/apis/example.io/v1/widgets/a', 404],
    ['DELETE', '/api/v1/namespaces', 405],
    ['DELETE', '/api/v1/pods', 404],
    ['GET', '/healthz', 200],
    ['GET', '/readyz', 200],
    ['GET', '/livez', 200],
    ['GET', '/version', 200],
  ] as const)('%s %s is answered %i', async (method, path, status) => {
    expect((await rig.api.send(method, path)).status).toBe(status);
  });
});
