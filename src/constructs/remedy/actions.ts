/** The rungs of a ladder: what is tried against a fault, one after the other. */
import type { Rung } from '../../api/node-remedier.ts';
import { ACTION_ARGS, type Action } from '../../api/node-remedier/values.ts';
import { FleetError } from '../errors.ts';
import { Release } from '../release.ts';

/** `attempts` (default 1), `timeoutSeconds` (from the order until the proof must have begun; default 600), `cooldownSeconds`. */
export type RungProps = Pick<Rung, 'attempts' | 'timeoutSeconds' | 'cooldownSeconds'>;

/** Takes the pods away, through Defender and their PodDisruptionBudgets. It repairs nothing by itself: the next rung does. */
export function migratePods({ graceSeconds, ...rest }: RungProps & { graceSeconds?: number } = {}): Rung {
  return rung('MigratePods', { graceSeconds }, rest);
}

/** Restarts one component on the node, named or as the release that is installed. */
export function restartComponent(component: string | Release, props: RungProps = {}): Rung {
  return rung('RestartComponent', { component: component instanceof Release ? component.component : component }, props);
}

/** Deletes what the agent knows to be safe to delete until the disk is used less than this. */
export function cleanDisk({ belowPercent, ...rest }: RungProps & { belowPercent: number }): Rung {
  return rung('CleanDisk', { belowPercent }, rest);
}

/** Boots the node again, after a drain; a new boot is part of the proof. */
export function reboot(props: RungProps = {}): Rung {
  return rung('Reboot', {}, props);
}

/** Deletes the machine, so that its MachineSet makes another. Only of machines that a MachineSet made. */
export function replaceMachine(props: RungProps = {}): Rung {
  return rung('Replace', {}, props);
}

/** The end of every ladder, appended where it is missing. `note` is what the person who is paged should read first. */
export function askHuman({ note }: { note?: string } = {}): Rung {
  return rung('Human', { note }, {});
}

function rung(action: Action, args: Record<string, string | number | undefined>, props: RungProps): Rung {
  const given = Object.fromEntries(Object.entries(args).filter(([, value]) => value !== undefined));
  for (const [name, argument] of Object.entries(ACTION_ARGS[action])) {
    const value = given[name];
    if (value === undefined && !argument.required) continue;
    if (argument.accepts(value)) continue;
    const found = value === undefined ? 'is missing' : `must not be ${JSON.stringify(value)}`;
    throw new FleetError('RuleInvalid', `\`${name}\` of ${action} ${found}: ${argument.allowed}`);
  }
  return { action, ...(Object.keys(given).length === 0 ? {} : { args: given }), ...props };
}
