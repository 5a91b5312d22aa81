import { createInterface } from 'node:readline/promises';
import { remoteError, type Remote } from '../../api/remote.ts';
import { fingerprintOf } from '../../ssh/host-keys.ts';
import type { Output } from '../output.ts';
import type { ImportHost } from './hosts.ts';
import type { KnownHosts } from './known-hosts.ts';

export interface Confirming {
  remote: Remote;
  known: KnownHosts;
  output: Output;
  /** Whether a person can be asked. */
  ask: boolean;
  signal: AbortSignal;
}

/**
 * The keys that a machine must prove one of: those that were confirmed before; else the shown one of the given fingerprint; else the one that a person
 * confirms. Errors: `HostKeyUnknown`, `HostKeyChanged`, and those of `shownKeys`.
 */
export async function hostKeysOf(host: ImportHost, { remote, known, output, ask, signal }: Confirming): Promise<readonly string[]> {
  const before = known.keysOf(host.host, host.port);
  const where = `${host.host} port ${host.port}`;
  if (before.length > 0) {
    if (host.fingerprint === undefined || before.some((key) => fingerprintOf(key) === host.fingerprint)) return before;
    throw remoteError(
      'HostKeyChanged',
      `${known.path} has another key for ${where} than ${host.fingerprint}: ${before.map(fingerprintOf).join(', ')}`,
      {
        next: `if its key was changed, delete the line of [${host.host}]:${host.port} there`,
      },
    );
  }
  const shown = await remote.shownKeys(host.host, host.port, signal);
  if (host.fingerprint !== undefined) {
    const right = shown.filter((key) => fingerprintOf(key) === host.fingerprint);
    if (right.length === 0) {
      throw remoteError('HostKeyChanged', `${where} shows no key ${host.fingerprint}, but ${shown.map(fingerprintOf).join(', ')}`, {
        next: 'check on the machine itself: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub',
      });
    }
    await known.remember(host.host, host.port, right);
    return right;
  }
  const best = shown.find((key) => key.startsWith('ssh-ed25519 ')) ?? shown[0] ?? '';
  const [type = ''] = best.split(' ');
  if (!ask) {
    throw remoteError('HostKeyUnknown', `the host key of ${where} is not known; it shows ${type} ${fingerprintOf(best)}`, {
      next: `if that is what ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub prints on the machine: --fingerprint ${fingerprintOf(best)}, or fingerprint=… in the file`,
    });
  }
  output.report('warning', `${where} shows the ${type} key ${fingerprintOf(best)}`);
  const prompt = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await prompt.question(
      '  Is it the key of the machine? On the machine: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub [yes/no] ',
      { signal },
    );
    if (answer.trim().toLowerCase() !== 'yes') throw remoteError('HostKeyUnknown', `the host key of ${where} was not confirmed`);
  } finally {
    prompt.close();
  }
  await known.remember(host.host, host.port, [best]);
  return [best];
}
