import { errorsOf, surroundings, type CodedError, type ErrorTable } from '../../api/errors.ts';
import { plainText } from '../../api/plain-text.ts';
import type { Architecture } from '../agent-package/runtime.ts';

/** What INSPECT printed, by name; a name that comes more than once has several values. Text of the machine: nothing of it is trusted. */
export type HostFacts = ReadonlyMap<string, readonly string[]>;

export const IMPORT_ERRORS = {
  NotDebian: surroundings('the system is neither Debian nor a derivative'),
  NoSystemd: surroundings('systemd does not run there'),
  ArchitectureUnknown: surroundings('there is no package for its architecture'),
  ToolMissing: surroundings('a program of the base system is not there'),
  LibcTooOld: surroundings('Node needs glibc 2.28 or later'),
  ReadOnly: surroundings('a folder that the agent needs cannot be written to'),
  FolderUnsafe: surroundings('users other than root may write to a folder above the agent'),
  NoSpace: surroundings('there is no room for the agent'),
  NoRoute: surroundings('the API server cannot be reached from there'),
  ClockWrong: surroundings('its clock is off by so much that certificates would not be valid'),
  KubeletPresent: surroundings('a kubelet runs there, and no agent of KubeNode'),
  OtherMachine: surroundings('the agent of another Machine, of this cell or another, is there'),
  HostnameUnfit: surroundings('its hostname cannot be the name of a Machine'),
  NameTaken: surroundings('another Machine has the name'),
  MachineDeleting: surroundings('its Machine is being deleted'),
  AlreadyAdmitted: surroundings('an agent was admitted as this Machine, and its identity is not on this disk'),
  AdmissionDenied: surroundings('the cell does not admit the agent'),
  NoAdmission: surroundings('no controller of the cell opened the admission in time'),
  ImportBusy: surroundings('another import changes this machine'),
  ArchiveDamaged: surroundings('the archive arrived damaged'),
  AgentNotRunning: surroundings('the agent does not keep running'),
  InstallFailed: surroundings('the agent could not be installed'),
  NotJoined: surroundings('the agent has not reported to the cell yet'),
} as const satisfies ErrorTable;
export type ImportErrorCode = keyof typeof IMPORT_ERRORS;

const errorOf = errorsOf(IMPORT_ERRORS);

export const importError = (code: ImportErrorCode, message: string, next: string, cause?: unknown): CodedError =>
  errorOf(code, message, { next, ...(cause === undefined ? {} : { cause }) });

export function readFacts(stdout: string): HostFacts {
  const facts = new Map<string, string[]>();
  for (const line of stdout.split('\n')) {
    const at = line.indexOf('=');
    if (at <= 0) continue;
    const name = line.slice(0, at);
    facts.set(name, [...(facts.get(name) ?? []), plainText(line.slice(at + 1), 512)]);
  }
  return facts;
}

export const factOf = (facts: HostFacts, name: string): string => facts.get(name)?.[0] ?? '';

const ARCHES: Record<string, Architecture> = { x86_64: 'amd64', aarch64: 'arm64' };
export const archOf = (facts: HostFacts): Architecture | undefined => ARCHES[factOf(facts, 'arch')];

/** Archive, compressed archive and what is in it lie there at the same time; the slot before stays. */
const OPT_MIB = 500;
const VAR_MIB = 200;
/** Certificates are given out with some minutes of tolerance, and a token lasts ten. */
const CLOCK_SECONDS = 120;

export interface Around {
  /** How nodes reach the API server. */
  server: string;
  /** By the API server, in ms; undefined: not known, and not judged. */
  serverMs: number | undefined;
  /** Between the question and the answer, in ms. */
  tookMs: number;
}

