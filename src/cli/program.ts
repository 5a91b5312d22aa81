import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { own } from '../api/own.ts';
import { endWithPipes } from './broken-pipe.ts';
import { EXIT_CODES, fail, EXIT } from './exit.ts';
import { terminalOutput, type Output } from './output.ts';

/** Runs a command's work and turns what it returns or throws into the exit code. */
export type RunCommand = (work: (output: Output) => Promise<number>) => Promise<void>;

const HELP = `
Try it:   kubenode start              a whole fleet on this machine
Install:  kubenode install --cell     manifests for a real cluster
Observe:  kubenode status             fleets, clusters, rollouts
          kubenode rollout show       where each change is
          kubenode why NAME           why a node, repair, rule or rollout is as it is
Prepare:  kubenode check              what this machine has and what is wanted
          kubenode component sign     sign what nodes run, so that no one else decides it
          kubenode plan               what a commit would do, before it is merged
          kubenode rules test         what the fleet's repair rules do in recorded histories

Environment: KUBECONFIG, NO_COLOR, CLICOLOR_FORCE, KUBENODE_DEBUG (stack traces)
${EXIT_CODES}`;

export function version(): string {
  const file = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string };
  return file.version;
}

/** How a command is added, by its name. */
export type Commands = Readonly<Record<string, () => Promise<(program: Command, run: RunCommand) => void>>>;

/** Commands are loaded when they are run: `kubenode --help` must not wait for what it does not use. */
export async function runProgram(argv: string[], commands: Commands): Promise<void> {
  const output = terminalOutput();
  const exitCode = endWithPipes();
  const run: RunCommand = async (work) => {
    let code: number;
    try {
      code = await work(output);
    } catch (error) {
      code = fail(output, error);
    }
    process.exitCode = exitCode(code);
  };
  const program = new Command('kubenode')
    .description('Manage very large fleets of Kubernetes nodes declaratively, from Git.')
    .version(version())
    .addHelpText('after', HELP)
    .exitOverride()
    .configureOutput({ writeErr: (text) => process.stderr.write(text) });

  const wanted = argv.slice(2).find((word) => !word.startsWith('-'));
  const one = wanted === undefined ? undefined : own(commands, wanted);
  for (const each of one === undefined ? Object.values(commands) : [one]) (await each())(program, run);

  // Asked for the help of a command that is not there, commander prints the help of all commands, and succeeds.
  const isUnknown = wanted !== undefined && one === undefined && wanted !== 'help';
  const words = isUnknown ? argv.filter((word) => word !== '--help' && word !== '-h') : argv;
  try {
    await program.parseAsync(words);
  } catch (error) {
    const { exitCode } = error as { exitCode?: unknown };
    if (typeof exitCode !== 'number') throw error;
    process.exitCode = exitCode === 0 ? EXIT.ok : EXIT.usage;
  }
  await printed(process.stdout);
  await printed(process.stderr);
  // Node's own way out can spin for ever over a connection that was being made. All work is done at this point.
  process.exit();
}

/** When all that was written to it is out, or it is closed. */
const printed = (stream: NodeJS.WriteStream): Promise<void> => new Promise((resolve) => void stream.write('', () => resolve()));
