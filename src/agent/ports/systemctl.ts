import { execFile } from 'node:child_process';
import { agentError } from '../errors.ts';

/** Runs a program of systemd with these arguments, never through a shell. Rejects only when it cannot be run or does not end in time. */
export type Systemctl = (args: readonly string[], timeoutMs?: number) => Promise<{ code: number; stdout: string; stderr: string }>;

const USUAL_MS = 30_000;
const MAX_OUTPUT = 1 << 20;

export const nodeSystemctl: Systemctl = (args, timeoutMs) => run('systemctl', args, timeoutMs);
export const nodeSystemdRun: Systemctl = (args, timeoutMs) => run('systemd-run', args, timeoutMs);

const run = (program: string, args: readonly string[], timeoutMs = USUAL_MS): ReturnType<Systemctl> =>
  new Promise((resolve, reject) => {
    const env = {
      PATH: '/usr/sbin:/usr/bin:/sbin:/bin',
      LC_ALL: 'C',
      SYSTEMD_COLORS: '0',
      SYSTEMD_PAGER: '',
      SYSTEMD_LOG_LEVEL: 'warning',
    };
    const options = { env, timeout: timeoutMs, maxBuffer: MAX_OUTPUT, killSignal: 'SIGKILL' as const, cwd: '/' };
    execFile(program, ['--no-ask-password', ...args], options, (error, stdout, stderr) => {
      if (error === null) return resolve({ code: 0, stdout, stderr });
      if (typeof error.code === 'number') return resolve({ code: error.code, stdout, stderr });
      const why = error.killed === true ? `no end within ${timeoutMs / 1000} s` : error.message;
      reject(agentError('UnitFailed', `${program} ${args.join(' ')}: ${why}`, { cause: error }));
    });
  });

/** What systemd has of a unit. */
export interface Shown {
  loadState: string;
  activeState: string;
  subState: string;
  /** 0: none. */
  mainPid: number;
  /** Empty: never started in this boot. */
  invocation: string;
  /** Where its definition was read from; empty: nowhere. */
  fragment: string;
  needsReload: boolean;
  /** Something is under way. */
  job: boolean;
  result: string;
  /** As waitid(2) has it: 1 it exited, 2 and 3 a signal; 0 it has not ended. */
  exitCode: number;
  exitStatus: number;
}

const PROPERTIES =
  'Id,LoadState,ActiveState,SubState,MainPID,InvocationID,FragmentPath,NeedDaemonReload,Job,Result,ExecMainCode,ExecMainStatus';

/** Each unit (`name.service`) as systemd has it; absent ones too. Errors: `UnitFailed`. */
export async function showUnits(systemctl: Systemctl, units: readonly string[]): Promise<Map<string, Shown>> {
  const shown = new Map<string, Shown>();
  if (units.length === 0) return shown;
  const { code, stdout, stderr } = await systemctl(['show', `--property=${PROPERTIES}`, '--', ...units]);
  if (code !== 0) throw agentError('UnitFailed', `systemctl show ${units.join(' ')} ended with ${code}: ${stderr.trim()}`);
  for (const block of stdout.split('\n\n')) {
    const fields = new Map(block.split('\n').map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)] as const));
    const text = (name: string): string => fields.get(name) ?? '';
    if (text('Id') === '') continue;
    shown.set(text('Id'), {
      loadState: text('LoadState'),
      activeState: text('ActiveState'),
      subState: text('SubState'),
      mainPid: Number(text('MainPID')),
      invocation: text('InvocationID'),
      fragment: text('FragmentPath'),
      needsReload: text('NeedDaemonReload') === 'yes',
      job: text('Job') !== '' && text('Job') !== '0',
      result: text('Result'),
      exitCode: Number(text('ExecMainCode')),
      exitStatus: Number(text('ExecMainStatus')),
    });
  }
  const absent = units.filter((unit) => !shown.has(unit));
  // An alias answers with another name: then it belongs to another program.
  if (absent.length > 0) throw agentError('UnitConflict', `${absent.join(', ')}: systemd knows it under another name`);
  return shown;
}
