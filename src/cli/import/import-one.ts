import { sha256Hex } from '../../api/digest.ts';
import type { CodedError } from '../../api/errors.ts';
import { isCoded } from '../../api/errors.ts';
import type { Bootstrap, Machine } from '../../api/machine.ts';
import { plainText } from '../../api/plain-text.ts';
import type { Clock } from '../../api/ports.ts';
import type { NodeBootstrap } from '../../api/provider.ts';
import { REMOTE_ERRORS, type Remote, type RemoteCall, type RemoteResult, type RemoteTarget } from '../../api/remote.ts';
import type { Stored } from '../../api/wire.ts';
import { sleep } from '../../kube/clock.ts';
import type { AgentPackage } from '../agent-package/build.ts';
import type { Architecture } from '../agent-package/runtime.ts';
import type { ImportCell } from './cell.ts';
import { archOf, factOf, foreignAgent, importError, machineName, obstacles, readFacts, type HostFacts, IMPORT_ERRORS } from './facts.ts';
import type { ImportHost } from './hosts.ts';
import { BOOTSTRAP, EXITS, INSPECT, INSTALL, JOURNAL, START, TRANSFER } from './scripts.ts';

export const STEPS = ['inspect', 'machine', 'transfer', 'install', 'admit', 'start', 'join'] as const;
export type ImportStep = (typeof STEPS)[number];

export interface PreparedPackage extends AgentPackage {
  /** Path of the archive, compressed by gzip. */
  compressed: string;
}

export interface ImportWish {
  host: ImportHost;
  /** Confirmed. */
  hostKeys: readonly string[];
  pool: string;
  labels: Record<string, string>;
  /** The agent changes nothing until a person removes its hold file. */
  hold: boolean;
  /** Only inspect. */
  dryRun: boolean;
  joinSeconds: number;
}

export interface ImportPorts {
  remote: Remote;
  cell: ImportCell;
  packageFor: (arch: Architecture) => Promise<PreparedPackage>;
  /** How nodes reach the API server, and what they verify it by. */
  server: string;
  certificateAuthority: string;
  mirror?: string;
  componentKeys?: string;
  /** Time of the API server; undefined: not known. */
  serverMs: () => number | undefined;
  clock: Clock;
  signal: AbortSignal;
}

export interface Imported {
  name: string;
  /** Absent in a dry run. */
  machine?: Stored<Machine>;
  /** Steps that changed something. */
  did: ImportStep[];
}

const INSPECT_MS = 60_000;
const CHANGE_MS = 120_000;
const TRANSFER_MS = 1_200_000;
const OPEN_MS = 60_000;
const TRIES = 3;
const AGAIN_MS = 2000;

/**
 * Imports one machine. Nothing is remembered in between: each step reads the state of the machine and of the cell, and does what is missing, so that after any
 * interruption the same command, run by any person, goes on. Errors: `REMOTE_ERRORS`, `IMPORT_ERRORS`, and those of the API.
 */
export async function importOne(wish: ImportWish, ports: ImportPorts, onStep: (step: ImportStep) => void): Promise<Imported> {
  const did = new Set<ImportStep>();
  for (let tries = 1; ; tries++) {
    try {
      return { ...(await attempt(wish, ports, onStep, did)), did: [...did] };
    } catch (error) {
      // How far it came before the connection was lost is not known: the next try inspects the machine again.
      if (!isCoded(error, REMOTE_ERRORS, 'ConnectionLost') || tries === TRIES) throw error;
      await sleep(ports.clock, AGAIN_MS * tries, ports.signal);
    }
  }
}

/** What one try has at hand. */
interface Attempt {
  wish: ImportWish;
  ports: ImportPorts;
  run: (call: RemoteCall) => Promise<RemoteResult>;
  onStep: (step: ImportStep) => void;
  did: Set<ImportStep>;
}

