import { fork } from 'node:child_process';
import type { BareAddresses } from './bare-server.ts';

export interface BareProcess extends BareAddresses {
  close(): void;
}

/** The bare server in a process of its own, which ends with this one. */
export async function bareProcess(): Promise<BareProcess> {
  const child = fork(new URL('./bare-server.ts', import.meta.url), { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
  const addresses = await new Promise<BareAddresses>((resolve, reject) => {
    child.once('message', (message) => resolve(message as BareAddresses));
    child.once('error', reject);
    child.once('exit', (code) => reject(new Error(`the bare server ended with exit code ${code}`)));
  });
  return { ...addresses, close: () => void child.kill('SIGKILL') };
}
