import { hostname } from 'node:os';
import { Option, type Command } from 'commander';
import { pino, type Logger } from 'pino';
import { ISOLATIONS } from '../../api/fleet.ts';
import { CELL_KINDS, HUB_KINDS } from '../../api/kinds.ts';
import { SYSTEM_NAMESPACE } from '../../api/names.ts';
import type { Client } from '../../kube/client.ts';
import { systemClock } from '../../kube/clock.ts';
import { createMetrics } from '../../kube/metrics.ts';
import { createServerTime, serverClock, timedTransport } from '../../kube/server-time.ts';
import { connect, connectionFlags } from '../connection.ts';
import { runCell } from '../controller/cell.ts';
import { readFlags, type ControllerFlags } from '../controller/flags.ts';
import { runHub } from '../controller/hub.ts';
import { runTerms, type TermLoop } from '../controller/term-loop.ts';
import { EXIT } from '../exit.ts';
import { createHealth, serveHealth } from '../health.ts';
import { kindsGate } from '../kinds.ts';
import type { ListeningServer } from '../listen.ts';
import { createLog } from '../log.ts';
import type { Ports } from '../ports.ts';
import { version, type RunCommand } from '../program.ts';
import { countRequests } from '../requests.ts';
import { exitWithParent } from '../start/child.ts';

export function controllerCommand(program: Command, run: RunCommand): void {
  connectionFlags(program.command('controller'))
    .description('run the controllers of a hub (commits and rollouts) or of a cell (machines and components)')
    .addOption(new Option('--hub', 'the hub: fleets and rollouts').conflicts('cell'))
    .addOption(new Option('--cell', 'a cell: machines, machine sets, component sets'))
    .addOption(
      new Option('--leader-elect <bool>', 'take turns with other replicas through a Lease').choices(['true', 'false']).default('true'),
    )
    .option(
      '--lease-seconds <n>',
      'how long others wait after a leader was last seen; it renews every 2/15 of that, and steps down after 2/3 without an answer (3 to 3600)',
      '15',
    )
    .option('--cache <dir>', 'folder for what can be made again: rendered bundles, fetched commits (hub; required there)')
    .addOption(
      new Option(
        '--isolation <wall>',
        'weakest wall around the code of a commit that is accepted: "namespaces" of its own, or just a "process" of this user (hub; default: namespaces)',
      ).choices(ISOLATIONS),
    )
    .option('--local-nodes <dir>', "folder of the local provider's nodes (cell)")
    .option('--mirror <url>', 'where new nodes resolve relative artifact URLs (cell)')
    .option('--server <url>', 'how new nodes reach this API server (cell; default: as this process does)')
    .option('--namespace <name>', "namespace of the leader's Lease and of the service accounts", SYSTEM_NAMESPACE)
    .option(
      '--separate-identities',
      'write as the service account of each controller, by impersonation; `kubenode install --cell` grants that (cell)',
    )
    .option(
      '--reserved-node-names <names...>',
      'names of Nodes that KubeNode does not manage, where * stands for any characters: no Machine becomes one of them, though it is not there (cell)',
    )
    .option(
      '--node-domains <domains...>',
      'domains of Nodes: below them kubelets of machines that people made get serving certificates for names with dots (cell)',
    )
    .option(
      '--component-key <line...>',
      'public key, "ssh-ed25519 AAAA… comment", that new nodes pin: they run only components that one of these keys has signed (cell)',
    )
    .option('--health <address>', 'serve /healthz and /readyz at this host:port, or :port (default: not served)')
    .option(
      '--metrics <address>',
      'serve /metrics over TLS at this host:port, or :port, to tokens that the API server lets read that path (default: not served)',
    )
    .addOption(
      new Option('--log-level <level>', 'how much is logged, as JSON lines on stdout')
        .choices(['debug', 'info', 'warn', 'error'])
        .default('info'),
    )
    .action((flags: ControllerFlags) => run(async () => await controller(flags)));
}

async function controller(flags: ControllerFlags): Promise<number> {
  const { role, leaseSeconds } = readFlags(flags);
  const stopped = new AbortController();
  for (const name of ['SIGTERM', 'SIGINT'] as const) process.once(name, () => stopped.abort(new Error(name)));
  exitWithParent(() => stopped.abort(new Error('the parent is gone')));
  const log = logTo(flags.logLevel);
  const clock = systemClock();
  const metrics = createMetrics();
  const time = createServerTime(clock, (apartMs) =>
    log.warn(
      { apartMs: Math.round(apartMs) },
      'the API server contradicts the time it gave before; nothing is decided until that is settled',
    ),
  );
  const connection = await connect(flags, {
    onRenewed: () => log.info({ source: connection.source }, 'the kubeconfig has changed; going on with it'),
    through: (transport) => timedTransport(countRequests(transport, 'own', { metrics, clock }), time, clock),
  });
  const { client } = connection;
  const reach = (signal: AbortSignal): Promise<unknown> => client.request({ method: 'GET', path: '/version', signal });
  const health = createHealth({ role, version: version(), clock, reach, metrics });
  const gate = kindsGate({
    client,
    kinds: role === 'hub' ? HUB_KINDS : CELL_KINDS,
    install: `kubenode install --${role} | kubectl apply --server-side -f -`,
    clock,
    log,
    onTrouble: (why) => health.blocked(why),
  });
  const ports: Ports = { client: gate.client, clock: serverClock(clock, time), random: Math.random, log, signal: stopped.signal, metrics };
  const work: TermLoop['work'] = async (signal, term) =>
    role === 'hub' ? await runHub({ ...ports, signal }, flags, term) : await runCell({ ...ports, signal }, flags, connection, term);
  const { namespace } = flags;
  const lease =
    flags.leaderElect === 'false'
      ? undefined
      : { namespace, name: `kubenode-${role}`, identity: `${hostname()}_${crypto.randomUUID()}`, seconds: leaseSeconds };
  const served: ListeningServer[] = [];

  // While it waits for its server nothing else keeps it alive: its timers do not.
  const alive = setInterval(() => undefined, 2 ** 30);
  log.info({ role, server: connection.server, leaderElect: flags.leaderElect }, 'starting');
  try {
    if (flags.health !== undefined) served.push(await serveHealth(health, flags.health));
    if (flags.metrics !== undefined) served.push(await metricsAt(flags.metrics, client, () => health.metrics(), log));
    await runTerms({ ports, clock, time, client, gate, health, lease, work });
  } catch (error) {
    if (!stopped.signal.aborted) throw error;
  } finally {
    clearInterval(alive);
    await Promise.all(served.map((each) => each.close()));
    await connection.close();
  }
  log.info({ role }, 'stopped');
  return EXIT.ok;
}

function logTo(level: string): Logger {
  const destination = pino.destination({ dest: 1, sync: true });
  // It writes past the stream of that name, on the same descriptor.
  destination.on('error', (error) => process.stdout.emit('error', error));
  return createLog(level, destination);
}

/** With a certificate of its own making, for as long as this process lives. */
async function metricsAt(listen: string, client: Client, text: () => string, log: Logger): Promise<ListeningServer> {
  const [{ serveMetrics }, { metricsAccess }, { makeAuthority, makeServerCertificate }] = await Promise.all([
    import('../metrics-server.ts'),
    import('../metrics-access.ts'),
    import('@kubenode/embedded/pki'),
  ]);
  const making = { now: Date.now(), random: Math.random };
  const identity = await makeServerCertificate(await makeAuthority('kubenode-metrics', making), making);
  return await serveMetrics({ listen, identity, mayRead: metricsAccess(client), text, log });
}
