/** Ways to break the control of component sets, each a rule of docs/protocols.md left out. */
import type { MachineComponentSet } from '../../src/api/machine-component-set.ts';
import type { Machine } from '../../src/api/machine.ts';
import type { Stored } from '../../src/api/wire.ts';
import type { MemberView, SetView } from '../../src/controllers/machine-component-set/observe.ts';
import type { BatchPlan } from '../../src/controllers/machine-component-set/plan.ts';
import { V1, V2 } from './component-set-scenarios.ts';
import type { Mutation, Scenario } from './component-set-world.ts';

export interface ComponentSetMutant {
  rule: string;
  mutation: Mutation;
  /** Where it shows. */
  scenario: Omit<Scenario, 'mutation' | 'name'>;
  caughtBy: RegExp;
}

const withSpec = (change: Partial<MachineComponentSet['spec']>) => ({
  see: (view: SetView): SetView => ({ ...view, set: { ...view.set, spec: { ...view.set.spec, ...change } } }),
});

const withMachines = (change: (machine: Stored<Machine>, view: MemberView) => Stored<Machine>) => ({
  see: (view: SetView): SetView => ({
    ...view,
    machines: view.machines.map((each) => ({ ...each, machine: change(each.machine, each) })),
  }),
});

/** What is written is as the code has it, but for what it announces and settles. */
const announcing = (writing: (plan: Extract<BatchPlan, { step: 'Write' }>) => BatchPlan) => ({
  plan: (plan: BatchPlan): BatchPlan => (plan.step === 'Write' ? writing(plan) : plan),
});

function withoutWriting(status: Extract<BatchPlan, { step: 'Write' }>['status']): Extract<BatchPlan, { step: 'Write' }>['status'] {
  const { writing: _, ...rest } = status;
  return rest;
}

const TWO = ['in use', 'in use'] as const;
const REVERT = { machines: TWO, commits: [V2, V1], budget: { takeover: 1 } };
/** Two are given at once, and the first one fails. */
const HALT = { machines: TWO, spec: { batches: [2, '100%'] }, commits: [V2], bad: ['2'], budget: { takeover: 1 } };
/** A leader whose stores are older than what another one announced. */
const LATE_STORES = { machines: ['in use'] as const, commits: [V2, V1], budget: { takeover: 1, stale: 1 } };
const UNANNOUNCED = announcing((plan) => ({ ...plan, status: withoutWriting(plan.status), settle: [] }));
const UNSETTLED = announcing((plan) => ({
  ...plan,
  settle: [],
  status: plan.writes.length > 0 ? plan.status : withoutWriting(plan.status),
}));

export const COMPONENT_SET_MUTANTS: ComponentSetMutant[] = [
  { rule: 'B9: entries are not announced, at a revert', mutation: UNANNOUNCED, scenario: REVERT, caughtBy: /gives no more/ },
  { rule: 'B9: entries are not announced, at a halt', mutation: UNANNOUNCED, scenario: HALT, caughtBy: /halts/ },
  { rule: 'B9: what was announced is not settled, at a revert', mutation: UNSETTLED, scenario: REVERT, caughtBy: /gives no more/ },
  { rule: 'B9: what was announced is not settled, at a halt', mutation: UNSETTLED, scenario: HALT, caughtBy: /halts/ },
  {
    rule: 'B9: a leader of an earlier term decides on',
    mutation: { epochs: 'ignored' },
    scenario: { machines: ['in use'], commits: [V2, V1], budget: { takeover: 1, stale: 1 } },
    caughtBy: /B8: there is evidence/,
  },
  {
    rule: 'B9: a term does not read Machines once the set bears its epoch',
    mutation: { epochs: 'unread' },
    scenario: LATE_STORES,
    caughtBy: /B8: there is evidence/,
  },
  {
    rule: 'A2: entries are not conditioned on the Machine that was read',
    mutation: { unconditioned: 'machine' },
    scenario: REVERT,
    caughtBy: /gives no more/,
  },
  {
    rule: 'B9: the status is not conditioned on the set that was read',
    mutation: { unconditioned: 'set' },
    scenario: { ...REVERT, budget: { lostReply: 1 } },
    caughtBy: /gives no more|forgotten|B8/,
  },
  {
    rule: 'B3: all machines go at once',
    mutation: withSpec({ batches: ['100%'] }),
    scenario: { machines: TWO, commits: [V2], budget: {} },
    caughtBy: /B3/,
  },
  {
    rule: 'B3: what a machine was given that is selected no more is not counted',
    mutation: { see: (view) => ({ ...view, former: [] }) },
    scenario: { machines: TWO, commits: [V2], budget: { leave: 1 } },
    caughtBy: /B3/,
  },
  {
    rule: 'B3: a batch passes without evidence',
    mutation: withMachines((machine, { entry }) => {
      if (entry === undefined || machine.status === undefined) return machine;
      const { name, version, revision, setUID } = entry;
      const record = { name, version, revision, setUID, bootID: 'boot', since: '' };
      const components = (machine.status.components ?? []).map((each) =>
        each.name === name ? { ...each, version, running: revision, state: 'Healthy' as const } : each,
      );
      return { ...machine, status: { ...machine.status, components, verified: [record] } };
    }),
    scenario: { machines: TWO, commits: [V2], budget: {} },
    caughtBy: /B3|B8/,
  },
  {
    rule: 'B4: failures stop nothing',
    mutation: withSpec({ maxFailed: 99 }),
    scenario: { machines: TWO, commits: [V2], bad: ['2'], budget: {} },
    caughtBy: /B4/,
  },
  {
    rule: 'B4: failures are kept on Machines alone',
    mutation: {
      see(view) {
        const { failures: _, ...status } = view.set.status ?? {};
        return { ...view, set: { ...view.set, status } };
      },
    },
    scenario: { machines: TWO, commits: [V2], bad: ['2'], budget: { delete: 1, join: 1 } },
    caughtBy: /forgotten|more, and/,
  },
  {
    rule: 'B5: a machine in use takes the lane of one that joins',
    mutation: withMachines((machine) => {
      const { firstReadyAt: _, ...status } = machine.status ?? {};
      return machine.spec.components === undefined ? { ...machine, status: { ...status, phase: 'Installing' } } : machine;
    }),
    scenario: { machines: ['in use', 'outside'], commits: [V2], budget: { enter: 1 } },
    caughtBy: /B5/,
  },
  {
    rule: 'B7: what is not declared goes back as Restore',
    mutation: { see: (view) => withSpec({ lane: { unitDigest: view.set.spec.unitDigest ?? '', lane: 'Restore' } }).see(view) },
    scenario: { machines: TWO, commits: [V2, V1], budget: {} },
    caughtBy: /B7/,
  },
  {
    rule: 'B8: maxUnavailable is not asked',
    mutation: { limits: 'ignored' },
    scenario: { machines: TWO, spec: { batches: ['100%'] }, commits: [V2], restarts: true, budget: {} },
    caughtBy: /in flight/,
  },
  {
    rule: 'D11: a Freeze is not asked',
    mutation: { freezes: 'ignored' },
    scenario: { machines: ['in use'], commits: [V2], restarts: true, budget: { freeze: 1 } },
    caughtBy: /Freeze/,
  },
  {
    rule: 'D8: a window is not asked',
    mutation: { freezes: 'ignored' },
    scenario: { machines: ['in use'], commits: [V2], restarts: true, budget: { window: 1 } },
    caughtBy: /window/,
  },
];
