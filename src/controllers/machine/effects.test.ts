import { describe, expect, test } from 'vitest';
import type { Instance, InfraProvider } from '../../api/provider.ts';
import { ApiError } from '../../kube/api-error.ts';
import { carryOutEffect } from './effects.ts';
import type { Effect } from './guards.ts';
import type { PortOptions } from './port.ts';
import { machine } from './testing/objects.ts';

const { signal } = new AbortController();
const pod = { namespace: 'web', name: 'p', uid: 'uid-p', terminating: false, labels: {} };
const providerID = 'fake://a';

/** A server that answers each request by `answer`, and a provider whose instance is in `state`; both note what they were asked. */
function world({
  answer = () => undefined,
  state,
  provider = {},
}: { answer?: () => ApiError | undefined; state?: Instance['state']; provider?: Partial<InfraProvider> } = {}) {
  const asked: unknown[][] = [];
  const ask = (...request: unknown[]): Promise<void> => {
    asked.push(request);
    const error = answer();
    return error === undefined ? Promise.resolve() : Promise.reject(error);
  };
  const client = {
    post: (path: string, body: unknown) => ask('post', path, body),
    delete: (_kind: unknown, key: unknown, options: object) => ask('delete', key, { ...options, signal: undefined }),
  } as unknown as PortOptions['client'];
  const fake: Partial<InfraProvider> = {
    name: 'fake',
    get: (id) => Promise.resolve(state === undefined ? undefined : { providerID: id, state, addresses: [] }),
    delete: async (id) => {
      await ask('provider.delete', id);
      return 'deleting';
    },
    stop: (id, operation) => ask('provider.stop', id, operation),
    reboot: (id, operation) => ask('provider.reboot', id, operation),
    retire: (id, operation) => ask('provider.retire', id, operation),
    ...provider,
  };
  const cycled = new Set<string>();
  return {
    asked,
    cycled,
    carryOut: (effect: Effect, by: InfraProvider | undefined = fake as InfraProvider) =>
      carryOutEffect(effect, { client, provider: by, cycled, signal }),
    withoutProvider: (effect: Effect) => carryOutEffect(effect, { client, provider: undefined, cycled, signal }),
  };
}
const refusing = (code: number, reason: string) => () => new ApiError(code, { reason, message: reason });

describe('an eviction', () => {
  test('asks for this very pod, with the grace that is left', async () => {
    const { asked, carryOut } = world();
    expect(await carryOut({ do: 'Evict', pod })).not.toHaveProperty('refused', true);
    await carryOut({ do: 'Evict', pod, graceSeconds: 7 });
    const eviction = (deleteOptions: object) => [
      'post',
      '/api/v1/namespaces/web/pods/p/eviction',
      { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { namespace: 'web', name: 'p' }, deleteOptions },
    ];
    expect(asked).toEqual([
      eviction({ preconditions: { uid: 'uid-p' } }),
      eviction({ preconditions: { uid: 'uid-p' }, gracePeriodSeconds: 7 }),
    ]);
  });

  test.each([
    [404, 'NotFound'],
    [409, 'Conflict'],
  ])('of a pod that is gone, or that another one has the name of (%i), is done', async (code, reason) => {
    expect(await world({ answer: refusing(code, reason) }).carryOut({ do: 'Evict', pod })).toEqual({ note: 'web/p is gone' });
  });

  test.each([
    [429, 'TooManyRequests'],
    [500, 'InternalError'],
  ])('that a disruption budget does not allow (%i) is refused for now', async (code, reason) => {
    expect(await world({ answer: refusing(code, reason) }).carryOut({ do: 'Evict', pod })).toMatchObject({ refused: true });
  });

  test('that the server does not let us make is an error', async () => {
    await expect(world({ answer: refusing(403, 'Forbidden') }).carryOut({ do: 'Evict', pod })).rejects.toThrow('Forbidden');
  });
});

