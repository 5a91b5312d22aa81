import { describe, expect, test } from 'vitest';
import type { Node } from '../../../api/builtin.ts';
import { API_VERSION } from '../../../api/kind.ts';
import type { Machine } from '../../../api/machine.ts';
import { ANNOTATIONS } from '../../../api/names.ts';
import type { RemedyOperationJob } from '../../../api/remedy-operation-job.ts';
import type { Stored } from '../../../api/wire.ts';
import { decide } from '../decide.ts';
import { leftReservations } from './left-reservations.ts';
import { at, cordoned, entry, facts, granted, machine, node, operation, repairOperation, view, waiting } from '../testing/objects.ts';

const SINCE = at(0);
const set = {
  apiVersion: API_VERSION,
  kind: 'MachineComponentSet',
  metadata: { name: 'kubelet', uid: 's1', resourceVersion: '1', creationTimestamp: at(-86_400) },
  spec: { componentName: 'kubelet', version: '2.0.0' },
};
const stored = (job: RemedyOperationJob): Stored<RemedyOperationJob> => ({
  ...job,
  metadata: { ...job.metadata, uid: job.metadata.uid ?? '', resourceVersion: '1', creationTimestamp: at(-60) },
});

interface Cell {
  machine?: Stored<Machine>;
  node?: Stored<Node>;
  jobs?: readonly RemedyOperationJob[];
}

const left = ({ machine: one = machine(), node: its = node(), jobs = [] }: Cell) =>
  leftReservations({ machines: [one], nodes: [its], sets: [set], jobs: jobs.map(stored), since: SINCE });

const change = { operation: operation() };
const repair = { operation: repairOperation({ action: 'Reboot' }) };
const done = { operation: { id: 'r1', state: 'Done' as const, outcome: 'Succeeded' as const } };
const running = { phase: 'Running' as const, operationID: 'r1' };
const cancelled = { operation: operation({ kind: 'Cancelled', cause: 'Expired' }) };
const fenced = node('a', { annotations: { [ANNOTATIONS.cordonFence]: 'r1' } });
const failed = waiting({ state: 'Failed', failed: { revision: 2, reason: 'ProbeFailed', message: '', restored: true } });

