import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { createReadStream } from 'node:fs';
import { join } from 'node:path';
import { Readable, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { messageOf, type CodedError } from '../api/errors.ts';
import { plainText } from '../api/plain-text.ts';
import type { Clock } from '../api/ports.ts';
import type { RemoteCall, RemoteTarget } from '../api/remote.ts';
import { remoteError } from '../api/remote.ts';

export interface OpenSshOptions {
  clock: Clock;
  /** Private key; absent: the keys of ssh-agent, by SSH_AUTH_SOCK. */
  identityFile?: string;
  /** Whether a user that is not root becomes it by `sudo -n`. Default: true. */
  sudo?: boolean;
  /** Configuration file for ssh, for jump hosts; what is set here about keys, prompts and hosts goes before it. Absent: none is read. */
  configFile?: string;
  connectSeconds?: number;
  /** For showing the keys of a host, from beginning to end. */
  showSeconds?: number;
  /** Limit of stdout and of stderr, in bytes. */
  outputLimit?: number;
}

/** The name of the host among the pinned keys. */
export const ALIAS = 'kubenode-target';
const HOST = /^[A-Za-z0-9][A-Za-z0-9._:%-]{0,252}$/;
const USER = /^[A-Za-z_][A-Za-z0-9_.-]{0,63}$/;
export const OUTPUT_LIMIT = 64 * 1024;
export const CONNECT_SECONDS = 10;
const KILL_MS = 2000;
/** ssh's own exit code: what it was to run did not end by itself. */
export const SSH_FAILED = 255;

/** Arguments of ssh that keep it from asking a person, from hosts whose key is not pinned, and from the user's configuration. */
export function argumentsFor(
  { identityFile, configFile, connectSeconds = CONNECT_SECONDS }: OpenSshOptions,
  { host, port, user }: RemoteTarget,
  folder: string,
  command: string,
): string[] {
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
    ...(identityFile === undefined ? {} : { IdentitiesOnly: 'yes', IdentityAgent: 'none' }),
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
    configFile ?? 'none',
    '-E',
    join(folder, 'log'),
    ...Object.entries(set).flatMap(([name, value]) => ['-o', `${name}=${value}`]),
    ...(identityFile === undefined ? [] : ['-i', identityFile]),
    '-p',
    String(port),
    '-l',
    user,
    '--',
    host,
    command,
  ];
}

export interface Ended {
  code: number;
  stdout: string;
  stderr: string;
  why?: 'RemoteTimeout' | 'OutputTooLong';
}

/** Runs ssh with these arguments, sends it the lines and then the body of the call. Errors: `SshMissing`. */
export async function runClient(
  { clock, outputLimit = OUTPUT_LIMIT }: OpenSshOptions,
  args: string[],
  lines: readonly string[],
  call: RemoteCall,
  signal: AbortSignal,
): Promise<Ended> {
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
    // The exit code shows whether it ended early.
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

export function checkTarget({ host, port, user }: Pick<RemoteTarget, 'host' | 'port' | 'user'>): void {
  if (!HOST.test(host)) throw remoteError('TargetInvalid', `a host is a name or an address, not "${plainText(host, 80)}"`);
  if (!USER.test(user)) throw remoteError('TargetInvalid', `a user is letters, digits and ._-, not "${plainText(user, 80)}"`);
  if (!Number.isInteger(port) || port < 1 || port > 65_535) throw remoteError('TargetInvalid', `a port is 1 to 65535, not ${port}`);
}

/** Only the part of this process' environment that ssh needs to find its program and its agent. */
export function environment(): NodeJS.ProcessEnv {
  const passed = ['PATH', 'HOME', 'USER', 'SSH_AUTH_SOCK'].flatMap((name) =>
    process.env[name] === undefined ? [] : [[name, process.env[name]]],
  );
  return { ...Object.fromEntries(passed), LC_ALL: 'C' } as NodeJS.ProcessEnv;
}

export const missing = (error: Error): CodedError =>
  remoteError('SshMissing', `the OpenSSH client could not be started: ${messageOf(error)}`, {
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
export function collect(stream: Readable, limit: number, tooLong: () => void): () => string {
  const pieces: Buffer[] = [];
  let length = 0;
  stream.on('data', (piece: Buffer) => {
    if (length < limit) pieces.push(piece.subarray(0, limit - length));
    length += piece.length;
    if (length > limit) tooLong();
  });
  return () => Buffer.concat(pieces).toString('utf8');
}
