// First: what is compiled before it stays.
import './heap-flags.ts';
import '../kube/no-inspector.ts';
import { resolve } from 'node:path';
import { isCoded, messageOf } from '../api/errors.ts';
import type { Clock, Log } from '../api/ports.ts';
import { systemClock } from '../kube/clock.ts';
import { nodeHttpsTransport } from '../kube/https-transport.ts';
import { AGENT_VERSION, runAgent } from './agent.ts';
import { readBootstrap } from './bootstrap.ts';
import { createDurable } from './disk/durable.ts';
import { createIdentity } from './identity/identity.ts';
import { identityState } from './identity/state.ts';
import { layoutOf } from './disk/layout.ts';
import { nodeFiles } from './ports/files.ts';
import type { Files } from './ports/files.ts';
import { localHost } from './ports/host.ts';
import type { Host } from './ports/host.ts';
import { lineLog } from './ports/log.ts';
import { fs } from './ports/node-fs.ts';
import { nodeNetwork } from './ports/network.ts';
import { nodeRunner } from './ports/runner.ts';
import { beSole } from './ports/sole.ts';
import { createSupervisor } from './ports/supervisor.ts';
import { nodeSystemctl, nodeSystemdRun } from './ports/systemctl.ts';
import { createSystemdUnits } from './ports/systemd.ts';
import { systemHost } from './ports/system-host.ts';
import type { LastingUnits } from './ports/units.ts';

const USAGE = 'usage: kubenode-agent --bootstrap FILE --root DIR --host local|system [--debug]';
const HOSTS = ['local', 'system'] as const;
/** For what is under way when the end comes. */
const GRACE_MS = 3_000;

/**
 * The agent as a program. Units it started go on when it ends. It ends on SIGTERM and SIGINT, and when its parent goes away: a parent
 * that started it with an IPC channel or a pipe as stdin. Exit codes: 0 ended as asked, 1 failed, 64 wrong arguments.
 */
async function main(): Promise<number> {
  let options: { bootstrap?: string; root?: string; host?: string; debug?: boolean };
  try {
    const text = { type: 'string' } as const;
    options = process
      .getBuiltinModule('node:util')
      .parseArgs({ options: { bootstrap: text, root: text, host: text, debug: { type: 'boolean' } } }).values;
  } catch (error) {
    process.stderr.write(`${messageOf(error)}\n${USAGE}\n`);
    return 64;
  }
  const kind = HOSTS.find((each) => each === options.host);
  if (options.bootstrap === undefined || options.root === undefined || kind === undefined) {
    const host = options.host === undefined || kind !== undefined ? '' : `--host must be "local" or "system", got "${options.host}"\n`;
    process.stderr.write(`${host}${USAGE}\n`);
    return 64;
  }
  const folder = resolve(options.root);
  if (kind === 'system' && folder !== '/') {
    process.stderr.write(`--host system needs --root /, got "${options.root}"\n${USAGE}\n`);
    return 64;
  }
  const root = folder === '/' ? '' : folder;
  const bootstrapPath = resolve(options.bootstrap);
  // Keeping the node matters more than its log.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
  const log = lineLog((line) => process.stdout.write(line), options.debug === true);
  const ended = new AbortController();
  const end = (why: string) => (): void => {
    if (ended.signal.aborted) return;
    log.info({ why }, 'ending');
    ended.abort(new Error(why));
    setTimeout(() => process.exit(0), GRACE_MS).unref();
  };
  process.once('SIGTERM', end('SIGTERM'));
  process.once('SIGINT', end('SIGINT'));
  onParentGone(end('the parent is gone'));

  const bootstrap = await readBootstrap(bootstrapPath);
  const clock = systemClock({ ref: true });
  const files = nodeFiles();
  const { host, units } = await (kind === 'system' ? realMachine : folderMachine)({ root, files, clock, log });
  const ports = { clock, random: Math.random, log, signal: ended.signal };
  const identity = createIdentity({
    ...ports,
    machine: bootstrap.machine,
    readToken: async () => (await readBootstrap(bootstrapPath)).token,
    state: identityState(createDurable(files, root), layoutOf(root).state, bootstrap.machine.uid),
    connect: (credentials) => nodeHttpsTransport({ server: bootstrap.server, ca: bootstrap.certificateAuthority, ...credentials }),
    userAgent: `kubenode-agent/${AGENT_VERSION}`,
  });
  const authority =
    bootstrap.mirror === undefined ? {} : { authority: { ca: bootstrap.certificateAuthority, origin: new URL(bootstrap.mirror).origin } };
  log.info({ machine: bootstrap.machine, root, bootID: host.bootID, pid: process.pid }, 'the agent begins');
  try {
    const agent = runAgent({
      ...ports,
      bootstrap,
      bootstrapPath,
      root,
      transport: identity.transport,
      ports: { files, units, network: nodeNetwork(authority), runner: nodeRunner(), host },
    });
    await Promise.all([agent, identity.run()]);
  } finally {
    units.close();
    await identity.close();
  }
  return 0;
}

interface MachinePorts {
  root: string;
  files: Files;
  clock: Clock;
  log: Log;
}

/** A machine that systemd runs; this is its only agent. */
async function realMachine({ files, clock, log }: MachinePorts): Promise<{ host: Host; units: LastingUnits }> {
  const host = await systemHost(nodeSystemctl, nodeSystemdRun);
  await beSole('');
  return { host, units: createSystemdUnits({ files, systemctl: nodeSystemctl, clock, log }) };
}

/** A folder that simulates one. */
async function folderMachine({ root, clock, log }: MachinePorts): Promise<{ host: Host; units: LastingUnits }> {
  return { host: await localHost(root), units: await createSupervisor({ root, clock, log }) };
}

function onParentGone(gone: () => void): void {
  if (process.channel !== undefined) {
    process.once('disconnect', gone);
    return;
  }
  let stdin;
  try {
    stdin = fs.fstatSync(0);
  } catch {
    return;
  }
  // The end of a terminal or /dev/null is not the end of a parent.
  if (!stdin.isFIFO() && !stdin.isSocket()) return;
  process.stdin.once('end', gone);
  process.stdin.once('close', gone);
  process.stdin.on('error', gone);
  process.stdin.resume();
}

try {
  process.exit(await main());
} catch (error) {
  const next = isCoded(error) && error.next !== undefined ? `\nnext: ${error.next}` : '';
  process.stderr.write(`kubenode-agent: ${messageOf(error)}${next}\n`);
  process.exit(1);
}
