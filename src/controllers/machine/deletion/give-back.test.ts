/** A machine whose Machine is deleted with `deletionPolicy: Orphan` is left as it is (docs/protocols.md#c14). */
import { describe, expect, test } from 'vitest';
import { Machines, type Machine } from '../../../api/machine.ts';
import { ANNOTATIONS } from '../../../api/names.ts';
import type { Seen } from '../../../defender/guarded-write.ts';
import { recordingLog } from '../../../kube/testing/log.ts';
import { reconcileMachine } from '../../machine-component-set/machine/reconcile.ts';
import { createOverlay } from '../../machine-component-set/overlay.ts';
import { modelApi } from '../../machine-component-set/testing/api.ts';
import { decide } from '../decide.ts';
import { askOf } from '../reservation/ask.ts';
import { statusOf } from '../status/report.ts';
import { actOf } from '../steps.ts';
import {
  at,
  cordoned,
  entry,
  facts,
  job,
  machine,
  node,
  NOW,
  operation,
  repairOperation,
  repairReservation,
  reservation,
  view,
  waiting,
} from '../testing/objects.ts';
import type { MachineView } from '../view.ts';
import { givenBack, hasLeft } from './give-back.ts';

const AGENT = { version: '1', apiLevel: 1, bootID: 'b', os: 'linux', arch: 'amd64' };
const LEAVING = { agent: { ...AGENT, leaving: true } };
const deletionTimestamp = at(-60);
const orphan = (parts: Parameters<typeof machine>[0] = {}) =>
  machine({
    ...parts,
    metadata: { deletionTimestamp, ...parts.metadata },
    spec: { provider: { name: 'ssh' }, deletionPolicy: 'Orphan', ...parts.spec },
  });
const unordered = (object: ReturnType<typeof machine>) => {
  const { operation: _operation, ...spec } = object.spec;
  return { ...object, spec };
};
const idle = (parts: Parameters<typeof machine>[0] = {}) => unordered(orphan(parts));
const steps = (change: Partial<MachineView>): string[] => decide(view(change)).steps.map((step) => step.do);
const waitsFor = (change: Partial<MachineView>) => decide(view(change)).waits?.for;
const marked = { ...node(), metadata: { ...node().metadata, annotations: { [ANNOTATIONS.givenBack]: 'web/a' } } };

/** The Machine once the component set controller has had its turn. */
async function answeredBySet(of: Machine): Promise<ReturnType<typeof machine>> {
  const api = modelApi(() => NOW);
  api.create(Machines, of);
  const deps = {
    sets: { list: () => [] },
    machines: createOverlay(api.reader().store(Machines)),
    liveness: { isAlive: () => true },
    clock: { now: () => NOW },
    recorder: { event: () => undefined },
  };
  const client = api.client(
    () => 'none',
    () => undefined,
  );
  expect(await reconcileMachine(deps, 'web/a', { client, signal: new AbortController().signal, log: recordingLog() })).toBeUndefined();
  const found = api.find(Machines, { namespace: 'web', name: 'a' });
  if (found === undefined) throw new Error('the Machine is gone');
  return found;
}

