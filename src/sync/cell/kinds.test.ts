import { beforeEach, describe, expect, it } from 'vitest';
import { Secrets } from '../../api/builtin.ts';
import { API_VERSION } from '../../api/kind.ts';
import { MachineSets } from '../../api/machine-set.ts';
import { createClient } from '../../kube/http-client.ts';
import { fakeApiServer, jsonResponse, statusResponse, type FakeApiServer } from '../../kube/testing/api-server.ts';
import { isWatched, resourceFinder } from './kinds.ts';

it.each([
  ['MachineSet', true],
  ['NodeRemedier', true],
  ['MachineComponent', false],
  ['ConfigMap', false],
])('%s is watched in cells: %s', (kind, watched) => {
  expect(isWatched(kind)).toBe(watched);
});

describe('a kind of a unit', () => {
  let server: FakeApiServer;
  let find: ReturnType<typeof resourceFinder>;
  const asked = (): string[] => server.requests.map(({ path }) => path);

  beforeEach(() => {
    server = fakeApiServer();
    find = resourceFinder(createClient(server.transport));
  });
  function answering(resources: unknown): void {
    server.intercept(({ path }) =>
      path === '/apis/example.io/v1' ? jsonResponse(200, { resources }) : statusResponse(503, 'ServiceUnavailable'),
    );
  }
  const widget = { apiVersion: 'example.io/v1', kind: 'Widget' };

  it('is known where it is of KubeNode or built in, and no server is asked', async () => {
    expect(await find({ apiVersion: API_VERSION, kind: 'MachineSet' })).toBe(MachineSets);
    expect(await find({ apiVersion: 'v1', kind: 'Secret' })).toBe(Secrets);
    expect(asked()).toEqual([]);
  });

  it('is asked for once, and holds objects of that kind alone', async () => {
    answering([
      { name: 'others', kind: 'Other' },
      { name: 'widgets', kind: 'Widget', namespaced: true },
    ]);
    const found = await find(widget);
    expect(found).toMatchObject({ group: 'example.io', version: 'v1', kind: 'Widget', plural: 'widgets', namespaced: true });
    expect(await find(widget)).toBe(found);
    expect(asked()).toEqual(['/apis/example.io/v1']);
    const object = { ...widget, metadata: { name: 'a' } };
    expect(found.parse(object)).toBe(object);
    for (const other of [{ ...object, kind: 'Other' }, null]) expect(() => found.parse(other)).toThrow('not a Widget');
  });

  it('is of the whole cluster unless the server reports otherwise', async () => {
    answering([{ name: 'widgets', kind: 'Widget' }]);
    expect(await find(widget)).toMatchObject({ namespaced: false });
  });

  it.each([
    ['another one', [{ name: 'others', kind: 'Other' }]],
    ['one whose name would be another path', [{ name: '../nodes', kind: 'Widget' }]],
    ['one without a name', [{ kind: 'Widget' }]],
    ['no list', { kind: 'Widget', name: 'widgets' }],
  ])('is unknown where the server knows %s', async (_what, resources) => {
    answering(resources);
    await expect(find(widget)).rejects.toMatchObject({
      code: 'UnknownKind',
      message: expect.stringContaining('"Widget" of example.io/v1'),
    });
  });

  it('is unknown where the server does not answer, and is asked for again', async () => {
    answering([]);
    const core = { apiVersion: 'v2', kind: 'Widget' };
    await expect(find(core)).rejects.toMatchObject({ code: 'UnknownKind' });
    await expect(find(core)).rejects.toMatchObject({ code: 'UnknownKind' });
    expect(asked()).toEqual(['/api/v2', '/api/v2']);
  });
});
