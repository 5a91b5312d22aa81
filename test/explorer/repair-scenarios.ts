import type { Named } from './scenarios.ts';
import type { Budget, RepairPlan, Scenario } from './world.ts';

/** Two leaders, one of which may be deposed at any moment, and one machine that is ill. */
export const underRepair = (budget: Partial<Budget>, repair: RepairPlan, rest: Partial<Scenario> = {}): Scenario => ({
  machines: 1,
  leaders: 2,
  flights: 1,
  changed: 0,
  repair,
  ...rest,
  budget: { takeover: 1, ...budget },
});

export const sick = (rest: Partial<RepairPlan> = {}): RepairPlan => ({
  ladder: ['Reboot'],
  ill: ['sick'],
  helps: ['Reboot', 'PowerCycle', 'RestartComponent'],
  ...rest,
});

export const REPAIRS: Named[] = [
  {
    name: 'a restart, with a crash and a store that stops',
    scenario: underRepair({ crash: 1, freeze: 1 }, sick({ ladder: ['RestartComponent'] })),
  },
  {
    name: 'a reboot of a node that recovers at any moment, with a store that stops',
    scenario: underRepair({ clears: 1, freeze: 1 }, sick({ helps: [] })),
  },
  { name: 'a reboot whose rule is deleted at any moment, with a crash', scenario: underRepair({ withdraw: 1, crash: 1 }, sick()) },
  { name: 'a reboot, and a ledger that is deleted at any moment', scenario: underRepair({ forget: 1 }, sick()) },
  {
    name: 'a power cycle of a node that hangs, and a ledger that is deleted at any moment',
    scenario: underRepair({ forget: 1 }, sick({ ill: ['hung'] })),
  },
  {
    name: 'pods that are taken away from a node, and a ledger that is deleted at any moment',
    scenario: underRepair({ forget: 1 }, sick({ ladder: ['MigratePods'] }), { pods: 1 }),
    large: true,
  },
  { name: 'a reboot whose job is removed at any moment', scenario: underRepair({ removeJob: 1 }, sick()) },
  {
    name: 'a restart that does not help and a reboot, of a node that is Degraded, recovers or is of no rule any more',
    scenario: underRepair({ clears: 1, withdraw: 1 }, sick({ ladder: ['RestartComponent', 'Reboot'], helps: ['Reboot'], degraded: true })),
  },
  {
    name: 'a human who cordons, pods that are taken away and a restart',
    scenario: underRepair({ cordonByHuman: 1 }, sick({ ladder: ['MigratePods', 'RestartComponent'] }), { pods: 1 }),
  },
  {
    name: 'two nodes that are ill, room for one, and recovery at any moment',
    scenario: underRepair({ clears: 1 }, sick({ ladder: ['RestartComponent'], ill: ['sick', 'sick'] }), { machines: 2 }),
  },
  {
    name: 'a change and a reboot of one machine, whose agent stops to report at any moment',
    scenario: underRepair({ cuts: 1 }, sick(), { changed: 1 }),
  },
  {
    name: 'a change that a power cycle takes over, where a store had stopped before the job was made',
    scenario: underRepair({ takeover: 0, sickens: 1, cuts: 1, freeze: 1 }, sick({ ill: ['well'] }), {
      changed: 1,
      leaders: 1,
      frozenTogether: true,
    }),
  },
  { name: 'a power cycle, with a crash', scenario: underRepair({ crash: 1 }, sick({ ill: ['cut'] })) },
  {
    name: 'a power cycle of a node that recovers at any moment, while time passes',
    scenario: underRepair({ takeover: 0, crash: 1, clears: 1, expiry: 1 }, sick({ ill: ['cut'] }), { leaders: 1 }),
  },
  {
    name: 'a power cycle that two leaders ask for, while time passes',
    scenario: underRepair({ expiry: 1 }, sick({ ill: ['cut'] })),
  },
  {
    name: 'a reboot that a power cycle takes over, as the agent stops to report at any moment',
    scenario: underRepair({ takeover: 0, cuts: 1, expiry: 1 }, sick({ ladder: ['Reboot', 'Reboot'] }), { leaders: 1 }),
  },
  {
    name: 'pods taken by force off a node that hangs, recovers or is turned on at any moment',
    scenario: underRepair({ powerOn: 1, clears: 1 }, sick({ ladder: ['MigratePods'], ill: ['hung'] }), { pods: 1 }),
  },
  {
    name: 'pods taken by force, with a crash',
    scenario: underRepair({ crash: 1 }, sick({ ladder: ['MigratePods'], ill: ['hung'] }), { pods: 1 }),
  },
  {
    name: 'a replacement of a node that hangs or recovers',
    scenario: underRepair({ clears: 1 }, sick({ ladder: ['Replace'], ill: ['hung'], replaceable: true })),
  },
  {
    name: 'a restart, with a crash, a lost reply and a store that stops',
    large: true,
    scenario: underRepair({ crash: 1, lostReply: 1, freeze: 1 }, sick({ ladder: ['RestartComponent'] })),
  },
  {
    name: 'a reboot whose job is removed and whose rule is deleted at any moment, with a crash',
    large: true,
    scenario: underRepair({ withdraw: 1, removeJob: 1, crash: 1 }, sick()),
  },
  {
    name: 'a reboot that a power cycle takes over, under two leaders',
    large: true,
    scenario: underRepair({ cuts: 1, expiry: 1 }, sick({ ladder: ['Reboot', 'Reboot'] })),
  },
  {
    name: 'a power cycle, with a crash and stores that stop',
    large: true,
    scenario: underRepair({ crash: 1, freeze: 1 }, sick({ ill: ['cut'] }), { frozenTogether: true }),
  },
  {
    name: 'pods taken by force and a power cycle',
    large: true,
    scenario: underRepair({ powerOn: 1, clears: 1 }, sick({ ladder: ['MigratePods', 'Reboot'], ill: ['hung'] }), { pods: 1 }),
  },
];
