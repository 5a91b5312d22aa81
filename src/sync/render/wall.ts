/**
 * What stands around the child. What Node itself refuses (`nodeArguments`, the child's own realm) is the same behind every wall; a wall is what the
 * operating system refuses to the process, with any code that runs in it.
 *
 * `namespaces`: user, mount, process, network, IPC and host name of its own; a root that contains Node, its libraries and the child, all read-only, without
 * /proc and devices; no rights, and none to be had. `process`: a process of the same user as the hub's, with limits of memory and time where
 * prlimit is to be had, and nothing more: it is there for macOS and for systems that forbid namespaces.
 */
import { spawn } from 'node:child_process';
import { existsSync, realpathSync } from 'node:fs';
import { ISOLATIONS } from '../../api/fleet.ts';

/** Weakest first. */
export type Isolation = (typeof ISOLATIONS)[number];

export function atLeast(isolation: Isolation, wanted: Isolation): boolean {
  return ISOLATIONS.indexOf(isolation) >= ISOLATIONS.indexOf(wanted);
}

export function strongest(a: Isolation, b: Isolation): Isolation {
  return atLeast(a, b) ? a : b;
}

export interface WallLimits {
  /** Bytes of memory of the child's data; not enforced without prlimit. Node needs 600 MiB to start. */
  dataBytes: number;
  cpuSeconds: number;
}

export interface Wall {
  readonly tool: 'bwrap' | 'unshare' | 'limits' | 'none';
  readonly isolation: Isolation;
  /** The argument vector that runs `command` behind this wall. `files` are all that it must be able to read besides Node's libraries. */
  wrap(command: readonly string[], files: readonly string[], limits: WallLimits): string[];
}

export const CHILD_ENVIRONMENT = { TZ: 'UTC', LC_ALL: 'C', PATH: '/usr/sbin:/usr/bin:/sbin:/bin' };

const prlimit = ({ dataBytes, cpuSeconds }: WallLimits) => [
  'prlimit',
  `--data=${dataBytes}`,
  `--cpu=${cpuSeconds}`,
  '--core=0',
  '--fsize=0',
  '--nofile=128',
  '--memlock=0',
  '--msgqueue=0',
];

/** The process ends with its parent, and no program that it starts can have more rights than it has. */
const SETPRIV = ['setpriv', '--pdeathsig', 'KILL', '--no-new-privs'];
const UNSHARE = ['unshare', '--user', '--map-root-user', '--mount', '--net', '--pid', '--ipc', '--uts', '--fork', '--kill-child'];
/** The user id `nobody`: inside, a process that is not root has no rights over any namespace. */
const NOBODY = '65534';

const bwrap: Wall = {
  tool: 'bwrap',
  isolation: 'namespaces',
  wrap: (command, files, limits) => [
    ...prlimit(limits),
    'bwrap',
    '--unshare-all',
    '--unshare-user',
    '--uid',
    NOBODY,
    '--gid',
    NOBODY,
    '--cap-drop',
    'ALL',
    '--new-session',
    '--die-with-parent',
    '--clearenv',
    ...Object.entries(CHILD_ENVIRONMENT).flatMap(([name, value]) => ['--setenv', name, value]),
    ...[...runtimeLibraries(), ...files].flatMap((path) => ['--ro-bind', path, path]),
    '--remount-ro',
    '/',
    '--chdir',
    '/',
    ...command,
  ],
};

/**
 * Run as root of new namespaces. The new root lies over a folder that every Linux system has and from which Node is not started. A mount that did not become
 * read-only ends it. The last program makes another user namespace, in which the process is the user `nobody`, so that all rights over the others are gone, and changes its root;
 * a process that has changed it can make no further user namespace, and without rights there is no way back.
 */
