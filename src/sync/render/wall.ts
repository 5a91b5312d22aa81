/**
 * What stands around the child. Node's permissions keep honest code from files and processes; they do not stop the network or
 * signals. Namespaces do. Where neither bubblewrap nor unprivileged namespaces are to be had (macOS, Ubuntu 24.04, most
 * containers) only the permissions are left: then the pod must be the wall.
 */
import { spawn } from 'node:child_process';
import { existsSync, realpathSync } from 'node:fs';
import { ISOLATIONS } from '../../api/fleet.ts';

/** Weakest first. `pod` is never found out: whoever deploys the renderer says that its pod has no token, no egress and no disk. */
export type Isolation = (typeof ISOLATIONS)[number];

export function atLeast(isolation: Isolation, wanted: Isolation): boolean {
  return ISOLATIONS.indexOf(isolation) >= ISOLATIONS.indexOf(wanted);
}

export interface WallLimits {
  /** Bytes of memory of the child's data; not enforced without prlimit. Node needs 600 MiB to start. */
  dataBytes: number;
  cpuSeconds: number;
}

export interface Wall {
  readonly tool: 'bwrap' | 'unshare' | 'limits' | 'none';
  readonly isolation: Isolation;
  /** The argument vector that runs `command` behind this wall. `files` are all that it must be able to read besides Node. */
  wrap(command: readonly string[], files: readonly string[], limits: WallLimits): string[];
}

export const CHILD_ENVIRONMENT = { TZ: 'UTC', LC_ALL: 'C', PATH: '/usr/bin:/bin' };

const prlimit = ({ dataBytes, cpuSeconds }: WallLimits) => [
  'prlimit',
  `--data=${dataBytes}`,
  `--cpu=${cpuSeconds}`,
  '--core=0',
  '--fsize=0',
  '--nofile=128',
];

const PDEATHSIG = ['setpriv', '--pdeathsig', 'KILL'];
const UNSHARE = ['unshare', '--user', '--map-current-user', '--net', '--pid', '--ipc', '--uts', '--fork', '--kill-child'];

const bwrap: Wall = {
  tool: 'bwrap',
  isolation: 'namespaces',
  wrap: (command, files, limits) => [
    ...prlimit(limits),
    'bwrap',
    '--unshare-all',
    '--new-session',
    '--die-with-parent',
    '--clearenv',
    ...Object.entries(CHILD_ENVIRONMENT).flatMap(([name, value]) => ['--setenv', name, value]),
    ...['/usr/lib', '/usr/lib64', '/lib', '/lib64', ...files]
      .filter((path) => existsSync(path))
      .flatMap((path) => ['--ro-bind', path, path]),
    '--chdir',
    '/',
    ...command,
  ],
};

const unshare: Wall = {
  tool: 'unshare',
  isolation: 'namespaces',
  // unshare outlives a parent that was killed; setpriv in front of it does not.
  wrap: (command, _files, limits) => [...PDEATHSIG, ...UNSHARE, ...prlimit(limits), ...command],
};

const limitsOnly: Wall = {
  tool: 'limits',
  isolation: 'process',
  wrap: (command, _files, limits) => [...PDEATHSIG, ...prlimit(limits), ...command],
};

const none: Wall = { tool: 'none', isolation: 'process', wrap: (command) => [...command] };

/** All walls that work here, strongest first; the last one always does. Tries each by starting Node behind it. */
async function findWalls(): Promise<Wall[]> {
  const tried = await Promise.all([bwrap, unshare, limitsOnly].map(async (wall) => ((await works(wall)) ? [wall] : [])));
  return [...tried.flat(), none];
}

let found: Promise<Wall[]> | undefined;

/** Found once for each process: what works here does not change while it runs. */
export function walls(): Promise<Wall[]> {
  found ??= findWalls();
  return found;
}

export function nodeBinary(): string {
  return realpathSync(process.execPath);
}

function works(wall: Wall): Promise<boolean> {
  const node = nodeBinary();
  const [command = '', ...args] = wall.wrap([node, '--version'], [node], { dataBytes: 2 ** 30, cpuSeconds: 5 });
  return new Promise((resolve) => {
    const child = spawn(command, args, {
      stdio: 'ignore',
      env: CHILD_ENVIRONMENT,
      cwd: '/',
      detached: true,
      // Long: what is found holds for the life of this process, and a busy machine must not look like a weak one.
      timeout: 30_000,
      killSignal: 'SIGKILL',
    });
    child.on('error', () => resolve(false));
    child.on('exit', (code) => resolve(code === 0));
  });
}

/** Node's own part of every wall. `child` is the one file that it may read. */
export function nodeArguments(child: string, heapMiB: number): string[] {
  return [
    '--permission',
    `--allow-fs-read=${child}`,
    '--no-addons',
    '--no-experimental-sqlite',
    '--disallow-code-generation-from-strings',
    '--disable-proto=delete',
    '--no-global-search-paths',
    '--no-warnings',
    `--max-old-space-size=${heapMiB}`,
    child,
  ];
}
