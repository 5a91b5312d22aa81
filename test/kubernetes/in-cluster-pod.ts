/**
 * The process of a pod as a kubelet and a container runtime start it: file system of its image, read-only where it is declared so, volumes, user, rights,
 * environment, name, network and process ID 1. Needs root and Linux.
 */
import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, closeSync, existsSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { rmdir } from 'node:fs/promises';
import { request } from 'node:http';
import { connect, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Image } from './in-cluster-image.ts';
import { couple, type Ports } from './in-cluster-relay.ts';
import { scrape, type Scraped } from '../../src/cli/testing/scrape.ts';

const here = (name: string): string => fileURLToPath(new URL(name, import.meta.url));
const NODE = process.execPath;
const APART = ['--mount', '--uts', '--ipc', '--net', '--pid', '--fork', '--kill-child=SIGKILL'];

/** Why pods cannot be started here; undefined: they can. */
export function whyNoPods(): string | undefined {
  if (process.platform !== 'linux') return `this is ${process.platform}`;
  const { status, stderr } = spawnSync(
    'unshare',
    [...APART, 'sh', '-c', 'mount -t tmpfs x /mnt && ip link set lo up && command -v setpriv chroot hostname'],
    { encoding: 'utf8' },
  );
  return status === 0 ? undefined : `it takes root, unshare, setpriv, chroot, ip and hostname: ${stderr.trim() || 'one is missing'}`;
}

/** What is used of a container of a pod. */
export interface Container {
  command?: string[];
  args?: string[];
  env?: { name: string; value?: string; valueFrom?: unknown }[];
  ports?: { containerPort: number }[];
  volumeMounts?: { name: string; mountPath: string; readOnly?: boolean }[];
  resources?: { limits?: Record<string, string>; requests?: Record<string, string> };
  securityContext?: {
    runAsUser?: number;
    runAsGroup?: number;
    runAsNonRoot?: boolean;
    readOnlyRootFilesystem?: boolean;
    allowPrivilegeEscalation?: boolean;
    privileged?: boolean;
    capabilities?: { drop?: string[]; add?: string[] };
  };
}

export interface PodOptions {
  name: string;
  image: Image;
  container: Container;
  fsGroup: number | undefined;
  env: Record<string, string>;
  /** Folder of each volume. */
  volumes: ReadonlyMap<string, string>;
  /** Of this pod alone. */
  folder: string;
  /** Ports of its loopback, and where on this machine's they lead. */
  reaches: ReadonlyMap<number, number>;
}

export interface PodProcess {
  readonly ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  /** Everything that it wrote. */
  log(): string;
  /** Signals its process 1. */
  signal(name: NodeJS.Signals): void;
  get(port: number, path: string): Promise<{ status: number; body: string }>;
  /** Metrics, over TLS. */
  scrape(port: number, token?: string): Promise<Scraped>;
  /** Most memory that its processes had together, bytes; undefined where no cgroup could be made, and then no limit is set. */
  peakBytes(): number | undefined;
  /** Of its process 1, as the kernel reports it: `VmHWM`, `NoNewPrivs`, `CapBnd`, `Uid`… */
  state(): Record<string, string>;
  stop(): Promise<void>;
}

