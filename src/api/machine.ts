import type { Static } from 'typebox';
import { defineKind } from './kind/definition.ts';
import type * as schema from './machine/schema.ts';
import { machineSpec, machineStatus } from './machine/schema.ts';
import { MACHINE, type CANCEL_CAUSES, type DELETION_POLICIES, type OUTCOMES } from './machine/values.ts';
import { plainTexts } from './plain-text.ts';
import { SSH_PROVIDER } from './ssh.ts';

export type ComponentEntry = Static<typeof schema.componentEntry>;
export type Operation = Static<typeof schema.operation>;
export type ComponentStatus = Static<typeof schema.componentStatus>;
export type OperationStatus = Static<typeof schema.operationStatus>;
export type RepairStatus = Static<typeof schema.repairStatus>;
export type VerifiedContent = Static<typeof schema.verifiedContent>;
export type Soak = Static<typeof schema.soak>;
export type Observation = Static<typeof schema.observation>;
export type Bootstrap = Static<typeof schema.bootstrap>;
export type NodeKeys = Static<typeof schema.nodeKeys>;
export type CancelCause = (typeof CANCEL_CAUSES)[number];
export type DeletionPolicy = (typeof DELETION_POLICIES)[number];
export type Outcome = (typeof OUTCOMES)[number];
export type DrainBudget = NonNullable<Static<typeof schema.drainStatus>['budgets']>[number];
export type MachineSpec = Static<typeof machineSpec>;
export type MachineStatus = Static<typeof machineStatus>;

export const Machines = defineKind({
  ...MACHINE,
  shortNames: ['ma'],
  description: 'One node: how it is made, what should run on it, what does, and the one operation under way.',
  spec: machineSpec,
  status: machineStatus,
  plain(machine) {
    if (machine.status === undefined) return machine;
    // What its agent wrote, and nothing else: what controllers wrote they compare with what they would write.
    const { agent, components, operation, conditions } = machine.status;
    const plainConditions = conditions?.map((each) => (each.type === 'AgentReady' ? plainTexts(each) : each));
    const read = { ...(agent && { agent }), ...(components && { components }), ...(operation && { operation }) };
    const plain = plainTexts(read);
    const same = plain === read && (plainConditions === undefined || plainConditions.every((each, index) => each === conditions?.[index]));
    return same
      ? machine
      : { ...machine, status: { ...machine.status, ...plain, ...(plainConditions && { conditions: plainConditions }) } };
  },
  rules: [
    {
      rule: '!has(oldSelf.spec.operation) || (has(self.spec.operation) && self.spec.operation.epoch >= oldSelf.spec.operation.epoch)',
      message: 'the operation is never removed and its epoch never falls',
      fieldPath: '.spec.operation',
    },
    {
      rule: `!has(self.spec.deletionPolicy) || self.spec.deletionPolicy == 'Delete' || (has(self.spec.provider) && self.spec.provider.name == '${SSH_PROVIDER}')`,
      message: `Orphan and Reset are for machines that exist (provider ${SSH_PROVIDER}): the others go with their instance`,
      fieldPath: '.spec.deletionPolicy',
    },
    {
      rule: '!has(oldSelf.status) || !has(oldSelf.status.bootstrap) || (has(self.status) && has(self.status.bootstrap) && self.status.bootstrap.epoch >= oldSelf.status.bootstrap.epoch)',
      message: 'the bootstrap is never removed and its epoch never falls',
      fieldPath: '.status.bootstrap',
    },
    {
      rule: '!has(oldSelf.status) || !has(oldSelf.status.bootstrap) || !has(oldSelf.status.bootstrap.csrUID) || !has(self.status) || !has(self.status.bootstrap) || self.status.bootstrap.epoch > oldSelf.status.bootstrap.epoch || (has(self.status.bootstrap.csrUID) && self.status.bootstrap.csrUID == oldSelf.status.bootstrap.csrUID)',
      message: 'one request is admitted in an epoch of the bootstrap, and no other',
      fieldPath: '.status.bootstrap.csrUID',
    },
    {
      rule: '!has(oldSelf.status) || !has(oldSelf.status.firstReadyAt) || (has(self.status) && has(self.status.firstReadyAt) && self.status.firstReadyAt == oldSelf.status.firstReadyAt)',
      message: 'when a machine was first Ready is recorded once and stays',
      fieldPath: '.status.firstReadyAt',
    },
  ],
  columns: [
    { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
    { name: 'Node', type: 'string', jsonPath: '.status.nodeRef.name' },
    { name: 'Ready', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].status' },
    { name: 'UpToDate', type: 'string', jsonPath: '.status.conditions[?(@.type=="UpToDate")].status' },
    { name: 'Operation', type: 'string', jsonPath: '.status.underWay', priority: 1 },
    { name: 'Agent', type: 'string', jsonPath: '.status.agent.version', priority: 1 },
  ],
});
export type Machine = ReturnType<typeof Machines.parse>;
