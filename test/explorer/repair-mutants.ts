/** Ways to break what leaders, jobs and the provider do about repairs; see `mutants.ts`. */
import { ANNOTATIONS } from '../../src/api/names.ts';
import type { RemedyOperationJobStatus } from '../../src/api/remedy-operation-job.ts';
import type { LedgerReservation } from '../../src/api/disruption-ledger.ts';
import { endOf } from '../../src/api/machine/operation-end.ts';
import { ownerOf } from '../../src/controllers/machine/cordon/cordon.ts';
import type { MachineView, Step } from '../../src/controllers/machine/view.ts';
import { stateOf, withState } from '../../src/defender/state.ts';
import { clearAny, only, withNode, type Act, type Mutant, type Mutation } from './mutants.ts';
import { sick, underRepair } from './repair-scenarios.ts';
import type { Flight } from './world.ts';

const reservationOf = (flight: Flight): LedgerReservation | undefined =>
  typeof flight.what === 'object' && 'step' in flight.what && 'reservation' in flight.what.step ? flight.what.step.reservation : undefined;

/** A reservation of a repair that waits for its job: `then` instead. */
const impatient =
  (
    when: (view: MachineView) => boolean,
    then: (view: MachineView, reservation: LedgerReservation) => Step,
  ): NonNullable<Mutation['step']> =>
  (view, step) =>
    step === undefined && view.reservation?.kind === 'Repair' && when(view) ? then(view, view.reservation) : step;

const isUnordered = ({ machine, reservation }: MachineView): boolean => machine.spec.operation?.id !== reservation?.id;
const isReported = ({ machine, reservation }: MachineView): boolean => endOf(machine)?.report.id === reservation?.id;

/** The order, with any status of its job. */
const orderAnyway = only('order', (act, flight) => ({
  ...act,
  judge(seen) {
    const { machine, ledger } = seen;
    const reservation = reservationOf(flight);
    if (machine === undefined || reservation === undefined || machine.spec.operation?.id === reservation.id) return act.judge(seen);
    if (ledger === undefined || stateOf(ledger).reservations.every((each) => each.id !== reservation.id)) return act.judge(seen);
    const { id, notAfter } = reservation;
    const operation = { id, epoch: flight.epoch, kind: 'Repair', notAfter, action: reservation.action ?? '' } as const;
    return { write: 'machine', object: { ...machine, spec: { ...machine.spec, operation } } };
  },
}));

const order = (_: MachineView, reservation: LedgerReservation): Step => ({ do: 'Order', reservation, drained: true, why: '' });

/** As if no reservation had ever taken a cordon over from Degraded. */
const forgetful = (act: Act): Act =>
  withNode(act, (node) => {
    const { [ANNOTATIONS.cordonDegraded]: _, ...annotations } = node.metadata.annotations ?? {};
    return { ...node, metadata: { ...node.metadata, annotations } };
  });

function withoutBefore(status: RemedyOperationJobStatus): RemedyOperationJobStatus {
  const { before: _, ...rest } = status;
  return rest;
}

const restart = sick({ ladder: ['RestartComponent'] });
const vain = sick({ ladder: ['RestartComponent'], helps: [], degraded: true });
const migrate = sick({ ladder: ['MigratePods'], ill: ['hung'] });