describe('pods are taken by force', () => {
  const force: Effect = { do: 'ForceDelete', pods: [pod, { ...pod, name: 'q', uid: 'uid-q' }], providerID };
  const forced = [
    ['delete', { namespace: 'web', name: 'p' }, { uid: 'uid-p', gracePeriodSeconds: 0 }],
    ['delete', { namespace: 'web', name: 'q' }, { uid: 'uid-q', gracePeriodSeconds: 0 }],
  ];

  test('once the provider answers that the instance is off or gone, each by its UID', async () => {
    for (const state of ['Stopped', undefined] as const) {
      const { asked, carryOut } = world(state === undefined ? {} : { state });
      expect(await carryOut(force)).not.toHaveProperty('refused', true);
      expect(asked).toEqual(forced);
    }
  });

  test.each<Instance['state']>(['Pending', 'Running', 'Deleting'])('never while the instance is %s', async (state) => {
    const { asked, carryOut } = world({ state });
    expect(await carryOut(force)).toMatchObject({ refused: true });
    expect(asked).toEqual([]);
  });

  test('never while the provider does not answer', async () => {
    const { asked, carryOut } = world({ provider: { get: () => Promise.reject(new Error('it is away')) } });
    await expect(carryOut(force)).rejects.toThrow('it is away');
    expect(asked).toEqual([]);
  });

  test('also where one of them is gone already; anything else stops it', async () => {
    const gone = world({ answer: refusing(404, 'NotFound') });
    await gone.carryOut(force);
    expect(gone.asked).toEqual(forced);
    const denied = world({ answer: refusing(403, 'Forbidden') });
    await expect(denied.carryOut(force)).rejects.toThrow('Forbidden');
    expect(denied.asked).toHaveLength(1);
  });
});

describe('a Machine', () => {
  const effect: Effect = { do: 'DeleteMachine', machine: machine() };

  test('is deleted', async () => {
    const { asked, carryOut } = world();
    expect(await carryOut(effect)).toEqual({ note: 'deletes Machine web/a' });
    expect(asked).toEqual([['delete', { namespace: 'web', name: 'a' }, { uid: 'uid-a', resourceVersion: '1' }]]);
  });

  test.each([
    [404, 'NotFound'],
    [409, 'Conflict'],
  ])('that changed meanwhile (%i) is decided on again', async (code, reason) => {
    expect(await world({ answer: refusing(code, reason) }).carryOut(effect)).toMatchObject({ refused: true });
  });

  test('that the server does not let us delete is an error', async () => {
    await expect(world({ answer: refusing(403, 'Forbidden') }).carryOut(effect)).rejects.toThrow('Forbidden');
  });
});

describe('a provider', () => {
  const operationID = 'r1';

  test('is asked in the name of the operation, and a power cycle that it took is remembered', async () => {
    const { asked, carryOut, cycled } = world();
    expect(await carryOut({ do: 'DeleteInstance', providerID })).toEqual({ note: 'deleting' });
    expect(await carryOut({ do: 'StopInstance', providerID, operationID })).not.toHaveProperty('refused', true);
    expect(await carryOut({ do: 'RetirePower', providerID, operationID })).not.toHaveProperty('refused', true);
    expect([...cycled]).toEqual([]);
    expect(await carryOut({ do: 'PowerCycle', providerID, operationID })).not.toHaveProperty('refused', true);
    expect([...cycled]).toEqual(['r1']);
    expect(asked).toEqual([
      ['provider.delete', providerID],
      ['provider.stop', providerID, 'r1'],
      ['provider.retire', providerID, 'r1'],
      ['provider.reboot', providerID, 'r1'],
    ]);
  });

  test('that did not take a power cycle may be asked again', async () => {
    const { carryOut, cycled } = world({ answer: refusing(503, 'ServiceUnavailable') });
    await expect(carryOut({ do: 'PowerCycle', providerID, operationID })).rejects.toThrow('ServiceUnavailable');
    expect([...cycled]).toEqual([]);
  });

  test('that cannot do it reports that, and what it never could need not be retired', async () => {
    const { carryOut } = world();
    const by = { name: 'bare' } as unknown as InfraProvider;
    expect(await carryOut({ do: 'StopInstance', providerID, operationID }, by)).toMatchObject({ refused: true });
    expect(await carryOut({ do: 'PowerCycle', providerID, operationID }, by)).toMatchObject({ refused: true });
    expect(await carryOut({ do: 'RetirePower', providerID, operationID }, by)).not.toHaveProperty('refused', true);
  });

  test('that the cell has no more refuses all but what only ends its part', async () => {
    const { withoutProvider } = world();
    for (const effect of [
      { do: 'DeleteInstance', providerID },
      { do: 'StopInstance', providerID, operationID },
      { do: 'PowerCycle', providerID, operationID },
      { do: 'ForceDelete', providerID, pods: [pod] },
    ] satisfies Effect[])
      expect(await withoutProvider(effect)).toMatchObject({ refused: true });
    expect(await withoutProvider({ do: 'RetirePower', providerID, operationID })).toMatchObject({ refused: false });
  });
});
