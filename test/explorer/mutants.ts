/** Ways to break the code under exploration, each a rule of docs/protocols.md left out: an explorer that finds nothing in them proves nothing. */
import type { Node } from '../../src/api/builtin.ts';
import { ANNOTATIONS } from '../../src/api/names.ts';
import type { RemedyOperationJobStatus } from '../../src/api/remedy-operation-job.ts';
import type { Stored } from '../../src/api/wire.ts';
import type { Effect } from '../../src/controllers/machine/guards.ts';
import { ownerOf } from '../../src/controllers/machine/cordon/cordon.ts';
import type { MachineView, Step } from '../../src/controllers/machine/view.ts';
import type { CellParts } from '../../src/controllers/machine/testing/cell-of.ts';
import type { GuardedWrite, Seen, Target } from '../../src/defender/guarded-write.ts';
import { stateOf, withState } from '../../src/defender/state.ts';
import type { Flight, Scenario } from './world.ts';

export type Act = GuardedWrite<Effect>;

export interface Mutation {
  /** Writes of this object are not conditioned. */
  cas?: Target;
  /** A leader goes on although its store shows a later term. */
  epochIgnored?: boolean;
  /** A new term begins with stores that are as old as before. */
  coldTerm?: boolean;
  /** The pass reads its stores when it first reads something, which must then not be the ledger. */
  gatherFirst?: boolean;
  /** A new term goes on with a store of jobs that is as old as before. */
  coldJobs?: boolean;
  /** Writes of a job's status are not conditioned. */
  jobsUnconditioned?: boolean;
  /** A job's end is decided by stores that may be old. */
  jobsByStores?: boolean;
  reported?: (status: RemedyOperationJobStatus) => RemedyOperationJobStatus;
  /** The agent of an order under way is treated as stale. */
  ignoresAgents?: boolean;
  /** The provider does not learn for which operation it cycles the power. */
  keyless?: boolean;
  /** An operation ends although a leader may still ask the provider for something in its name. */
  unretired?: boolean;
  /** Pods are taken by force without asking the provider again. */
  oldProof?: boolean;
  /** A ledger that is made again begins above the epochs that Machines bear, and no higher. */
  epochsComeAgain?: boolean;
  /** It begins without reservations. */
  forgetful?: boolean;
  cell?: (cell: CellParts) => CellParts;
  act?: (act: Act, flight: Flight) => Act | undefined;
  step?: (view: MachineView, step: Step | undefined) => Step | undefined;
}

export interface Mutant {
  rule: string;
  mutation: Mutation;
  /** Where it shows. */
  scenario: Scenario;
  /** What the explorer must report. */
  caughtBy: RegExp;
}

/** The ledger as a leader that checks no epoch would take it. */
function blind(act: Act, flight: Flight): Act {
  return {
    ...act,
    judge(seen) {
      const { ledger } = seen;
      if (ledger === undefined) return act.judge(seen);
      const { epoch } = stateOf(ledger);
      const move = act.judge({ ...seen, ledger: withState(ledger, { ...stateOf(ledger), epoch: flight.epoch }) });
      if (!('write' in move) || move.write !== 'ledger') return move;
      return { ...move, object: withState(move.object, { ...stateOf(move.object), epoch }) };
    },
  };
}

export const only = (name: string | readonly string[], change: (act: Act, flight: Flight) => Act) => (act: Act, flight: Flight) =>
  (typeof name === 'string' ? [name] : name).includes(act.name) ? change(act, flight) : act;

/** Makes the Node schedulable under any cordon. */
export const clearAny = (act: Act): Act => ({
  ...act,
  judge(seen) {
    const { node } = seen;
    if (node === undefined) return act.judge(seen);
    const { [ANNOTATIONS.cordonOwner]: _, [ANNOTATIONS.cordonKept]: __, ...annotations } = node.metadata.annotations ?? {};
    const { unschedulable: ___, ...spec } = node.spec ?? {};
    const object: Stored<Node> = { ...node, metadata: { ...node.metadata, annotations }, spec };
    return { write: 'node', object };
  },
});

export const withNode = (act: Act, change: (node: Stored<Node>, seen: Seen) => Stored<Node>): Act => ({
  ...act,
  judge: (seen) => act.judge(seen.node === undefined ? seen : { ...seen, node: change(seen.node, seen) }),
});

const world = (rest: Partial<Scenario> = {}): Scenario => ({
  machines: 2,
  leaders: 2,
  flights: 1,
  ...rest,
  budget: { takeover: 1, ...rest.budget },
});