export const REPAIR_MUTANTS: Mutant[] = [
  {
    rule: 'F3: a job that was not granted the reservation is ordered',
    mutation: { step: impatient(isUnordered, order), act: orderAnyway },
    scenario: underRepair({}, restart),
    caughtBy: /F3/,
  },
  {
    rule: 'F4: a job is ordered that does not know what the node was like before',
    mutation: { reported: withoutBefore, step: impatient((view) => isUnordered(view) && isGranted(view), order), act: orderAnyway },
    scenario: underRepair({}, restart),
    caughtBy: /F4/,
  },
  {
    rule: 'F3: a job ends by what stores show that may be old',
    mutation: { jobsByStores: true },
    scenario: underRepair({ freeze: 2 }, restart),
    caughtBy: /F3|D5|C3/,
  },
  {
    rule: 'F3: writes of jobs are not conditioned',
    mutation: { jobsUnconditioned: true },
    scenario: underRepair({ clears: 1 }, restart),
    caughtBy: /F3|D5|C3/,
  },
  {
    rule: 'C3: a node is given back before its job is over',
    mutation: {
      step: impatient(isReported, (view, reservation) => ({
        do: view.claim.state === 'Claimed' && ownerOf(view.claim.node) === reservation.id ? 'Settle' : 'Release',
        reservation,
        why: '',
      })),
    },
    scenario: underRepair({}, restart),
    caughtBy: /C3/,
  },
  {
    rule: 'C3: a reservation is released before its job is over',
    mutation: {
      step: impatient(isReported, (_, reservation) => ({ do: 'Release', reservation, why: '' })),
      act: only('release', (act, flight) => ({
        ...act,
        judge(seen) {
          if (seen.ledger === undefined) return { stop: '' };
          const state = stateOf(seen.ledger);
          return {
            write: 'ledger',
            object: withState(seen.ledger, {
              ...state,
              reservations: state.reservations.filter(({ id }) => id !== reservationOf(flight)?.id),
            }),
          };
        },
      })),
    },
    scenario: underRepair({}, restart),
    caughtBy: /D5/,
  },
  {
    rule: 'D2: a new term goes on with an old store of jobs',
    mutation: { coldJobs: true },
    scenario: underRepair({ freeze: 1 }, sick({ ladder: ['RestartComponent', 'RestartComponent'], helps: [] })),
    caughtBy: /C3|D5/,
  },
  {
    rule: 'C4: a node that is drained and not healed is uncordoned',
    mutation: { act: only('settle', clearAny) },
    scenario: underRepair({}, sick({ ladder: ['MigratePods'] })),
    caughtBy: /C4/,
  },
  {
    rule: 'C4: what was Degraded is not given back by a repair that does not help',
    mutation: { act: only('settle', forgetful) },
    scenario: underRepair({}, vain),
    caughtBy: /C4/,
  },
  {
    rule: 'C4: what was Degraded is not given back by a repair that is cancelled',
    mutation: { act: only('fence', forgetful) },
    scenario: underRepair({ removeJob: 1 }, vain),
    caughtBy: /C4/,
  },
  {
    rule: 'C9: a reservation is taken over though its agent answers',
    mutation: { ignoresAgents: true },
    scenario: underRepair({ takeover: 0, expiry: 1 }, sick({ ladder: ['Reboot', 'Reboot'] }), { leaders: 1 }),
    caughtBy: /C9/,
  },
  {
    rule: 'invariant 5: the provider does not learn for which operation it cycles the power',
    mutation: { keyless: true },
    scenario: underRepair({ crash: 1 }, sick({ ill: ['cut'] })),
    caughtBy: /invariant 5/,
  },
  {
    rule: 'fencing: a power cycle that is over is not retired',
    mutation: { unretired: true },
    scenario: underRepair({ expiry: 1 }, sick({ ill: ['cut'] })),
    caughtBy: /fencing: PowerCycle/,
  },
  {
    rule: 'fencing: a migration whose power may be cut is not retired',
    mutation: { unretired: true },
    scenario: underRepair({ powerOn: 1 }, migrate, { pods: 1 }),
    caughtBy: /fencing: StopInstance/,
  },
  {
    rule: 'fencing: pods are taken by force by an old proof',
    mutation: { oldProof: true },
    scenario: underRepair({ powerOn: 1 }, migrate, { pods: 1 }),
    caughtBy: /fencing/,
  },
  {
    rule: 'fencing: pods are taken by force without any proof',
    mutation: {
      oldProof: true,
      step: (view, step) =>
        step?.do === 'StopInstance'
          ? { do: 'ForceDelete', reservation: step.reservation, pods: view.pods ?? [], providerID: step.providerID, why: '' }
          : step,
    },
    scenario: underRepair({}, migrate, { pods: 1 }),
    caughtBy: /fencing/,
  },
];

function isGranted({ facts, reservation }: MachineView): boolean {
  return facts.jobsOf(reservation?.machineUID ?? '').some(({ status }) => status?.operationID === reservation?.id);
}
