import { describe, expect, it } from 'vitest';
import { isCoded } from '../../api/errors.ts';
import { API_VERSION } from '../../api/kind.ts';
import type { Machine, MachineStatus } from '../../api/machine.ts';
import { ANNOTATIONS } from '../../api/names.ts';
import { type NodeBootstrap, PROVIDER_ERRORS } from '../../api/provider.ts';
import type { Stored } from '../../api/wire.ts';
import { sshProvider } from './provider.ts';

const { signal } = new AbortController();
const bootstrap: MachineStatus['bootstrap'] = { epoch: 1, accountUID: 'account', tokenUntil: '2026-01-01T00:00:00Z' };
const admitted = { ...bootstrap, csrUID: 'csr' };
const agent = { version: '0.1.0', apiLevel: 1, bootID: 'b', os: 'linux', arch: 'x64' };
const operation = { id: 'reservation', epoch: 1, kind: 'Delete', notAfter: '2026-01-01T00:00:00Z' } as const;
const deletionTimestamp = '2026-01-01T00:00:00Z';

function machine(
  status?: MachineStatus,
  given: { deleting?: boolean; off?: boolean; ordered?: boolean; uid?: string } = {},
): Stored<Machine> {
  return {
    apiVersion: API_VERSION,
    kind: 'Machine',
    metadata: {
      namespace: 'web',
      name: 'web-1',
      uid: given.uid ?? 'uid-1',
      resourceVersion: '1',
      creationTimestamp: '2026-01-01T00:00:00Z',
      ...(given.deleting === true ? { deletionTimestamp } : {}),
      ...(given.off === true ? { annotations: { [ANNOTATIONS.machineIsOff]: 'burned, INC-1' } } : {}),
    },
    spec: { provider: { name: 'ssh', config: { address: '10.0.0.7' } }, ...(given.ordered === true ? { operation } : {}) },
    ...(status === undefined ? {} : { status }),
  };
}

const over = (found: Stored<Machine> | undefined) =>
  sshProvider({ find: () => Promise.resolve(found), listAll: () => Promise.resolve(found === undefined ? [] : [found]) });
const id = 'ssh://web/web-1/uid-1';
const request = { machineUID: 'uid-1', namespace: 'web', name: 'web-1', config: { address: '10.0.0.7' } };
const report = (outcome: 'Succeeded' | 'PermanentFailure', of = 'reservation') => ({ id: of, state: 'Done', outcome }) as const;

