/** The pass in a whole cell: what Defender takes back is cancelled by the machine controller, and what that leaves. */
import { afterEach, describe, expect, test } from 'vitest';
import { Pods } from '../../../api/builtin.ts';
import { DefenderPolicies, type DefenderPolicySpec } from '../../../api/defender-policy.ts';
import { DisruptionLedgers, LEDGER_NAME } from '../../../api/disruption-ledger.ts';
import { API_VERSION } from '../../../api/kind.ts';
import { waitFor } from '../../../kube/testing/wait-for.ts';
import { isCordoned, ownerOf } from '../cordon/cordon.ts';
import { openCell, POOL, type TestCell } from '../testing/cell.ts';
import { entry, VERIFIED_OLD, waiting } from '../testing/objects.ts';

let cell: TestCell | undefined;
afterEach(async () => {
  await cell?.close();
  cell = undefined;
});
const LONG = { deadlineMs: 15_000 };

const limited = (limit: object): DefenderPolicySpec => ({ limits: [{ name: 'cell', scope: 'Cluster', ...limit }] });
const started = async (test: TestCell): Promise<number> => {
  const ledger = await test.client.get(DisruptionLedgers, { name: LEDGER_NAME });
  return (ledger.status?.hours ?? []).reduce((sum, { starts }) => sum + (starts['Change cluster'] ?? 0), 0);
};

/** Two machines that are reserved and drained, which a pod of each that does not end blocks: no order can be given. */
async function blocked(spec: DefenderPolicySpec): Promise<TestCell> {
  const test = (cell = await openCell());
  const { client } = test;
  await client.create(DefenderPolicies, { apiVersion: API_VERSION, kind: 'DefenderPolicy', metadata: { name: 'p' }, spec });
  test.lead();
  const { uid } = (await test.set({ maxUnavailable: '100%' })).metadata;
  for (const name of ['a', 'b']) {
    await client.create(Pods, {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name, namespace: POOL, finalizers: ['kubenode.io/test'] },
      spec: { nodeName: name, containers: [{ name: 'c', image: 'i' }] },
    });
    await test.addMachine(name, { components: [entry({ setUID: uid })] });
    await test.boot(name);
  }
  for (const name of ['a', 'b']) await test.phase(name, 'Running');
  for (const name of ['a', 'b']) {
    await test.report(name, { components: [waiting({ needs: 'Drain' })], verified: [{ ...VERIFIED_OLD, setUID: uid }] });
    await waitFor(async () => ownerOf((await test.node(name)) ?? { apiVersion: '', kind: '', metadata: { name } }) !== undefined, {
      ...LONG,
      what: `${name} to be cordoned`,
    });
  }
  return test;
}

const policy = (test: TestCell, spec: object) => test.client.patch(DefenderPolicies, { name: 'p' }, { merge: { spec } });

describe('what is reserved and has no order', () => {
  test('case 25 and 26: the younger is given up when its limit is lowered, with cordon, reservation and token; the older goes on', async () => {
    const test = await blocked(limited({ maxUnavailable: 2, maxPerHour: 9 }));
    const reservations = await test.reservations();
    expect(reservations.map((reservation) => reservation.machine)).toEqual([`${POOL}/a`, `${POOL}/b`]);
    expect(await started(test)).toBe(2);
    await policy(test, limited({ maxUnavailable: 1, maxPerHour: 9 }));
    await waitFor(async () => (await test.reservations()).length === 1, { ...LONG, what: 'one reservation' });
    expect((await test.reservations()).map((reservation) => reservation.id)).toEqual([reservations[0]?.id]);
    expect((await test.machine('b')).spec.operation).toMatchObject({
      id: reservations[1]?.id,
      kind: 'Cancelled',
      reason: 'Refused: p/cell',
    });
    const node = await test.node('b');
    expect(node === undefined ? true : isCordoned(node)).toBe(false);
    expect(await started(test)).toBe(1);
    // And it waits, with the reason in its status, until there is room.
    await waitFor(async () => (await test.machine('b')).status?.verdict?.limit === 'p/cell', LONG);
    expect((await test.machine('b')).status?.verdict).toMatchObject({ used: 1, of: 1, holders: [`${POOL}/a`] });
  }, 30_000);

  test('both are given up when a freeze begins, and go again after it', async () => {
    const test = await blocked(limited({ maxUnavailable: 2 }));
    const day = (ms: number): string => new Date(Date.now() + ms).toISOString().slice(0, 16);
    const freezes = [{ name: 'stop', timeZone: 'UTC', from: day(-60_000), until: day(86_400_000), reason: 'an outage elsewhere' }];
    await policy(test, { freezes });
    await waitFor(async () => (await test.reservations()).length === 0, { ...LONG, what: 'no reservation' });
    const verdict = await waitFor(async () => (await test.machine('a')).status?.verdict, LONG);
    expect(verdict).toMatchObject({ allowed: false, limit: 'p/stop' });
    expect(verdict.wouldPassWhen).toContain('freeze stop (an outage elsewhere) is over: from ');
    await policy(test, { freezes: [] });
    await waitFor(async () => (await test.reservations()).length === 2, { ...LONG, what: 'two reservations' });
  }, 30_000);
});
