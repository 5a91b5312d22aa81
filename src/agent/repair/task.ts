import type { Operation } from '../../api/machine.ts';
import { AGENT_OPERATIONS, CONTROLLER_OPERATIONS } from '../../api/node-remedier/values.ts';
import { runningOperation } from '../records/state.ts';
import type { JournalState, Task } from '../records/state.ts';

/** The cell carries these out: the agent does nothing for them, and reports nothing. */
export const isControllers = (order: Operation): boolean =>
  order.kind === 'Repair' && CONTROLLER_OPERATIONS.some((each) => each === order.action);

interface Argument {
  allowed: string;
  accepts: (value: unknown) => boolean;
}

const ARGUMENTS: Readonly<Record<Task['action'], Readonly<Record<string, Argument>>>> = {
  CleanDisk: {
    belowPercent: {
      allowed: 'a whole number from 1 to 99',
      accepts: (value) => typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= 99,
    },
  },
  RestartComponent: { component: { allowed: 'the name of a component', accepts: (value) => typeof value === 'string' && value !== '' } },
  Reboot: {},
};

/** What a Repair asks of this node in this boot, or what is wrong with it, for people. */
export function taskOf(order: Operation, bootID: string): Task | { wrong: string } {
  const action = AGENT_OPERATIONS.find((each) => each === order.action);
  if (action === undefined)
    return { wrong: `this agent knows no Repair${order.action === undefined ? ' without an action' : ` ${order.action}`}` };
  const given: unknown = order.args ?? {};
  const args = given !== null && typeof given === 'object' && !Array.isArray(given) ? (given as Record<string, unknown>) : undefined;
  if (args === undefined) return { wrong: `${action}: args must be an object` };
  const wrong: string[] = [];
  for (const [name, { allowed, accepts }] of Object.entries(ARGUMENTS[action])) {
    const value = Object.hasOwn(args, name) ? args[name] : undefined;
    if (value === undefined) wrong.push(`args.${name} is missing: it must be ${allowed}`);
    else if (!accepts(value)) wrong.push(`args.${name} must be ${allowed}, got ${JSON.stringify(value)}`);
  }
  const known = Object.keys(ARGUMENTS[action]);
  for (const name of Object.keys(args)) if (!known.includes(name)) wrong.push(`args.${name} is not known`);
  if (wrong.length > 0) return { wrong: `${action}: ${wrong.join('; ')}` };
  switch (action) {
    case 'CleanDisk':
      return { action, belowPercent: Number(args['belowPercent']) };
    case 'RestartComponent':
      return { action, component: String(args['component']) };
    case 'Reboot':
      return { action, fromBootID: bootID };
    default:
      return action satisfies never;
  }
}

/** `RestartComponent kubelet`, for people. */
export function nameOf(task: Task): string {
  if (task.action === 'CleanDisk') return `CleanDisk below ${task.belowPercent} %`;
  return task.action === 'RestartComponent' ? `RestartComponent ${task.component}` : task.action;
}

/** The component whose units are being restarted by a Repair. */
export function restartingOf(state: JournalState | undefined): string | undefined {
  const running = state === undefined ? undefined : runningOperation(state);
  return running?.acting !== undefined && running.task?.action === 'RestartComponent' ? running.task.component : undefined;
}