describe('a machine that exists by itself', () => {
  it('is there once its admission was opened, waits for its agent, and has the address that was given', async () => {
    expect(await over(machine()).get(id, signal)).toBeUndefined();
    const addresses = [{ type: 'InternalIP', address: '10.0.0.7' }];
    expect(await over(machine({ bootstrap })).get(id, signal)).toEqual({ providerID: id, state: 'Pending', addresses });
    expect(await over(machine({ bootstrap, agent })).get(id, signal)).toMatchObject({ state: 'Running' });
    expect(over(machine()).providerIDOf(request)).toBe(id);
  });

  it.each([
    ['10.0.0.7', 'InternalIP'],
    ['fd00::7', 'InternalIP'],
    ['web-1.example.com', 'InternalDNS'],
    ['7.example.com', 'InternalDNS'],
  ])('has the address %s as %s', async (address, type) => {
    const found = machine({ bootstrap });
    found.spec.provider = { name: 'ssh', config: { address } };
    expect((await over(found).get(id, signal))?.addresses).toEqual([{ type, address }]);
    found.spec.provider = { name: 'ssh', config: {} };
    expect((await over(found).get(id, signal))?.addresses).toEqual([]);
  });

  it('is listed from its admission until it is gone, and machines of other providers are not', async () => {
    const listed = async (found: Stored<Machine>) => (await over(found).list(signal)).map(({ providerID, state }) => [providerID, state]);
    expect(await listed(machine())).toEqual([]);
    expect(await listed(machine({ bootstrap }))).toEqual([[id, 'Pending']]);
    expect(await listed(machine({ bootstrap: admitted, agent }, { deleting: true }))).toEqual([[id, 'Running']]);
    expect(await listed(machine({ bootstrap: admitted, agent }, { deleting: true, ordered: true }))).toEqual([[id, 'Deleting']]);
    expect(await listed(machine({ bootstrap: admitted, agent }, { ordered: true }))).toEqual([[id, 'Running']]);
    expect(await listed(machine({ bootstrap }, { deleting: true }))).toEqual([]);
    expect(await over(machine({ bootstrap }, { deleting: true })).get(id, signal)).toBeUndefined();
    const other = machine({ bootstrap });
    other.spec.provider = { name: 'local', config: {} };
    expect(await listed(other)).toEqual([]);
  });

  it('is waited for, not made', async () => {
    expect(await over(machine()).ensure(request, {} as NodeBootstrap, signal)).toMatchObject({ providerID: id, state: 'Pending' });
    await expect(over(undefined).ensure(request, {} as NodeBootstrap, signal)).rejects.toMatchObject({ code: 'InvalidConfig' });
  });

  it.each([
    'ssh://web/web-1',
    'ssh://web//uid-1',
    'ssh:///web-1/uid-1',
    'ssh://web/web-1/',
    'ssh://web/web-1/uid-1/more',
    'web/web-1/uid-1',
    '',
  ])('is not what %j names', async (wrong) => {
    await expect(over(machine({ bootstrap })).get(wrong, signal)).rejects.toMatchObject({ code: 'InvalidConfig' });
  });

  it('is not asked for on behalf of a caller that has given up, and reports its reason', async () => {
    const reason = new Error('over');
    const asked: string[] = [];
    const given = sshProvider({
      find: async () => {
        asked.push('find');
        ending.abort(reason);
        throw new Error('cut off');
      },
      listAll: () => Promise.resolve([]),
    });
    const ending = new AbortController();
    // Ended while it is asked: the error of the call as it is, which is not the provider's.
    await expect(given.get(id, ending.signal)).rejects.toThrow(/^cut off$/);
    await expect(given.get(id, ending.signal)).rejects.toBe(reason);
    expect(asked).toEqual(['find']);
  });

  it('is another one under another UID', async () => {
    expect(await over(machine({ bootstrap }, { uid: 'uid-2' })).get(id, signal)).toBeUndefined();
    expect(await over(machine({ bootstrap }, { uid: 'uid-2' })).delete(id, signal)).toBe('gone');
  });

  it('is gone when its agent reports that it removed what it installed, and not when that failed, or was asked for by another order', async () => {
    const stateAfter = (operation: ReturnType<typeof report>) =>
      over(machine({ bootstrap: admitted, agent, operation }, { deleting: true, ordered: true })).delete(id, signal);
    expect(await stateAfter(report('Succeeded'))).toBe('gone');
    expect(await stateAfter(report('PermanentFailure'))).toBe('deleting');
    expect(await stateAfter(report('Succeeded', 'another'))).toBe('deleting');
  });

  it('is never taken for gone because no host answers', async () => {
    expect(await over(machine({ bootstrap: admitted, agent }, { deleting: true, ordered: true })).delete(id, signal)).toBe('deleting');
    expect(await over(machine({ bootstrap: admitted }, { deleting: true, ordered: true })).delete(id, signal)).toBe('deleting');
  });

  it('is gone when a person marks one that is being deleted', async () => {
    expect(await over(machine({ bootstrap: admitted, agent }, { deleting: true, off: true })).delete(id, signal)).toBe('gone');
    expect(await over(machine({ bootstrap: admitted, agent }, { off: true })).delete(id, signal)).toBe('deleting');
  });

  it('is gone when no agent was ever admitted for it', async () => {
    expect(await over(machine({ bootstrap }, { deleting: true })).delete(id, signal)).toBe('gone');
    expect(await over(undefined).delete(id, signal)).toBe('gone');
  });

  it('is not brought back while it is being deleted', async () => {
    const given = over(machine({ bootstrap }, { deleting: true }));
    await expect(given.ensure(request, {} as NodeBootstrap, signal)).rejects.toSatisfy((error) =>
      isCoded(error, PROVIDER_ERRORS, 'InvalidConfig'),
    );
  });

  it('is not known while the server does not answer', async () => {
    const failing = sshProvider({ find: () => Promise.reject(new Error('cut off')), listAll: () => Promise.reject(new Error('cut off')) });
    for (const call of [failing.get(id, signal), failing.delete(id, signal), failing.list(signal)])
      await expect(call).rejects.toSatisfy((error) => isCoded(error, PROVIDER_ERRORS, 'Unavailable'));
  });

  it.each([
    [{}, 'address'],
    [{ address: '-oProxyCommand=x' }, 'address'],
    [{ address: 'a', port: 0 }, 'port'],
    [{ address: 'a', user: '-x' }, 'user'],
    [{ address: 'a', hostKeys: 'x' }, 'hostKeys'],
    [{ address: 'a', password: 'x' }, 'password'],
  ])('is not accepted with %j', (config, path) => {
    expect(over(undefined).validate(config)).toEqual([expect.objectContaining({ path })]);
  });
});