/** What keeps this machine from being imported, worst first. Pure. */
export function obstacles(facts: HostFacts, around: Around): CodedError[] {
  const found: CodedError[] = [];
  const no = (code: ImportErrorCode, message: string, next: string): void => void found.push(importError(code, message, next));
  const os = factOf(facts, 'os').trim();
  if (!os.split(' ').includes('debian')) no('NotDebian', `its system is "${os}"`, 'Debian and what is like it can be imported');
  if (factOf(facts, 'systemd') !== 'yes') no('NoSystemd', 'its first process is not systemd', 'boot it with systemd');
  if (archOf(facts) === undefined)
    no('ArchitectureUnknown', `its architecture is "${factOf(facts, 'arch')}"`, 'x86_64 and aarch64 have packages');
  const missing = facts.get('missing') ?? [];
  if (missing.length > 0) no('ToolMissing', `${missing.join(', ')} not found`, `apt-get install bash tar gzip coreutils util-linux`);
  const [, major = '0', minor = '0'] = /glibc (\d+)\.(\d+)/.exec(factOf(facts, 'glibc')) ?? [];
  if (Number(major) * 1000 + Number(minor) < 2028)
    no('LibcTooOld', `its C library is "${factOf(facts, 'glibc')}"`, 'upgrade the system: the agent needs glibc 2.28 or later');
  const readOnly = facts.get('readonly') ?? [];
  if (readOnly.length > 0) no('ReadOnly', `${readOnly.join(', ')} cannot be written to`, 'mount -o remount,rw, and find the cause: dmesg');
  for (const [folder, fact, mib] of [
    ['/opt', 'freeOptKiB', OPT_MIB],
    ['/var/lib', 'freeVarKiB', VAR_MIB],
  ] as const) {
    const free = Math.floor(Number(factOf(facts, fact)) / 1024);
    if (!(free >= mib)) no('NoSpace', `${folder} has ${free} MiB free and needs ${mib}`, `make room: du -xh ${folder} | sort -h | tail`);
  }
  if (factOf(facts, 'route') !== 'yes')
    no(
      'NoRoute',
      `it cannot connect to ${around.server}`,
      'open the way from the machine to the API server, or give its address with --server',
    );
  if (around.serverMs !== undefined) {
    const offSeconds = Math.round(Number(factOf(facts, 'now')) - around.serverMs / 1000);
    if (!(Math.abs(offSeconds) <= CLOCK_SECONDS + around.tookMs / 1000))
      no(
        'ClockWrong',
        `its clock is ${Math.abs(offSeconds)} s ${offSeconds > 0 ? 'ahead of' : 'behind'} the API server's`,
        'set it, and let it be kept: timedatectl',
      );
  }
  if (facts.has('kubelet') && !facts.has('bootstrap'))
    no(
      'KubeletPresent',
      'a kubelet runs there, and no agent of KubeNode: it is a node of something else, or was given back',
      'drain and stop it first: machines in use cannot be taken over yet',
    );
  return found;
}

/** Whether a foreign agent is there; `uid` undefined while the Machine is not made. */
export function foreignAgent(facts: HostFacts, uid: string | undefined, server: string): CodedError | undefined {
  const bootstrap = factOf(facts, 'bootstrap') === 'yes' ? factOf(facts, 'bootstrap_uid') : undefined;
  const strangers = [bootstrap, ...(facts.get('identity_uid') ?? [])].filter((each) => each !== undefined && each !== uid);
  if (strangers.length === 0) return undefined;
  const there = factOf(facts, 'bootstrap_server');
  const who = `${factOf(facts, 'bootstrap_namespace')}/${factOf(facts, 'bootstrap_name')}`;
  const what = bootstrap === undefined || there === '' ? 'an agent of an unknown cell' : `the agent of Machine ${who} at ${there}`;
  const whose = there === '' || there === server ? '' : ', which is another cell';
  return importError(
    'OtherMachine',
    `${what}${whose}, is there`,
    'delete that Machine first; where it is gone: sudo /opt/kubenode/agent/current/uninstall --forget, on the machine',
  );
}

const LABEL = '[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?';
const NAME = new RegExp(`^(?=.{1,200}$)${LABEL}(\\.${LABEL})*$`);

/** Errors: `HostnameUnfit`. */
export function machineName(given: string | undefined, facts: HostFacts): string {
  const name = given ?? factOf(facts, 'hostname').toLowerCase();
  if (NAME.test(name)) return name;
  throw importError(
    'HostnameUnfit',
    `"${name}" cannot be the name of a Machine`,
    'give one of small letters, digits, - and dots: --name, or name=… in the file',
  );
}
