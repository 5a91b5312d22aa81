import { sha256Hex } from '../../api/digest.ts';
import { agentError } from '../errors.ts';
import type { UnitDefinition } from './units.ts';

/** What a unit file of ours records about itself, in a section that systemd passes over. */
export interface UnitMark {
  hash: string;
  generation: string;
  stopTimeoutSeconds: number;
  /** It is as the agent wrote it. */
  whole: boolean;
}

const TITLE = '# Written by the KubeNode agent, which puts it back. Change the MachineComponent instead.';
const SECTION = '[X-KubeNode]';
const WORD = /^[A-Za-z0-9._-]{1,128}$/;

/**
 * The text of a unit file. Every word of the command and every variable arrives at the program as it is here: no specifier, variable or quote in it
 * means anything to systemd. Errors: `UnitFailed` where systemd cannot pass something on.
 */
export function unitFileText(unit: UnitDefinition, environment: Readonly<Record<string, string>>): string {
  for (const word of [unit.hash, unit.generation])
    if (!WORD.test(word)) throw agentError('UnitFailed', `unit ${unit.name} has the mark "${word}"`);
  const body = bodyOf(unit, environment);
  const mark = [
    `Hash=${unit.hash}`,
    `Generation=${unit.generation}`,
    `StopTimeout=${unit.stopTimeoutSeconds}`,
    `Content=${sha256Hex(body).slice(0, 32)}`,
  ];
  return `${TITLE}\n${SECTION}\n${mark.join('\n')}\n\n${body}`;
}

/** undefined: another program wrote it. */
export function markOf(text: string): UnitMark | undefined {
  const begin = `${TITLE}\n${SECTION}\n`;
  if (!text.startsWith(begin)) return undefined;
  const end = text.indexOf('\n\n', begin.length);
  if (end < 0) return undefined;
  const fields = new Map(
    text
      .slice(begin.length, end)
      .split('\n')
      .map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)] as const),
  );
  const [hash, generation, stop, content] = ['Hash', 'Generation', 'StopTimeout', 'Content'].map((name) => fields.get(name) ?? '');
  if (hash === undefined || generation === undefined || !WORD.test(hash) || !WORD.test(generation)) return undefined;
  const whole = sha256Hex(text.slice(end + 2)).slice(0, 32) === content;
  return { hash, generation, stopTimeoutSeconds: Number(stop) || 10, whole };
}

function bodyOf(unit: UnitDefinition, environment: Readonly<Record<string, string>>): string {
  const { systemd = {} } = unit;
  const lines: string[] = ['[Unit]', `Description=${unit.name}, a component of KubeNode`];
  const set = (directive: string, value: string | number | undefined): void => {
    if (value !== undefined) lines.push(`${directive}=${value}`);
  };
  const names = (all: string[] | undefined): string | undefined => (all === undefined || all.length === 0 ? undefined : all.join(' '));
  set('After', names(systemd.after));
  set('Requires', names(systemd.requires));
  set('Wants', names(systemd.wants));
  // How often is the agent's decision, and systemd's only where the component sets it: never "not any more".
  set('StartLimitIntervalSec', 0);
  lines.push('', '[Service]');
  set('Type', systemd.type ?? 'exec');
  set('ExecStart', command(unit));
  for (const [name, value] of Object.entries(environment)) set('Environment', quoted(`${variable(unit.name, name)}=${value}`, unit.name));
  set('WorkingDirectory', '/');
  set('KillMode', systemd.killMode ?? 'control-group');
  set('TimeoutStopSec', unit.stopTimeoutSeconds);
  set('TimeoutStartSec', systemd.startTimeoutSeconds);
  set('Restart', systemd.restart ?? 'no');
  set('RestartSec', systemd.restartSeconds);
  if (systemd.delegate !== undefined) set('Delegate', systemd.delegate ? 'yes' : 'no');
  set('OOMScoreAdjust', systemd.oomScoreAdjust);
  set('LimitNOFILE', systemd.limitNOFILE);
  set('LimitNPROC', systemd.limitNPROC);
  set('LimitCORE', systemd.limitCORE);
  set('LimitMEMLOCK', systemd.limitMEMLOCK);
  set('TasksMax', systemd.tasksMax);
  set('Slice', systemd.slice);
  lines.push('', '[Install]', 'WantedBy=multi-user.target', '');
  return lines.join('\n');
}

function command({ name, exec }: UnitDefinition): string {
  const [program = ''] = exec;
  // systemd takes what a program's name begins with for instructions, also inside quotes.
  if (!/^[A-Za-z0-9_./]/.test(program))
    throw agentError('UnitFailed', `unit ${name} cannot run "${program}": a program must begin with a letter, a digit, "." or "/"`);
  // `$` is a variable's only in a command. The program's own name may contain none.
  return exec.map((word, index) => quoted(index === 0 ? word : word.replaceAll('$', '$$$$'), name)).join(' ');
}

function variable(unit: string, name: string): string {
  if (/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) return name;
  throw agentError('UnitFailed', `unit ${unit} cannot have a variable "${name}": letters, digits and "_" only, and no digit in front`);
}

/** One word of a unit file: quoted so that systemd does not expand, split or end it. */
function quoted(text: string, unit: string): string {
  if (text.includes('\0')) throw agentError('UnitFailed', `unit ${unit} has a word that contains a zero byte`);
  let out = '';
  for (const char of text) {
    const code = char.codePointAt(0) ?? 0;
    if (char === '\\' || char === '"') out += `\\${char}`;
    else if (char === '%') out += '%%';
    else if (code < 0x20 || code === 0x7f) out += `\\x${code.toString(16).padStart(2, '0')}`;
    else out += char;
  }
  return `"${out}"`;
}
