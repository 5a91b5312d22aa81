import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { Option, type Command } from 'commander';
import { EXIT } from '../exit.ts';
import type { Output } from '../output.ts';
import type { RunCommand } from '../program.ts';
import { cliError } from '../errors.ts';

export const DEFAULT_PORTS = { 'the API servers': 7443, artifacts: 7480 } as const;

interface Flags {
  state: string;
  repository: string;
  branch?: string;
  port: string;
  artifactsPort: string;
  controlPlanes?: string;
  color?: boolean;
}

export function startCommand(program: Command, run: RunCommand): void {
  program
    .command('start')
    .description('run a whole fleet on this machine: hub, three cells and their nodes, following the commits of a repository')
    .option('--state <dir>', 'folder for everything that is kept; another start with it goes on where this one was', '.kubenode')
    .option('--repository <dir>', 'the fleet repository, read where it is: only commits count', '.')
    .option('--branch <name>', 'branch to follow (default: the one checked out there)')
    .addOption(
      new Option(
        '--port <port>',
        'port of the API server of the hub on 127.0.0.1; the cells take the three after it; 0 chooses free ones and keeps them',
      ).default(String(DEFAULT_PORTS['the API servers'])),
    )
    .addOption(
      new Option('--artifacts-port <port>', 'port of the artifact mirror on 127.0.0.1; 0 chooses one and keeps it').default(
        String(DEFAULT_PORTS.artifacts),
      ),
    )
    .addOption(
      new Option(
        '--control-planes <kubeconfig>',
        'use these API servers and start none: contexts hub, test, pre and prod, as administrator. All that `kubenode install` prints is made there but its Deployments, which run here; nothing is deleted',
      ).conflicts('port'),
    )
    .action((flags: Flags) => run(async (output) => await start(flags, output)));
}

function port(text: string, flag: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 0 || value > 65_535)
    throw cliError('Usage', `${flag} must be a port from 0 to 65535, got "${text}"`);
  return value;
}

async function start(flags: Flags, output: Output): Promise<number> {
  const { startLocal } = await import('../start/local.ts');
  const repository = resolve(flags.repository);
  const stopped = Promise.withResolvers<void>();
  let asked = 0;
  const onSignal = (): void => {
    asked += 1;
    if (asked === 1) {
      output.report('doing', 'stopping: nodes are powered off, their data is kept');
      stopped.resolve();
    }
  };
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
  process.on('SIGHUP', onSignal);
  const running = await startLocal({
    state: resolve(flags.state),
    repository: existsSync(join(repository, '.git')) || existsSync(join(repository, 'HEAD')) ? repository : undefined,
    source: repository,
    ...(flags.branch === undefined ? {} : { branch: flags.branch }),
    ports: { server: port(flags.port, '--port'), artifacts: port(flags.artifactsPort, '--artifacts-port') },
    ...(flags.controlPlanes === undefined ? {} : { controlPlanes: resolve(flags.controlPlanes) }),
    output,
    until: stopped.promise,
  });
  await stopped.promise;
  await running.stop();
  output.report('done', `stopped; ${flags.state} has everything for the next start`);
  return EXIT.ok;
}
