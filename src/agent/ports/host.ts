import { join } from 'node:path';
import { agentError } from '../errors.ts';
import { mkdir, readFile, rename, unlink, writeFile } from './node-fs.ts';

/** The machine itself. */
export interface Host {
  /** Another one after each boot. */
  readonly bootID: string;
  readonly os: 'linux' | 'darwin';
  readonly arch: 'amd64' | 'arm64';
  /** Asks for a reboot and returns; the process ends some time after. Asking twice for one operation in one boot is asking once. */
  reboot(operation: string): Promise<void>;
  /** Takes back what was asked for this operation, if it is not under way. No error if nothing was asked for. */
  keepUp(operation: string): Promise<void>;
  /** Takes this agent away from the machine, with its identity and record; what it installed stays and runs. Returns when that is begun; the process is ended by it. */
  takeAgentAway(): Promise<void>;
}

/** A node that is a folder, rebooted by the process that owns the folder. Errors: `BootUnknown`, `NoPlatform`. */
export async function localHost(root: string): Promise<Host> {
  const run = join(root, 'run/kubenode');
  const path = join(run, 'boot-id');
  const request = join(run, 'reboot-request');
  const bootID = (await readFile(path, 'utf8').catch(() => '')).trim();
  if (bootID === '') {
    throw agentError('BootUnknown', `${path} is missing or empty: who starts this node must write a new boot ID there`);
  }
  return {
    bootID,
    ...platform(),
    async reboot(operation) {
      await mkdir(run, { recursive: true });
      const draft = join(run, '.reboot-request');
      await writeFile(draft, textOf(operation));
      await rename(draft, request);
    },
    async keepUp(operation) {
      if ((await readFile(request, 'utf8').catch(() => undefined)) === textOf(operation)) await unlink(request);
    },
    takeAgentAway: () => Promise.reject(agentError('HostUnfit', 'a folder that simulates a node keeps its agent: its provider runs it')),
  };
}

const textOf = (operation: string): string => `${JSON.stringify({ operationID: operation })}\n`;

export function platform(): Pick<Host, 'os' | 'arch'> {
  const os = process.platform;
  const arch = { x64: 'amd64' as const, arm64: 'arm64' as const }[process.arch as string];
  if ((os === 'linux' || os === 'darwin') && arch !== undefined) return { os, arch };
  throw agentError('NoPlatform', `the agent runs on linux and darwin, amd64 and arm64; this is ${os}/${process.arch}`);
}
