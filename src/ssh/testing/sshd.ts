import { execFile, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { createConnection, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const SSHD = '/usr/sbin/sshd';

/** Why there can be no real sshd here; undefined: there can. */
export const noSshd: string | undefined =
  process.getuid?.() === 0 ? (existsSync(SSHD) ? undefined : 'openssh-server is not installed') : 'only root may run sshd';

export interface Sshd {
  port: number;
  /** Of the host, as `ssh-ed25519 AAAA…`. */
  hostKey: string;
  /** Private key that it takes. */
  identityFile: string;
  /** Private key that it does not take. */
  strangeIdentity: string;
  /** Another host's public key. */
  strangeHostKey: string;
  close(): Promise<void>;
}

/** A real OpenSSH server on loopback, for this machine's root. `settings` are lines of sshd_config. */
export async function startSshd(settings: Record<string, string> = {}): Promise<Sshd> {
  const folder = await mkdtemp(join(tmpdir(), 'kubenode-sshd-'));
  // Other users read their authorized keys as themselves.
  await chmod(folder, 0o755);
  const made = async (name: string): Promise<string> => {
    await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', name, '-f', join(folder, name)]);
    return (await readFile(join(folder, `${name}.pub`), 'utf8')).split(' ').slice(0, 2).join(' ').trim();
  };
  const hostKey = await made('host');
  const strangeHostKey = await made('other-host');
  await made('client');
  await made('other-client');
  await mkdir('/run/sshd', { recursive: true, mode: 0o755 });
  const port = await freePort();
  const all: Record<string, string> = {
    Port: String(port),
    ListenAddress: '127.0.0.1',
    HostKey: join(folder, 'host'),
    AuthorizedKeysFile: join(folder, 'client.pub'),
    StrictModes: 'no',
    UsePAM: 'no',
    PidFile: 'none',
    PasswordAuthentication: 'no',
    KbdInteractiveAuthentication: 'no',
    ...settings,
  };
  const child = spawn(
    SSHD,
    ['-D', '-e', '-f', '/dev/null', ...Object.entries(all).flatMap(([name, value]) => ['-o', `${name}=${value}`])],
    {
      stdio: ['ignore', 'ignore', 'pipe'],
    },
  );
  const { promise: listening, resolve, reject } = Promise.withResolvers<void>();
  let log = '';
  child.stderr.on('data', (piece: Buffer) => {
    log += piece.toString();
    if (log.includes('Server listening')) resolve();
  });
  child.once('error', reject);
  child.once('exit', () => reject(new Error(`sshd ended: ${log}`)));
  await listening;
  return {
    port,
    hostKey,
    identityFile: join(folder, 'client'),
    strangeIdentity: join(folder, 'other-client'),
    strangeHostKey,
    async close() {
      const ended = new Promise<void>((done) => child.once('exit', () => done()));
      child.kill('SIGTERM');
      await ended;
      await rm(folder, { recursive: true, force: true });
    },
  };
}

export interface Wire {
  port: number;
  /** From now on connections end after so many bytes to the server. */
  cutAfter(bytes: number): void;
  /** Ends what is open. */
  cut(): void;
  close(): Promise<void>;
}

/** A wire to a server that can be cut. */
export async function startWire(host: string, to: number): Promise<Wire> {
  const open = new Set<Socket>();
  let limit = Infinity;
  const server = createServer((near) => {
    const far = createConnection({ host, port: to });
    let sent = 0;
    const end = (): void => {
      near.destroy();
      far.destroy();
    };
    for (const socket of [near, far]) {
      open.add(socket);
      socket.on('error', end);
      socket.on('close', () => {
        open.delete(socket);
        end();
      });
    }
    near.on('data', (piece: Buffer) => {
      sent += piece.length;
      if (sent > limit) end();
      else far.write(piece);
    });
    far.on('data', (piece: Buffer) => near.write(piece));
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const address = server.address();
  return {
    port: typeof address === 'object' && address !== null ? address.port : 0,
    cutAfter: (bytes) => {
      limit = bytes;
    },
    cut: () => {
      for (const socket of open) socket.destroy();
    },
    close: () =>
      new Promise((done) => {
        for (const socket of open) socket.destroy();
        server.close(() => done());
      }),
  };
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  await new Promise<void>((done) => server.close(() => done()));
  return port;
}
