import { sha256Hex } from '../../api/digest.ts';
import type { CodedError } from '../../api/errors.ts';
import { isCoded } from '../../api/errors.ts';
import type { Machine } from '../../api/machine.ts';
import { plainText } from '../../api/plain-text.ts';
import type { Clock } from '../../api/ports.ts';
import type { NodeBootstrap } from '../../api/provider.ts';
import type { Remote, RemoteCall, RemoteResult, RemoteTarget } from '../../api/remote.ts';
import type { Stored } from '../../api/wire.ts';
import { sleep } from '../../kube/clock.ts';
import type { AgentPackage } from '../agent-package/build.ts';
import type { Architecture } from '../agent-package/runtime.ts';
import type { ImportCell } from './cell.ts';
import { archOf, factOf, foreignAgent, importError, machineName, obstacles, readFacts, type Facts } from './facts.ts';
import type { Host } from './hosts.ts';
import { BOOTSTRAP, EXITS, INSTALL, JOURNAL, LOOK, START, TRANSFER } from './scripts.ts';

export const STEPS = ['look', 'machine', 'transfer', 'install', 'admit', 'start', 'join'] as const;
export type StepName = (typeof STEPS)[number];

export interface PreparedPackage extends AgentPackage {
  /** Path of the archive, compressed by gzip. */
  compressed: string;
}

export interface ImportWish {
  host: Host;
  /** Confirmed. */
  hostKeys: readonly string[];
  pool: string;
  labels: Record<string, string>;
  /** The agent changes nothing until somebody removes its hold file. */
  hold: boolean;
  /** Only look. */
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
  did: StepName[];
}

const LOOK_MS = 60_000;
const CHANGE_MS = 120_000;
const TRANSFER_MS = 1_200_000;
const OPEN_MS = 60_000;
const TRIES = 3;
const AGAIN_MS = 2000;

/**
 * Imports one machine. Nothing is remembered in between: each step looks at the machine and at the cell, and does what is missing, so that it goes on
 * after any interruption by being begun again, by whoever. Errors: `REMOTE_ERRORS`, `IMPORT_ERRORS`, and those of the API.
 */
export async function importOne(wish: ImportWish, ports: ImportPorts, told: (step: StepName) => void): Promise<Imported> {
  const did = new Set<StepName>();
  for (let tries = 1; ; tries++) {
    try {
      return { ...(await attempt(wish, ports, told, (step) => did.add(step))), did: [...did] };
    } catch (error) {
      // Of what was cut nobody knows how far it came: the next look tells.
      if (!isCoded(error, 'ConnectionLost') || tries === TRIES) throw error;
      await sleep(ports.clock, AGAIN_MS * tries, ports.signal);
    }
  }
}