describe('C14: a machine that is given back', () => {
  test('asks Defender for nothing, also under a Freeze, and nothing is drained, ordered or deleted', () => {
    const freezes = [{ metadata: { name: 'night' }, spec: {} }];
    expect(askOf(idle(), facts()).state).toBe('Nothing');
    const left = { machine: idle({ status: LEAVING }), facts: facts({ freezes }) };
    expect(steps(left)).toEqual(['GiveBack']);
    expect(steps({ ...left, claim: { state: 'Claimed', node: marked } })).toEqual(['Finalize']);
    expect(askOf(machine({ metadata: { deletionTimestamp } }), facts()).state).toBe('Asks');
  });
  test('waits until its agent reports that it leaves; that it does not answer proves nothing, and a hold keeps it', () => {
    expect([steps({ machine: idle() }), waitsFor({ machine: idle() })]).toEqual([[], 'Agent']);
    expect(steps({ machine: idle(), facts: facts({ agentAnswers: false }), kubeletAnswers: false })).toEqual([]);
    expect(steps({ machine: idle({ status: { ...LEAVING }, spec: { hold: true } }) })).toEqual([]);
    const confirmed = idle({ metadata: { annotations: { [ANNOTATIONS.agentIsGone]: 'uninstalled by hand, INC-7' } } });
    expect(steps({ machine: confirmed })).toEqual(['GiveBack']);
    const off = idle({ metadata: { annotations: { [ANNOTATIONS.machineIsOff]: 'burned' } } });
    expect(steps({ machine: off })).toEqual([]);
  });
  test('a report that it leaves counts only where it is deleted with that policy', () => {
    expect(steps({ machine: unordered(machine({ status: LEAVING })) })).toEqual([]);
    const deleted = unordered(machine({ status: LEAVING, metadata: { deletionTimestamp } }));
    expect([steps({ machine: deleted }), waitsFor({ machine: deleted })]).toEqual([[], 'Defender']);
  });
  test('goes without its Node where it has none, or where that was deleted', () => {
    expect(steps({ machine: idle({ status: LEAVING }), claim: { state: 'None' } })).toEqual(['Finalize']);
    expect(steps({ machine: idle({ status: LEAVING }), claim: { state: 'Lost', message: 'deleted' } })).toEqual(['Finalize']);
  });
  test('no agent was ever admitted: none has to leave', () => {
    expect(hasLeft(machine())).toBe(false);
    const { agent: _agent, ...status } = machine().status ?? {};
    expect(hasLeft({ ...machine(), status })).toBe(true);
    expect(hasLeft({ ...machine(), status: { ...status, bootstrap: { epoch: 1, accountUID: 'a', tokenUntil: at(0), csrUID: 'c' } } })).toBe(
      false,
    );
  });
});

describe('C14: what is under way when a machine is given back', () => {
  test('ends by itself where it was ordered, and keeps its reservation until then', () => {
    const running = orphan({ spec: { operation: operation() }, status: LEAVING });
    expect(steps({ machine: running, reservation: reservation() })).toEqual([]);
    const ended = orphan({
      spec: { operation: operation() },
      status: { ...LEAVING, operation: { id: 'r1', state: 'Done', outcome: 'Succeeded' } },
    });
    expect(steps({ machine: ended, reservation: reservation(), claim: { state: 'Claimed', node: cordoned('a', 'r1') } })).toEqual([
      'Settle',
    ]);
    expect(steps({ machine: ended, reservation: reservation() })).toEqual(['Release']);
  });
  test('a Change that fails is recorded in its entry though the Machine is being deleted, its reservation is freed and the machine given back', async () => {
    const failed = { revision: 2, reason: 'ProbesFailed', message: 'no answer', restored: true };
    const { needs: _needs, needsFor: _needsFor, ...healthy } = waiting({ state: 'Healthy', failed });
    const ended = orphan({
      spec: { operation: operation() },
      components: [healthy],
      status: { ...LEAVING, operation: { id: 'r1', state: 'Done', outcome: 'PermanentFailure' } },
    });
    expect(waitsFor({ machine: ended, reservation: reservation() })).toBe('SetController');
    const recorded = await answeredBySet(ended);
    expect(recorded.spec.components).toEqual([
      entry({ failed: { setRevision: 2, attempt: 1, reason: 'ProbesFailed', message: 'no answer' } }),
    ]);
    expect(steps({ machine: recorded, reservation: reservation() })).toEqual(['Release']);
    expect(steps({ machine: recorded })).toEqual(['GiveBack']);
  });
  test('a failure that its set has not counted yet keeps it, also after its Node was given back', () => {
    const left = { machine: idle({ status: LEAVING }), uncounted: ['kubelet'] };
    expect([steps(left), waitsFor(left)]).toEqual([[], 'SetController']);
    expect(steps({ ...left, claim: { state: 'Claimed', node: marked } })).toEqual([]);
    expect(steps({ ...left, uncounted: [] })).toEqual(['GiveBack']);
  });
  test('gives way where it was not', () => {
    expect(steps({ machine: idle(), reservation: reservation() })).toEqual(['WriteCancelled']);
    expect(steps({ machine: idle(), reservation: reservation({ id: 'r2', kind: 'Delete' }) })).toEqual(['WriteCancelled']);
  });
  test('a repair ends by its own record', () => {
    const status = { ...LEAVING, operation: { id: 'r1', state: 'Done' as const, outcome: 'Succeeded' as const } };
    const repaired = orphan({ spec: { operation: repairOperation({ action: 'Reboot' }) }, status, entries: [], components: [] });
    const jobs = facts({ jobsOf: () => [job({ status: { phase: 'Verifying', operationID: 'r1' } })] });
    expect(steps({ machine: repaired, reservation: repairReservation(), facts: jobs })).toEqual([]);
    expect(steps({ machine: repaired, reservation: repairReservation(), facts: facts() })).not.toContain('GiveBack');
  });
  test('a deletion that was ordered goes on as one', () => {
    const ordered = orphan({ spec: { operation: operation({ id: 'r2', kind: 'Delete' }) } });
    expect(waitsFor({ machine: ordered, reservation: reservation({ id: 'r2', kind: 'Delete' }) })).toBe('Agent');
    expect(askOf(ordered, facts()).state).toBe('Asks');
  });
});

