import { hostname } from 'node:os';
import { join } from 'node:path';
import { Option, type Command } from 'commander';
import { pino, type Logger } from 'pino';
import { parseKeys } from '../../api/component-key.ts';
import { CodedError, isCoded, messageOf } from '../../api/errors.ts';
import { ISOLATIONS } from '../../api/fleet.ts';
import type { Clock } from '../../api/ports.ts';
import type { Transport } from '../../api/transport.ts';
import { serviceAccountUser } from '../../api/identity.ts';
import { CELL_KINDS, HUB_KINDS } from '../../api/kinds.ts';
import { SYSTEM_NAMESPACE } from '../../api/names.ts';
import { createCache } from '../../kube/cache.ts';
import { sleep, systemClock } from '../../kube/clock.ts';
import { runLeaderElection, type Term } from '../../kube/lease.ts';
import { createMetrics } from '../../kube/metrics.ts';
import { createRecorder } from '../../kube/recorder.ts';
import { createServerTime, serverClock, timedTransport, type ServerTime } from '../../kube/server-time.ts';
import { termClient } from '../../kube/term-client.ts';
import type { Client } from '../../kube/client.ts';
import { connect, connectionFlags, type Connected, type ConnectionFlags } from '../connection.ts';
import { EXIT } from '../exit.ts';
import { createHealth, serveHealth } from '../health.ts';
import { kindsGate } from '../kinds.ts';
import { createLog } from '../log.ts';
import type { Listening } from '../listen.ts';
import { countRequests } from '../requests.ts';
import { requireDomains } from '../node-domains.ts';
import { together, type Ports } from '../ports.ts';
import { version, type Run } from '../program.ts';
import type { Isolation } from '../../sync/render/wall.ts';
import { exitWithParent } from '../start/child.ts';

interface Flags extends ConnectionFlags {
  hub?: boolean;
  cell?: boolean;
  leaderElect: string;
  leaseSeconds: string;
  cache?: string;
  isolation?: Isolation;
  localNodes?: string;
  mirror?: string;
  namespace: string;
  server?: string;
  separateIdentities?: boolean;
  reservedNodeNames?: string[];
  nodeDomains?: string[];
  componentKey?: string[];
  health?: string;
  metrics?: string;
  logLevel: string;
}