async function attempt(
  wish: ImportWish,
  ports: ImportPorts,
  onStep: (step: ImportStep) => void,
  did: Set<ImportStep>,
): Promise<Omit<Imported, 'did'>> {
  const { host, hostKeys } = wish;
  const target: RemoteTarget = { host: host.host, port: host.port, user: host.user, hostKeys };
  const run = (call: RemoteCall): Promise<RemoteResult> => ports.remote.run(target, call, ports.signal);
  const own: Attempt = { wish, ports, run, onStep, did };

  onStep('inspect');
  const facts = await inspect(run, ports);
  const name = machineName(host.name, facts);
  if (wish.dryRun) {
    const foreign = foreignAgent(facts, factOf(facts, 'bootstrap_uid'), ports.server);
    if (foreign !== undefined) throw foreign;
    return { name };
  }

  const { machine, bootstrap, providerID } = await openMachine(own, facts, name);
  const isAdmitted = bootstrap.csrUID !== undefined;
  if (isAdmitted && !facts.has('identity')) throw alreadyAdmitted(machine);
  const wasInstalled = await installAgent(own, facts);
  if (!isAdmitted) await giveBootstrap(own, machine, bootstrap, providerID);

  onStep('start');
  if (factOf(facts, 'active') !== 'active') did.add('start');
  settle(await run({ doing: 'start the agent', script: START, args: [isAdmitted && wasInstalled ? '' : 'restart'], timeoutMs: CHANGE_MS }));
  return { name, machine: await join(own, machine) };
}

/** The Machine with its admission open. An agent that is there already belongs to a Machine: where that is not this one, none is made. */
async function openMachine({ wish, ports, onStep }: Attempt, facts: HostFacts, name: string): ReturnType<ImportCell['opened']> {
  const { cell, signal, server } = ports;
  const { host, hostKeys, pool, labels } = wish;
  onStep('machine');
  if (facts.has('bootstrap') || facts.has('identity')) {
    const there = await cell.find({ namespace: pool, name }, signal);
    const foreign = foreignAgent(facts, there?.metadata.uid, server);
    if (foreign !== undefined) throw foreign;
  }
  const ssh = { address: host.host, port: host.port, user: host.user, hostKeys: [...hostKeys] };
  const made = await cell.ensureMachine({ namespace: pool, name, ssh, labels }, signal);
  return await cell.opened(made, OPEN_MS, signal);
}

/** Installs the agent; true: it was installed before. Errors: `ArchitectureUnknown`, and those of the scripts. */
async function installAgent({ ports, run, onStep, did }: Attempt, facts: HostFacts): Promise<boolean> {
  const arch = archOf(facts);
  if (arch === undefined) throw importError('ArchitectureUnknown', 'its architecture has no package', 'x86_64 and aarch64 have one');
  const archive = await ports.packageFor(arch);
  if (factOf(facts, 'slot') === archive.slot && factOf(facts, 'enabled') === 'enabled') return true;
  const args = [archive.sha256];
  if (!(facts.get('arrived') ?? []).includes(archive.sha256)) {
    onStep('transfer');
    did.add('transfer');
    const body = { path: archive.compressed };
    settle(await run({ doing: 'take the archive', script: TRANSFER, args, body, timeoutMs: TRANSFER_MS }));
  }
  onStep('install');
  did.add('install');
  settle(await run({ doing: 'install the agent', script: INSTALL, args, timeoutMs: CHANGE_MS }));
  return false;
}

/** Gives the agent the token by which it is admitted. */
async function giveBootstrap(
  { wish, ports, run, onStep, did }: Attempt,
  machine: Stored<Machine>,
  bootstrap: Bootstrap,
  providerID: string,
): Promise<void> {
  onStep('admit');
  did.add('admit');
  const token = await ports.cell.token(machine, bootstrap, ports.signal);
  const { namespace = '', name, uid } = machine.metadata;
  const file: NodeBootstrap = {
    server: ports.server,
    certificateAuthority: ports.certificateAuthority,
    token,
    machine: { namespace, name, uid },
    providerID,
    ...(ports.mirror === undefined ? {} : { mirror: ports.mirror }),
    ...(ports.componentKeys === undefined ? {} : { componentKeys: ports.componentKeys }),
  };
  const bytes = Buffer.from(`${JSON.stringify(file, undefined, 2)}\n`);
  const args = [sha256Hex(bytes), uid, wish.hold ? 'hold' : ''];
  settle(await run({ doing: 'take its bootstrap', script: BOOTSTRAP, args, body: { bytes }, timeoutMs: CHANGE_MS }));
}

