import { beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '@kubenode/api-machinery/wire';
import { names, closeRig, openRig, pick, text, type Answer, type Rig } from '../testing/rig.ts';
import { configMap, MAPS } from '../testing/widgets.ts';

let rig: Rig;
const NS = '/api/v1/namespaces/default';

beforeEach(async () => {
  rig = await openRig();
  return () => closeRig(rig);
});

const at = (answer: Answer, path: string) => pick(answer.body, path);
const field = (answer: Answer) => [answer.status, at(answer, 'details.causes.0.field')];

const node = (spec: JsonObject = {}): JsonObject => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name: 'n' },
  spec,
  status: { conditions: [{ type: 'Ready', status: 'True' }] },
});

describe('a Node', () => {
  it('is registered with its status, which then only the subresource writes', async () => {
    expect(at(await rig.api.create('/api/v1/nodes', node()), 'status.conditions.0.type')).toBe('Ready');
    expect(at(await rig.api.merge('/api/v1/nodes/n', { status: null }), 'status.conditions.0.type')).toBe('Ready');
    const status = await rig.api.strategic('/api/v1/nodes/n/status', {
      spec: { unschedulable: true },
      metadata: { labels: { a: 'b' } },
      status: { conditions: [{ type: 'Disk', status: 'False' }] },
    });
    expect(status.body).toMatchObject({ metadata: { labels: { a: 'b' } }, status: { conditions: [{ type: 'Disk' }, { type: 'Ready' }] } });
    expect([at(status, 'spec.unschedulable'), at(status, 'metadata.generation')]).toEqual([undefined, undefined]);
  });

  it('keeps its provider, and wants taints in order', async () => {
    await rig.api.create('/api/v1/nodes', node({ providerID: 'x://1' }));
    expect(field(await rig.api.merge('/api/v1/nodes/n', { spec: { providerID: 'x://2' } }))).toEqual([422, 'spec.providerID']);
    expect((await rig.api.merge('/api/v1/nodes/n', { spec: { taints: [{ key: 'a', effect: 'Maybe' }] } })).status).toBe(422);
    const twice = [
      { key: 'a', effect: 'NoSchedule' },
      { key: 'a', effect: 'NoSchedule', value: 'b' },
    ];
    expect((await rig.api.merge('/api/v1/nodes/n', { spec: { taints: twice } })).status).toBe(422);
  });

  it('is selected by being unschedulable', async () => {
    await rig.api.create('/api/v1/nodes', node({ unschedulable: true }));
    expect(names((await rig.api.get('/api/v1/nodes', { fieldSelector: 'spec.unschedulable=true' })).body)).toEqual(['n']);
  });
});

const pod = (spec: JsonObject = {}): JsonObject => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'p' },
  spec: { containers: [{ name: 'c', image: 'img:1' }], ...spec },
});

describe('a Pod', () => {
  it('gets the defaults that the real server gives', async () => {
    const made = await rig.api.create(`${NS}/pods`, pod());
    expect(made.body).toMatchObject({
      metadata: { generation: 1 },
      spec: {
        restartPolicy: 'Always',
        dnsPolicy: 'ClusterFirst',
        schedulerName: 'default-scheduler',
        serviceAccountName: 'default',
        terminationGracePeriodSeconds: 30,
        containers: [{ name: 'c', imagePullPolicy: 'IfNotPresent', terminationMessagePolicy: 'File' }],
      },
      status: { phase: 'Pending', qosClass: 'BestEffort' },
    });
  });

  it.each([
    [{ requests: { cpu: '1' } }, 'Burstable'],
    [{ limits: { cpu: '1', memory: '1Gi' } }, 'Guaranteed'],
  ])('with resources %j is of class %s', async (resources, expected) => {
    const made = await rig.api.create(`${NS}/pods`, pod({ containers: [{ name: 'c', image: 'i', resources }] }));
    expect(at(made, 'status.qosClass')).toBe(expected);
  });

  it('wants containers with names of their own and images', async () => {
    expect(field(await rig.api.create(`${NS}/pods`, pod({ containers: [] })))).toEqual([422, 'spec.containers']);
    expect(field(await rig.api.create(`${NS}/pods`, pod({ containers: [{ name: 'c' }] })))).toEqual([422, 'spec.containers[0].image']);
    const twins = [
      { name: 'c', image: 'i' },
      { name: 'c', image: 'i' },
    ];
    expect(field(await rig.api.create(`${NS}/pods`, pod({ containers: twins })))).toEqual([422, 'spec.containers[1].name']);
    expect((await rig.api.create(`${NS}/pods`, pod({ containers: 'none' }))).status).toBe(400);
  });

  it('may change its image and nothing else that matters', async () => {
    await rig.api.create(`${NS}/pods`, pod());
    const image = await rig.api.strategic(`${NS}/pods/p`, { spec: { containers: [{ name: 'c', image: 'img:2' }] } });
    expect([image.status, at(image, 'metadata.generation')]).toEqual([200, 2]);
    expect(field(await rig.api.merge(`${NS}/pods/p`, { spec: { nodeName: 'elsewhere' } }))).toEqual([422, 'spec']);
  });

  it('is selected by node and phase, and by nothing it does not offer', async () => {
    await rig.api.create(`${NS}/pods`, pod({ nodeName: 'n1' }));
    const select = async (fieldSelector: string) => names((await rig.api.get('/api/v1/pods', { fieldSelector })).body);
    expect(await select('spec.nodeName=n1,status.phase!=Running')).toEqual(['p']);
    await rig.api.merge(`${NS}/pods/p/status`, { status: { phase: 'Running' } });
    expect(await select('spec.nodeName=n1,status.phase!=Running')).toEqual([]);
    expect((await rig.api.get('/api/v1/pods', { fieldSelector: 'spec.hostname=x' })).status).toBe(400);
  });
});

