import { describe, expect, test } from 'vitest';
import { DisruptionLedgers, LEDGER_NAME } from '../api/disruption-ledger.ts';
import { API_VERSION } from '../api/kind.ts';
import { Machines } from '../api/machine.ts';
import { Nodes } from '../api/builtin.ts';
import { MachineComponentSets } from '../api/machine-component-set.ts';
import { RemedyOperationJobs } from '../api/remedy-operation-job.ts';
import type { Client } from '../kube/client.ts';
import { createClient } from '../kube/http-client.ts';
import { fakeApiServer, statusResponse } from '../kube/testing/api-server.ts';
import { beginTerm as begin, type TermOptions } from './ledger.ts';
import { countsOf } from './rates.ts';
import { reservation } from './testing/reservations.ts';

type Server = ReturnType<typeof fakeApiServer>;

const { signal } = new AbortController();
const beginTerm = (client: Client, _: AbortSignal, options: Partial<TermOptions> = {}) =>
  begin(client, signal, { leftReservations: () => [], ...options });
const ledgerOf = (epoch: number) => ({
  apiVersion: API_VERSION,
  kind: 'DisruptionLedger',
  metadata: { name: LEDGER_NAME },
  spec: {},
  status: { epoch, reservations: [reservation('r1', 'a')] },
});

