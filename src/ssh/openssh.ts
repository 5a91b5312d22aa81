import { randomUUID } from 'node:crypto';
import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { createReadStream } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { CodedError, messageOf } from '../api/errors.ts';
import { plainText } from '../api/plain-text.ts';
import type { Clock } from '../api/ports.ts';
import { script, type Remote, type RemoteCall, type RemoteErrorCode, type RemoteResult, type RemoteTarget } from '../api/remote.ts';
import { readClientLog } from './client-log.ts';
import { fingerprintOf, hostKeyOf } from './host-keys.ts';

export interface OpenSshOptions {
  clock: Clock;
  /** Private key; absent: the keys of ssh-agent, by SSH_AUTH_SOCK. */
  identityFile?: string;
  /** Whether a user that is not root becomes it by `sudo -n`. Default: true. */
  sudo?: boolean;
  /** Configuration file for ssh, for jump hosts; what is said here about keys, prompts and hosts goes before it. Absent: none is read. */
  configFile?: string;
  connectSeconds?: number;
  /** For showing the keys of a host, from beginning to end. */
  showSeconds?: number;
  /** Of stdout and of stderr, in bytes. */
  outputLimit?: number;
}

const ALIAS = 'kubenode-target';
const HOST = /^[A-Za-z0-9][A-Za-z0-9._:%-]{0,252}$/;
const USER = /^[A-Za-z_][A-Za-z0-9_.-]{0,63}$/;
const OUTPUT_LIMIT = 64 * 1024;
const KILL_MS = 2000;
/** ssh's own exit code: what it was told to run did not end by itself. */
const SSH_FAILED = 255;

/** Takes the arguments off stdin, a line each, so that no shell ever reads them as program; then says that root has begun. */
const PROLOGUE = script`
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
export PATH LC_ALL
umask 022
IFS= read -r n || exit 97
set --
while [ "$n" -gt 0 ]; do
  IFS= read -r x || exit 97
  set -- "$@" "$x"
  n=$((n - 1))
done
printf "kubenode-begins %s %s\n" "$(id -u)" "$1"
shift
`;

/**
 * Machines reached by the system's OpenSSH client. It asks nobody anything, speaks to hosts only whose key is pinned, forwards nothing, and takes
 * nothing from the user's configuration.
 */