describe('D1: of a lost ledger a reservation is given again', () => {
  test.each<[string, Cell, object]>([
    [
      'to a change that is ordered',
      { machine: machine({ spec: change }), node: cordoned('a', 'r1') },
      { kind: 'Change', requesterUID: 's1' },
    ],
    ['also where a person lifted its cordon', { machine: machine({ spec: change }) }, { kind: 'Change', notAfter: operation().notAfter }],
    [
      'to one that has ended, and whose cordon is there',
      { machine: machine({ spec: change, status: done }), node: cordoned('a', 'r1') },
      {},
    ],
    [
      'to one that failed, and that its set has not answered',
      {
        machine: machine({
          spec: change,
          components: [failed],
          status: { operation: { id: 'r1', state: 'Done', outcome: 'PermanentFailure' } },
        }),
      },
      { kind: 'Change' },
    ],
    [
      'to a repair that is ordered',
      { machine: machine({ spec: repair }), jobs: [granted({ status: running })] },
      { kind: 'Repair', class: 'Repair', requesterUID: 'uid-j1', action: 'Reboot' },
    ],
    [
      'to one that has ended, and is not proven',
      { machine: machine({ spec: repair, status: done }), jobs: [granted({ status: { ...running, phase: 'Verifying' } })] },
      { kind: 'Repair', requesterUID: 'uid-j1' },
    ],
    [
      'to a deletion that is ordered',
      { machine: machine({ spec: { operation: repairOperation({ kind: 'Delete' }) } }) },
      { kind: 'Delete' },
    ],
    ['to one that is cancelled, until its Node is fenced', { machine: machine({ spec: cancelled }) }, { kind: 'Change' }],
    [
      'and until no leader may ask the provider for its power any more',
      {
        machine: machine({
          spec: { operation: repairOperation({ kind: 'Cancelled', action: 'PowerCycle' }) },
          status: { repair: { id: 'r1', state: 'Running' } },
        }),
        node: fenced,
      },
      {},
    ],
    ['to the owner of a cordon, whose order may be on its way', { node: cordoned('a', 'r1') }, { kind: 'Change', notAfter: SINCE }],
    [
      'whose job was granted it',
      { node: cordoned('a', 'r1'), jobs: [granted()] },
      { kind: 'Repair', requesterUID: 'uid-j1', action: 'Reboot', notAfter: SINCE },
    ],
    ['also where a human uncordoned', { node: node('a', { annotations: { [ANNOTATIONS.cordonOwner]: 'r1' } }) }, { kind: 'Change' }],
    [
      'to a job that was granted one without a cordon',
      { jobs: [granted({ action: 'CleanDisk' })] },
      { kind: 'Repair', action: 'CleanDisk' },
    ],
  ])('%s', (_, cell, expected) => {
    expect(left(cell)).toEqual([
      expect.objectContaining({ id: 'r1', machineUID: 'uid-a', machine: 'web/a', nodeUID: 'node-a', since: SINCE, ...expected }),
    ]);
  });

  const notIts = machine({ status: { providerID: 'fake://other', nodeRef: { name: 'a', uid: 'lost' } } });
  test.each<[string, Cell]>([
    ['what is idle', {}],
    ['what has ended and is recorded', { machine: machine({ spec: change, status: done }) }],
    [
      'a repair whose job is over',
      { machine: machine({ spec: repair, status: done }), jobs: [granted({ status: { phase: 'Succeeded', operationID: 'r1' } })] },
    ],
    ['what was cancelled and fenced', { machine: machine({ spec: cancelled }), node: fenced }],
    ['what was cancelled, where there is no Node', { machine: { ...notIts, spec: { ...notIts.spec, ...cancelled } } }],
    ['a node that is kept as Degraded', { node: cordoned('a', 'Degraded') }],
    ['a Node that is not its own', { machine: notIts, node: cordoned('a', 'r1') }],
    ['a job that waits', { jobs: [granted({ status: { phase: 'Pending' } })] }],
  ])('and not to %s', (_, cell) => {
    expect(left(cell)).toEqual([]);
  });

  test('one a machine: of an order and of the cordon of a reservation that took it over, the order, whose end is not reported', () => {
    expect(left({ machine: machine({ spec: change }), node: cordoned('a', 'r2') }).map(({ id }) => id)).toEqual(['r1']);
    const over = machine({ spec: change, status: done });
    expect(left({ machine: over, node: cordoned('a', 'r2') }).map(({ id }) => id)).toEqual(['r2']);
  });

  test('in every scope of its machine: those of its sets, of its topology and of the condition of its repair', () => {
    const zoned = machine({ spec: { ...repair, labels: { 'topology.kubernetes.io/zone': 'z1' } } });
    const [reservation] = left({ machine: zoned, jobs: [granted({ status: running })] });
    expect(reservation?.scopes.toSorted()).toEqual(['cluster', 'condition/KernelDeadlock', 'pool/web', 'set/s1', 'zone/z1']);
    const many = Array.from({ length: 40 }, (_, index) => entry({ name: `c${index}`, setUID: `s${index}` }));
    const components = many.map(({ name, revision }) => ({ name, revision }));
    const wide = left({ machine: machine({ entries: many, spec: { operation: operation({ components }) } }) });
    expect(wide[0]?.scopes).toHaveLength(24);
  });

  test('and from there it ends as it would have ended: what has no order is given up, what has one is waited for', () => {
    const of = (cell: Required<Pick<Cell, 'machine' | 'node'>>) => {
      const [reservation] = left(cell);
      const claim = { state: 'Claimed' as const, node: cell.node };
      return decide(view({ ...cell, reservation, claim, facts: facts() })).steps.map((step) => step.do);
    };
    expect(of({ machine: machine(), node: cordoned('a', 'r1') })).toEqual(['WriteCancelled']);
    expect(of({ machine: machine({ spec: cancelled }), node: cordoned('a', 'r1') })).toEqual(['Fence']);
    expect(of({ machine: machine({ spec: change }), node: cordoned('a', 'r1') })).toEqual([]);
    expect(of({ machine: machine({ spec: change, status: done }), node: cordoned('a', 'r1') })).toEqual(['Settle']);
    const going = machine({ metadata: { deletionTimestamp: at(0) } });
    expect(of({ machine: going, node: cordoned('a', 'r1') })).toEqual(['TakeOver']);
  });
});
