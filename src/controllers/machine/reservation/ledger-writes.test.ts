import { afterEach, expect, test } from 'vitest';
import { DisruptionLedgers, LEDGER_NAME, type DisruptionLedger } from '../../../api/disruption-ledger.ts';
import { API_VERSION } from '../../../api/kind.ts';
import type { Stored } from '../../../api/wire.ts';
import { createClient } from '../../../kube/http-client.ts';
import { startReflector } from '../../../kube/reflector.ts';
import { fakeApiServer } from '../../../kube/testing/api-server.ts';
import { fakeClock } from '../../../kube/testing/clock.ts';
import { recordingLog } from '../../../kube/testing/log.ts';
import { settle } from '../../../kube/testing/wait-for.ts';
import { watchLedgerWrites } from './ledger-writes.ts';

let ended = new AbortController();
afterEach(() => ended.abort(new Error('over')));

async function opened(epoch: number) {
  ended = new AbortController();
  const api = fakeApiServer();
  const client = createClient(api.transport);
  const put = (epoch: number): Stored<DisruptionLedger> =>
    api.put(DisruptionLedgers, {
      apiVersion: API_VERSION,
      kind: 'DisruptionLedger',
      metadata: { name: LEDGER_NAME },
      spec: {},
      status: { epoch, reservations: [] },
    });
  put(1);
  const ports = { clock: fakeClock(), random: () => 0, log: recordingLog(), signal: ended.signal };
  const store = startReflector({ ...ports, client, resource: DisruptionLedgers });
  await store.whenSynced();
  await settle();
  const writes = watchLedgerWrites(store, epoch);
  const known = (): number | undefined => writes.known()?.ledger.status?.epoch;
  return { api, put, store, writes, known };
}

test('a ledger of before the term is not known; one of a later term is, and ends this one', async () => {
  const { put, known } = await opened(2);
  expect(known()).toBeUndefined();
  put(2);
  await settle();
  expect(known()).toBe(2);
  put(3);
  await settle();
  expect(known()).toBe(3);
});

test('it is not known while a write is under way, nor before the store shows it', async () => {
  const { api, put, writes, known } = await opened(1);
  const answer = Promise.withResolvers<Stored<DisruptionLedger>>();
  const written = writes.during(answer.promise);
  expect(known()).toBeUndefined();
  api.watches.stall();
  answer.resolve(put(2));
  await written;
  await settle();
  expect(known()).toBeUndefined();
  api.watches.resume();
  await settle();
  expect(known()).toBe(2);
});

test('after a write whose fate is unknown it is read, until a list or the next answer shows it; a refusal changes nothing', async () => {
  const { api, put, store, writes, known } = await opened(1);
  const conflict = createClient(api.transport).update(DisruptionLedgers, {
    ...put(1),
    metadata: { name: LEDGER_NAME, resourceVersion: '1' },
  });
  await expect(writes.during(conflict)).rejects.toMatchObject({ code: 'Conflict' });
  expect(known()).toBe(1);
  await expect(writes.during(Promise.reject(new Error('no answer')))).rejects.toThrow('no answer');
  expect(known()).toBeUndefined();
  await writes.during(Promise.resolve(put(1)));
  await settle();
  expect(known()).toBe(1);
  await expect(writes.during(Promise.reject(new Error('no answer')))).rejects.toThrow('no answer');
  store.relist();
  await settle();
  expect(known()).toBe(1);
});
