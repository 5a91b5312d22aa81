import { describe, expect, test } from 'vitest';
import { DisruptionLedgers, LEDGER_NAME } from '../api/disruptionledger.ts';
import { API_VERSION } from '../api/kind.ts';
import { createClient } from '../kube/httpclient.ts';
import { fakeApiServer } from '../kube/testing/apiserver.ts';
import { beginTerm } from './ledger.ts';
import { row } from './testing/rows.ts';

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
