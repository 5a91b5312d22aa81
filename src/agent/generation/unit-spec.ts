import { PLAIN_NAME, RELOADS, UNIT_DEFAULTS } from '../../api/machine-component/values.ts';
import {
  AGENT_UNIT,
  KILL_MODES,
  LIMIT,
  MAX_UNITS,
  NUMBERS,
  RESTARTS,
  SERVICE_TYPES,
  SLICE_NAME,
  TASKS,
  UNIT_NAME,
} from '../../api/systemd.ts';
import type { SystemdSettings } from '../../api/systemd.ts';
import { agentError } from '../errors.ts';
import { argv, count, list, object, oneOf, text, within } from './fields.ts';

export interface UnitSpec {
  name: string;
  exec: string[];
  environment: Record<string, string>;
  stopTimeoutSeconds: number;
  reload: 'None' | 'SIGHUP';
  /** Absent where the component has none: digests of generations that were made before this field existed must stay. */
  systemd?: SystemdSettings;
}

/** A service as a component declares it. Errors: `SpecInvalid`. */
export function unitOf(value: unknown, index: number): UnitSpec {
  const at = `spec.units[${index}]`;
  const fields = object(value, at);
  const environment = fields['environment'] === undefined ? {} : object(fields['environment'], `${at}.environment`);
  return {
    // A unit is a file name too.
    name: text(fields['name'], `${at}.name`, new RegExp(PLAIN_NAME)),
    exec: argv(fields['exec'], `${at}.exec`),
    environment: Object.fromEntries(
      Object.entries(environment).map(([key, each]) => [key, text(each, `${at}.environment.${key}`, undefined, true)]),
    ),
    stopTimeoutSeconds: count(fields['stopTimeoutSeconds'], `${at}.stopTimeoutSeconds`, UNIT_DEFAULTS.stopTimeoutSeconds, 1),
    reload: oneOf(fields['reload'], `${at}.reload`, RELOADS, UNIT_DEFAULTS.reload),
    ...(fields['systemd'] === undefined ? {} : { systemd: systemdOf(fields['systemd'], `${at}.systemd`) }),
  };
}

/** What is not on the list is refused, and not left out: the component's author relies on it. */
function systemdOf(value: unknown, at: string): SystemdSettings {
  const fields = object(value, at);
  const settings: SystemdSettings = {};
  for (const [name, each] of Object.entries(fields)) {
    const path = `${at}.${name}`;
    switch (name) {
      case 'type':
        settings.type = oneOf(each, path, SERVICE_TYPES, 'exec');
        break;
      case 'killMode':
        settings.killMode = oneOf(each, path, KILL_MODES, 'control-group');
        break;
      case 'restart':
        settings.restart = oneOf(each, path, RESTARTS, 'no');
        break;
      case 'delegate':
        if (typeof each !== 'boolean') throw agentError('SpecInvalid', `${path} must be true or false`);
        settings.delegate = each;
        break;
      case 'restartSeconds':
      case 'startTimeoutSeconds':
      case 'oomScoreAdjust':
        settings[name] = within(each, path, NUMBERS[name]);
        break;
      case 'limitNOFILE':
      case 'limitNPROC':
      case 'limitCORE':
      case 'limitMEMLOCK':
        settings[name] = text(each, path, new RegExp(LIMIT));
        break;
      case 'tasksMax':
        settings.tasksMax = text(each, path, new RegExp(TASKS));
        break;
      case 'slice':
        settings.slice = text(each, path, new RegExp(SLICE_NAME));
        break;
      case 'after':
      case 'requires':
      case 'wants':
        settings[name] = unitNames(each, path);
        break;
      default:
        throw agentError('SpecInvalid', `${path} is no directive that a component may set`);
    }
  }
  return settings;
}

function unitNames(value: unknown, path: string): string[] {
  const names = list(value, path).map((each, index) => text(each, `${path}[${index}]`, new RegExp(UNIT_NAME)));
  if (names.length > MAX_UNITS) throw agentError('SpecInvalid', `${path} must have at most ${MAX_UNITS} items`);
  if (names.includes(AGENT_UNIT))
    throw agentError('SpecInvalid', `${path} must not name ${AGENT_UNIT}: the services of a node outlive its agent`);
  return names;
}
