import { execFile } from 'node:child_process';
import { freemem } from 'node:os';
import { createServer } from 'node:net';
import { promisify } from 'node:util';
import type { Command } from 'commander';
import { isCoded, messageOf } from '../../api/errors.ts';
import { cliErrorCodes } from '../errors.ts';
import { HUB_KINDS, CELL_KINDS } from '../../api/kinds.ts';
import { CustomResourceDefinitions } from '../../api/builtin.ts';
import { connect, connectionFlags, type ConnectionFlags } from '../connection.ts';
import { EXIT } from '../exit.ts';
import { outputFlag } from '../output-flag.ts';
import type { RunCommand } from '../program.ts';
import { DEFAULT_PORTS } from './start.ts';

export interface CheckFinding {
  name: string;
  ok: boolean | 'warning';
  found: string;
  wanted: string;
  next?: string;
}

export function checkCommand(program: Command, run: RunCommand): void {
  connectionFlags(program.command('check'))
    .description('check prerequisites: print what was found and what is wanted; exit code 1 when something is missing')
    .option('--pre', 'only this machine: no API server is asked')
    .addOption(outputFlag(['json'], 'one JSON line a finding'))
    .action((flags: ConnectionFlags & { pre?: boolean; output?: 'json' }) =>
      run(async (output) => {
        const findings = [...(await machine()), ...(flags.pre === true ? [] : await server(flags))];
        for (const finding of findings) {
          if (flags.output === 'json') output.print(JSON.stringify(finding));
          else {
            output.report(
              finding.ok === true ? 'done' : finding.ok === 'warning' ? 'warning' : 'failed',
              `${finding.name}: ${finding.found} (wanted: ${finding.wanted})`,
            );
            if (finding.ok !== true && finding.next !== undefined) process.stderr.write(`  next: ${finding.next}\n`);
          }
        }
        return findings.every((finding) => finding.ok !== false) ? EXIT.ok : EXIT.failed;
      }),
    );
}

async function machine(): Promise<CheckFinding[]> {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const git = await commandVersion('git', ['--version']);
  const kubectl = await commandVersion('kubectl', ['version', '--client']);
  const { walls } = await import('../../sync/render/wall.ts');
  const isolation = (await walls())[0]?.isolation ?? 'process';
  const gigabytes = freemem() / 2 ** 30;
  const ports = await Promise.all(
    Object.entries(DEFAULT_PORTS).map(async ([name, port]): Promise<CheckFinding> => {
      const free = await isFree(port);
      return {
        name: `port ${port}`,
        ok: free ? true : 'warning',
        found: free ? 'free' : 'in use',
        wanted: `free, for ${name} of kubenode start`,
        next: 'it may be KubeNode itself; else choose others: kubenode start --port PORT --artifacts-port PORT',
      };
    }),
  );
  return [
    {
      name: 'Node',
      ok: major > 24 || (major === 24 && minor >= 12),
      found: process.versions.node,
      wanted: '24.12 or newer',
      next: 'npm install (brings it as a development dependency)',
    },
    {
      name: 'system',
      ok: ['linux', 'darwin'].includes(process.platform) ? true : 'warning',
      found: `${process.platform}/${process.arch}`,
      wanted: 'linux or darwin',
    },
    {
      name: 'git',
      ok: git === undefined ? 'warning' : true,
      found: git ?? 'not found',
      wanted: 'any, to commit to the fleet',
      next: 'install git; KubeNode itself reads repositories without it',
    },
    {
      name: 'kubectl',
      ok: kubectl === undefined ? 'warning' : true,
      found: kubectl ?? 'not found',
      wanted: 'any, to explore',
      next: 'install kubectl',
    },
    {
      name: 'free memory',
      ok: gigabytes >= 2 ? true : 'warning',
      found: `${gigabytes.toFixed(1)} GiB`,
      wanted: '2 GiB for kubenode start',
    },
    {
      name: 'isolation of rendering',
      ok: isolation === 'process' ? 'warning' : true,
      found: isolation,
      wanted: 'namespaces',
      next: 'fleet code of people you do not trust wants a wall: install util-linux with user namespaces, or bubblewrap',
    },
    ...ports,
  ];
}

async function server(flags: ConnectionFlags): Promise<CheckFinding[]> {
  let connection: Awaited<ReturnType<typeof connect>>;
  try {
    connection = await connect(flags);
  } catch (error) {
    const isRefused = isCoded(error, cliErrorCodes, 'FoundKubeconfigRefused');
    return [
      {
        name: 'kubeconfig',
        ok: isRefused ? false : 'warning',
        found: messageOf(error),
        wanted: 'one that reaches a hub or a cell',
        next: (isRefused ? error.next : undefined) ?? 'kubenode start, or name one: --kubeconfig FILE --context NAME',
      },
    ];
  }
  try {
    const version = (await connection.client.request({ method: 'GET', path: '/version' })) as { gitVersion?: string };
    const crds = (await connection.client.listAll(CustomResourceDefinitions)).items.map((crd) => crd.metadata.name);
    const missing = (kinds: typeof HUB_KINDS): string[] =>
      kinds.map((kind) => `${kind.plural}.${kind.group}`).filter((name) => !crds.includes(name));
    const [hub, cell] = [missing(HUB_KINDS), missing(CELL_KINDS)];
    const role = [...(hub.length === 0 ? ['hub'] : []), ...(cell.length === 0 ? ['cell'] : [])].join(' and ');
    return [
      {
        name: 'API server',
        ok: true,
        found: `${version.gitVersion ?? 'unknown version'} at ${connection.server}`,
        wanted: 'one that answers',
      },
      {
        name: 'kinds',
        ok: role !== '',
        found: role === '' ? `neither hub nor cell; absent: ${[...hub, ...cell].join(', ')}` : role,
        wanted: 'the CustomResourceDefinitions of a hub or a cell',
      },
    ];
  } catch (error) {
    return [{ name: 'API server', ok: false, found: messageOf(error), wanted: `an answer of ${connection.server}` }];
  } finally {
    await connection.close();
  }
}

async function commandVersion(command: string, args: string[]): Promise<string | undefined> {
  try {
    return (await promisify(execFile)(command, args, { timeout: 5000 })).stdout.split('\n')[0]?.trim();
  } catch {
    return undefined;
  }
}

async function isFree(port: number): Promise<boolean> {
  return await new Promise((resolve) => {
    const server = createServer().once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
