import type { Command } from 'commander';
import { Machines, type Machine } from '../../api/machine.ts';
import { SSH_PROVIDER } from '../../api/ssh.ts';
import type { Stored } from '../../api/wire.ts';
import { hasReason } from '../../kube/api-error.ts';
import type { Client } from '../../kube/client.ts';
import { sleep, systemClock } from '../../kube/clock.ts';
import { findCondition } from '../../kube/conditions.ts';
import { connect, connectionFlags, sameConnection, type ConnectionFlags } from '../connection.ts';
import { cliError } from '../errors.ts';
import { EXIT } from '../exit.ts';
import type { Output } from '../output.ts';
import type { RunCommand } from '../program.ts';

interface Flags extends ConnectionFlags {
  namespace: string;
  timeout: string;
  dryRun?: boolean;
}

/** Field manager of what a person writes through this command. */
const MANAGER = 'kubenode-cli';
const POLL_MS = 1000;
const ATTEMPTS = 20;
const MOST_SECONDS = 86_400;

/** `kubenode give-back MACHINE`: the opposite of import (docs/protocols.md#c14). */
export function giveBackCommand(program: Command, run: RunCommand): void {
  connectionFlags(program.command('give-back <machine>'))
    .description('take the agent off an imported machine and leave all else there as it is: kubelet, pods, and its Node')
    .requiredOption('-n, --namespace <pool>', 'pool of the machine')
    .option('--timeout <seconds>', 'how long to wait until it is given back', '300')
    .option('--dry-run', 'let the server validate it, and change nothing')
    .addHelpText(
      'after',
      `
Sets \`spec.deletionPolicy: Orphan\`, deletes the Machine, and waits until it is gone. Nothing is cordoned or drained. What is under way there ends first.
It can be interrupted and run again. docs/nodes.md describes what stays on the machine, and what its new owner has to do.`,
    )
    .action((machine: string, flags: Flags) => run((output) => giveBack(machine, flags, output)));
}

async function giveBack(name: string, flags: Flags, output: Output): Promise<number> {
  const seconds = Number(flags.timeout);
  if (!Number.isInteger(seconds) || seconds < 0 || seconds > MOST_SECONDS)
    throw cliError('Usage', `\`--timeout\` must be a whole number from 0 to ${MOST_SECONDS}, got "${flags.timeout}"`);
  const key = { namespace: flags.namespace, name };
  const { client, close } = await connect(flags);
  try {
    const machine = await client.find(Machines, key);
    if (machine === undefined)
      throw cliError('NotFound', `there is no Machine ${name} in ${flags.namespace}`, {
        next: `kubectl get machines -A${sameConnection(flags)}`,
      });
    requireOwn(machine);
    const dryRun = flags.dryRun === true;
    await beginGivingBack(client, machine, dryRun);
    if (dryRun) {
      output.report('done', `machine/${name} can be given back (dry run)`);
      return EXIT.ok;
    }
    return await waitUntilGone(client, machine, seconds * 1000, output);
  } catch (error) {
    if (!hasReason(error, 'Conflict')) throw error;
    throw cliError('Conflict', `Machine ${flags.namespace}/${name} changed meanwhile; it was not deleted`, {
      cause: error,
      next: 'run the same command again',
    });
  } finally {
    await close();
  }
}

/** Errors: `NotGivenBack`. */
function requireOwn({ metadata, spec }: Stored<Machine>): void {
  const what = `Machine ${metadata.namespace}/${metadata.name}`;
  const set = metadata.ownerReferences?.find(({ kind, controller }) => kind === 'MachineSet' && controller === true);
  if (set !== undefined)
    throw cliError(
      'NotGivenBack',
      `${what} belongs to MachineSet ${set.name}, which would make another one: its machines go with their instances`,
      {
        next: 'only machines that were imported can be given back',
      },
    );
  if (spec.provider?.name !== SSH_PROVIDER)
    throw cliError(
      'NotGivenBack',
      `${what} was not imported: it has ${spec.provider === undefined ? 'no provider' : `provider ${spec.provider.name}`}`,
      {
        next: `only machines that were imported (provider ${SSH_PROVIDER}) can be given back`,
      },
    );
  if (metadata.deletionTimestamp !== undefined && spec.operation?.kind === 'Delete')
    throw cliError('NotGivenBack', `${what} is being deleted: its agent removes what it installed, and that is not taken back`, {
      next: `kubenode why machine/${metadata.namespace}/${metadata.name}`,
    });
}

/** Another client may have ordered it otherwise since. Errors: `NotGivenBack`. */
export function requireGivingBack(machine: Stored<Machine>): void {
  requireOwn(machine);
  const { metadata, spec } = machine;
  if (spec.deletionPolicy !== 'Orphan')
    throw cliError(
      'NotGivenBack',
      `Machine ${metadata.namespace}/${metadata.name} was given the policy ${spec.deletionPolicy ?? 'Delete'} meanwhile`,
      {
        next: 'ask who did; run the same command again to give it back',
      },
    );
}

/** Errors: `NotGivenBack` where its deletion was ordered; `Conflict` where another client gives it another policy meanwhile, or makes it again; those of the API. */
export async function beginGivingBack(
  client: Pick<Client, 'patch' | 'get' | 'delete'>,
  machine: Stored<Machine>,
  dryRun: boolean,
): Promise<void> {
  const { namespace, name, uid } = machine.metadata;
  const key = { namespace, name };
  const merge = { metadata: { uid }, spec: { deletionPolicy: 'Orphan' } };
  let latest = await client.patch(Machines, key, { merge }, { fieldManager: MANAGER, dryRun });
  requireOwn(latest);
  if (dryRun || latest.metadata.deletionTimestamp !== undefined) return;
  for (let attempt = 1; ; attempt++) {
    try {
      // Only with this policy. The agent and controllers write the status meanwhile, as often as they like.
      await client.delete(Machines, key, { uid, resourceVersion: latest.metadata.resourceVersion });
      return;
    } catch (error) {
      if (!hasReason(error, 'Conflict') || attempt === ATTEMPTS) throw error;
      latest = await client.get(Machines, key);
      if (latest.metadata.uid !== uid || latest.spec.deletionPolicy !== 'Orphan') throw error;
    }
  }
}

async function waitUntilGone(client: Client, machine: Stored<Machine>, withinMs: number, output: Output): Promise<number> {
  const { namespace, name, uid } = machine.metadata;
  const clock = systemClock({ ref: true });
  const untilMs = clock.monotonic() + withinMs;
  const { signal } = new AbortController();
  let shown = '';
  for (;;) {
    const found = await client.find(Machines, { namespace, name });
    if (found?.metadata.uid !== uid) {
      output.report('done', `machine/${name} is given back: its Machine is gone, and what runs there goes on`);
      return EXIT.ok;
    }
    requireGivingBack(found);
    const ready = findCondition(found.status?.conditions, 'Ready');
    const why = ready?.reason === 'GivingBack' ? ready.message : 'no controller of the cell has seen it yet';
    if (clock.monotonic() >= untilMs) {
      output.report('waiting', `machine/${name} is not given back yet: ${why}`);
      return EXIT.pending;
    }
    if (why !== shown) output.report('doing', why);
    shown = why;
    await sleep(clock, POLL_MS, signal);
  }
}
