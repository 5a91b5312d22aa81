import { spawn } from 'node:child_process';
import { closeSync, openSync, renameSync, statSync } from 'node:fs';
import { delimiter, dirname } from 'node:path';
import type { Clock } from '../../api/ports.ts';
import type { NodeLayout } from './layout.ts';
import { end, startOf, type ProcessIdentity } from './process.ts';

/** An agent gets a few seconds to finish what it is at. */
const GRACE_MS = 6000;
const LOG_BYTES = 5 * 1024 * 1024;
/** What an agent needs of its host's environment. Nothing else reaches it: no credentials by accident. */
const PASSED = ['HOME', 'LANG', 'TMPDIR', 'TZ'];

/** The agent of one node, as long as it runs. */
export interface AgentProcess {
  /** undefined: it ended before it could be read. */
  readonly identity: ProcessIdentity | undefined;
  /** Why it ended; never rejects. */
  readonly ended: Promise<string>;
  readonly hasEnded: boolean;
  stop(): Promise<void>;
}

/** Marks every process of a node: agents, and through them services and hooks, have it in their environment. */
export const markOf = (layout: NodeLayout): string => `KUBENODE_ROOT=${layout.root}`;

/**
 * Starts the agent in a session of its own, so that a Ctrl-C at the terminal is the host's to handle. The IPC channel shows it the
 * host's end, however that comes: agents end with their host.
 */
export async function startAgent(layout: NodeLayout, command: readonly [string, ...string[]], clock: Clock): Promise<AgentProcess> {
  const [program, ...first] = command;
  rotate(layout.log);
  const out = openSync(layout.log, 'a', 0o600);
  const child = spawn(program, [...first, '--bootstrap', layout.bootstrap, '--root', layout.root, '--host', 'local'], {
    cwd: layout.folder,
    env: environment(layout),
    stdio: ['ignore', out, out, 'ipc'],
    detached: true,
  });
  closeSync(out);
  let why: string | undefined;
  const { promise: ended, resolve } = Promise.withResolvers<string>();
  const over = (reason: string): void => {
    why ??= reason;
    resolve(why);
  };
  child.once('exit', (code, by) => over(by === null ? `exit code ${code}` : `signal ${by}`));
  child.once('error', (error) => over(error.message));
  const { pid } = child;
  const start = pid === undefined ? undefined : await startOf(pid);
  const identity = pid === undefined || start === undefined ? undefined : { pid, start };
  return {
    identity,
    ended,
    get hasEnded() {
      return why !== undefined;
    },
    async stop() {
      if (identity !== undefined) await end(identity, GRACE_MS, clock);
      await ended;
    },
  };
}

function environment(layout: NodeLayout): Record<string, string> {
  const path = [dirname(process.execPath), process.env['PATH'] ?? '/usr/local/bin:/usr/bin:/bin'].join(delimiter);
  const passed = PASSED.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]] as const]));
  return { ...Object.fromEntries(passed), PATH: path, KUBENODE_ROOT: layout.root };
}

/** Between two agents: no process has it open. */
function rotate(log: string): void {
  const size = statSync(log, { throwIfNoEntry: false })?.size ?? 0;
  if (size > LOG_BYTES) renameSync(log, `${log}.1`);
}
