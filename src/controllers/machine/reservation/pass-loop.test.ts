import { expect, test } from 'vitest';
import { DisruptionLedgers, LEDGER_NAME, type DisruptionLedger, type LedgerReservation } from '../../../api/disruption-ledger.ts';
import type { DefenderPolicySpec } from '../../../api/defender-policy.ts';
import { API_VERSION } from '../../../api/kind.ts';
import { Machines, type Machine } from '../../../api/machine.ts';
import { keyOf, type Resource } from '../../../api/resource.ts';
import type { KubeObject, Stored } from '../../../api/wire.ts';
import type { GuardedPort } from '../../../defender/guarded-write.ts';
import { createClient } from '../../../kube/http-client.ts';
import type { Store } from '../../../kube/store.ts';
import { fakeApiServer } from '../../../kube/testing/api-server.ts';
import { fakeClock } from '../../../kube/testing/clock.ts';
import { recordingLog } from '../../../kube/testing/log.ts';
import type { PassView } from './pass.ts';
import { createPass } from './pass-loop.ts';
import { cellOf } from '../testing/cell-of.ts';
import { at, facts, machine, node, NOW, operation, reservation } from '../testing/objects.ts';

function storeOf<T extends KubeObject>(resource: Resource<T>, objects: () => Stored<T>[]): Store<T> {
  return {
    resource,
    synced: true,
    resourceVersion: '1',
    get: (key) => objects().find((each) => keyOf(each.metadata) === keyOf(key)),
    list: objects,
    inNamespace: objects,
    byIndex: (_, uid) => objects().filter(({ metadata }) => metadata.uid === uid),
    get size() {
      return objects().length;
    },
  };
}

/** A pass over stores that the test writes, and a server that only it could ask. */
function looped() {
  const cell = {
    machines: [machine()] as Stored<Machine>[],
    reservations: [] as LedgerReservation[],
    spec: { limits: [{ name: 'cell', scope: 'Cluster', maxUnavailable: '100%' }] } as DefenderPolicySpec,
    nowMs: NOW,
    stale: undefined as string | undefined,
    observations: 0,
    /** How long an observation takes. */
    tookMs: 0,
    woken: [] as string[],
    calls: [] as string[],
  };
  const ledger = (): Stored<DisruptionLedger> => ({
    apiVersion: API_VERSION,
    kind: 'DisruptionLedger',
    metadata: { name: LEDGER_NAME, uid: 'l', resourceVersion: '1', creationTimestamp: at(-9) },
    spec: {},
    status: { epoch: 1, reservations: cell.reservations },
  });
  const clock = fakeClock();
  const { agentAnswers: _, ...shared } = facts();
  const view = (): PassView => {
    cell.observations++;
    clock.pause(cell.tookMs);
    return cellOf({
      facts: { ...shared, nowMs: cell.nowMs, policies: [{ metadata: { name: 'p' }, spec: cell.spec }] },
      machines: cell.machines,
      nodeNamed: (name) => node(name),
      kubeletAnswers: () => true,
      agentAnswers: () => true,
      askingSince: () => 0,
      stale: cell.stale,
    });
  };
  const port: GuardedPort = {
    read: async (target) => {
      cell.calls.push(`read ${target}`);
      return await Promise.resolve({ ledger: ledger() });
    },
    put: async (move) => {
      cell.calls.push(`put ${move.write}`);
      if (move.write === 'ledger') cell.reservations = [...(move.object.status?.reservations ?? [])];
      await Promise.resolve();
    },
    releasing: () => undefined,
    run: async () => await Promise.resolve({ note: '' }),
  };
  const pass = createPass({
    epoch: 1,
    stores: { machines: storeOf(Machines, () => cell.machines), ledgers: storeOf(DisruptionLedgers, () => [ledger()]) },
    asking: { machines: () => cell.machines },
    clock,
    newID: () => `id-${cell.reservations.length}`,
    jobsOf: () => [],
    view,
    portOf: () => port,
    wakeMachine: (key) => void cell.woken.push(key),
  });
  const context = {
    client: createClient(fakeApiServer().transport),
    clock,
    random: () => 0,
    log: recordingLog(),
    signal: new AbortController().signal,
    reconcileID: 'r',
    failures: 0,
  };
  return { cell, clock, pass, run: () => pass.run(context) };
}
const idle = machine({ components: [] });
const noon: Partial<DefenderPolicySpec> = { windows: [{ name: 'noon', timeZone: 'UTC', schedule: '0 12 * * *', durationMinutes: 60 }] };