export function controllerCommand(program: Command, run: Run): void {
  connectionFlags(program.command('controller'))
    .description('run the controllers of a hub (commits and rollouts) or of a cell (machines and components)')
    .addOption(new Option('--hub', 'the hub: fleets and rollouts').conflicts('cell'))
    .addOption(new Option('--cell', 'a cell: machines, machine sets, component sets'))
    .addOption(
      new Option('--leader-elect <bool>', 'take turns with other replicas through a Lease').choices(['true', 'false']).default('true'),
    )
    .option(
      '--lease-seconds <n>',
      'how long others wait after a leader was last heard of; it renews every 2/15 of that, and steps down after 2/3 without an answer (3 to 3600)',
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
    .action((flags: Flags) => run(async () => await controller(flags)));
}

async function controller(flags: Flags): Promise<number> {
  if (flags.hub !== true && flags.cell !== true) throw new CodedError('Usage', 'say which controllers to run: --hub or --cell');
  if (flags.hub === true && flags.cache === undefined)
    throw new CodedError('Usage', '--hub needs --cache DIR, a folder for what can be made again');
  for (const name of [
    'server',
    'separateIdentities',
    'mirror',
    'localNodes',
    'reservedNodeNames',
    'nodeDomains',
    'componentKey',
  ] as const) {
    if (flags.hub === true && flags[name] !== undefined)
      throw new CodedError('Usage', `--${name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)} is for --cell`);
  }
  if (flags.cell === true && flags.isolation !== undefined) throw new CodedError('Usage', '--isolation is for --hub');
  if (flags.server !== undefined && !/^https:\/\/[^/?#]+\/?$/.test(flags.server))
    throw new CodedError('Usage', `\`--server\` must be https://host:port, got "${flags.server}"`);
  requireDomains(flags.nodeDomains);
  const leaseSeconds = Number(flags.leaseSeconds);
  if (!Number.isInteger(leaseSeconds) || leaseSeconds < 3 || leaseSeconds > 3600)
    throw new CodedError('Usage', `\`--lease-seconds\` must be whole seconds from 3 to 3600, got "${flags.leaseSeconds}"`);
  const stopped = new AbortController();
  for (const name of ['SIGTERM', 'SIGINT'] as const) process.once(name, () => stopped.abort(new Error(name)));
  exitWithParent(() => stopped.abort(new Error('the parent is gone')));
  const log = logTo(flags.logLevel);
  const role = flags.hub === true ? 'hub' : 'cell';
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
  const reach = (signal: AbortSignal): Promise<unknown> => connection.client.request({ method: 'GET', path: '/version', signal });
  const health = createHealth({ role, version: version(), clock, reach, metrics });
  const served: Listening[] = [];
  const gate = kindsGate({
    client: connection.client,
    kinds: role === 'hub' ? HUB_KINDS : CELL_KINDS,
    install: `kubenode install --${role} | kubectl apply --server-side -f -`,
    clock,
    log,
    onTrouble: (why) => health.blocked(why),
  });
  const ports: Ports = { client: gate.client, clock: serverClock(clock, time), random: Math.random, log, signal: stopped.signal, metrics };
  const work =
    flags.hub === true
      ? (signal: AbortSignal, term: Leading | undefined) => runHub({ ...ports, signal }, flags, term)
      : (signal: AbortSignal, term: Leading | undefined) => runCell({ ...ports, signal }, flags, connection, term);
  const timely = async (signal: AbortSignal, term: Leading | undefined): Promise<void> => {
    for (;;) {
      await timeKnown(time, connection.client, clock, signal);
      if (signal.aborted) return;
      try {
        return await work(signal, term);
      } catch (error) {
        if (!isCoded(error, 'ServerTimeUnknown')) throw error;
        log.warn({ error: messageOf(error) }, 'the work is begun again when the time of the API server is known');
      }
    }
  };

  // While it waits for its server nothing else keeps it alive: its timers do not.
  const alive = setInterval(() => undefined, 2 ** 30);
  log.info({ role, server: connection.server, leaderElect: flags.leaderElect }, 'starting');
  try {
    if (flags.health !== undefined) served.push(await serveHealth(health, flags.health));
    if (flags.metrics !== undefined) served.push(await metricsAt(flags.metrics, connection.client, () => health.metrics(), log));
    const lead = (signal: AbortSignal, term?: Leading): Promise<void> =>
      gate.during(signal, (signal) => health.lead(signal, () => timely(signal, term)));
    const identity = `${hostname()}_${crypto.randomUUID()}`;
    const lease = { namespace: flags.namespace, name: `kubenode-${role}`, identity, ...leaseTimes(leaseSeconds) };
    for (;;) {
      await gate.fit(stopped.signal);
      if (stopped.signal.aborted) break;
      if (flags.leaderElect === 'false') {
        await lead(stopped.signal);
        continue;
      }
      // Who leads is found by the own clock alone (docs/protocols.md#h5).
      await runLeaderElection({ ...ports, clock, ...lease }, async (term) => {
        try {
          await lead(AbortSignal.any([term.signal, stopped.signal]), term);
        } catch (error) {
          // By the ledger a later term was met: this one is over, and another may be begun, whether or not the clock has told it too.
          if (!isCoded(error, 'Deposed')) throw error;
          log.warn({ error: messageOf(error) }, 'the term is over');
        }
      });
    }
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

/** Resolves when the API server's time is known, or the signal is aborted: nothing is begun without (docs/protocols.md#h5). */
async function timeKnown(time: ServerTime, client: Client, clock: Clock, signal: AbortSignal): Promise<void> {
  while (time.estimate() === undefined && !signal.aborted) {
    await client.request({ method: 'GET', path: '/version', signal }).catch(() => undefined);
    if (time.estimate() === undefined) await sleep(clock, 1000, signal).catch(() => undefined);
  }
}

function logTo(level: string): Logger {
  const destination = pino.destination({ dest: 1, sync: true });
  // It writes past the stream of that name, on the same descriptor.
  destination.on('error', (error) => process.stdout.emit('error', error));
  return createLog(level, destination);
}

/** What the work of one term asks of it; absent where no Lease is held. */
type Leading = Pick<Term, 'holds' | 'require'>;

/** Begins no write after its term. */
const within = (term: Leading | undefined, client: Client): Client => (term === undefined ? client : termClient(client, term));

/** In the proportions of Kubernetes' own components: 15, 10 and 2 seconds. */
const leaseTimes = (seconds: number) => ({
  durationMs: seconds * 1000,
  renewDeadlineMs: (seconds * 2000) / 3,
  retryPeriodMs: (seconds * 2000) / 15,
});

/** With a certificate of its own making, for as long as this process lives. */
async function metricsAt(listen: string, client: Client, text: () => string, log: Logger): Promise<Listening> {
  const [{ serveMetrics }, { metricsAccess }, { makeAuthority, makeServerCertificate }] = await Promise.all([
    import('../metrics-server.ts'),
    import('../metrics-access.ts'),
    import('@kubenode/embedded/pki'),
  ]);
  const making = { now: Date.now(), random: Math.random };
  const identity = await makeServerCertificate(await makeAuthority('kubenode-metrics', making), making);
  return await serveMetrics({ listen, identity, mayRead: metricsAccess(client), text, log });
}

async function runHub(given: Ports, flags: Flags, term: Leading | undefined): Promise<void> {
  const ports = { ...given, client: within(term, given.client) };
  const [
    { runFleetController },
    { runRolloutController },
    { openCheckouts },
    { openBundles },
    { openFence },
    { checkRules },
    { judgeObject },
    { clientFromKubeconfig },
    { showHub },
  ] = await Promise.all([
    import('../../sync/fleet/controller.ts'),
    import('../../sync/rollout/controller.ts'),
    import('../../sync/fleet/checkouts.ts'),
    import('../../sync/bundles.ts'),
    import('../../sync/fence.ts'),
    import('../../rules/check.ts'),
    import('../object-rules.ts'),
    import('../remote.ts'),
    import('../state-metrics.ts'),
  ]);
  const dir = flags.cache ?? '';
  const bundles = openBundles(join(dir, 'units'));
  const childPath = await renderChild();
  await together(ports.signal, [
    async (signal) => {
      const cache = createCache({ ...ports, signal });
      const { metrics } = ports;
      const endShow = metrics === undefined ? undefined : showHub(metrics, cache);
      const connect = async (text: string): ReturnType<typeof clientFromKubeconfig> => {
        const counted = (transport: Transport) =>
          metrics === undefined ? transport : countRequests(transport, 'cells', { metrics, clock: ports.clock });
        const cell = await clientFromKubeconfig(text, counted);
        return { ...cell, client: within(term, cell.client) };
      };
      const recorder = createRecorder({ ...ports, signal, component: 'kubenode-sync', instance: 'hub' });
      const checkouts = openCheckouts({
        ...ports,
        signal,
        cacheDir: join(dir, 'git'),
        childPath,
        isolation: flags.isolation ?? 'namespaces',
        checkRules,
        judgeObject,
      });
      const fence = openFence({ ...ports, signal, holds: term?.holds });
      await together(signal, [
        (signal) => runFleetController({ ...ports, signal, cache, bundles, checkouts, fence, recorder }),
        (signal) =>
          runRolloutController({
            ...ports,
            signal,
            cache,
            bundles,
            connect,
            fence,
            render: (...call) => checkouts.unit(...call),
            recorder,
          }),
      ]);
      await checkouts.closeAll();
      endShow?.();
      await cache.done();
    },
  ]);
}

/** From a checkout the child is bundled when its sources changed; a published package ships it. */
async function renderChild(): Promise<string> {
  const { bundleFor } = await import('../bundles.ts');
  return await bundleFor('render');
}

async function runCell(ports: Ports, flags: Flags, connection: Connected, term: Leading | undefined): Promise<void> {
  const { runCellControllers } = await import('../cell.ts');
  const as = (writer: string): Client => within(term, connection.as(serviceAccountUser(flags.namespace, writer)));
  await runCellControllers(
    { ...ports, client: within(term, ports.client) },
    {
      namespace: flags.namespace,
      localNodes: flags.localNodes,
      mirror: flags.mirror,
      server: flags.server ?? connection.server,
      certificateAuthority: connection.ca,
      ...componentKeys(flags.componentKey),
      ...(flags.reservedNodeNames === undefined ? {} : { reservedNodeNames: flags.reservedNodeNames }),
      ...(flags.nodeDomains === undefined ? {} : { nodeDomains: flags.nodeDomains }),
      serverURLs: connection.urls,
      ...(flags.separateIdentities === true ? { as } : {}),
    },
  );
}

/** Errors: `KeysInvalid`. */
function componentKeys(lines: readonly string[] | undefined): { componentKeys?: string } {
  if (lines === undefined) return {};
  const text = lines.join('\n');
  parseKeys(text, '`--component-key`');
  return { componentKeys: text };
}
