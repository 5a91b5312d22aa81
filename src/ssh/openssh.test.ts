import { createHash, randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { script, type RemoteCall, type RemoteTarget } from '../api/remote.ts';
import { systemClock } from '../kube/clock.ts';
import { fingerprintOf } from './host-keys.ts';
import { openSsh } from './openssh.ts';
import { noSshd, startSshd, startWire, type Sshd } from './testing/sshd.ts';

const clock = systemClock({ ref: true });
const { signal } = new AbortController();
const PRINT = script`for each in "$@"; do printf "[%s]" "$each"; done`;
const print = (...args: string[]): RemoteCall => ({ doing: 'print arguments', script: PRINT, args, timeoutMs: 20_000 });
const coded = (code: string): unknown => expect.objectContaining({ code });

describe.skipIf(noSshd !== undefined)('a machine with a real sshd', () => {
  let sshd: Sshd;
  let target: RemoteTarget;
  let folder: string;
  beforeAll(async () => {
    sshd = await startSshd();
    folder = await mkdtemp(join(tmpdir(), 'kubenode-openssh-test-'));
    target = { host: '127.0.0.1', port: sshd.port, user: 'root', hostKeys: [sshd.hostKey] };
  });
  afterAll(async () => {
    await sshd.close();
    await rm(folder, { recursive: true, force: true });
  });
  const ssh = (options: Partial<Parameters<typeof openSsh>[0]> = {}) => openSsh({ clock, identityFile: sshd.identityFile, ...options });

  it('gives a script its arguments as they are, with any content', async () => {
    const marker = join(folder, 'marker');
    const nasty = [`'; touch ${marker}; '`, `$(touch ${marker})`, `\`touch ${marker}\``, '-e', '', '  a  b ', '\\n', '$HOME', '"', 'é…'];
    const result = await ssh().run(target, print(...nasty), signal);
    expect(result).toEqual({ code: 0, stdout: nasty.map((each) => `[${each}]`).join(''), stderr: '' });
    expect(existsSync(marker)).toBe(false);
  });

  it('refuses arguments that would be more than one', async () => {
    await expect(ssh().run(target, print('a\nb'), signal)).rejects.toEqual(coded('TargetInvalid'));
  });

  it('returns how the script ended, and what it printed on each stream', async () => {
    const call: RemoteCall = { doing: 'fail', script: script`echo out; echo err >&2; exit 7`, timeoutMs: 20_000 };
    expect(await ssh().run(target, call, signal)).toEqual({ code: 7, stdout: 'out\n', stderr: 'err\n' });
  });

  it('brings a file to the stdin of a script whole', async () => {
    const bytes = randomBytes(3 * 1024 * 1024);
    await writeFile(join(folder, 'body'), bytes);
    const call: RemoteCall = {
      doing: 'send',
      script: script`sha256sum`,
      args: ['x'],
      body: { path: join(folder, 'body') },
      timeoutMs: 20_000,
    };
    expect((await ssh().run(target, call, signal)).stdout).toBe(`${createHash('sha256').update(bytes).digest('hex')}  -\n`);
  });

  it('connects to no host without a pinned key', async () => {
    await expect(ssh().run({ ...target, hostKeys: [] }, print('x'), signal)).rejects.toEqual(coded('HostKeyUnknown'));
  });

  it('runs nothing on a host that proves another key than the pinned one, and names which is pinned', async () => {
    const marker = join(folder, 'reached');
    const call: RemoteCall = { doing: 'touch', script: script`touch "$1"`, args: [marker], timeoutMs: 20_000 };
    const run = ssh().run({ ...target, hostKeys: [sshd.strangeHostKey] }, call, signal);
    await expect(run).rejects.toEqual(coded('HostKeyChanged'));
    await expect(run).rejects.toThrow(fingerprintOf(sshd.strangeHostKey));
    expect(existsSync(marker)).toBe(false);
  });

  it('shows the keys of a host, so that a person can confirm them', async () => {
    expect(await ssh().shownKeys('127.0.0.1', sshd.port, signal)).toEqual([sshd.hostKey]);
  });

  it('ends a showing of keys by a host that drips a byte now and then', async () => {
    const drip = await startTalker((socket) => {
      const timer = setInterval(() => socket.write('x'), 100);
      socket.once('close', () => clearInterval(timer));
    });
    try {
      await expect(ssh({ showSeconds: 1 }).shownKeys('127.0.0.1', drip.port, signal)).rejects.toEqual(coded('RemoteTimeout'));
    } finally {
      await drip.close();
    }
  });

  it('ends a showing of keys when its signal aborts, and blames nothing for it', async () => {
    const stopping = new AbortController();
    const unresponsive = await startTalker(() => stopping.abort(new Error('enough')));
    try {
      await expect(ssh().shownKeys('127.0.0.1', unresponsive.port, stopping.signal)).rejects.toThrow('enough');
      await expect(ssh().shownKeys('127.0.0.1', unresponsive.port, stopping.signal)).rejects.toThrow('enough');
    } finally {
      await unresponsive.close();
    }
  });

  it.each(['Host key verification failed.', 'bye\nHost key verification failed.', 'root@h: Permission denied (publickey,password).'])(
    'takes no reason from a host that proves nothing and disconnects with %j',
    async (words) => {
      const liar = await startTalker((socket) => socket.end(Buffer.concat([Buffer.from('SSH-2.0-liar\r\n'), disconnect(words)])));
      try {
        await expect(ssh().run({ ...target, port: liar.port }, print('x'), signal)).rejects.toEqual(coded('ConnectionLost'));
      } finally {
        await liar.close();
      }
    },
  );

  it('reports a key that is not taken', async () => {
    await expect(ssh({ identityFile: sshd.strangeIdentity }).run(target, print('x'), signal)).rejects.toEqual(coded('AuthRefused'));
  });

  it('never answers a prompt for a password, and reports that there was one', async () => {
    const asking = await startSshd({ PasswordAuthentication: 'yes' });
    try {
      const at = { ...target, port: asking.port, hostKeys: [asking.hostKey] };
      await expect(openSsh({ clock, identityFile: asking.strangeIdentity }).run(at, print('x'), signal)).rejects.toEqual(
        coded('PasswordAsked'),
      );
    } finally {
      await asking.close();
    }
  });

  it('reports a user who cannot become root', async () => {
    const plain = await startSshd({ SetEnv: 'PATH=/nowhere' });
    try {
      // What root has by itself another user needs sudo for; `games` may not log in at all, which is neither.
      const at = { ...target, user: 'games', port: plain.port, hostKeys: [plain.hostKey] };
      await expect(openSsh({ clock, identityFile: plain.identityFile }).run(at, print('x'), signal)).rejects.toEqual(coded('SudoRefused'));
      await expect(openSsh({ clock, identityFile: plain.identityFile, sudo: false }).run(at, print('x'), signal)).rejects.toEqual(
        coded('ShellUnusable'),
      );
    } finally {
      await plain.close();
    }
  });

  it('reports an account whose commands are replaced', async () => {
    const forced = await startSshd({ ForceCommand: 'echo kubenode-begins 0 guess' });
    try {
      const at = { ...target, port: forced.port, hostKeys: [forced.hostKey] };
      await expect(openSsh({ clock, identityFile: forced.identityFile }).run(at, print('x'), signal)).rejects.toEqual(
        coded('ShellUnusable'),
      );
    } finally {
      await forced.close();
    }
  });

  it('reports a port where no host answers, and a name without address', async () => {
    await expect(ssh().run({ ...target, port: 1 }, print('x'), signal)).rejects.toEqual(coded('HostUnreachable'));
    await expect(ssh().run({ ...target, host: 'no-such-host.invalid' }, print('x'), signal)).rejects.toEqual(coded('HostUnresolved'));
  });

  it('takes no host or user that ssh would read as an option', async () => {
    await expect(ssh().run({ ...target, host: '-oProxyCommand=touch' }, print('x'), signal)).rejects.toEqual(coded('TargetInvalid'));
    await expect(ssh().run({ ...target, user: '-x' }, print('x'), signal)).rejects.toEqual(coded('TargetInvalid'));
  });

  it('ends a script that takes too long', async () => {
    const call: RemoteCall = { doing: 'wait', script: script`sleep 60`, timeoutMs: 700 };
    await expect(ssh().run(target, call, signal)).rejects.toEqual(coded('RemoteTimeout'));
  });

  it('takes no more output than its limit', async () => {
    const call: RemoteCall = { doing: 'flood', script: script`cat /dev/zero`, timeoutMs: 20_000 };
    await expect(ssh({ outputLimit: 10_000 }).run(target, call, signal)).rejects.toEqual(coded('OutputTooLong'));
  });

  it('reports a connection that is cut, in the middle of a file and in the middle of a script', async () => {
    const wire = await startWire('127.0.0.1', sshd.port);
    try {
      const through = { ...target, port: wire.port };
      wire.cutAfter(100_000);
      const file: RemoteCall = {
        doing: 'send',
        script: script`cat >/dev/null`,
        body: { bytes: randomBytes(1_000_000) },
        timeoutMs: 20_000,
      };
      await expect(ssh().run(through, file, signal)).rejects.toEqual(coded('ConnectionLost'));
      wire.cutAfter(Infinity);
      const marker = join(folder, 'begun');
      const wait = ssh().run(through, { doing: 'wait', script: script`touch "$1"; sleep 60`, args: [marker], timeoutMs: 20_000 }, signal);
      await expect.poll(() => existsSync(marker), { timeout: 10_000 }).toBe(true);
      wire.cut();
      await expect(wait).rejects.toEqual(coded('ConnectionLost'));
    } finally {
      await wire.close();
    }
  });

  it('ends when its signal aborts', async () => {
    const stopping = new AbortController();
    const wait = ssh().run(target, { doing: 'wait', script: script`sleep 60`, timeoutMs: 20_000 }, stopping.signal);
    stopping.abort(new Error('enough'));
    await expect(wait).rejects.toThrow('enough');
  });
});

describe('without OpenSSH', () => {
  it('names what is missing', async () => {
    const path = process.env['PATH'];
    process.env['PATH'] = '/nowhere';
    try {
      await expect(openSsh({ clock }).shownKeys('h', 22, signal)).rejects.toEqual(coded('SshMissing'));
      const target: RemoteTarget = { host: 'h', port: 22, user: 'root', hostKeys: [`ssh-ed25519 ${ED25519}`] };
      await expect(openSsh({ clock }).run(target, print('x'), signal)).rejects.toEqual(coded('SshMissing'));
    } finally {
      process.env['PATH'] = path;
    }
  });
});

const ED25519 = Buffer.concat([
  Buffer.from([0, 0, 0, 11]),
  Buffer.from('ssh-ed25519'),
  Buffer.from([0, 0, 0, 32]),
  randomBytes(32),
]).toString('base64');

/** A host that sends any text, to each connection. */
async function startTalker(talk: (socket: Socket) => void): Promise<{ port: number; close(): Promise<void> }> {
  const open = new Set<Socket>();
  const server = createServer((socket) => {
    open.add(socket);
    socket.on('error', () => undefined);
    socket.resume();
    talk(socket);
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return {
    port: address.port,
    async close() {
      for (const socket of open) socket.destroy();
      await new Promise<void>((done) => server.close(() => done()));
    },
  };
}

/** RFC 4253, 6 and 11.1, before any key. */
function disconnect(words: string): Buffer {
  const text = (value: string): Buffer => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(Buffer.byteLength(value));
    return Buffer.concat([length, Buffer.from(value)]);
  };
  const payload = Buffer.concat([Buffer.from([1, 0, 0, 0, 11]), text(words), text('')]);
  const padding = 4 + ((8 - ((5 + payload.length + 4) % 8)) % 8);
  const head = Buffer.alloc(5);
  head.writeUInt32BE(1 + payload.length + padding);
  head[4] = padding;
  return Buffer.concat([head, payload, Buffer.alloc(padding)]);
}