test('a pass when no machine asks and nothing waits for its order observes nothing and asks the server nothing', async () => {
  const { cell, run } = looped();
  cell.machines = [idle, machine({ name: 'b', components: [], spec: { operation: operation({ id: 'r9' }) } })];
  cell.reservations = [reservation({ id: 'r9', machineUID: 'uid-b', machine: 'web/b' })];
  expect(await run()).toBeUndefined();
  expect([cell.observations, cell.calls]).toEqual([0, []]);
});

test('a reservation that waits for its order is judged again without a request, until it has it', async () => {
  const { cell, run, pass } = looped();
  cell.machines = [idle];
  cell.reservations = [reservation()];
  expect(await run()).toEqual({ requeueAfterMs: 2000 });
  expect(pass.revokedBy('r1')).toBeUndefined();
  expect(cell.calls).toEqual([]);
  cell.machines = [machine({ components: [], spec: { operation: operation() } })];
  expect(await run()).toBeUndefined();
});

test('when the window closes the reservation is taken back and its machine woken, once, by the clock alone', async () => {
  const { cell, run, pass } = looped();
  cell.machines = [idle];
  cell.reservations = [reservation()];
  cell.spec = { ...cell.spec, ...noon };
  await run();
  expect([pass.revokedBy('r1'), cell.woken]).toEqual([undefined, []]);
  cell.nowMs += 60 * 60_000;
  // Also before the next pass.
  expect(pass.revokedBy('r1')?.limit).toBe('p/noon');
  await run();
  await run();
  expect(cell.woken).toEqual(['web/a']);
});

test('a pass that took long is not repeated at once, by any event', async () => {
  const { cell, clock, run } = looped();
  cell.spec = { limits: [{ name: 'none', scope: 'Cluster', maxUnavailable: 0 }] };
  cell.tookMs = 20;
  await run();
  expect([await run(), cell.observations]).toEqual([{ requeueAfterMs: 60 }, 1]);
  clock.pause(59);
  expect([await run(), cell.observations]).toEqual([{ requeueAfterMs: 1 }, 1]);
  clock.pause(1);
  cell.tookMs = 1;
  await run();
  await run();
  expect(cell.observations).toBe(3);
});

test('D2: a term that has just begun takes back what its policies do not allow before any pass has run', () => {
  const { cell, pass } = looped();
  cell.machines = [idle, machine({ name: 'b', components: [] })];
  cell.reservations = [reservation({ since: at(-20) }), reservation({ id: 'r2', machineUID: 'uid-b', machine: 'web/b' })];
  cell.spec = { limits: [{ name: 'one', scope: 'Cluster', maxUnavailable: 1 }] };
  expect([pass.revokedBy('r1'), pass.revokedBy('r2')?.limit]).toEqual([undefined, 'p/one']);
});

test('what has its order, or is no reservation, is never reported as taken back', async () => {
  const { cell, run, pass } = looped();
  cell.spec = { limits: [{ name: 'none', scope: 'Cluster', maxUnavailable: 0 }] };
  cell.machines = [idle];
  cell.reservations = [reservation()];
  await run();
  expect(pass.revokedBy('r1')?.limit).toBe('p/none');
  cell.machines = [machine({ components: [], spec: { operation: operation() } })];
  expect([pass.revokedBy('r1'), pass.revokedBy('r0')]).toEqual([undefined, undefined]);
});

test('stores that went stale give nothing back of what was taken', async () => {
  const { cell, run, pass } = looped();
  cell.spec = { limits: [{ name: 'none', scope: 'Cluster', maxUnavailable: 0 }] };
  cell.machines = [idle];
  cell.reservations = [reservation()];
  await run();
  cell.stale = 'nodes are stale';
  await run();
  expect(pass.revokedBy('r1')?.limit).toBe('p/none');
  cell.stale = undefined;
  cell.spec = { limits: [{ name: 'one', scope: 'Cluster', maxUnavailable: 1 }] };
  await run();
  expect(pass.revokedBy('r1')).toBeUndefined();
});

test('a machine that asks gets a verdict, and is woken', async () => {
  const { cell, run, pass } = looped();
  cell.spec = { limits: [{ name: 'none', scope: 'Cluster', maxUnavailable: 0 }] };
  await run();
  expect([pass.verdicts.of('uid-a')?.limit, cell.woken, cell.calls]).toEqual(['p/none', ['web/a'], ['read ledger']]);
  cell.spec = { limits: [{ name: 'one', scope: 'Cluster', maxUnavailable: 1 }] };
  await run();
  expect(cell.reservations.map((each) => each.machine)).toEqual(['web/a']);
});
