import { expect, test } from 'vitest';
import { DisruptionLedgers, LEDGER_NAME } from '../../api/disruption-ledger.ts';
import { API_VERSION } from '../../api/kind.ts';
import { createReleaseMarks } from '../../defender/evidence.ts';
import { ApiError } from '../../kube/api-error.ts';
import { createClient } from '../../kube/http-client.ts';
import { fakeApiServer } from '../../kube/testing/api-server.ts';
import { carryOutEffect } from './effects.ts';
import { watchLedgerWrites } from './reservation/ledger-writes.ts';
import { apiPort, type PortOptions } from './port.ts';
import { machine, node } from './testing/objects.ts';

const signal = new AbortController().signal;

test('D4: a release whose Node was gone is not passed while a store still shows that Node', () => {
  const marks = createReleaseMarks();
  let shown: ReturnType<typeof node> | undefined = node('a');
  const stores = {
    machines: { mark: () => 0, hasPassed: () => true, get: () => undefined },
    nodes: { mark: () => 0, hasPassed: () => true, get: () => shown },
  } as unknown as PortOptions['stores'];
  const options = { client: {}, stores, ledger: {}, marks, provider: undefined, cycled: new Set(), signal } as unknown as PortOptions;
  apiPort(options).releasing({
    machine: { key: { namespace: 'web', name: 'a' }, uid: 'uid-a', resourceVersion: '1' },
    node: { name: 'a', goneUID: 'node-a' },
  });
  expect(marks.allPassed()).toBe(false);
  shown = { ...node('a'), metadata: { ...node('a').metadata, uid: 'another' } };
  expect(marks.allPassed()).toBe(true);
});

test('C8a: a Machine is deleted in the very version that was read; one that changed since lives', async () => {
  const asked: unknown[] = [];
  const client = {
    delete: (_kind: unknown, key: unknown, options: object) => {
      asked.push([key, options]);
      throw new ApiError(409, { reason: 'Conflict', message: 'it is newer' });
    },
  } as unknown as PortOptions['client'];
  const done = await carryOutEffect(
    { do: 'DeleteMachine', machine: machine() },
    { client, provider: undefined, cycled: new Set(), signal },
  );
  expect(asked).toEqual([
    [
      { namespace: 'web', name: 'a' },
      { uid: 'uid-a', resourceVersion: '1', signal },
    ],
  ]);
  expect(done.refused).toBe(true);
});

test('D1: a write of a ledger that was deleted since its store showed it ends the term', async () => {
  const server = fakeApiServer();
  const object = server.put(DisruptionLedgers, {
    apiVersion: API_VERSION,
    kind: 'DisruptionLedger',
    metadata: { name: LEDGER_NAME },
    spec: {},
    status: { epoch: 3, reservations: [] },
  });
  server.remove(DisruptionLedgers, { name: LEDGER_NAME });
  const ledger = watchLedgerWrites({ get: () => object, hasPassed: () => true, mark: () => 0 }, 3);
  const client = createClient(server.transport);
  const options = { client, stores: {}, ledger, marks: createReleaseMarks(), provider: undefined, cycled: new Set(), signal };
  const port = apiPort(options as unknown as PortOptions);
  await expect(port.put({ write: 'ledger', object }, { seen: { ledger: object }, known: false })).rejects.toMatchObject({
    code: 'Deposed',
  });
});
