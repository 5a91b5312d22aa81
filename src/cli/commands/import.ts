import { readFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { parseKeys } from '../../api/component-key.ts';
import { messageOf } from '../../api/errors.ts';
import { systemClock } from '../../kube/clock.ts';
import { openSsh } from '../../ssh/openssh.ts';
import { connect, connectionFlags, type ConnectionFlags } from '../connection.ts';
import type { Output } from '../output.ts';
import { outputFlag } from '../output-flag.ts';
import type { RunCommand } from '../program.ts';
import { importCell } from '../import/cell.ts';
import { hostKeysOf, type Confirming } from '../import/confirm.ts';
import { fingerprint, parseHost, parseHostsFile, requireDistinct, type ImportHost } from '../import/hosts.ts';
import { exitCodeOf, importAll, tableOf } from '../import/import-all.ts';
import { defaultKnownHosts, openKnownHosts } from '../import/known-hosts.ts';
import { openPackages } from '../import/packages.ts';
import { cliError } from '../errors.ts';

interface Flags extends ConnectionFlags {
  pool: string;
  hosts?: string;
  name?: string;
  fingerprint?: string;
  knownHosts?: string;
  user: string;
  port: string;
  identity?: string;
  sshConfig?: string;
  sudo: boolean;
  label: string[];
  server?: string;
  mirror?: string;
  componentKeys?: string;
  hold?: boolean;
  parallel: string;
  timeout: string;
  dryRun?: boolean;
  output?: 'json';
}

const collect = (value: string, all: string[]): string[] => [...all, value];

export function importCommand(program: Command, run: RunCommand): void {
  connectionFlags(program.command('import [hosts...]'))
    .description('import existing machines into a cell: install the agent over SSH, and admit it')
    .requiredOption('--pool <name>', 'namespace of their Machines')
    .option('--hosts <file>', 'one machine a line: [user@]host[:port] [name=NAME] [fingerprint=SHA256:…]')
    .option('--name <name>', 'name of the Machine and its Node (one machine; default: its hostname)')
    .option(
      '--fingerprint <sha256>',
      'of its host key, as ssh-keygen -l prints it on the machine (one machine; default: known, or shown and asked)',
    )
    .option('--known-hosts <file>', 'where confirmed host keys are kept (default: ~/.local/state/kubenode/known_hosts)')
    .option('--user <name>', 'login user: root, or a user who may sudo without a password', 'root')
    .option('--port <number>', "of the machine's sshd", '22')
    .option('-i, --identity <file>', 'private key (default: the keys of ssh-agent)')
    .option('--ssh-config <file>', 'configuration of ssh, for jump hosts; the one in your home folder is not read')
    .option('--no-sudo', 'the user is root under another name')
    .option('--label <key=value>', 'label of the Machine and its Node; can be repeated', collect, [])
    .option('--server <url>', 'how the machines reach the API server: https://host:port (default: as in the kubeconfig)')
    .option('--mirror <url>', 'where the machines resolve relative artifact URLs')
    .option('--component-keys <file>', 'public keys that the machines pin: they run only components that one of them has signed')
    .option('--hold', 'the agent reports and changes nothing until /etc/kubenode/hold is removed on the machine')
    .option('--parallel <count>', 'machines side by side', '10')
    .option('--timeout <seconds>', 'how long to wait for the first report of each agent', '120')
    .option('--dry-run', 'only check whether each can be imported')
    .addOption(outputFlag(['json'], 'one JSON list'))
    .addHelpText(
      'after',
      `
  kubenode import 10.0.0.7 --pool web -i ~/.ssh/id_ed25519
  kubenode import --pool web --hosts machines.txt --parallel 50 -o json
It can be interrupted and run again at any moment: it checks, and goes on. docs/nodes.md describes what it does on a machine.`,
    )
    .action((hosts: string[], flags: Flags) => run((output) => importMachines(hosts, flags, output)));
}

async function importMachines(words: string[], flags: Flags, output: Output): Promise<number> {
  const hosts = await hostsOf(words, flags);
  const parallel = whole('--parallel', flags.parallel, 500);
  const joinSeconds = whole('--timeout', flags.timeout, 86_400);
  const labels = labelsOf(flags.label);
  const componentKeys = flags.componentKeys === undefined ? undefined : await readFile(flags.componentKeys, 'utf8');
  if (componentKeys !== undefined) parseKeys(componentKeys, flags.componentKeys ?? '');
  if (flags.server !== undefined && !/^https:\/\/[^/?#]+\/?$/.test(flags.server))
    throw cliError('Usage', `\`--server\` must be https://host:port, got "${flags.server}"`);
  if (flags.mirror !== undefined && !(URL.canParse(flags.mirror) && flags.mirror.endsWith('/')))
    throw cliError('Usage', `\`--mirror\` must be a URL that ends with a slash, got "${flags.mirror}"`);

  const ended = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM'] as const)
    process.once(name, () => ended.abort(cliError('Interrupted', `ended by ${name}; run it again to go on`)));
  const { signal } = ended;
  const clock = systemClock({ ref: true });
  let aheadMs: number | undefined;
  const connection = await connect(flags, {
    through: (transport) => async (request) => {
      const response = await transport(request);
      const ms = Date.parse(response.headers['date'] ?? '');
      if (!Number.isNaN(ms)) aheadMs = ms - clock.now();
      return response;
    },
  });
  const packages = await openPackages();
  try {
    if (connection.ca === undefined)
      throw cliError('NoAuthority', 'the kubeconfig names no certificate authority, which machines need to verify the API server', {
        next: 'put certificate-authority-data into it',
      });
    // Before any machine is touched.
    await connection.client.request({ method: 'GET', path: '/version', signal });
    const remote = openSsh({
      clock,
      sudo: flags.sudo,
      ...(flags.identity === undefined ? {} : { identityFile: flags.identity }),
      ...(flags.sshConfig === undefined ? {} : { configFile: flags.sshConfig }),
    });
    const known = await openKnownHosts(flags.knownHosts ?? defaultKnownHosts());
    const confirming: Confirming = { remote, known, output, ask: output.live && process.stdin.isTTY, signal };
    // A person is asked one thing at a time, before anything runs.
    const keys = new Map<ImportHost, readonly string[]>();
    if (confirming.ask) for (const host of hosts) keys.set(host, await hostKeysOf(host, confirming));
    const server = (flags.server ?? connection.server).replace(/\/$/, '');
    const results = await importAll({
      hosts,
      parallel,
      output,
      noProgress: flags.output === 'json',
      wishOf: async (host) => ({
        host,
        hostKeys: keys.get(host) ?? (await hostKeysOf(host, confirming)),
        pool: flags.pool,
        labels,
        hold: flags.hold === true,
        dryRun: flags.dryRun === true,
        joinSeconds,
      }),
      ports: {
        remote,
        cell: importCell(connection.client, clock),
        packageFor: (arch) => packages.packageFor(arch),
        server,
        certificateAuthority: connection.ca,
        ...(flags.mirror === undefined ? {} : { mirror: flags.mirror }),
        ...(componentKeys === undefined ? {} : { componentKeys }),
        serverMs: () => (aheadMs === undefined ? undefined : clock.now() + aheadMs),
        clock,
        signal,
      },
    });
    output.print(flags.output === 'json' ? JSON.stringify(results, undefined, 2) : tableOf(results));
    return exitCodeOf(results);
  } finally {
    await packages.close();
    await connection.close();
  }
}

/** Errors: `Usage`. */
async function hostsOf(words: string[], flags: Flags): Promise<ImportHost[]> {
  const defaults = { port: whole('--port', flags.port, 65_535), user: flags.user };
  const hosts = words.map((word) => parseHost(word, defaults));
  if (flags.hosts !== undefined) {
    let text: string;
    try {
      text = await readFile(flags.hosts, 'utf8');
    } catch (error) {
      throw cliError('Usage', `\`--hosts\` ${flags.hosts} cannot be read: ${messageOf(error)}`, { cause: error });
    }
    hosts.push(...parseHostsFile(text, flags.hosts, defaults));
  }
  const [only, more] = hosts;
  if (only === undefined) throw cliError('Usage', 'no machine is named', { next: 'kubenode import HOST --pool POOL, or --hosts FILE' });
  if (more !== undefined && (flags.name !== undefined || flags.fingerprint !== undefined))
    throw cliError('Usage', '`--name` and `--fingerprint` are for one machine; put them into a file for several');
  if (flags.name !== undefined) only.name = flags.name;
  if (flags.fingerprint !== undefined) only.fingerprint = fingerprint(flags.fingerprint);
  requireDistinct(hosts);
  return hosts;
}

/** Errors: `Usage`. */
function whole(flag: string, text: string, most: number): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= 1 && value <= most) return value;
  throw cliError('Usage', `\`${flag}\` must be a whole number from 1 to ${most}, got "${text}"`);
}

/** Errors: `Usage`. */
function labelsOf(words: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    words.map((word) => {
      const at = word.indexOf('=');
      if (at <= 0) throw cliError('Usage', `\`--label\` is KEY=VALUE, got "${word}"`);
      return [word.slice(0, at), word.slice(at + 1)];
    }),
  );
}
