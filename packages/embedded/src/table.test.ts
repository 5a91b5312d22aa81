import { beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '@kubenode/api-machinery/wire';
import { openRig, pick, text, type Rig } from './testing/rig.ts';
import { defineWidgets, WIDGET_PATH as W, widget } from './testing/widgets.ts';

const TABLE = { accept: 'application/json;as=Table;v=v1;g=meta.k8s.io,application/json' };
let rig: Rig;

beforeEach(async () => {
  rig = await openRig();
  return () => rig.cluster.close();
});

const cells = (body: JsonObject) => (body['rows'] as JsonObject[]).map((row) => row['cells']);
const headings = (body: JsonObject) =>
  (body['columnDefinitions'] as JsonObject[]).map((column) => `${text(column['name'])}${column['priority'] === 0 ? '' : '*'}`).join(' ');

const container = (name: string, state: JsonObject, more: JsonObject = {}) => ({
  name,
  image: 'i',
  imageID: '',
  ready: false,
  restartCount: 0,
  state,
  ...more,
});

describe('a table', () => {
  it('of custom resources has their columns, with ages counted', async () => {
    await defineWidgets(rig.api);
    await rig.api.create(W, widget('a', { color: 'red', since: '2026-11-20T10:00:00Z' }));
    await rig.api.merge(`${W}/a/status`, {
      status: {
        conditions: [
          { type: 'Other', status: 'Unknown' },
          { type: 'Ready', status: 'True' },
        ],
      },
    });
    await rig.clock.advance(90_000);
    const { body } = await rig.api.get(W, {}, TABLE);
    expect(headings(body)).toBe('Name Color Replicas Ready Since* Age');
    expect(cells(body)).toEqual([['a', 'red', 1, 'True', '121m', '90s']]);
    expect(pick(body, 'rows.0.object.kind')).toBe('PartialObjectMetadata');
  });

  it('carries whole objects, their metadata or none, as asked', async () => {
    await defineWidgets(rig.api);
    await rig.api.create(W, widget('a'));
    const kind = async (includeObject: string) => pick((await rig.api.get(W, { includeObject }, TABLE)).body, 'rows.0.object.kind');
    expect([await kind('Object'), await kind('Metadata'), await kind('None')]).toEqual(['Widget', 'PartialObjectMetadata', undefined]);
    expect((await rig.api.get(W, { includeObject: 'Half' }, TABLE)).status).toBe(400);
  });

  it('of one object is a table of one row', async () => {
    const { body } = await rig.api.get('/api/v1/namespaces/default', {}, TABLE);
    expect([headings(body), cells(body)]).toEqual(['Name Status Age', [['default', 'Active', '0s']]]);
  });

  it('of nodes shows what kubectl shows', async () => {
    await rig.api.create('/api/v1/nodes', {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: 'n1', labels: { 'node-role.kubernetes.io/worker': '', 'node-role.kubernetes.io/edge': '' } },
      spec: { unschedulable: true },
      status: {
        conditions: [{ type: 'Ready', status: 'False' }],
        addresses: [{ type: 'InternalIP', address: '10.0.0.1' }],
        nodeInfo: { kubeletVersion: 'v1.33.1', osImage: 'Debian' },
      },
    });
    const { body } = await rig.api.get('/api/v1/nodes', {}, TABLE);
    expect(headings(body)).toBe('Name Status Roles Age Version Internal-IP* External-IP* OS-Image* Kernel-Version* Container-Runtime*');
    expect(cells(body)).toEqual([
      ['n1', 'NotReady,SchedulingDisabled', 'edge,worker', '0s', 'v1.33.1', '10.0.0.1', '<none>', 'Debian', '<unknown>', '<unknown>'],
    ]);
  });

  it.each<[string, JsonObject, unknown[]]>([
    ['waits', { phase: 'Pending' }, ['0/1', 'Pending', '0']],
    ['runs', { phase: 'Running', containerStatuses: [container('c', { running: {} }, { ready: true })] }, ['1/1', 'Running', '0']],
    [
      'crashes',
      {
        phase: 'Running',
        containerStatuses: [
          container(
            'c',
            { waiting: { reason: 'CrashLoopBackOff' } },
            { restartCount: 3, lastState: { terminated: { finishedAt: '2026-11-20T11:59:00Z', exitCode: 1 } } },
          ),
        ],
      },
      ['0/1', 'CrashLoopBackOff', '3 (60s ago)'],
    ],
    [
      'was killed',
      { phase: 'Failed', containerStatuses: [container('c', { terminated: { exitCode: 137, signal: 9 } })] },
      ['0/1', 'Signal:9', '0'],
    ],
    ['failed', { phase: 'Failed', containerStatuses: [container('c', { terminated: { exitCode: 2 } })] }, ['0/1', 'ExitCode:2', '0']],
    [
      'is done',
      { phase: 'Succeeded', containerStatuses: [container('c', { terminated: { exitCode: 0, reason: 'Completed' } })] },
      ['0/1', 'Completed', '0'],
    ],
    ['was evicted', { phase: 'Failed', reason: 'Evicted' }, ['0/1', 'Evicted', '0']],
  ])('of a pod that %s shows it', async (_, status, expected) => {
    const path = '/api/v1/namespaces/default/pods';
    await rig.api.create(path, {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'p' },
      spec: { nodeName: 'n', containers: [{ name: 'c', image: 'i' }] },
    });
    await rig.api.merge(`${path}/p/status`, { status });
    const { body } = await rig.api.get(path, {}, TABLE);
    expect((cells(body)[0] as unknown[]).slice(1, 4)).toEqual(expected);
    await rig.api.remove(`${path}/p`, { gracePeriodSeconds: 5 });
    const deleted = cells((await rig.api.get(path, {}, TABLE)).body)[0] as unknown[] | undefined;
    const over = status['phase'] === 'Failed' || status['phase'] === 'Succeeded';
    expect(deleted?.[2]).toBe(over ? undefined : 'Terminating');
  });

  it('of pods that initialise counts the steps', async () => {
    const path = '/api/v1/namespaces/default/pods';
    const two = [
      { name: 'i1', image: 'i' },
      { name: 'i2', image: 'i' },
    ];
    await rig.api.create(path, {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'p' },
      spec: { initContainers: two, containers: [{ name: 'c', image: 'i' }] },
    });
    await rig.api.merge(`${path}/p/status`, {
      status: { initContainerStatuses: [container('i1', { terminated: { exitCode: 0 } }), container('i2', { running: {} })] },
    });
    expect((cells((await rig.api.get(path, {}, TABLE)).body)[0] as unknown[])[2]).toBe('Init:1/2');
  });

  it('of events, leases, secrets, budgets and definitions is there too', async () => {
    const ns = '/api/v1/namespaces/default';
    await rig.api.create(`${ns}/events`, {
      apiVersion: 'v1',
      kind: 'Event',
      metadata: { name: 'e' },
      involvedObject: { kind: 'Pod', name: 'p', namespace: 'default' },
      reason: 'Because',
      message: ' it is ',
      type: 'Normal',
      count: 3,
      source: { component: 'me', host: 'here' },
      lastTimestamp: '2026-11-20T11:59:30Z',
      firstTimestamp: '2026-11-20T11:00:00Z',
    });
    await rig.api.create(`${ns}/secrets`, { apiVersion: 'v1', kind: 'Secret', metadata: { name: 's' }, stringData: { a: '1', b: '2' } });
    await rig.api.create('/apis/coordination.k8s.io/v1/namespaces/default/leases', {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { name: 'l' },
      spec: { holderIdentity: 'me' },
    });
    await defineWidgets(rig.api);
    const row = async (path: string) => cells((await rig.api.get(path, {}, TABLE)).body)[0];
    expect(await row(`${ns}/events`)).toEqual(['30s', 'Normal', 'Because', 'pod/p', '', 'me, here', 'it is', '60m', 3, 'e']);
    expect(await row(`${ns}/secrets`)).toEqual(['s', 'Opaque', 2, '0s']);
    expect(await row('/apis/coordination.k8s.io/v1/leases')).toEqual(['l', 'me', '0s']);
    expect(await row('/apis/apiextensions.k8s.io/v1/customresourcedefinitions')).toEqual(['widgets.example.io', '2026-11-20T12:00:00Z']);
  });
});

const form = (kind: string) => ({ accept: `application/json;as=${kind};v=v1;g=meta.k8s.io` });

describe('metadata alone', () => {
  it('is given of an object and of a list', async () => {
    const one = await rig.api.get('/api/v1/namespaces/default', {}, form('PartialObjectMetadata'));
    expect(one.body).toMatchObject({ kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata: { name: 'default' } });
    expect(one.body).not.toHaveProperty('status');
    const list = await rig.api.get('/api/v1/namespaces', {}, form('PartialObjectMetadataList'));
    expect([list.body['kind'], pick(list.body, 'items.0.kind'), pick(list.body, 'items.0.status')]).toEqual([
      'PartialObjectMetadataList',
      'PartialObjectMetadata',
      undefined,
    ]);
  });
});