const NEW_ROOT = `
set -eu
root=$1
shift
mount -t tmpfs -o mode=0755,size=1m,nr_inodes=512,nosuid,nodev,noexec kubenode "$root"
while [ "$1" != -- ]; do
  mkdir -p "$root\${1%/*}"
  : > "$root$1"
  mount -o bind,ro,nosuid,nodev "$1" "$root$1"
  if ( : >> "$root$1" ) 2> /dev/null; then exit 70; fi
  shift
done
shift
mount -o remount,bind,ro,nosuid,nodev,noexec "$root"
exec unshare --user --map-user=${NOBODY} --map-group=${NOBODY} --root="$root" --wd=/ "$@"
`;
const ROOTS = ['/sys', '/mnt', '/media', '/srv'];

const unshare: Wall = {
  tool: 'unshare',
  isolation: 'namespaces',
  // unshare outlives a parent that was killed; setpriv in front of it does not.
  wrap: (command, files, limits) => [
    ...SETPRIV,
    ...UNSHARE,
    ...prlimit(limits),
    'sh',
    '-c',
    NEW_ROOT,
    'sh',
    ROOTS.find((path) => existsSync(path)) ?? '/mnt',
    ...runtimeLibraries(),
    ...files,
    '--',
    ...command,
  ],
};

const limitsOnly: Wall = {
  tool: 'limits',
  isolation: 'process',
  wrap: (command, _files, limits) => [...SETPRIV, ...prlimit(limits), ...command],
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

let libraries: readonly string[] | undefined;

/** What this very Node has loaded, its loader included, by the paths at which it will open them again. */
function runtimeLibraries(): readonly string[] {
  libraries ??= sharedObjects();
  return libraries;
}

function sharedObjects(): string[] {
  if (process.platform !== 'linux') return [];
  // Else it asks name servers who is at the other end of each connection of this process. Its type lacks this.
  const before: unknown = Reflect.get(process.report, 'excludeNetwork');
  Reflect.set(process.report, 'excludeNetwork', true);
  try {
    const report: { sharedObjects?: unknown } = process.report.getReport();
    const loaded: unknown[] = Array.isArray(report.sharedObjects) ? report.sharedObjects : [];
    return loaded.filter(
      (path): path is string => typeof path === 'string' && path.startsWith('/') && !path.endsWith('.node') && existsSync(path),
    );
  } finally {
    Reflect.set(process.report, 'excludeNetwork', before);
  }
}

/** Exits with 0 only where a wall of namespaces refuses all that it should. What cannot be found out is a failure. */
const PROBE = `
const { existsSync, readdirSync } = require('node:fs');
const known = new Set(process.argv.slice(1).map((path) => path.split('/')[1]));
const open = [
  process.pid > 2,
  process.getuid() === 0,
  existsSync('/proc/self'),
  existsSync('/dev/null') && !known.has('dev'),
  readdirSync('/').some((name) => !known.has(name) && name !== 'dev' && name !== 'proc'),
  Object.values(require('node:os').networkInterfaces()).flat().some((each) => !each.internal),
];
process.exit(open.includes(true) ? 1 : 0);
`;

function works(wall: Wall): Promise<boolean> {
  const node = nodeBinary();
  const probe = wall.isolation === 'namespaces' ? ['-e', PROBE, node, ...runtimeLibraries()] : ['--version'];
  const [command = '', ...args] = wall.wrap([node, ...probe], [node], { dataBytes: 2 ** 30, cpuSeconds: 5 });
  return new Promise((resolve) => {
    const child = spawn(command, args, {
      stdio: 'ignore',
      env: CHILD_ENVIRONMENT,
      cwd: '/',
      detached: true,
      // Long: the result is kept for the life of this process, and a busy machine must not be taken for a weak one.
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
    '--disable-sigusr1',
    `--allow-fs-read=${child}`,
    '--no-addons',
    '--no-experimental-sqlite',
    '--disallow-code-generation-from-strings',
    '--experimental-vm-modules',
    '--frozen-intrinsics',
    '--disable-proto=delete',
    '--no-global-search-paths',
    '--no-warnings',
    `--max-old-space-size=${heapMiB}`,
    child,
  ];
}
