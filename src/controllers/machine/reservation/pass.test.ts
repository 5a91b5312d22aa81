import { describe, expect, test } from 'vitest';
import type { DefenderPolicySpec } from '../../../api/defender-policy.ts';
import { API_VERSION } from '../../../api/kind.ts';
import type { DisruptionLedger, LedgerReservation } from '../../../api/disruption-ledger.ts';
import type { Stored } from '../../../api/wire.ts';
import { LABELS } from '../../../api/names.ts';
import { stateOf } from '../../../defender/state.ts';
import { operatorRelease } from '../order/operator-release.ts';
import { actOf } from '../steps.ts';
import { closedNow, decidePass, reservationWrite, type PassView } from './pass.ts';
import { cellOf } from '../testing/cell-of.ts';
import { at, cordoned, facts, job, machine, node, NOW, operation, reservation } from '../testing/objects.ts';

const ids = () => {
  let serial = 0;
  return () => `new-${serial++}`;
};

interface Cell {
  machines: ReturnType<typeof machine>[];
  nodes?: ReturnType<typeof node>[];
  spec?: Partial<DefenderPolicySpec>;
  stale?: string;
  nowMs?: number;
}

function cell({ machines, nodes = machines.map(({ metadata }) => node(metadata.name)), spec = {}, stale, nowMs = NOW }: Cell): PassView {
  const { agentAnswers: _, ...shared } = facts({
    nowMs,
    policies: [{ metadata: { name: 'p' }, spec: { limits: [{ name: 'cell', scope: 'Cluster', maxUnavailable: '100%' }], ...spec } }],
    sets: new Map([['s1', { name: 'kubelet', stopped: undefined, maxUnavailable: '100%' }]]),
  });
  return cellOf({
    facts: shared,
    machines,
    nodeNamed: (name) => nodes.find((each) => each.metadata.name === name),
    kubeletAnswers: () => true,
    agentAnswers: () => true,
    askingSince: () => 0,
    stale,
  });
}
const ledger = (reservations: LedgerReservation[], hours?: NonNullable<DisruptionLedger['status']>['hours']): Stored<DisruptionLedger> => ({
  apiVersion: API_VERSION,
  kind: 'DisruptionLedger',
  metadata: { name: 'cell', uid: 'l', resourceVersion: '5', creationTimestamp: at(-9) },
  spec: {},
  status: { epoch: 1, reservations, ...(hours === undefined ? {} : { hours }) },
});
const zoned = { limits: [{ name: 'zone', scope: 'Zone' as const, maxUnavailable: 1 }] };
const zone = (name: string) => ({ [LABELS.zone]: name });