export async function startPod(options: PodOptions): Promise<PodProcess> {
  const { name, image, container, fsGroup, env, volumes, folder, reaches } = options;
  const { securityContext = {}, command = image.entrypoint, args = [], volumeMounts = [], ports = [] } = container;
  const user = userOf(image, securityContext);
  // Short: a socket's path may have some 100 bytes only.
  const sockets = join(folder, 's');
  const root = join(folder, 'root');
  for (const each of [sockets, root]) mkdirSync(each, { recursive: true });
  const spoken: Ports = { out: [...reaches.keys()], in: ports.map(({ containerPort }) => containerPort) };
  writeFileSync(join(sockets, 'ports.json'), JSON.stringify(spoken));
  const servers = await Promise.all([...reaches].map(([port, to]) => leadOut(join(sockets, `out-${port}`), to)));
  const mounts = volumeMounts.map(({ name: volume, mountPath, readOnly }) => {
    const source = volumes.get(volume);
    if (source === undefined) throw new Error(`pod ${name} mounts volume ${volume}, which it has not`);
    return `${mountPath}|${source}|${readOnly === true ? 'ro' : 'rw'}`;
  });
  const limits = [
    ...(securityContext.allowPrivilegeEscalation === false ? ['--no-new-privs'] : []),
    ...(securityContext.capabilities?.drop?.includes('ALL') === true
      ? ['--bounding-set=-all', '--inh-caps=-all', '--ambient-caps=-all']
      : []),
  ];
  const limit = container.resources?.limits?.['memory'];
  const memory = limit === undefined ? undefined : await limitMemory(`kubenode-test-${process.pid}-${name}`, bytesOf(limit));
  const logFile = join(folder, 'log');
  const log = openSync(logFile, 'a');
  const child = spawn(
    'unshare',
    [
      ...APART,
      '--',
      '/bin/sh',
      here('./in-cluster-pod.sh'),
      ...Object.entries(env).map(([key, value]) => `${key}=${value}`),
      ...command,
      ...args,
    ],
    {
      stdio: ['ignore', log, log],
      env: {
        PATH: process.env['PATH'],
        POD_NAME: name,
        POD_ROOT: root,
        POD_ROOT_MODE: securityContext.readOnlyRootFilesystem === true ? 'ro' : 'rw',
        POD_NODE: NODE,
        POD_APP: image.app,
        POD_MOUNTS: mounts.join('\n'),
        POD_RELAY: here('./in-cluster-relay.ts'),
        POD_SOCKETS: sockets,
        POD_UID: String(user.uid),
        POD_GID: String(user.gid),
        POD_GROUPS: String(fsGroup ?? user.gid),
        POD_LIMITS: limits.join(' '),
        POD_CGROUP: memory?.folder ?? '',
      },
    },
  );
  closeSync(log);
  // This process has the other end of this pipe, so also a test that is killed leaves nothing behind.
  const guard = spawn('/bin/sh', ['-c', 'cat >/dev/null; kill -KILL "$1"', 'sh', String(child.pid)], {
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  const exited = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve) => {
    child.once('error', () => resolve({ code: null, signal: null }));
    child.once('exit', (code, signal) => resolve({ code, signal }));
  });
  const ended = exited.then(async (how) => {
    guard.kill('SIGKILL');
    for (const server of servers) server.close();
    await memory?.remove();
    return how;
  });
  /** By the number that it has out here. */
  const first = (): number => Number(readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').trim().split(' ')[0]);
  return {
    ended,
    log: () => readFileSync(logFile, 'utf8'),
    signal: (signal) => void process.kill(first(), signal),
    get: (port, path) => ask(join(sockets, `in-${port}`), path),
    scrape: (port, token) => scrape({ socketPath: join(sockets, `in-${port}`) }, token),
    peakBytes: () => memory?.peakBytes(),
    state: () =>
      Object.fromEntries(
        readFileSync(`/proc/${first()}/status`, 'utf8')
          .trim()
          .split('\n')
          .map((line) => line.split(/:\s*/, 2) as [string, string]),
      ),
    async stop() {
      child.kill('SIGKILL');
      await ended;
    },
  };
}

interface MemoryLimit {
  folder: string;
  peakBytes(): number;
  /** When its last process has gone. */
  remove(): Promise<void>;
}

/** A cgroup, of either version. */
async function limitMemory(name: string, bytes: number): Promise<MemoryLimit | undefined> {
  for (const [base, sign, limit, peak] of [
    ['/sys/fs/cgroup/memory', 'cgroup.procs', 'memory.limit_in_bytes', 'memory.max_usage_in_bytes'],
    ['/sys/fs/cgroup', 'cgroup.controllers', 'memory.max', 'memory.peak'],
  ] as const) {
    if (!existsSync(join(base, sign))) continue;
    const folder = join(base, name);
    const remove = async (): Promise<void> => {
      for (let tries = 0; tries < 50; tries++) {
        const gone = await rmdir(folder).then(
          () => true,
          () => false,
        );
        if (gone) return;
        await delay(100);
      }
    };
    try {
      mkdirSync(folder);
    } catch {
      return undefined;
    }
    try {
      writeFileSync(join(folder, limit), String(bytes));
      return { folder, peakBytes: () => Number(readFileSync(join(folder, peak), 'utf8')), remove };
    } catch {
      await remove();
    }
  }
  return undefined;
}

const UNITS: Record<string, number> = { Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30 };

export function bytesOf(quantity: string): number {
  const [, digits, unit = ''] = /^(\d+)(Ki|Mi|Gi)?$/.exec(quantity) ?? [];
  if (digits === undefined) throw new Error(`how much is ${quantity}?`);
  return Number(digits) * (UNITS[unit] ?? 1);
}

/** As `USER` of the image, where the pod does not set another; `runAsNonRoot` refuses root as a kubelet does. */
function userOf({ user }: Image, { runAsUser, runAsGroup, runAsNonRoot }: NonNullable<Container['securityContext']>) {
  const [uid = 0, gid = 0] = user.split(':').map(Number);
  const used = { uid: runAsUser ?? uid, gid: runAsGroup ?? gid };
  if (runAsNonRoot === true && used.uid === 0) throw new Error('container has runAsNonRoot and image will run as root');
  return used;
}

async function leadOut(path: string, port: number): Promise<Server> {
  const server = createServer((socket) => couple(socket, connect(port, '127.0.0.1')));
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(path, resolve));
  chmodSync(path, 0o666);
  return server;
}

function ask(socketPath: string, path: string): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    const call = request({ socketPath, path, timeout: 5000, agent: false }, (response) => {
      let body = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => (body += chunk));
      response.on('end', () => resolve({ status: response.statusCode ?? 0, body }));
      response.on('error', reject);
    });
    call.on('timeout', () => call.destroy(new Error(`${path}: no answer within 5 s`)));
    call.on('error', reject);
    call.end();
  });
}