export const MUTANTS: Mutant[] = [
  {
    rule: 'D2: ledger writes are not conditioned',
    mutation: { cas: 'ledger' },
    scenario: world({ leaders: 1, flights: 2, limit: 2, budget: { takeover: 0 } }),
    caughtBy: /D5/,
  },
  {
    rule: 'D2: ledger writes do not check the epoch',
    mutation: { epochIgnored: true, act: blind },
    scenario: world({ acting: true, fails: 'not-restored', budget: { freeze: 1 } }),
    caughtBy: /D4|invariant 2/,
  },
  {
    rule: 'D2: a new term goes on with old stores',
    mutation: { coldTerm: true },
    scenario: world({ acting: true, fails: 'not-restored', budget: { freeze: 1 } }),
    caughtBy: /D4|invariant 2/,
  },
  {
    rule: 'D1: the epochs of a lost ledger come again',
    mutation: { epochsComeAgain: true },
    scenario: world({ machines: 1, budget: { forget: 1 } }),
    caughtBy: /D1/,
  },
  {
    rule: 'D1: the reservations of a lost ledger are forgotten',
    mutation: { forgetful: true },
    scenario: world({ budget: { forget: 1 } }),
    caughtBy: /invariant 2|C3/,
  },
  {
    rule: 'D1: what bears the cordon of a reservation that is forgotten is reserved',
    mutation: {
      cell: (cell) => ({
        ...cell,
        nodeNamed(name) {
          const node = cell.nodeNamed(name);
          const { [ANNOTATIONS.cordonOwner]: _, ...annotations } = node?.metadata.annotations ?? {};
          return node === undefined ? undefined : { ...node, metadata: { ...node.metadata, annotations } };
        },
      }),
    },
    scenario: world({ budget: { forget: 1 } }),
    caughtBy: /invariant 2/,
  },
  {
    rule: 'D3: orders are not conditioned',
    mutation: { cas: 'machine' },
    scenario: world({ budget: { revert: 1 } }),
    caughtBy: /invariant|C3|D5/,
  },
  {
    rule: 'D4: reservations do not wait for what was released',
    mutation: { cell: (cell) => ({ ...cell, stale: undefined }) },
    scenario: world({ leaders: 1, fails: 'restored', budget: { takeover: 0, freeze: 1 } }),
    caughtBy: /D4/,
  },
  {
    rule: 'D4: the pass reads its stores before it reads the ledger',
    mutation: { gatherFirst: true, act: only('reserve', (act) => ({ ...act, reads: ['machine', 'ledger'] })) },
    scenario: world({ leaders: 1, flights: 2, fails: 'not-restored', budget: { takeover: 0 } }),
    caughtBy: /invariant 2/,
  },
  {
    rule: 'D5: a reservation is released by the clock',
    mutation: {
      step: (view, step) =>
        view.reservation !== undefined && view.nowMs > Date.parse(view.reservation.notAfter)
          ? { do: 'FreeCancelled', reservation: view.reservation, why: 'expired' }
          : step,
      act: only('free-cancelled', (act, flight) => ({
        ...act,
        judge(seen) {
          const reservation =
            typeof flight.what === 'object' && 'step' in flight.what && 'reservation' in flight.what.step
              ? flight.what.step.reservation
              : undefined;
          if (seen.ledger === undefined) return { stop: '' };
          const state = stateOf(seen.ledger);
          return {
            write: 'ledger',
            object: withState(seen.ledger, { ...state, reservations: state.reservations.filter((each) => each.id !== reservation?.id) }),
          };
        },
      })),
    },
    scenario: world({ budget: { expiry: 1 } }),
    caughtBy: /D5|invariant 2/,
  },
  {
    rule: 'D6: the reservation is removed without a mark on the Machine',
    mutation: {
      step: (_, step) => (step?.do === 'WriteCancelled' ? { do: 'FreeCancelled', reservation: step.reservation, why: '' } : step),
      act: only('free-cancelled', (act, flight) => ({
        ...act,
        judge(seen) {
          const reservation =
            typeof flight.what === 'object' && 'step' in flight.what && 'reservation' in flight.what.step
              ? flight.what.step.reservation
              : undefined;
          if (seen.ledger === undefined || seen.machine?.spec.operation?.id === reservation?.id) return { stop: '' };
          const state = stateOf(seen.ledger);
          return {
            write: 'ledger',
            object: withState(seen.ledger, { ...state, reservations: state.reservations.filter((each) => each.id !== reservation?.id) }),
          };
        },
      })),
    },
    scenario: world({ budget: { revert: 1 } }),
    caughtBy: /D5|C3|C4|invariant 2/,
  },
  {
    rule: 'D6: a cancellation does not fence the Node',
    mutation: {
      step: (view, step) =>
        step?.do === 'Fence' && view.claim.state === 'Claimed' && ownerOf(view.claim.node) !== step.reservation.id
          ? { do: 'FreeCancelled', reservation: step.reservation, why: '' }
          : step,
      act: only('free-cancelled', (act) =>
        withNode(act, (node, seen) => {
          const id = seen.machine?.spec.operation?.id ?? '';
          const mine = node.metadata.annotations?.[ANNOTATIONS.cordonOwner] === id;
          return mine
            ? node
            : { ...node, metadata: { ...node.metadata, annotations: { ...node.metadata.annotations, [ANNOTATIONS.cordonFence]: id } } };
        }),
      ),
    },
    scenario: world({ budget: { revert: 1 } }),
    caughtBy: /C4|invariant 2/,
  },
  {
    rule: 'D7: what is reserved is not counted',
    mutation: {
      act: only('reserve', (act) => ({
        ...act,
        judge(seen) {
          if (seen.ledger === undefined) return act.judge(seen);
          const state = stateOf(seen.ledger);
          const move = act.judge({ ...seen, ledger: withState(seen.ledger, { ...state, reservations: [] }) });
          if (!('write' in move) || move.write !== 'ledger') return move;
          const added = stateOf(move.object).reservations.filter((reservation) =>
            state.reservations.every((each) => each.machineUID !== reservation.machineUID),
          );
          return { ...move, object: withState(move.object, { ...state, reservations: [...state.reservations, ...added] }) };
        },
      })),
    },
    scenario: world({ leaders: 1, budget: { takeover: 0 } }),
    caughtBy: /invariant 2/,
  },
  {
    rule: 'D7: what is cordoned is not counted',
    mutation: {
      cell: (cell) => ({
        ...cell,
        nodeNamed(name) {
          const node = cell.nodeNamed(name);
          return node === undefined ? undefined : { ...node, spec: { ...node.spec, unschedulable: false } };
        },
      }),
    },
    scenario: world({ leaders: 1, fails: 'not-restored', budget: { takeover: 0 } }),
    caughtBy: /invariant 2/,
  },
  {
    rule: 'C3: the outcome of a failed change is not waited for',
    mutation: {
      act: only('release', (act) => ({
        ...act,
        judge(seen) {
          const { machine } = seen;
          if (machine === undefined) return act.judge(seen);
          return act.judge({ ...seen, machine: { ...machine, spec: { ...machine.spec, components: [] } } });
        },
      })),
      step: (view, step) =>
        step === undefined &&
        view.reservation !== undefined &&
        view.machine.status?.operation?.id === view.reservation.id &&
        view.machine.status.operation.state === 'Done'
          ? { do: 'Release', reservation: view.reservation, why: '' }
          : step,
    },
    scenario: world({ fails: 'restored' }),
    caughtBy: /D5/,
  },
  {
    rule: 'C4: cordons are not conditioned',
    mutation: { cas: 'node' },
    scenario: world({ budget: { revert: 1 } }),
    caughtBy: /C4|invariant/,
  },
  {
    rule: 'C4: an uncordon does not check whose cordon it is',
    mutation: { act: only('settle', clearAny) },
    scenario: world({ budget: { cordonByHuman: 1 } }),
    caughtBy: /invariant 6/,
  },
  {
    rule: 'C4: a foreign cordon is taken over as if it were ours',
    mutation: {
      act: only('cordon', (act) => ({
        ...act,
        judge(seen) {
          const move = act.judge(seen);
          if (!('write' in move) || move.write !== 'node') return move;
          const { [ANNOTATIONS.cordonKept]: _, ...annotations } = move.object.metadata.annotations ?? {};
          return { ...move, object: { ...move.object, metadata: { ...move.object.metadata, annotations } } };
        },
      })),
    },
    scenario: world({ budget: { cordonByHuman: 1 } }),
    caughtBy: /invariant 6/,
  },
  {
    rule: 'C4: a cordon reads the ledger first and the Node last',
    mutation: { act: only('cordon', (act) => ({ ...act, reads: ['ledger', 'machine', 'node'] })) },
    scenario: world({ budget: { revert: 1 } }),
    caughtBy: /C4|invariant 2/,
  },
  {
    rule: 'C13: a cordon of a reservation that has its order reads the ledger first and the Node last',
    mutation: { act: only('cordon', (act) => ({ ...act, reads: ['ledger', 'machine', 'node'] })) },
    scenario: world({ budget: { reregister: 1 } }),
    caughtBy: /C4/,
  },
  {
    rule: 'C4: an eviction does not read the Node again',
    mutation: {
      act: only('evict', (act, flight) => ({
        ...act,
        reads: [],
        judge(seen) {
          const step = typeof flight.what === 'object' && 'step' in flight.what ? flight.what.step : undefined;
          const pod = step?.do === 'Evict' ? step.pod : undefined;
          return pod === undefined ? act.judge(seen) : { effect: { do: 'Evict', pod } };
        },
      })),
    },
    scenario: world({ machines: 1, needs: 'Drain', pods: 2, frozenTogether: true, budget: { freeze: 1, revert: 1 } }),
    caughtBy: /C4/,
  },
  {
    rule: 'C8: a Delete reservation is freed by the report of the agent',
    mutation: {
      step(view, step) {
        if (step?.do !== 'DeleteInstance' || step.reservation === undefined || view.machine.status?.operation?.id !== step.reservation.id)
          return step;
        const cordoned = view.claim.state === 'Claimed' && ownerOf(view.claim.node) === step.reservation.id;
        return { do: cordoned ? 'Settle' : 'Release', reservation: step.reservation, why: '' };
      },
    },
    scenario: world({ budget: { deletion: 1 }, changed: 1 }),
    caughtBy: /D5/,
  },
];
