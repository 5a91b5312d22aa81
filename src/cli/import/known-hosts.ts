import { appendFile, mkdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { xdgFolder } from '../../kube/home.ts';
import { hostKeyOf } from '../../ssh/host-keys.ts';
import { cliError } from '../errors.ts';

/** Host keys that were confirmed once, a line each: `[host]:port ssh-ed25519 AAAA…`. A file of KubeNode's own: the user's known_hosts is neither read nor written. */
export interface KnownHosts {
  readonly path: string;
  keysOf(host: string, port: number): readonly string[];
  remember(host: string, port: number, keys: readonly string[]): Promise<void>;
}

export const defaultKnownHosts = (): string => join(xdgFolder(process.env, 'XDG_STATE_HOME', '.local/state'), 'kubenode', 'known_hosts');

/** Errors: `KnownHostsInvalid`, with the line. */
export async function openKnownHosts(path: string): Promise<KnownHosts> {
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return '';
    throw error;
  });
  const known = new Map<string, string[]>();
  for (const [index, line] of text.split('\n').entries()) {
    if (line.trim() === '' || line.startsWith('#')) continue;
    const at = line.indexOf(' ');
    const key = hostKeyOf(line.slice(at + 1));
    if (key === undefined)
      throw cliError('KnownHostsInvalid', `${path}:${index + 1} has no host key`, { next: `correct or delete that line` });
    known.set(line.slice(0, at), [...(known.get(line.slice(0, at)) ?? []), key]);
  }
  const nameOf = (host: string, port: number): string => `[${host}]:${port}`;
  return {
    path,
    keysOf: (host, port) => known.get(nameOf(host, port)) ?? [],
    async remember(host, port, keys) {
      const name = nameOf(host, port);
      await mkdir(dirname(path), { recursive: true, mode: 0o700 });
      await appendFile(path, keys.map((key) => `${name} ${key}\n`).join(''), { mode: 0o600 });
      known.set(name, [...(known.get(name) ?? []), ...keys]);
    },
  };
}