/** The Machine once its agent reports. Errors: `NotJoined` with the last lines of the agent's log. */
async function join({ wish, ports, run, onStep }: Attempt, machine: Stored<Machine>): Promise<Stored<Machine>> {
  onStep('join');
  try {
    return await ports.cell.joined(machine, wish.joinSeconds * 1000, ports.signal);
  } catch (error) {
    if (!isCoded(error, IMPORT_ERRORS, 'NotJoined')) throw error;
    const journal = await run({ doing: "read the agent's log", script: JOURNAL, timeoutMs: INSPECT_MS }).catch(() => undefined);
    const text = plainText(journal?.stdout.trim() ?? '', 400);
    throw importError(
      'NotJoined',
      text === '' ? error.message : `${error.message}; the end of the agent's log: ${text}`,
      error.next ?? '',
      error,
    );
  }
}

/** Errors: the worst of what is in the way. */
async function inspect(run: (call: RemoteCall) => Promise<RemoteResult>, { clock, serverMs, server }: ImportPorts): Promise<HostFacts> {
  const url = new URL(server);
  const args = [url.hostname.replaceAll(/[[\]]/g, ''), url.port === '' ? '443' : url.port];
  const begun = clock.monotonic();
  const { stdout } = await run({ doing: 'inspect the machine', script: INSPECT, args, timeoutMs: INSPECT_MS });
  const facts = readFacts(stdout);
  const [worst] = obstacles(facts, { server, serverMs: serverMs(), tookMs: clock.monotonic() - begun });
  if (worst !== undefined) throw worst;
  return facts;
}

function alreadyAdmitted({ metadata, status }: Stored<Machine>): CodedError {
  return importError(
    'AlreadyAdmitted',
    `an agent was admitted as Machine ${metadata.namespace}/${metadata.name}, and its identity is not on this machine's disk`,
    `is this the same machine, wiped? Delete the Machine and import it again; or wait until ${status?.bootstrap?.until ?? 'its certificate has run out'}`,
  );
}

/** Errors: what the script's exit code stands for. */
function settle({ code, stdout, stderr }: RemoteResult): void {
  const printed = plainText(`${stdout} ${stderr}`.trim(), 400);
  switch (code) {
    case 0:
      return;
    case EXITS.lock:
      throw importError(
        'ImportBusy',
        'another import has changed this machine for more than 20 s',
        'wait for it; or end it, and run the same command again',
      );
    case EXITS.space:
      throw importError('NoSpace', `the disk took no more: ${printed}`, 'make room, and run the same command again');
    case EXITS.damaged:
    case EXITS.digest:
      throw importError(
        'ArchiveDamaged',
        'what arrived does not have the digest of what was sent; nothing of it was kept',
        'run the same command again',
      );
    case EXITS.foreign:
      throw importError('OtherMachine', 'the bootstrap of another Machine is there', 'is another person importing this machine?');
    case EXITS.unsafe:
      throw importError(
        'FolderUnsafe',
        `${printed} does not belong to root, or others may write to it, and root would run programs from there; nothing was installed`,
        'see who writes there, then: chown root:root and chmod go-w',
      );
    case EXITS.start:
      throw importError('AgentNotRunning', `the agent does not keep running: ${printed}`, 'on the machine: journalctl -u kubenode-agent');
    default:
      throw importError(
        'InstallFailed',
        `a step ended with code ${code}: ${printed}`,
        'run the same command again; KUBENODE_DEBUG=1 prints more',
      );
  }
}
