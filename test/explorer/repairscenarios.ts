import type { Named } from './scenarios.ts';
import type { Budget, RepairPlan, Scenario } from './world.ts';

/** Two leaders, of which one may be deposed at any moment, and one machine that is ill. */
const world = (budget: Partial<Budget>, repair: RepairPlan, rest: Partial<Scenario> = {}): Scenario => ({
  machines: 1,
  leaders: 2,
  flights: 1,
  changed: 0,
  repair,
  ...rest,
  budget: { takeover: 1, ...budget },
});

const sick = (rest: Partial<RepairPlan> = {}): RepairPlan => ({
  ladder: ['Reboot'],
  ill: ['sick'],
  helps: ['Reboot', 'PowerCycle', 'RestartComponent'],
  ...rest,
});

export const REPAIRS: Named[] = [
  { name: 'C1 reboot withdraw crash', scenario: world({ withdraw: 1, crash: 1 }, sick()) },
  { name: 'C2 reboot remove crash', scenario: world({ removeJob: 1 , expiry: 1}, sick()) },
  { name: 'D hung migrate then reboot', scenario: world({ powerOn: 1, clears: 1 }, sick({ ladder: ['MigratePods', 'Reboot'], ill: ['hung'] }), { pods: 1 }) },
  { name: 'E cut C9', scenario: world({ takeover: 0, cuts: 1, expiry: 1, crash: 1 }, sick({ ladder: ['Reboot', 'Reboot'] }), { leaders: 1 }) },
  { name: 'F powercycle', scenario: world({ expiry: 1, clears: 1 }, sick({ ill: ['cut'] })) },
  { name: 'F2 powercycle', scenario: world({ crash: 1, freeze: 1 }, sick({ ill: ['cut'] }), { frozenTogether: true }) },
  { name: 'G degraded', scenario: world({ withdraw: 1, clears: 1 }, sick({ ladder: ['RestartComponent', 'Reboot'], helps: ['Reboot'], degraded: true })) },
  { name: 'H change and repair, cut', scenario: world({ cuts: 1, clears: 1 }, sick({ ladder: ['Reboot'] }), { changed: 1 }) },
  { name: 'I replace', scenario: world({ expiry: 1, clears: 1 }, sick({ ladder: ['Replace'], ill: ['hung'], replaceable: true })) },
  { name: 'K coldjobs', scenario: world({ freeze: 1, clears: 0 }, sick({ ladder: ['RestartComponent', 'RestartComponent'], helps: [], coldJobs: true })) },
];
