import { spawn } from 'node:child_process';
import { checkTarget, collect, CONNECT_SECONDS, environment, missing, OUTPUT_LIMIT, type OpenSshOptions } from './client.ts';
import { hostKeyOf } from './host-keys.ts';
import { remoteError } from '../api/remote.ts';

/** The keys that a host shows to ssh-keyscan. Errors: `TargetInvalid`, `SshMissing`, `RemoteTimeout`, `HostUnreachable`. */
export async function shownKeys(
  { clock, connectSeconds = CONNECT_SECONDS, showSeconds = 30 }: OpenSshOptions,
  host: string,
  port: number,
  signal: AbortSignal,
): Promise<string[]> {
  checkTarget({ host, port, user: 'root' });
  signal.throwIfAborted();
  const child = spawn('ssh-keyscan', ['-T', String(connectSeconds), '-p', String(port), '--', host], {
    stdio: ['ignore', 'pipe', 'ignore'],
    env: environment(),
  });
  const { promise: closed, resolve, reject } = Promise.withResolvers<void>();
  child.once('error', (error) => reject(missing(error)));
  child.once('close', () => resolve());
  const end = (): void => void child.kill('SIGKILL');
  let isLate = false;
  // ssh-keyscan begins its own time again with each byte that comes.
  const cancel = clock.setTimer(showSeconds * 1000, () => {
    isLate = true;
    end();
  });
  signal.addEventListener('abort', end, { once: true });
  const stdout = collect(child.stdout, OUTPUT_LIMIT, end);
  try {
    await closed;
  } finally {
    cancel();
    signal.removeEventListener('abort', end);
  }
  signal.throwIfAborted();
  // The keys that came until then may lack the one that a person would confirm.
  if (isLate) {
    throw remoteError('RemoteTimeout', `${host} port ${port} did not show its SSH host keys within ${showSeconds} s`, {
      next: `is that the machine? ssh-keyscan -p ${port} ${host}`,
    });
  }
  const keys = stdout()
    .split('\n')
    .map((line) => hostKeyOf(line.slice(line.indexOf(' ') + 1)))
    .filter((key) => key !== undefined);
  if (keys.length > 0) return [...new Set(keys)];
  throw remoteError('HostUnreachable', `${host} port ${port} shows no SSH host key`, {
    next: `is that the machine? ssh-keyscan -p ${port} ${host}`,
  });
}
