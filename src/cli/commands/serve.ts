import { join, resolve } from 'node:path';
import type { Command } from 'commander';
import { parse, stringify } from 'yaml';
import { LEFT_OUT, openCluster, serve, type EmbeddedCluster } from '@kubenode/embedded';
import { systemClock } from '../../kube/clock.ts';
import { EXIT } from '../exit.ts';
import type { Output } from '../output.ts';
import { writePrivateFile } from '../private-file.ts';
import type { RunCommand } from '../program.ts';
import { exitWithParent } from '../start/child.ts';
import { cliError } from '../errors.ts';

/** As kube-controller-manager's --node-monitor-grace-period. */
const NODE_GRACE_MS = 40_000;

interface Flags {
  listen: string;
  state: string;
  clusters: string;
  writeKubeconfig?: string;
}

export function serveCommand(program: Command, run: RunCommand): void {
  program
    .command('serve')
    .description('serve the Kubernetes API from this process: for trying things, tests and simulation; not for production')
    .option(
      '--listen <address>',
      'loopback address and port, of the first cluster; the others take the ports after it; port 0 takes free ones',
      '127.0.0.1:7443',
    )
    .option('--state <where>', '"memory", or a folder that keeps everything', 'memory')
    .option('--clusters <names>', 'clusters to serve, each an API server of its own with a port of its own', 'default')
    .option('--write-kubeconfig <file>', 'write a kubeconfig with a context for each cluster (mode 0600)')
    .addHelpText('after', `\nLeft out:\n${LEFT_OUT.map((line) => `  - ${line}`).join('\n')}\n`)
    .action((flags: Flags) => run((output) => serveClusters(flags, output)));
}

async function serveClusters(flags: Flags, output: Output): Promise<number> {
  const clock = systemClock({ ref: true });
  const log = { error: (fields: object, message: string) => output.report('warning', `${message} ${JSON.stringify(fields)}`) };
  const dir = flags.state === 'memory' ? undefined : resolve(flags.state);
  const names = flags.clusters.split(',').map((name) => name.trim());
  for (const name of names) {
    if (!/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(name))
      throw cliError('Usage', `--clusters must be lower-case names with commas between, got "${flags.clusters}"`);
  }
  const clusters: EmbeddedCluster[] = [];
  const stopped = Promise.withResolvers<void>();
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => stopped.resolve());
  exitWithParent(() => stopped.resolve());
  try {
    for (const name of names)
      clusters.push(
        await openCluster({
          name,
          state: dir === undefined ? 'memory' : { dir: join(dir, name) },
          clock,
          authorization: 'RBAC',
          nodeGraceMs: NODE_GRACE_MS,
          log,
        }),
      );
    const server = await serve({ clusters, listen: flags.listen, state: dir === undefined ? 'memory' : { dir }, clock, log });
    if (flags.writeKubeconfig !== undefined)
      await writeKubeconfig(
        resolve(flags.writeKubeconfig),
        names.map((name) => server.kubeconfig(name)),
      );
    output.report(
      'done',
      `serving ${names.map((name) => `${name} at ${server.urlOf(name)}`).join(', ')}${flags.writeKubeconfig === undefined ? '' : `; kubectl --kubeconfig ${flags.writeKubeconfig} get ns`}`,
    );
    await stopped.promise;
    await server.close();
  } finally {
    for (const cluster of clusters) await cluster.close();
  }
  return EXIT.ok;
}

/** One file with all contexts; whole or not there. */
async function writeKubeconfig(file: string, texts: string[]): Promise<void> {
  const configs = texts.map((text) => parse(text) as Record<'clusters' | 'contexts' | 'users', unknown[]> & { 'current-context': string });
  const merged = {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': configs[0]?.['current-context'],
    clusters: configs.flatMap((config) => config.clusters),
    contexts: configs.flatMap((config) => config.contexts),
    users: configs.flatMap((config) => config.users),
  };
  await writePrivateFile(file, stringify(merged));
}
