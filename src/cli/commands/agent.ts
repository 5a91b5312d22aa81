import type { Command } from 'commander';
import type { Run } from '../program.ts';

export function agentCommand(program: Command, run: Run): void {
  program
    .command('agent')
    .description('run the agent of one node; on nodes one bundled file does the same without the rest of KubeNode')
    .requiredOption('--bootstrap <file>', 'where the cell is, and which Machine this node is')
    .requiredOption('--root <dir>', 'root folder of the node')
    .option('--host <kind>', 'what the node is made of: local', 'local')
    .option('--debug', 'log more')
    .action((flags: { bootstrap: string; root: string; host: string; debug?: boolean }) =>
      run(async () => {
        // The agent's own program reads its arguments itself, and ends the process.
        process.argv.splice(
          2,
          Infinity,
          '--bootstrap',
          flags.bootstrap,
          '--root',
          flags.root,
          '--host',
          flags.host,
          ...(flags.debug === true ? ['--debug'] : []),
        );
        await import('../../agent/main.ts');
        return 0;
      }),
    );
}