const secret = (more: JsonObject): JsonObject => ({ apiVersion: 'v1', kind: 'Secret', metadata: { name: 's' }, ...more });

describe('a Secret', () => {
  it('takes plain text into its data, and never shows it as such', async () => {
    const made = await rig.api.create(`${NS}/secrets`, secret({ stringData: { a: 'b' }, data: { c: 'ZA==', a: 'eA==' } }));
    expect([at(made, 'data'), at(made, 'type'), at(made, 'stringData')]).toEqual([{ a: 'Yg==', c: 'ZA==' }, 'Opaque', undefined]);
    expect(names((await rig.api.get(`${NS}/secrets`, { fieldSelector: 'type=Opaque' })).body)).toEqual(['s']);
  });

  it.each([
    [{ data: { 'a b': 'ZA==' } }, 422],
    [{ data: { a: '!' } }, 400],
    [{ data: { a: 1 } }, 400],
  ] as [JsonObject, number][])('with %j is refused with %i', async (more, status) => {
    expect((await rig.api.create(`${NS}/secrets`, secret(more))).status).toBe(status);
  });

  it('cannot change its type, nor anything once immutable', async () => {
    await rig.api.create(`${NS}/secrets`, secret({ data: { a: 'ZA==' } }));
    expect(field(await rig.api.merge(`${NS}/secrets/s`, { type: 'x/y' }))).toEqual([422, 'type']);
    await rig.api.merge(`${NS}/secrets/s`, { immutable: true });
    expect(field(await rig.api.merge(`${NS}/secrets/s`, { data: { a: 'eA==' } }))).toEqual([422, 'data']);
    expect(field(await rig.api.merge(`${NS}/secrets/s`, { immutable: false }))).toEqual([422, 'immutable']);
  });
});

describe('a ConfigMap', () => {
  it('has no generation, and wants keys that can be file names', async () => {
    expect(at(await rig.api.create(MAPS, configMap('c', { 'a.b_c-D': '1' })), 'metadata.generation')).toBeUndefined();
    expect(field(await rig.api.create(MAPS, configMap('d', { 'a/b': '1' })))).toEqual([422, 'data[a/b]']);
  });
});

const event = (name: string, more: JsonObject = {}): JsonObject => ({
  apiVersion: 'v1',
  kind: 'Event',
  metadata: { name },
  involvedObject: { kind: 'Node', name: 'n1', uid: 'u1', namespace: 'default' },
  reason: 'Rebooted',
  type: 'Warning',
  ...more,
});

describe('an Event', () => {
  it('is found by what it is about', async () => {
    await rig.api.create(`${NS}/events`, event('a'));
    await rig.api.create(`${NS}/events`, event('b', { reason: 'Other', type: 'Normal' }));
    const select = async (fieldSelector: string) => names((await rig.api.get('/api/v1/events', { fieldSelector })).body);
    expect(await select('involvedObject.kind=Node,involvedObject.name=n1,involvedObject.uid=u1')).toEqual(['a', 'b']);
    expect(await select('reason=Rebooted')).toEqual(['a']);
    expect(await select('type!=Warning')).toEqual(['b']);
  });

  it('lies in the namespace of its object', async () => {
    expect(field(await rig.api.create(`${NS}/events`, event('a', { involvedObject: { kind: 'Pod', namespace: 'web' } })))).toEqual([
      422,
      'involvedObject.namespace',
    ]);
    expect((await rig.api.create(`${NS}/events`, event('a', { involvedObject: { kind: 'Node', name: 'n' } }))).status).toBe(201);
  });

  it('is forgotten an hour after it was last written', async () => {
    await rig.api.create(`${NS}/events`, event('a'));
    await rig.clock.advance(40 * 60_000);
    await rig.api.create(`${NS}/events`, event('b'));
    await rig.api.merge(`${NS}/events/a`, { count: 2 });
    await rig.clock.advance(50 * 60_000);
    expect(names((await rig.api.get(`${NS}/events`)).body)).toEqual(['a', 'b']);
    await rig.clock.advance(11 * 60_000);
    expect(names((await rig.api.get(`${NS}/events`)).body)).toEqual([]);
  });
});

const path = '/apis/coordination.k8s.io/v1/namespaces/default/leases';

const lease = (spec: JsonObject): JsonObject => ({ apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: { name: 'l' }, spec });

describe('a Lease', () => {
  it('keeps microseconds, and wants sensible numbers', async () => {
    const made = await rig.api.create(path, lease({ holderIdentity: 'a', renewTime: '2026-11-20T12:00:00.123456Z' }));
    expect(at(made, 'spec.renewTime')).toBe('2026-11-20T12:00:00.123456Z');
    expect(field(await rig.api.merge(`${path}/l`, { spec: { leaseDurationSeconds: 0 } }))).toEqual([422, 'spec.leaseDurationSeconds']);
    expect((await rig.api.merge(`${path}/l`, { spec: { renewTime: 'soon' } })).status).toBe(422);
  });

  it('is won by one of two who write at the same version', async () => {
    const { body } = await rig.api.create(path, lease({ holderIdentity: 'a' }));
    const as = (holderIdentity: string) => rig.api.put(`${path}/l`, { ...body, spec: { holderIdentity } });
    const answers = await Promise.all([as('b'), as('c')]);
    expect(answers.map(({ status }) => status)).toEqual([200, 409]);
    expect(text(at(await rig.api.get(`${path}/l`), 'spec.holderIdentity'))).toBe('b');
  });
});
