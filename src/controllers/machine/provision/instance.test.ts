import { describe, expect, test } from 'vitest';
import { CodedError } from '../../../api/errors.ts';
import type { InfraProvider, Instance, InstanceRequest } from '../../../api/provider.ts';
import { instanceOf } from './instance.ts';
import { requestOf } from '../../identity/provision.ts';
import { at, machine } from '../testing/objects.ts';

const { signal } = new AbortController();
const present: Instance = { providerID: 'fake://a', state: 'Running', addresses: [] };
const provider = (change: Partial<InfraProvider> = {}): InfraProvider =>
  ({
    name: 'fake',
    validate: (config: Record<string, unknown>) => ('typo' in config ? [{ path: 'typo', message: 'is not known' }] : []),
    providerIDOf: ({ name }: InstanceRequest) => `fake://made-of-${name}`,
    get: (providerID: string) => Promise.resolve({ ...present, providerID }),
    ...change,
  }) as InfraProvider;

describe('what is known of an instance', () => {
  test('comes from the provider, by the ID that the Machine has, or else by the one that it would have', async () => {
    expect(await instanceOf(machine(), provider(), signal)).toEqual({ state: 'Present', instance: present });
    const { status: _, ...unmade } = machine();
    expect(await instanceOf(unmade, provider(), signal)).toMatchObject({ instance: { providerID: 'fake://made-of-a' } });
    expect(await instanceOf(machine(), provider({ get: () => Promise.resolve(undefined) }), signal)).toEqual({ state: 'Absent' });
  });

  test('is nothing where the machine has no provider, or one that the cell does not have', async () => {
    const { spec, ...rest } = machine();
    const { provider: _, ...unprovided } = spec;
    expect(await instanceOf({ ...rest, spec: unprovided }, provider(), signal)).toEqual({ state: 'NoProvider' });
    expect(await instanceOf(machine(), undefined, signal)).toMatchObject({ state: 'Unknown', reason: 'UnknownProvider' });
  });

  test('is asked for with a configuration that the provider takes, and in any case where the machine is being deleted', async () => {
    const spec = { provider: { name: 'fake', config: { typo: true } } };
    expect(await instanceOf(machine({ spec }), provider(), signal)).toEqual({
      state: 'Unknown',
      reason: 'InvalidConfig',
      message: '`spec.provider.config.typo` is not known',
    });
    const deleted = machine({ spec, metadata: { deletionTimestamp: at(0) } });
    expect(await instanceOf(deleted, provider(), signal)).toMatchObject({ state: 'Present' });
  });

  test('invariant 1: an error of the provider is not its absence', async () => {
    const failing = (thrown: Error) => provider({ get: () => Promise.reject(thrown) });
    expect(await instanceOf(machine(), failing(new CodedError('RateLimited', 'later')), signal)).toEqual({
      state: 'Unknown',
      reason: 'RateLimited',
      message: 'later',
    });
    expect(await instanceOf(machine(), failing(new Error('socket hang up')), signal)).toMatchObject({
      state: 'Unknown',
      reason: 'Unavailable',
    });
  });

  test('is nothing at all once the process ends: an open request is no answer of the provider', async () => {
    const ending = new AbortController();
    ending.abort();
    await expect(instanceOf(machine(), provider({ get: () => Promise.reject(new Error('aborted')) }), ending.signal)).rejects.toThrow(
      'aborted',
    );
  });
});

test('an instance is asked for with what the Machine declares, and with its failure domain only where it has one', () => {
  expect(requestOf(machine({ spec: { provider: { name: 'fake', config: { size: 1 } }, failureDomain: 'z' } }))).toEqual({
    machineUID: 'uid-a',
    namespace: 'web',
    name: 'a',
    config: { size: 1 },
    failureDomain: 'z',
  });
  expect(requestOf(machine())).toEqual({ machineUID: 'uid-a', namespace: 'web', name: 'a', config: {} });
});
