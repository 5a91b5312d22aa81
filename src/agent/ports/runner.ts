import { spawn, type ChildProcess } from 'node:child_process';

export interface Command {
  argv: string[];
  environment: Record<string, string>;
  cwd: string;
  timeoutMs: number;
}

export interface CommandResult {
  ok: boolean;
  /** `exit code 2`, `signal SIGKILL`, `no end within 60 s`, or why it could not be started. */
  how: string;
  /** The end of what it wrote. */
  output: string;
}

/** Runs a program to its end. It rejects only with the signal's reason. */
export type Runner = (command: Command, signal: AbortSignal) => Promise<CommandResult>;

const KEPT = 2048;

export function nodeRunner(): Runner {
  return (command, signal) =>
    new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      const [program = '', ...args] = command.argv;
      // Its own process group, so that what it started ends with it.
      const child: ChildProcess = spawn(program, args, {
        cwd: command.cwd,
        env: command.environment,
        stdio: ['ignore', 'pipe', 'pipe'],
        detached: true,
      });
      let output = '';
      let isCut = false;
      let late = false;
      const keep = (chunk: Buffer): void => {
        const whole = output + chunk.toString();
        isCut ||= whole.length > KEPT;
        output = whole.slice(-KEPT);
      };
      const kill = (): void => {
        if (child.pid === undefined) return;
        try {
          process.kill(-child.pid, 'SIGKILL');
        } catch {
          // Gone already.
        }
      };
      const timer = setTimeout(() => {
        late = true;
        kill();
      }, command.timeoutMs);
      signal.addEventListener('abort', kill, { once: true });
      const end = (ok: boolean, how: string): void => {
        clearTimeout(timer);
        signal.removeEventListener('abort', kill);
        if (signal.aborted) return reject(signal.reason);
        resolve({
          ok: ok && !late,
          how: late ? `no end within ${command.timeoutMs / 1000} s` : how,
          output: `${isCut ? '…' : ''}${output.trim()}`,
        });
      };
      child.on('error', (error) => end(false, error.message));
      // Neither is there where no file can be opened any more.
      child.stdout?.on('data', keep);
      child.stderr?.on('data', keep);
      child.on('exit', () => {
        // A grandchild may keep the pipes open; the agent does not wait for it.
        kill();
      });
      child.on('close', (code, ended) => end(code === 0, code === null ? `signal ${ended}` : `exit code ${code}`));
    });
}
