import { Option, type Command } from 'commander';
import type { Architecture } from '../agent-package/runtime.ts';
import { EXIT } from '../exit.ts';
import { outputFlag } from '../output-flag.ts';
import { version, type RunCommand } from '../program.ts';
import { cliError } from '../errors.ts';

interface RunFlags {
  bootstrap?: string;
  root?: string;
  host: string;
  debug?: boolean;
}

interface PackageFlags {
  arch: Architecture;
  file?: string;
  output?: 'json';
}

export function agentCommand(program: Command, run: RunCommand): void {
  const agent = program
    .command('agent')
    .description('run the agent of one node, or make the package that nodes get it from')
    .option('--bootstrap <file>', 'file that names the cell and the Machine of this node')
    .option('--root <dir>', 'root folder of the node')
    .option('--host <kind>', 'what the node is made of', 'local')
    .option('--debug', 'log more')
    .action((flags: RunFlags) =>
      run(async () => {
        if (flags.bootstrap === undefined || flags.root === undefined)
          throw cliError('Usage', 'the agent of a node needs --bootstrap FILE and --root DIR', { next: 'kubenode agent --help' });
        // The agent's own program reads its arguments itself, and ends the process.
        const own = ['--bootstrap', flags.bootstrap, '--root', flags.root, '--host', flags.host];
        process.argv.splice(2, Infinity, ...own, ...(flags.debug === true ? ['--debug'] : []));
        await import('../../agent/main.ts');
        return EXIT.ok;
      }),
    );
  agent
    .command('package')
    .description('make the archive that a node gets its agent from: program, Node, systemd unit, install and uninstall')
    .addOption(new Option('--arch <arch>', 'of the nodes; arm64 is built and was never tried').choices(['amd64', 'arm64']).default('amd64'))
    .option('--file <path>', `where to write it (default: kubenode-agent-${version()}-linux-ARCH.tar here)`)
    .addOption(outputFlag(['json'], 'one JSON object'))
    .addHelpText(
      'after',
      `
Its bytes follow from the sources and the pinned Node: the same version has the same digest wherever it is made.
On a node, as root: unpack it anywhere and run ./install. docs/nodes.md describes what it changes; \`kubenode import\` does it over SSH.`,
    )
    .action((flags: PackageFlags) =>
      run(async (output) => {
        const { buildAgentPackage } = await import('../agent-package/build.ts');
        const path = flags.file ?? `kubenode-agent-${version()}-linux-${flags.arch}.tar`;
        const built = await buildAgentPackage(flags.arch, path);
        if (flags.arch === 'arm64') output.report('warning', 'arm64 was never tried on a machine');
        if (flags.output === 'json') output.print(JSON.stringify(built, undefined, 2));
        else output.print(`${built.sha256}  ${built.path}`);
        return EXIT.ok;
      }),
    );
}