describe('the pass', () => {
  test('D8: takes zone and rack from the Node where the Machine has none', () => {
    const machines = [machine(), machine({ name: 'b' }), machine({ name: 'c' }), machine({ name: 'd', metadata: { labels: zone('i') } })];
    const nodes = [node('a', { labels: zone('h') }), node('b', { labels: zone('h') }), node('c'), node('d', { labels: zone('h') })];
    const { reservations, verdicts } = decidePass(cell({ machines, nodes, spec: zoned }), { epoch: 1, reservations: [] }, ids());
    expect(reservations.map((each) => [each.machine, each.scopes.find((scope) => scope.startsWith('zone/'))])).toEqual([
      ['web/a', 'zone/h'],
      ['web/d', 'zone/i'],
    ]);
    expect(verdicts.get('uid-b')).toMatchObject({ limit: 'p/zone', used: 1, of: 1, holders: ['web/a'] });
    expect(verdicts.get('uid-c')?.wouldPassWhen).toContain(LABELS.zone);
  });

  test('D1: counts for rates in the very write that reserves, and only then', () => {
    const spec = { limits: [{ name: 'cell', scope: 'Cluster' as const, maxUnavailable: '100%', maxPerHour: 2 }] };
    const machines = ['a', 'b', 'c'].map((name) => machine({ name }));
    const write = reservationWrite(1, () => cell({ machines, spec }), ids());
    const move = write.judge({ ledger: ledger([]) });
    if (move === undefined || !('write' in move) || move.write !== 'ledger') throw new Error('nothing is written');
    const state = stateOf(move.object);
    expect(move.object.metadata.resourceVersion).toBe('5');
    expect(state.reservations.map((each) => [each.machine, each.counted?.scopes])).toEqual([
      ['web/a', ['cluster']],
      ['web/b', ['cluster']],
    ]);
    expect(state.hours).toEqual([{ from: at(0), minutes: 5, starts: { 'Change cluster': 2 } }]);
    // The next leader reads both, or neither.
    const later = decidePass(cell({ machines, spec, nowMs: NOW + 59 * 60_000 }), { ...state, reservations: [] }, ids());
    expect(later.reservations).toEqual([]);
    expect(decidePass(cell({ machines, spec, nowMs: NOW + 65 * 60_000 }), { ...state, reservations: [] }, ids()).reservations).toHaveLength(
      2,
    );
  });

  test('names what most machines of a broken zone or rack report, and does not count machines that have not joined', () => {
    const names = ['a', 'b', 'c', 'd', 'e', 'f'];
    const machines = names.map((name) =>
      machine({ name, ...(name < 'd' ? { components: [] } : {}), ...(name === 'f' ? { status: { nodeRef: undefined } as never } : {}) }),
    );
    const sick = (name: string) => {
      const made = node(name, { ready: false });
      return { ...made, status: { conditions: [...(made.status?.conditions ?? []), { type: 'SwitchDown', status: 'True' as const }] } };
    };
    const nodes = [sick('a'), sick('b'), node('c', { ready: false }), node('d'), node('e')];
    const spec = { breaker: { scope: 'Cluster' as const, unavailableAbove: 2 } };
    const { reservations, verdicts } = decidePass(cell({ machines, nodes, spec }), { epoch: 1, reservations: [] }, ids());
    expect(reservations).toEqual([]);
    expect(verdicts.get('uid-d')).toMatchObject({ limit: 'p/breaker', used: 3, of: 2, holders: ['web/a', 'web/b', 'web/c'] });
    expect(verdicts.get('uid-d')?.wouldPassWhen).toBe(
      'at most 2 of the 6 machines of cluster are unavailable by themselves: suspect cluster; most of them have NotReady, SwitchDown',
    );
  });

  test('decides again what is asked when anything that it follows from has changed, of a Machine that has not', () => {
    const machines = [machine()];
    const nodes = [node('a', { labels: zone('h') })];
    const view = cell({ machines, nodes });
    const limitOf = (change: Partial<PassView>): string => {
      const { reservations, verdicts } = decidePass({ ...view, ...change }, { epoch: 1, reservations: [] }, ids());
      const topology = reservations.flatMap(({ scopes }) => scopes.filter((scope) => /^(zone|condition)\//.test(scope)));
      return verdicts.get('uid-a')?.limit ?? (topology.join(' ') || 'nowhere');
    };
    const freezes = [{ metadata: { name: 'stop' }, spec: { reason: 'a night' } }];
    const stopped = new Map([['s1', { name: 'kubelet', stopped: 'Halted' as const }]]);
    const late = machine({
      spec: { operation: operation() },
      status: { operation: { id: 'r1', state: 'Done', outcome: 'TransientFailure' } },
    });
    const jobs = [job()];
    const [elsewhere, bare] = [node('a', { labels: zone('i') }), node()];
    const changes: [Partial<PassView>, string][] = [
      [{ facts: { ...view.facts, freezes } }, 'Freeze/stop'],
      [{ facts: { ...view.facts, sets: stopped } }, 'MachineComponentSet/kubelet'],
      [{ facts: { ...view.facts, jobsOf: () => jobs } }, 'condition/KernelDeadlock zone/h'],
      [{ agentAnswers: () => false }, 'Agent/heartbeat'],
      [{ nodeNamed: () => elsewhere }, 'zone/i'],
      [{ nodeNamed: () => bare }, 'nowhere'],
    ];
    for (const [change, expected] of changes) expect([limitOf({}), limitOf(change), limitOf({})]).toEqual(['zone/h', expected, 'zone/h']);
    const other = [{ ...job(), spec: { ...job().spec, healedWhen: { condition: 'DiskFull', is: 'False' as const, forSeconds: 60 } } }];
    expect([jobs, other].map((of) => limitOf({ facts: { ...view.facts, jobsOf: () => of } }))).toEqual([
      'condition/KernelDeadlock zone/h',
      'condition/DiskFull zone/h',
    ]);
    expect(limitOf({ asking: () => [late] })).toBe('Machine/retry');
    expect(limitOf({ asking: () => [late], facts: { ...view.facts, nowMs: NOW + 900_001 } })).toBe('zone/h');
  });

  test('D1: nothing is reserved for a machine whose Node bears the cordon of an unknown reservation, before that is lifted', () => {
    const of = (object: ReturnType<typeof node>) =>
      decidePass(cell({ machines: [machine()], nodes: [object] }), { epoch: 1, reservations: [] }, ids());
    expect(of(cordoned('a', 'r1')).reservations).toEqual([]);
    expect(of(cordoned('a', 'r1')).verdicts.get('uid-a')).toMatchObject({ allowed: false, limit: 'Machine/cordon' });
    const stranger = cordoned('a', 'r1');
    const others = [cordoned('a', 'Degraded'), node('a', { spec: { unschedulable: true } })];
    for (const object of [
      ...others,
      { ...stranger, metadata: { ...stranger.metadata, uid: 'another' }, spec: { ...stranger.spec, providerID: 'fake://b' } },
    ])
      expect(of(object).reservations).toHaveLength(1);
  });

  test('D1: ends the term where the ledger is gone', () => {
    const write = reservationWrite(1, () => cell({ machines: [machine()] }), ids());
    expect(() => write.judge({ ledger: undefined })).toThrow(expect.objectContaining({ code: 'Deposed' }));
  });

  test('leaves the ledger as it is where no rate is set', () => {
    const move = reservationWrite(1, () => cell({ machines: [machine()] }), ids()).judge({ ledger: ledger([]) });
    expect('write' in move && move.write === 'ledger' ? Object.keys(move.object.status ?? {}) : []).toEqual(['epoch', 'reservations']);
  });

  test('D8: refuses everything, and takes nothing back, while its stores are stale', () => {
    const view = cell({ machines: [machine()], stale: 'nodes are not listed yet' });
    const result = decidePass(view, { epoch: 1, reservations: [] }, ids());
    expect(result.verdicts.get('uid-a')).toMatchObject({ allowed: false, limit: 'Defender/inputs' });
    expect(result.revoked()).toBeUndefined();
  });
});

describe('what is reserved and has no order', () => {
  const one = { limits: [{ name: 'one', scope: 'Cluster' as const, maxUnavailable: 1 }] };
  const reservations = [
    reservation({ id: 'r1', since: at(-20) }),
    reservation({ id: 'r2', machineUID: 'uid-b', machine: 'web/b', since: at(-10) }),
  ];
  const both = [machine(), machine({ name: 'b' })];
  const revoked = (view: PassView, reserved = reservations): string[] => [
    ...(decidePass(view, { epoch: 1, reservations: reserved }, ids()).revoked()?.keys() ?? []),
  ];

  test('case 25: is taken back, the youngest first, when its policy is lowered', () => {
    const nodes = [cordoned('a', 'r1'), cordoned('b', 'r2')];
    expect(revoked(cell({ machines: both, nodes }))).toEqual([]);
    expect(revoked(cell({ machines: both, nodes, spec: one }))).toEqual(['r2']);
  });

  test('case 25: and what has its order, or is cancelled already, is not', () => {
    const [first, second] = both;
    const ordered = machine({ name: 'b', spec: { operation: operation({ id: 'r2' }) } });
    if (first === undefined || second === undefined) throw new Error('there are two');
    expect(revoked(cell({ machines: [first, ordered], spec: one }))).toEqual(['r1']);
    const done = machine({ name: 'a', spec: { operation: operation({ id: 'r1', kind: 'Cancelled' }) } });
    expect(revoked(cell({ machines: [done, ordered], spec: one }))).toEqual([]);
  });

  test('case 25: costs no other machine, once it is cancelled and only waits to be freed', () => {
    const cancelled = machine({ name: 'b', spec: { operation: { ...operation({ id: 'r2' }), kind: 'Cancelled' } } });
    const nodes = [cordoned('a', 'r1'), cordoned('b', 'r2')];
    expect(revoked(cell({ machines: [machine(), cancelled], nodes, spec: one }))).toEqual([]);
    // Unless its machine is unhealthy by itself.
    expect(
      revoked(cell({ machines: [machine(), cancelled], nodes: [cordoned('a', 'r1'), node('b', { ready: false })], spec: one })),
    ).toEqual(['r1']);
  });

  test('C9: keeps its slot while what it took over may still run, so that another is taken back beside it', () => {
    const succeeding = [
      ...reservations.slice(0, 1),
      reservation({ id: 'r2', machineUID: 'uid-b', machine: 'web/b', since: at(-10), succeeds: 'r0' }),
    ];
    const nodes = [cordoned('a', 'r1'), cordoned('b', 'r2')];
    const open = machine({ name: 'b', spec: { operation: operation({ id: 'r0' }) } });
    expect(revoked(cell({ machines: [machine(), open], nodes, spec: one }), succeeding)).toEqual(['r2', 'r1']);
    const ended = machine({ name: 'b', spec: { operation: operation({ id: 'r0' }) }, status: { operation: { id: 'r0', state: 'Done' } } });
    expect(revoked(cell({ machines: [machine(), ended], nodes, spec: one }), succeeding)).toEqual(['r2']);
  });

  test('D7: is taken back when its machine, which cost nothing, has come back', () => {
    const repairs = [reservation({ id: 'r1', kind: 'Repair', class: 'Repair', since: at(-20) }), ...reservations.slice(1)];
    const failing = [node('a', { ready: false }), cordoned('b', 'r2')];
    const spec = { limits: [{ name: 'two', scope: 'Cluster' as const, maxUnavailable: 2 }] };
    expect(revoked(cell({ machines: [...both, machine({ name: 'c' })], nodes: [...failing, node('c')], spec }), repairs)).toEqual([]);
    const worse = [node('a'), cordoned('b', 'r2'), node('c', { ready: false })];
    expect(revoked(cell({ machines: [...both, machine({ name: 'c' })], nodes: worse, spec }), repairs)).toEqual(['r2']);
  });

  test('goes by the clock alone, also between two passes', () => {
    const spec = { windows: [{ name: 'noon', timeZone: 'UTC', schedule: '0 12 * * *', durationMinutes: 60 }] };
    const [first] = both;
    if (first === undefined) throw new Error('there are two');
    const [reserved] = reservations;
    if (reserved === undefined) throw new Error('there are two');
    const closed = (minutes: number, which = reserved) =>
      closedNow(which, first, node(), cell({ machines: both, spec, nowMs: NOW + minutes * 60_000 }))?.limit;
    expect([closed(0), closed(59), closed(60)]).toEqual([undefined, undefined, 'p/noon']);
    expect(closed(60, { ...reserved, class: 'Restore' })).toBeUndefined();
    const ordered = machine({ spec: { operation: operation() } });
    expect(closedNow(reserved, ordered, node(), cell({ machines: both, spec, nowMs: NOW + 60 * 60_000 }))).toBeUndefined();
    expect(revoked(cell({ machines: both, spec, nowMs: NOW + 60 * 60_000 }))).toEqual(['r1', 'r2']);
  });

  test('D11: and by a Freeze that came meanwhile', () => {
    const view = cell({ machines: both });
    const freezes = [{ metadata: { name: 'stop' }, spec: {} }];
    const [reserved] = reservations;
    const [first] = both;
    if (reserved === undefined || first === undefined) throw new Error('there are two');
    expect(closedNow(reserved, first, node(), { ...view, facts: { ...view.facts, freezes } })?.limit).toBe('Freeze/stop');
  });
});

describe('case 26: a token of a rate, through the writes that end a reservation', () => {
  const reserved = reservation({ counted: { at: at(-10), class: 'Change', scopes: ['cluster'] } });
  const hours = [{ from: at(-300), minutes: 5, starts: { 'Change cluster': 1 } }];
  const context = { epoch: 1, machine: { namespace: 'web', name: 'a' }, node: 'a', facts: facts(), newID: () => 'new' };
  const fenced = node('a', { annotations: { 'kubenode.io/cordon-fence': 'r1' } });
  const freed = (cancelled: ReturnType<typeof machine>) => {
    const move = actOf({ do: 'FreeCancelled', reservation: reserved, why: '' }, context)?.judge({
      machine: cancelled,
      node: fenced,
      ledger: ledger([reserved], hours),
    });
    if (move === undefined || !('write' in move) || move.write !== 'ledger') throw new Error('nothing is written');
    return move.object.status;
  };

  test('comes back where the leader cancelled what had no order', () => {
    const move = actOf(
      { do: 'WriteCancelled', reservation: reserved, cause: 'Refused', reason: 'Refused: p/one', why: '' },
      context,
    )?.judge({
      machine: machine(),
      ledger: ledger([reserved], hours),
    });
    if (move === undefined || !('write' in move) || move.write !== 'machine') throw new Error('nothing is written');
    expect(freed(move.object)).toEqual({ epoch: 1, reservations: [], hours: [{ ...hours[0], starts: {} }] });
  });

  test('stays spent where an operator gave up what had one', () => {
    const ordered = machine({ spec: { operation: operation() } });
    expect(freed(operatorRelease(ordered, 'lost'))).toEqual({ epoch: 1, reservations: [], hours });
    const repaired = machine({ spec: { operation: { id: 'r1', epoch: 1, kind: 'Repair', action: 'Reboot', notAfter: at(9) } } });
    expect(freed(operatorRelease(repaired, 'lost'))).toEqual({ epoch: 1, reservations: [], hours });
  });
});
