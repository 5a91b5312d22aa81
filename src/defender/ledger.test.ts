import { describe, expect, test } from 'vitest';
import { DisruptionLedgers, LEDGER_NAME } from '../api/disruptionledger.ts';
import { API_VERSION } from '../api/kind.ts';
import { Machines } from '../api/machine.ts';
import { MachineComponentSets } from '../api/machinecomponentset.ts';
import { createClient } from '../kube/httpclient.ts';
import { fakeApiServer, statusResponse } from '../kube/testing/apiserver.ts';
import { beginTerm } from './ledger.ts';
import { row } from './testing/rows.ts';

type Server = ReturnType<typeof fakeApiServer>;

const { signal } = new AbortController();
const ledgerOf = (epoch: number) => ({
  apiVersion: API_VERSION,
  kind: 'DisruptionLedger',
  metadata: { name: LEDGER_NAME },
  spec: {},
  status: { epoch, rows: [row('r1', 'a')] },
});

describe('D2: a term begins', () => {
  test('by making the ledger where there is none', async () => {
    const server = fakeApiServer();
    expect(await beginTerm(createClient(server.transport), signal)).toBe(1);
    expect(server.objects(DisruptionLedgers)[0]?.status?.epoch).toBe(1);
  });

  test('by raising the epoch and touching no row', async () => {
    const server = fakeApiServer();
    server.put(DisruptionLedgers, ledgerOf(7));
    const client = createClient(server.transport);
    expect(await beginTerm(client, signal)).toBe(8);
    expect(await beginTerm(client, signal)).toBe(9);
    expect(server.objects(DisruptionLedgers)[0]?.status).toEqual({ epoch: 9, rows: [row('r1', 'a')] });
  });

  test('with an epoch of its own, whoever else begins at the same time', async () => {
    const server = fakeApiServer();
    server.put(DisruptionLedgers, ledgerOf(0));
    const client = createClient(server.transport);
    const epochs = await Promise.all(Array.from({ length: 6 }, () => beginTerm(client, signal)));
    expect(epochs.toSorted((a, b) => a - b)).toEqual([1, 2, 3, 4, 5, 6]);
  });

  test('with another epoch after an answer was lost: the one that is read then may be somebody else', async () => {
    const server = fakeApiServer();
    server.put(DisruptionLedgers, ledgerOf(0));
    const client = createClient(server.transport);
    const cancel = server.intercept((request) => {
      if (request.method !== 'PUT') return undefined;
      cancel();
      // The write arrives; its answer does not.
      return server.transport(request).then(() => {
        throw new Error('the connection was reset');
      });
    });
    await expect(beginTerm(client, signal)).rejects.toMatchObject({ code: 'Unreachable' });
    expect(server.objects(DisruptionLedgers)[0]?.status?.epoch).toBe(1);
    expect(await beginTerm(client, signal)).toBe(2);
  });
});

describe('D1: the epoch does not fall where the ledger was deleted', () => {
  const operation = (epoch: number) => ({ id: 'o1', epoch, kind: 'Change' as const, notAfter: '2026-11-20T12:00:00Z' });
  const machine = (name: string, spec: object) => ({
    apiVersion: API_VERSION,
    kind: 'Machine',
    metadata: { namespace: 'web', name },
    spec,
  });
  const set = {
    apiVersion: API_VERSION,
    kind: 'MachineComponentSet',
    metadata: { name: 'kubelet' },
    spec: { componentName: 'kubelet', version: '1.0.0' },
    status: { epoch: 7 },
  };

  test.each([
    ['an operation', (server: Server) => server.put(Machines, machine('a', { operation: operation(7) }))],
    ['a mark to go', (server: Server) => server.put(Machines, machine('a', { retire: { epoch: 7, reason: 'ScaleDown' } }))],
    ['a MachineComponentSet', (server: Server) => server.put(MachineComponentSets, set)],
  ])('the new one begins above that of %s', async (_, put) => {
    const server = fakeApiServer();
    put(server);
    server.put(Machines, machine('b', { operation: operation(3), retire: { epoch: 2, reason: 'ScaleDown' } }));
    expect(await beginTerm(createClient(server.transport), signal)).toBe(8);
    expect(server.objects(DisruptionLedgers)[0]?.status?.epoch).toBe(8);
  });

  test('also where the highest is on a later page of the list', async () => {
    const server = fakeApiServer();
    for (let index = 0; index < 501; index++) server.put(Machines, machine(`m${index}`, {}));
    server.put(Machines, machine('z', { operation: operation(9) }));
    expect(await beginTerm(createClient(server.transport), signal)).toBe(10);
  });

  test('also where a process died after it had made the ledger, before it wrote the epoch', async () => {
    const server = fakeApiServer();
    const { status: _, ...bare } = ledgerOf(0);
    server.put(DisruptionLedgers, bare);
    server.put(Machines, machine('a', { operation: operation(7) }));
    expect(await beginTerm(createClient(server.transport), signal)).toBe(8);
  });

  test.each([Machines, MachineComponentSets])(
    'no term begins, and no ledger is made, while $plural cannot be listed',
    async ({ plural }) => {
      const server = fakeApiServer();
      server.put(Machines, machine('a', { operation: operation(7) }));
      const cancel = server.intercept(({ method, path }) =>
        method === 'GET' && path.split('?')[0]?.endsWith(`/${plural}`) === true ? statusResponse(500, 'InternalError') : undefined,
      );
      const client = createClient(server.transport);
      await expect(beginTerm(client, signal)).rejects.toMatchObject({ code: 'InternalError' });
      expect(server.objects(DisruptionLedgers)).toEqual([]);
      cancel();
      expect(await beginTerm(client, signal)).toBe(8);
    },
  );

  test('the lists are of who may read all kinds: who writes the ledger need not be allowed to list', async () => {
    const server = fakeApiServer();
    server.put(Machines, machine('a', { operation: operation(7) }));
    const writer = createClient((request) =>
      request.method === 'GET' && !request.path.includes(`/disruptionledgers/`)
        ? Promise.resolve(statusResponse(403, 'Forbidden'))
        : server.transport(request),
    );
    expect(await beginTerm(writer, signal, createClient(server.transport))).toBe(8);
  });

  test('a ledger that has an epoch is believed, and nothing is listed', async () => {
    const server = fakeApiServer();
    server.put(DisruptionLedgers, ledgerOf(7));
    await beginTerm(createClient(server.transport), signal);
    expect(server.requests.map(({ method }) => method)).toEqual(['GET', 'PUT']);
  });
});
