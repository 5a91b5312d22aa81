import { describe, expect, it } from 'vitest';
import { API_VERSION } from '../../api/kind.ts';
import { ApiError } from '../../kube/api-error.ts';
import type { Client } from '../../kube/client.ts';
import { openAdmission } from './admission.ts';
import { machineWith, OPEN } from '../identity/testing/requests.ts';

const { signal } = new AbortController();
const of = { namespace: 'web', name: 'a', uid: 'machine-a' };
const machine = machineWith(OPEN);

it.each([
  ['gone', undefined],
  ['another one under the name', { ...machine, metadata: { ...machine.metadata, uid: 'its-successor' } }],
  ['being deleted', { ...machine, metadata: { ...machine.metadata, deletionTimestamp: '2026-11-20T12:00:00Z' } }],
])('nothing is admitted for a Machine that is %s, and nothing is made for it', async (_, found) => {
  // Each other request to this server is an error of another kind.
  const client = { find: () => Promise.resolve(found) } as unknown as Client;
  await expect(openAdmission(client, of, { signal })).rejects.toMatchObject({ code: 'MachineGone' });
});

describe('an account', () => {
  const account = (ownerUID: string) => ({
    apiVersion: 'v1',
    kind: 'ServiceAccount',
    metadata: {
      name: 'kubenode-bootstrap-a',
      namespace: 'web',
      uid: 'account-1',
      ownerReferences: [{ apiVersion: API_VERSION, kind: 'Machine', name: 'a', uid: ownerUID }],
    },
  });
  const serving = (ownerUID: string, answer: unknown) =>
    ({
      find: ({ kind }: { kind: string }) => Promise.resolve(kind === 'Machine' ? machine : account(ownerUID)),
      apply: () => Promise.resolve({}),
      post: () => Promise.resolve(answer),
    }) as unknown as Client;

  it('that belongs to something else admits no agent', async () => {
    await expect(openAdmission(serving('another', {}), of, { signal })).rejects.toMatchObject({ code: 'ForeignServiceAccount' });
  });

  it('whose tokens are to end goes before another is made; where it cannot go none is made', async () => {
    const asked: string[] = [];
    const ending = (code: number, reason: string) =>
      ({
        ...serving('machine-a', null),
        delete: () => {
          asked.push('delete');
          return Promise.reject(new ApiError(code, { reason, message: reason }));
        },
        create: () => {
          asked.push('create');
          return Promise.resolve(account('machine-a'));
        },
      }) as unknown as Client;
    await expect(openAdmission(ending(403, 'Forbidden'), of, { again: true, signal })).rejects.toThrow('Forbidden');
    expect(asked).toEqual(['delete']);
    // Gone already.
    await expect(openAdmission(ending(404, 'NotFound'), of, { again: true, signal })).rejects.toMatchObject({ code: 'NoToken' });
    expect(asked).toEqual(['delete', 'delete', 'create']);
  });

  it.each([null, {}, { status: {} }, { status: { token: 't' } }, { status: { expirationTimestamp: 'soon' } }])(
    'for which the server answers %j has no token',
    async (answer) => {
      await expect(openAdmission(serving('machine-a', answer), of, { signal })).rejects.toMatchObject({ code: 'NoToken' });
    },
  );
});
