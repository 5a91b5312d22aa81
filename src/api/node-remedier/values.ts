/** Values of a NodeRemedier that need no schema: the agent imports them, and no validator with them. */
import type { Disruption } from '../disruption.ts';
import type { Rung } from '../node-remedier.ts';

/** What a rung may do, weakest first; Human does nothing to the node. */
export const ACTIONS = ['Human', 'CleanDisk', 'RestartComponent', 'MigratePods', 'Reboot', 'Replace'] as const;
export type Action = (typeof ACTIONS)[number];

export interface ActionTraits {
  /** Who carries it out. */
  by: 'Agent' | 'Controller' | 'Human';
  /** What it does to the workload; Drain and more take the pods away first. */
  disruption: Disruption;
  /**
   * What ends its job well. `Healed`: the rule's proof. `Done`: that it was done; it heals nothing by itself. `Gone`: the provider's proof that
   * the machine is gone. `Nothing`: a human ends it.
   */
  proof: 'Healed' | 'Done' | 'Gone' | 'Nothing';
}

export const ACTION_TRAITS: Readonly<Record<Action, ActionTraits>> = {
  Human: { by: 'Human', disruption: 'None', proof: 'Nothing' },
  CleanDisk: { by: 'Agent', disruption: 'None', proof: 'Healed' },
  RestartComponent: { by: 'Agent', disruption: 'Restart', proof: 'Healed' },
  MigratePods: { by: 'Controller', disruption: 'Drain', proof: 'Done' },
  Reboot: { by: 'Agent', disruption: 'Reboot', proof: 'Healed' },
  Replace: { by: 'Controller', disruption: 'Reboot', proof: 'Gone' },
};

/**
 * `action` of an operation of kind Repair. What the agent carries out it reports in `Machine.status.operation`; the rest is carried out by the
 * machine controller, which reports in `Machine.status.repair`, and agents leave it alone. PowerCycle is a Reboot of a node whose agent is
 * stale, by its provider.
 */
export const AGENT_OPERATIONS = ['CleanDisk', 'RestartComponent', 'Reboot'] as const;
export const CONTROLLER_OPERATIONS = ['MigratePods', 'Replace', 'PowerCycle'] as const;
export type ControllerOperation = (typeof CONTROLLER_OPERATIONS)[number];
export type RepairOperation = (typeof AGENT_OPERATIONS)[number] | ControllerOperation;

/** The defaults where a rung sets nothing. */
export const RUNG_DEFAULTS = { attempts: 1, timeoutSeconds: 600, cooldownSeconds: 0 } as const;

interface Argument {
  required: boolean;
  /** For people. */
  allowed: string;
  accepts(value: unknown): boolean;
}

const integer = (minimum: number, maximum: number) => (value: unknown) =>
  typeof value === 'number' && Number.isInteger(value) && value >= minimum && value <= maximum;

/** The arguments that each action takes, and no others. */
export const ACTION_ARGS: Readonly<Record<Action, Readonly<Record<string, Argument>>>> = {
  Human: {
    note: { required: false, allowed: 'a text for the person who is paged', accepts: (value) => typeof value === 'string' && value !== '' },
  },
  CleanDisk: { belowPercent: { required: true, allowed: 'the use of the disk to get below, from 1 to 99', accepts: integer(1, 99) } },
  RestartComponent: {
    component: { required: true, allowed: 'the name of a component', accepts: (value) => typeof value === 'string' && value !== '' },
  },
  MigratePods: { graceSeconds: { required: false, allowed: 'seconds from 0 to 3600', accepts: integer(0, 3600) } },
  Reboot: {},
  Replace: {},
};

export const DEFAULT_CLEARS_AFTER_SECONDS = 60;
export const DEFAULT_FORGET_AFTER_SECONDS = 86_400;

/** A rung with its defaults. */
export function fullRung(rung: Rung): Rung & { attempts: number; timeoutSeconds: number; cooldownSeconds: number } {
  return { ...RUNG_DEFAULTS, ...rung };
}

/** How much an action interferes; greater is stronger. */
export const strengthOf = (action: Action): number => ACTIONS.indexOf(action);
