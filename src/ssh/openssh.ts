import { randomUUID } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { plainText } from '../api/plain-text.ts';
import { script, type Remote, type RemoteCall, type RemoteResult, type RemoteTarget } from '../api/remote.ts';
import { ALIAS, argumentsFor, checkTarget, runClient, SSH_FAILED, type OpenSshOptions } from './client.ts';
import { readClientLog } from './client-log.ts';
import { failure } from './failure.ts';
import { fingerprintOf, hostKeyOf } from './host-keys.ts';
import { shownKeys } from './key-scan.ts';

/** Takes the arguments off stdin, a line each, so that no shell ever reads them as program; then prints that root has begun. */
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
 * Machines reached by the system's OpenSSH client. It asks no person anything, connects only to hosts whose key is pinned, forwards nothing, and takes
 * nothing from the user's configuration.
 */
export const openSsh = (options: OpenSshOptions): Remote => ({
  run: (target, call, signal) => run(options, target, call, signal),
  shownKeys: (host, port, signal) => shownKeys(options, host, port, signal),
});

async function run(options: OpenSshOptions, target: RemoteTarget, call: RemoteCall, signal: AbortSignal): Promise<RemoteResult> {
  const at = `${target.user}@${target.host}`;
  checkTarget(target);
  signal.throwIfAborted();
  if (target.hostKeys.length === 0) throw failure('HostKeyUnknown', at, call, 'no key of this host is pinned');
  const keys = target.hostKeys.map((line) => hostKeyOf(line));
  if (keys.includes(undefined)) throw failure('TargetInvalid', at, call, 'a pinned key is none that OpenSSH knows');
  const nonce = randomUUID();
  const lines = [nonce, ...(call.args ?? [])];
  if (lines.some((line) => /[\n\0]/.test(line))) throw failure('TargetInvalid', at, call, 'an argument contains a line feed');
  const shell = `/bin/sh -c '${PROLOGUE}${call.body === undefined ? 'exec </dev/null\n' : ''}${call.script}'`;
  const asSudo = options.sudo !== false && target.user !== 'root';
  const folder = await mkdtemp(join(tmpdir(), 'kubenode-ssh-'));
  try {
    await writeFile(join(folder, 'known_hosts'), keys.map((key) => `${ALIAS} ${key}\n`).join(''), { mode: 0o600 });
    const ended = await runClient(
      options,
      argumentsFor(options, target, folder, asSudo ? `sudo -n -- ${shell}` : shell),
      lines,
      call,
      signal,
    );
    const log = await readFile(join(folder, 'log'), 'utf8').catch(() => '');
    const begun = new RegExp(`(?:^|\n)kubenode-begins (\\d+) ${nonce}\n`).exec(ended.stdout);
    const printed = plainText([ended.stderr, log].join(' ').trim(), 300);
    if (ended.why !== undefined) throw failure(ended.why, at, call, printed);
    if (ended.code === SSH_FAILED) {
      const code = begun === null ? readClientLog(log) : 'ConnectionLost';
      const pinned = code === 'HostKeyChanged' ? `pinned: ${keys.map((key) => fingerprintOf(key ?? '')).join(', ')}` : printed;
      throw failure(code, at, call, pinned);
    }
    if (begun === null) throw failure(asSudo ? 'SudoRefused' : 'ShellUnusable', at, call, printed);
    if (begun[1] !== '0') throw failure('SudoRefused', at, call, `it runs commands as UID ${begun[1]}`);
    return { code: ended.code, stdout: ended.stdout.slice(begun.index + begun[0].length), stderr: ended.stderr };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