async function attempt(
  wish: ImportWish,
  ports: ImportPorts,
  told: (step: StepName) => void,
  did: (step: StepName) => void,
): Promise<Omit<Imported, 'did'>> {
  const { host, hostKeys } = wish;
  const { cell, signal, server } = ports;
  const target: RemoteTarget = { host: host.host, port: host.port, user: host.user, hostKeys };
  const run = (call: RemoteCall): Promise<RemoteResult> => ports.remote.run(target, call, signal);

  told('look');
  const facts = await look(run, ports);
  const name = machineName(host.name, facts);
  if (wish.dryRun) {
    const foreign = foreignAgent(facts, factOf(facts, 'bootstrap_uid'), server);
    if (foreign !== undefined) throw foreign;
    return { name };
  }

  told('machine');
  const ssh = { address: host.host, port: host.port, user: host.user, hostKeys: [...hostKeys] };
  // An agent that is there already belongs to a Machine: where that is not this one, none is made.
  if (facts.has('bootstrap') || facts.has('identity')) {
    const there = await cell.find({ namespace: wish.pool, name }, signal);
    const foreign = foreignAgent(facts, there?.metadata.uid, server);
    if (foreign !== undefined) throw foreign;
  }
  const made = await cell.ensureMachine({ namespace: wish.pool, name, ssh, labels: wish.labels }, signal);
  const { machine, bootstrap, providerID } = await cell.opened(made, OPEN_MS, signal);
  const isAdmitted = bootstrap.csrUID !== undefined;
  if (isAdmitted && !facts.has('identity')) throw alreadyAdmitted(machine);

  const arch = archOf(facts);
  if (arch === undefined) throw importError('ArchitectureUnknown', 'its architecture has no package', 'x86_64 and aarch64 have one');
  const archive = await ports.packageFor(arch);
  const isInstalled = factOf(facts, 'slot') === archive.slot && factOf(facts, 'enabled') === 'enabled';
  if (!isInstalled) {
    if (!(facts.get('arrived') ?? []).includes(archive.sha256)) {
      told('transfer');
      did('transfer');
      settle(
        await run({
          doing: 'take the archive',
          script: TRANSFER,
          args: [archive.sha256],
          body: { path: archive.compressed },
          timeoutMs: TRANSFER_MS,
        }),
      );
    }
    told('install');
    did('install');
    settle(await run({ doing: 'install the agent', script: INSTALL, args: [archive.sha256], timeoutMs: CHANGE_MS }));
  }

  if (!isAdmitted) {
    told('admit');
    did('admit');
    const token = await cell.token(machine, bootstrap, signal);
    const { namespace = '', uid } = machine.metadata;
    const file: NodeBootstrap = {
      server,
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

  told('start');
  if (factOf(facts, 'active') !== 'active') did('start');
  settle(await run({ doing: 'start the agent', script: START, args: [isAdmitted && isInstalled ? '' : 'restart'], timeoutMs: CHANGE_MS }));

  told('join');
  try {
    const joined = await cell.joined(machine, wish.joinSeconds * 1000, signal);
    return { name, machine: joined };
  } catch (error) {
    if (!isCoded(error, 'NotJoined')) throw error;
    const said = await run({ doing: 'read what the agent says', script: JOURNAL, timeoutMs: LOOK_MS }).catch(() => undefined);
    const text = plainText(said?.stdout.trim() ?? '', 400);
    throw importError(
      'NotJoined',
      text === '' ? error.message : `${error.message}; the agent's last words: ${text}`,
      error.next ?? '',
      error,
    );
  }
}

/** Errors: the worst of what is in the way. */
async function look(run: (call: RemoteCall) => Promise<RemoteResult>, { clock, serverMs, server }: ImportPorts): Promise<Facts> {
  const url = new URL(server);
  const args = [url.hostname.replaceAll(/[[\]]/g, ''), url.port === '' ? '443' : url.port];
  const begun = clock.monotonic();
  const { stdout } = await run({ doing: 'look at the machine', script: LOOK, args, timeoutMs: LOOK_MS });
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
  const said = plainText(`${stdout} ${stderr}`.trim(), 400);
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
      throw importError('NoSpace', `the disk took no more: ${said}`, 'make room, and run the same command again');
    case EXITS.damaged:
    case EXITS.digest:
      throw importError(
        'ArchiveDamaged',
        'what arrived does not have the digest of what was sent; nothing of it was kept',
        'run the same command again',
      );
    case EXITS.foreign:
      throw importError('OtherMachine', 'the bootstrap of another Machine is there', 'is somebody else importing this machine?');
    case EXITS.unsafe:
      throw importError(
        'FolderUnsafe',
        `${said} does not belong to root, or others may write to it, and root would run programs from there; nothing was installed`,
        'see who writes there, then: chown root:root and chmod go-w',
      );
    case EXITS.start:
      throw importError('AgentNotRunning', `the agent does not keep running: ${said}`, 'on the machine: journalctl -u kubenode-agent');
    default:
      throw importError(
        'InstallFailed',
        `a step ended with code ${code}: ${said}`,
        'run the same command again; KUBENODE_DEBUG=1 says more',
      );
  }
}