describe('D2: a term begins', () => {
  test('by making the ledger where there is none', async () => {
    const server = fakeApiServer();
    const epoch = await beginTerm(createClient(server.transport), signal);
    expect(epoch).toBeGreaterThan(0);
    expect(server.objects(DisruptionLedgers)[0]?.status?.epoch).toBe(epoch);
  });

  test('by raising the epoch and touching no reservation', async () => {
    const server = fakeApiServer();
    server.put(DisruptionLedgers, ledgerOf(7000));
    const client = createClient(server.transport);
    expect(await beginTerm(client, signal)).toBe(7001);
    expect(await beginTerm(client, signal)).toBe(7002);
    expect(server.objects(DisruptionLedgers)[0]?.status).toEqual({ epoch: 7002, reservations: [reservation('r1', 'a')] });
  });

  test('with an epoch of its own, also when another leader begins at the same time', async () => {
    const server = fakeApiServer();
    server.put(DisruptionLedgers, ledgerOf(7000));
    const client = createClient(server.transport);
    const epochs = await Promise.all(Array.from({ length: 6 }, () => beginTerm(client, signal)));
    expect(epochs.toSorted((a, b) => a - b)).toEqual([7001, 7002, 7003, 7004, 7005, 7006]);
  });

  test('with another epoch after an answer was lost: the epoch that is read then may belong to another leader', async () => {
    const server = fakeApiServer();
    server.put(DisruptionLedgers, ledgerOf(7000));
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
    expect(server.objects(DisruptionLedgers)[0]?.status?.epoch).toBe(7001);
    expect(await beginTerm(client, signal)).toBe(7002);
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
    status: { epoch: 7000 },
  };

  test.each([
    ['an operation', (server: Server) => server.put(Machines, machine('a', { operation: operation(7000) }))],
    ['a mark to go', (server: Server) => server.put(Machines, machine('a', { retire: { epoch: 7000, reason: 'ScaleDown' } }))],
    ['a MachineComponentSet', (server: Server) => server.put(MachineComponentSets, set)],
  ])('the new one begins above the epoch of %s', async (_, put) => {
    const server = fakeApiServer();
    put(server);
    server.put(Machines, machine('b', { operation: operation(3), retire: { epoch: 2, reason: 'ScaleDown' } }));
    expect(await beginTerm(createClient(server.transport), signal)).toBe(7001);
    expect(server.objects(DisruptionLedgers)[0]?.status?.epoch).toBe(7001);
  });

  test('also where the highest is on a later page of the list', async () => {
    const server = fakeApiServer();
    for (let index = 0; index < 501; index++) server.put(Machines, machine(`m${index}`, {}));
    server.put(Machines, machine('z', { operation: operation(9000) }));
    expect(await beginTerm(createClient(server.transport), signal)).toBe(9001);
  });

  test('also where a process died after it had made the ledger, before it wrote the epoch', async () => {
    const server = fakeApiServer();
    const { status: _, ...bare } = ledgerOf(0);
    server.put(DisruptionLedgers, bare);
    server.put(Machines, machine('a', { operation: operation(7000) }));
    expect(await beginTerm(createClient(server.transport), signal)).toBe(7001);
  });

  test.each([Machines, Nodes, RemedyOperationJobs, MachineComponentSets])(
    'no term begins while $plural cannot be listed',
    async ({ plural }) => {
      const server = fakeApiServer();
      server.put(Machines, machine('a', { operation: operation(7000) }));
      const cancel = server.intercept(({ method, path }) =>
        method === 'GET' && path.split('?')[0]?.endsWith(`/${plural}`) === true ? statusResponse(500, 'InternalError') : undefined,
      );
      const client = createClient(server.transport);
      await expect(beginTerm(client, signal)).rejects.toMatchObject({ code: 'InternalError' });
      expect(server.objects(DisruptionLedgers).map(({ status }) => status)).toEqual([undefined]);
      cancel();
      expect(await beginTerm(client, signal)).toBe(7001);
    },
  );

  test('the lists are of who may read all kinds: who writes the ledger need not be allowed to list', async () => {
    const server = fakeApiServer();
    server.put(Machines, machine('a', { operation: operation(7000) }));
    const writer = createClient((request) =>
      request.method === 'GET' && !request.path.includes(`/disruptionledgers/`)
        ? Promise.resolve(statusResponse(403, 'Forbidden'))
        : server.transport(request),
    );
    expect(await beginTerm(writer, signal, { reader: createClient(server.transport) })).toBe(7001);
  });

  test('nor does the number of a term that left no trace come again', async () => {
    const server = fakeApiServer();
    const client = createClient(server.transport);
    const first = await beginTerm(client, signal);
    await client.delete(DisruptionLedgers, { name: LEDGER_NAME });
    expect(await beginTerm(client, signal)).toBeGreaterThan(first);
  });

  test('nor where the cell was put back to a backup of an API server that did not go back itself', async () => {
    const server = fakeApiServer();
    for (let index = 0; index < 40; index++) server.put(Machines, machine(`m${index}`, {}));
    server.put(DisruptionLedgers, ledgerOf(7));
    expect(await beginTerm(createClient(server.transport), signal)).toBeGreaterThan(40);
  });

  test('what may still be under way has its reservation in the write that gives the ledger its first epoch', async () => {
    const server = fakeApiServer();
    server.put(Machines, machine('a', { operation: operation(7000) }));
    const client = createClient(server.transport);
    const asked: number[] = [];
    const leftReservations: TermOptions['leftReservations'] = ({ machines, since }) => {
      asked.push(machines.length);
      expect(since).toBe(server.objects(DisruptionLedgers)[0]?.metadata.creationTimestamp);
      return [reservation('r1', 'a')];
    };
    await beginTerm(client, signal, { leftReservations });
    expect(server.objects(DisruptionLedgers)[0]?.status).toMatchObject({ epoch: 7001, reservations: [reservation('r1', 'a')] });
    await beginTerm(client, signal, { leftReservations });
    expect(asked).toEqual([1]);
  });

  test('and what was listed before another leader began a term is listed again', async () => {
    const server = fakeApiServer();
    const client = createClient(server.transport);
    let listed = 0;
    const leftReservations: TermOptions['leftReservations'] = () => {
      if (listed++ === 0) server.put(DisruptionLedgers, ledgerOf(5000));
      return [reservation('r2', 'b')];
    };
    expect(await beginTerm(client, signal, { leftReservations })).toBe(5001);
    expect(server.objects(DisruptionLedgers)[0]?.status?.reservations).toEqual([reservation('r1', 'a')]);
    expect(listed).toBe(1);
  });

  test('where any term was before, rates have no room until what it began counts no more; in a new cell they have', async () => {
    const server = fakeApiServer();
    const client = createClient(server.transport);
    await beginTerm(client, signal);
    expect(server.objects(DisruptionLedgers)[0]?.status?.hours).toBeUndefined();
    await client.delete(DisruptionLedgers, { name: LEDGER_NAME });
    server.put(Machines, machine('a', { operation: operation(7000) }));
    await beginTerm(client, signal);
    const [ledger] = server.objects(DisruptionLedgers);
    const madeMs = Date.parse(ledger?.metadata.creationTimestamp ?? '');
    const within = (span: 'Hour' | 'Day', minutes: number) =>
      countsOf(ledger?.status?.hours ?? [], madeMs + minutes * 60_000).within(span, ['Repair'], 'cluster');
    expect([0, 60].map((minutes) => within('Hour', minutes) > 1_000_000)).toEqual([true, true]);
    expect(within('Hour', 66)).toBe(0);
    expect([0, 24 * 60].map((minutes) => within('Day', minutes) > 1_000_000)).toEqual([true, true]);
    expect(within('Day', 25 * 60 + 5)).toBe(0);
  });

  test('more reservations than a ledger may have begin no term', async () => {
    const server = fakeApiServer();
    const leftReservations = () => Array.from({ length: 501 }, (_, index) => reservation(`r${index}`, `m${index}`));
    await expect(beginTerm(createClient(server.transport), signal, { leftReservations })).rejects.toMatchObject({ code: 'LedgerFull' });
  });

  test('a ledger that has an epoch is believed, and no list is requested', async () => {
    const server = fakeApiServer();
    server.put(DisruptionLedgers, ledgerOf(7000));
    await beginTerm(createClient(server.transport), signal);
    expect(server.requests.map(({ method }) => method)).toEqual(['GET', 'PUT']);
  });
});