export function openSsh(options: OpenSshOptions): Remote {
  const { clock, sudo = true, outputLimit = OUTPUT_LIMIT, connectSeconds = 10, showSeconds = 30 } = options;

  function argumentsFor({ host, port, user }: RemoteTarget, folder: string, command: string): string[] {
    const set: Record<string, string> = {
      BatchMode: 'yes',
      StrictHostKeyChecking: 'yes',
      UserKnownHostsFile: join(folder, 'known_hosts'),
      GlobalKnownHostsFile: '/dev/null',
      HostKeyAlias: ALIAS,
      UpdateHostKeys: 'no',
      VerifyHostKeyDNS: 'no',
      PreferredAuthentications: 'publickey',
      PasswordAuthentication: 'no',
      KbdInteractiveAuthentication: 'no',
      ...(options.identityFile === undefined ? {} : { IdentitiesOnly: 'yes', IdentityAgent: 'none' }),
      ConnectTimeout: String(connectSeconds),
      ConnectionAttempts: '1',
      ServerAliveInterval: '5',
      ServerAliveCountMax: '3',
      ControlMaster: 'no',
      ControlPath: 'none',
      ForwardAgent: 'no',
      ForwardX11: 'no',
      ClearAllForwardings: 'yes',
      PermitLocalCommand: 'no',
      RequestTTY: 'no',
      LogLevel: 'ERROR',
    };
    return [
      '-F',
      options.configFile ?? 'none',
      '-E',
      join(folder, 'log'),
      ...Object.entries(set).flatMap(([name, value]) => ['-o', `${name}=${value}`]),
      ...(options.identityFile === undefined ? [] : ['-i', options.identityFile]),
      '-p',
      String(port),
      '-l',
      user,
      '--',
      host,
      command,
    ];
  }

  async function run(target: RemoteTarget, call: RemoteCall, signal: AbortSignal): Promise<RemoteResult> {
    const at = `${target.user}@${target.host}`;
    checkTarget(target);
    signal.throwIfAborted();
    if (target.hostKeys.length === 0) throw failure('HostKeyUnknown', at, call, 'no key of this host is pinned');
    const keys = target.hostKeys.map((line) => hostKeyOf(line));
    if (keys.includes(undefined)) throw failure('TargetInvalid', at, call, 'a pinned key is none that OpenSSH knows');
    const nonce = randomUUID();
    const lines = [nonce, ...(call.args ?? [])];
    if (lines.some((line) => /[\n\0]/.test(line))) throw failure('TargetInvalid', at, call, 'an argument holds a line feed');
    const shell = `/bin/sh -c '${PROLOGUE}${call.body === undefined ? 'exec </dev/null\n' : ''}${call.script}'`;
    const asSudo = sudo && target.user !== 'root';
    const folder = await mkdtemp(join(tmpdir(), 'kubenode-ssh-'));
    try {
      await writeFile(join(folder, 'known_hosts'), keys.map((key) => `${ALIAS} ${key}\n`).join(''), { mode: 0o600 });
      const ended = await converse(argumentsFor(target, folder, asSudo ? `sudo -n -- ${shell}` : shell), lines, call, signal);
      const log = await readFile(join(folder, 'log'), 'utf8').catch(() => '');
      const begun = new RegExp(`(?:^|\n)kubenode-begins (\\d+) ${nonce}\n`).exec(ended.stdout);
      const said = plainText([ended.stderr, log].join(' ').trim(), 300);
      if (ended.why !== undefined) throw failure(ended.why, at, call, said);
      if (ended.code === SSH_FAILED) {
        const code = begun === null ? readClientLog(log) : 'ConnectionLost';
        const pinned = code === 'HostKeyChanged' ? `pinned: ${keys.map((key) => fingerprintOf(key ?? '')).join(', ')}` : said;
        throw failure(code, at, call, pinned);
      }
      if (begun === null) throw failure(asSudo ? 'SudoRefused' : 'ShellUnusable', at, call, said);
      if (begun[1] !== '0') throw failure('SudoRefused', at, call, `it runs commands as UID ${begun[1]}`);
      return { code: ended.code, stdout: ended.stdout.slice(begun.index + begun[0].length), stderr: ended.stderr };
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }

  interface Ended {
    code: number;
    stdout: string;
    stderr: string;
    why?: 'RemoteTimeout' | 'OutputTooLong';
  }

  async function converse(args: string[], lines: readonly string[], call: RemoteCall, signal: AbortSignal): Promise<Ended> {
    const child = spawn('ssh', args, { stdio: ['pipe', 'pipe', 'pipe'], env: environment() });
    const { promise: closed, resolve, reject } = Promise.withResolvers<number>();
    child.once('error', (error) => reject(missing(error)));
    child.once('close', (code) => resolve(code ?? SSH_FAILED));
    let why: Ended['why'];
    let cancelKill = (): void => undefined;
    const end = (): void => {
      child.kill('SIGTERM');
      cancelKill = clock.setTimer(KILL_MS, () => child.kill('SIGKILL'));
    };
    const stop = (reason: Ended['why']): void => {
      if (why !== undefined || child.exitCode !== null) return;
      why = reason;
      end();
    };
    const cancel = clock.setTimer(call.timeoutMs, () => stop('RemoteTimeout'));
    signal.addEventListener('abort', end, { once: true });
    if (signal.aborted) end();
    const stdout = collect(child.stdout, outputLimit, () => stop('OutputTooLong'));
    const stderr = collect(child.stderr, outputLimit, () => stop('OutputTooLong'));
    try {
      // That it ends early is the exit code's to say.
      const sent = send(child, lines, call).catch(() => undefined);
      const code = await closed;
      await sent;
      signal.throwIfAborted();
      return { code, stdout: stdout(), stderr: stderr(), ...(why === undefined ? {} : { why }) };
    } finally {
      cancel();
      cancelKill();
      signal.removeEventListener('abort', end);
    }
  }

  async function shownKeys(host: string, port: number, signal: AbortSignal): Promise<string[]> {
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
    // The keys that came until then may lack the one that somebody would confirm.
    if (isLate) {
      throw new CodedError('RemoteTimeout', `${host} port ${port} did not show its SSH host keys within ${showSeconds} s`, {
        next: `is that the machine? ssh-keyscan -p ${port} ${host}`,
      });
    }
    const keys = stdout()
      .split('\n')
      .map((line) => hostKeyOf(line.slice(line.indexOf(' ') + 1)))
      .filter((key) => key !== undefined);
    if (keys.length > 0) return [...new Set(keys)];
    throw new CodedError('HostUnreachable', `${host} port ${port} shows no SSH host key`, {
      next: `is that the machine? ssh-keyscan -p ${port} ${host}`,
    });
  }

  return { run, shownKeys };
}

function checkTarget({ host, port, user }: Pick<RemoteTarget, 'host' | 'port' | 'user'>): void {
  if (!HOST.test(host)) throw new CodedError('TargetInvalid', `a host is a name or an address, not "${plainText(host, 80)}"`);
  if (!USER.test(user)) throw new CodedError('TargetInvalid', `a user is letters, digits and ._-, not "${plainText(user, 80)}"`);
  if (!Number.isInteger(port) || port < 1 || port > 65_535) throw new CodedError('TargetInvalid', `a port is 1 to 65535, not ${port}`);
}

/** Of this process' environment only what ssh needs to find its program and its agent. */
function environment(): NodeJS.ProcessEnv {
  const passed = ['PATH', 'HOME', 'USER', 'SSH_AUTH_SOCK'].flatMap((name) =>
    process.env[name] === undefined ? [] : [[name, process.env[name]]],
  );
  return { ...Object.fromEntries(passed), LC_ALL: 'C' } as NodeJS.ProcessEnv;
}

const missing = (error: Error): CodedError =>
  new CodedError('SshMissing', `the OpenSSH client could not be started: ${messageOf(error)}`, {
    cause: error,
    next: 'install openssh-client',
  });

async function send(
  child: ChildProcessByStdio<Writable, Readable, Readable>,
  lines: readonly string[],
  { body }: RemoteCall,
): Promise<void> {
  child.stdin.on('error', () => undefined);
  child.stdin.write([String(lines.length), ...lines].map((line) => `${line}\n`).join(''));
  if (body === undefined) child.stdin.end();
  else await pipeline('path' in body ? createReadStream(body.path) : Readable.from([body.bytes]), child.stdin);
}

/** Keeps what comes, up to the limit. */
function collect(stream: Readable, limit: number, tooLong: () => void): () => string {
  const pieces: Buffer[] = [];
  let length = 0;
  stream.on('data', (piece: Buffer) => {
    if (length < limit) pieces.push(piece.subarray(0, limit - length));
    length += piece.length;
    if (length > limit) tooLong();
  });
  return () => Buffer.concat(pieces).toString('utf8');
}

const NEXT: Partial<Record<RemoteErrorCode, string>> = {
  HostUnresolved: 'correct the name, or give an address',
  HostUnreachable: 'is the machine on, sshd running, and the port open from here?',
  HostKeyUnknown: 'look the key up on the machine itself, in /etc/ssh/ssh_host_ed25519_key.pub, and give it',
  HostKeyChanged: 'find out on the machine itself whether its key was changed; only then remove the old key and give the new one',
  AuthRefused: "give the private key whose public half is in that user's authorized_keys, or load it into ssh-agent",
  PasswordAsked: "passwords are never sent: put a public key into that user's authorized_keys",
  SudoRefused: 'let the user run sudo without a password (NOPASSWD), or connect as root',
  ShellUnusable: 'give an account with a POSIX shell and no forced command',
  ConnectionLost: 'run the same command again: it goes on where this ended',
  RemoteTimeout: 'run the same command again: it goes on where this ended',
};

const SAYS: Record<RemoteErrorCode, string> = {
  TargetInvalid: 'is not tried',
  SshMissing: 'is not tried',
  HostUnresolved: 'has no address',
  HostUnreachable: 'does not answer',
  HostKeyUnknown: 'is not known',
  HostKeyChanged: 'proves none of the host keys that are pinned for it: it may be another machine, or somebody between',
  AuthRefused: 'takes none of the keys offered',
  PasswordAsked: 'takes none of the keys offered and asks for a password',
  SudoRefused: 'does not let this user become root without a password',
  ShellUnusable: 'runs no commands for this user',
  ConnectionLost: 'was lost',
  RemoteTimeout: 'took too long',
  OutputTooLong: 'printed more than is taken',
};

function failure(code: RemoteErrorCode, at: string, { doing }: RemoteCall, detail: string): CodedError {
  const next = NEXT[code];
  const more = detail === '' ? '' : ` (${detail})`;
  return new CodedError(code, `${at} ${SAYS[code]}, when it was to ${doing}${more}`, next === undefined ? {} : { next });
}
