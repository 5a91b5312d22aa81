import { controllerErrorCodes } from '../../controllers/shared/errors.ts';
import type { Command } from 'commander';
import { isCoded, reworded } from '../../api/errors.ts';
import { Machines } from '../../api/machine.ts';
import { hasReason } from '../../kube/api-error.ts';
import { operatorRelease } from '../../controllers/machine/order/operator-release.ts';
import { connect, connectionFlags, sameConnection, type ConnectionFlags } from '../connection.ts';
import { EXIT } from '../exit.ts';
import type { Output } from '../output.ts';
import type { RunCommand } from '../program.ts';
import { cliError } from '../errors.ts';

interface Flags extends ConnectionFlags {
  namespace: string;
  reason: string;
  dryRun?: boolean;
}

/** Field manager of what a person writes through this command. */
const MANAGER = 'kubenode-cli';

/** `kubenode release MACHINE`: the one way out of the ledger that a human has (docs/protocols.md#d5). */
export function releaseCommand(program: Command, run: RunCommand): void {
  connectionFlags(program.command('release <machine>'))
    .description('give up the operation of a machine whose agent will never report its end, so that its reservation in the ledger is freed')
    .requiredOption('-n, --namespace <pool>', 'pool of the machine')
    .requiredOption('--reason <text>', 'why there is no need to wait for the node; kept on the Machine and shown in its Events')
    .option('--dry-run', 'let the server validate it, and change nothing')
    .addHelpText(
      'after',
      `
Only for a node that you know is off or gone: nothing waits for it afterwards, and another may be disrupted instead.
If its agent lives after all it reports the operation Cancelled, or what it did.`,
    )
    .action((machine: string, flags: Flags) => run((output) => release(machine, flags, output)));
}

async function release(name: string, flags: Flags, output: Output): Promise<number> {
  const reason = flags.reason.trim();
  if (reason === '') throw cliError('Usage', '`--reason` must not be empty', { next: "--reason 'rack 12 burned down, INC-4711'" });
  const key = { namespace: flags.namespace, name };
  const { client, close } = await connect(flags);
  try {
    const machine = await client.find(Machines, key);
    if (machine === undefined)
      throw cliError('NotFound', `there is no Machine ${name} in ${flags.namespace}`, {
        next: `kubectl get machines -A${sameConnection(flags)}`,
      });
    const released = operatorRelease(machine, `OperatorRelease: ${reason}`);
    await client.update(Machines, released, { fieldManager: MANAGER, dryRun: flags.dryRun === true });
    const what = `operation ${machine.spec.operation?.id ?? ''} (${machine.spec.operation?.kind ?? ''})`;
    output.report(
      'done',
      `machine/${name}: ${what} is given up${flags.dryRun === true ? ' (dry run)' : '; the leader frees its reservation'}`,
    );
    return EXIT.ok;
  } catch (error) {
    if (isCoded(error, controllerErrorCodes, 'NothingToRelease') && error.next !== undefined)
      throw reworded(error, error.message, { cause: error, next: `${error.next}${sameConnection(flags)}` });
    if (!hasReason(error, 'Conflict')) throw error;
    throw cliError('Conflict', `Machine ${flags.namespace}/${name} changed meanwhile; nothing was given up`, {
      cause: error,
      next: `kubenode why machine/${flags.namespace}/${name}${sameConnection(flags)}`,
    });
  } finally {
    await close();
  }
}