describe('C14: the Node', () => {
  const nodeKeys = { nodeUID: 'node-a', nodeVersion: '', labels: ['tier=web', 'gone=yes'], taints: ['dedicated=web:NoSchedule'] };
  const spec = { labels: { tier: 'web' }, taints: [{ key: 'dedicated', value: 'web', effect: 'NoSchedule' as const }] };
  const its = orphan({ status: { ...LEAVING, nodeKeys }, spec });
  const full = node('a', {
    labels: { tier: 'web', 'kubernetes.io/hostname': 'a', team: 'x' },
    spec: {
      unschedulable: true,
      taints: [
        { key: 'dedicated', value: 'web', effect: 'NoSchedule' },
        { key: 'theirs', effect: 'NoSchedule' },
      ],
    },
    annotations: { [ANNOTATIONS.cordonOwner]: 'Degraded', 'example.io/a': 'b' },
  });

  test('keeps what others put there, and loses our labels, taints and cordon', () => {
    const given = givenBack(its, full);
    expect(given?.metadata.labels).toEqual({ 'kubernetes.io/hostname': 'a', team: 'x' });
    expect(given?.spec).toEqual({ providerID: 'fake://a', taints: [{ key: 'theirs', effect: 'NoSchedule' }] });
    expect(given?.metadata.annotations).toEqual({ 'example.io/a': 'b', [ANNOTATIONS.givenBack]: 'web/a' });
    expect(givenBack(its, marked)).toBeUndefined();
  });
  test('stays cordoned by a person', () => {
    const annotations = { [ANNOTATIONS.cordonOwner]: 'Degraded', [ANNOTATIONS.cordonKept]: 'true' };
    expect(givenBack(its, node('a', { spec: { unschedulable: true }, annotations }))?.spec?.unschedulable).toBe(true);
  });
  test('is written only where all of that is so when it is read again', () => {
    const context = { epoch: 1, machine: { namespace: 'web', name: 'a' }, node: 'a', facts: facts(), newID: () => 'x' };
    const act = actOf({ do: 'GiveBack', why: '' }, context);
    const ledger = (reservations: object[]) =>
      ({
        apiVersion: 'kubenode.io/v1alpha1',
        kind: 'DisruptionLedger',
        metadata: { name: 'cell' },
        spec: {},
        status: { epoch: 1, reservations },
      }) as never;
    const judged = (of: Machine, reservations: object[] = []) =>
      act?.judge({ machine: of, node: full, ledger: ledger(reservations) } as unknown as Seen);
    expect(judged(its)).toMatchObject({ write: 'node' });
    expect(judged(its, [reservation()])).toEqual({ stop: 'the machine has a reservation' });
    expect(judged(orphan())).toEqual({ stop: 'the machine is not given back, or its agent has not left' });
    expect(judged(orphan({ status: LEAVING, spec: { deletionPolicy: 'Delete' } }))).toHaveProperty('stop');
    expect(() => act?.judge({ machine: its, node: full })).toThrow('DisruptionLedger cell is gone');
  });
});

test('C14: the Machine reports what it waits for, and what a person can do', () => {
  const ready = (change: Partial<MachineView>) =>
    statusOf({ view: view(change), verdict: undefined, refusals: [] }).conditions?.find(({ type }) => type === 'Ready');
  expect(ready({ machine: idle() })).toMatchObject({
    reason: 'GivingBack',
    message: expect.stringContaining('kubenode.io/agent-is-gone') as string,
  });
  expect(ready({ machine: idle(), reservation: reservation() })?.message).toBe('the machine is given back once operation r1 is over');
  expect(ready({ machine: idle({ spec: { hold: true } }) })?.message).toContain('spec.hold');
  expect(ready({ machine: idle({ status: LEAVING }) })?.message).toContain('has left');
  expect(ready({ machine: idle({ status: LEAVING }), uncounted: ['kubelet'] })?.message).toContain('recorded the failure of kubelet');
});
