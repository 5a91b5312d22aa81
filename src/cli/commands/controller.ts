import { join } from 'node:path';
import { Option, type Command } from 'commander';
import { pino } from 'pino';
import { CodedError } from '../../api/errors.ts';
import { SYSTEM_NAMESPACE } from '../../api/names.ts';
import { createCache } from '../../kube/cache.ts';
import { systemClock } from '../../kube/clock.ts';
import { runLeaderElection } from '../../kube/lease.ts';
import { createRecorder } from '../../kube/recorder.ts';
import { connect, connectionFlags, type ConnectionFlags } from '../connection.ts';
import { EXIT } from '../exit.ts';
import { together, type Ports } from '../ports.ts';
import type { Run } from '../main.ts';
import { exitWithParent } from '../start/child.ts';

interface Flags extends ConnectionFlags {
  hub?: boolean;
  cell?: boolean;
  leaderElect: string;
  cache?: string;
  localNodes?: string;
  mirror?: string;
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
    .option('--cache <dir>', 'folder for what can be made again: rendered bundles, fetched commits (hub; required there)')
    .option('--local-nodes <dir>', "folder of the local provider's nodes (cell)")
    .option('--mirror <url>', 'where new nodes resolve relative artifact URLs (cell)')
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
  const stopped = new AbortController();
  for (const name of ['SIGTERM', 'SIGINT'] as const) process.once(name, () => stopped.abort(new Error(name)));
  exitWithParent(() => stopped.abort(new Error('the parent is gone')));
  const log = pino({ level: flags.logLevel, base: { pid: process.pid } });
  const connection = await connect(flags);
  const ports: Ports = { client: connection.client, clock: systemClock(), random: Math.random, log, signal: stopped.signal };
  const role = flags.hub === true ? 'hub' : 'cell';
  const work =
    flags.hub === true
      ? (signal: AbortSignal) => runHub({ ...ports, signal }, flags)
      : (signal: AbortSignal) => runCell({ ...ports, signal }, flags, connection);

  log.info({ role, server: connection.server, leaderElect: flags.leaderElect }, 'starting');
  try {
    if (flags.leaderElect === 'true') {
      const identity = `${(await import('node:os')).hostname()}_${crypto.randomUUID()}`;
      await runLeaderElection({ ...ports, namespace: SYSTEM_NAMESPACE, name: `kubenode-${role}`, identity }, (term) =>
        work(AbortSignal.any([term.signal, stopped.signal])),
      );
    } else {
      await work(stopped.signal);
    }
  } catch (error) {
    if (!stopped.signal.aborted) throw error;
  } finally {
    await connection.close();
  }
  log.info({ role }, 'stopped');
  return EXIT.ok;
}

async function runHub(ports: Ports, flags: Flags): Promise<void> {
  const [{ runFleetController }, { runRolloutController }, { openCheckouts }, { openBundles }, { checkRules }, { clientFromKubeconfig }] =
    await Promise.all([
      import('../../sync/fleet/controller.ts'),
      import('../../sync/rollout/controller.ts'),
      import('../../sync/fleet/checkouts.ts'),
      import('../../sync/bundles.ts'),
      import('../../rules/check.ts'),
      import('../remote.ts'),
    ]);
  const dir = flags.cache ?? '';
  const bundles = openBundles(join(dir, 'units'));
  const childPath = await renderChild();
  await together(ports.signal, [
    async (signal) => {
      const cache = createCache({ ...ports, signal });
      const recorder = createRecorder({ ...ports, signal, component: 'kubenode-sync', instance: 'hub' });
      const checkouts = openCheckouts({ ...ports, signal, cacheDir: join(dir, 'git'), childPath, checkRules });
      await together(signal, [
        (signal) => runFleetController({ ...ports, signal, cache, bundles, checkouts, recorder }),
        (signal) =>
          runRolloutController({
            ...ports,
            signal,
            cache,
            bundles,
            connect: clientFromKubeconfig,
            render: (...call) => checkouts.unit(...call),
            recorder,
          }),
      ]);
      await checkouts.closeAll();
      await cache.done();
    },
  ]);
}

/** From a checkout the child is bundled when its sources changed; a published package ships it. */
async function renderChild(): Promise<string> {
  const { bundleFor } = await import('../bundles.ts');
  return await bundleFor('render');
}

async function runCell(ports: Ports, flags: Flags, connection: { server: string; ca: string | undefined }): Promise<void> {
  const { runCellControllers } = await import('../cell.ts');
  await runCellControllers(ports, {
    localNodes: flags.localNodes,
    mirror: flags.mirror,
    server: connection.server,
    certificateAuthority: connection.ca,
  });
}
