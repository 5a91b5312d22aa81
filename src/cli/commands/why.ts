import type { Command } from 'commander';
import { JOB_LABELS, jobLabel, RemedyOperationJobs } from '../../api/remedy-operation-job.ts';
import type { Client } from '../../kube/client.ts';
import { explanationLines } from '../../rules/explain.ts';
import { connect, connectionFlags, type ConnectionFlags } from '../connection.ts';
import { EXIT } from '../exit.ts';
import { outputFlag } from '../output-flag.ts';
import type { RunCommand } from '../program.ts';
import { clusterLines } from '../why/cluster.ts';
import { fleetLines, gatherFleet } from '../why/fleet.ts';
import { findSubject, type WhySubject } from '../why/find.ts';
import { jobLines } from '../why/job.ts';
import { gatherMachine, whyMachine, type WhyMachine } from '../why/machine.ts';
import { rolloutLines } from '../why/rollout.ts';
import { ruleLines } from '../why/rule.ts';
import { componentSetLines, machineSetLines } from '../why/set.ts';

interface Flags extends ConnectionFlags {
  namespace?: string;
  output?: 'json';
}

/** `kubenode why NAME`: why something happens, or does not. Reads only. */
export function whyCommand(program: Command, run: RunCommand): void {
  connectionFlags(program.command('why <name>'))
    .description(
      'why a node is repaired or not, where a repair is, what a rollout, a set, a cluster or a fleet waits for, whether a rule runs: NAME or KIND/NAME',
    )
    .option('-n, --namespace <pool>', 'pool of the machine or job; default: all')
    .addOption(outputFlag(['json'], 'one JSON object'))
    .addHelpText(
      'after',
      `
Kinds: node, machine, job, rule, machineset, machinecomponentset (in a cell), rollout, cluster, fleet (in the hub); a name alone is enough where only one thing has it.
Exit code 1 when there is nothing of that name.`,
    )
    .action((name: string, flags: Flags) =>
      run(async (output) => {
        const { client, close } = await connect(flags);
        try {
          const { lines, data } = await answer(client, await findSubject(client, name, flags.namespace, flags), Date.now());
          output.print(flags.output === 'json' ? JSON.stringify(data) : lines.join('\n'));
          return EXIT.ok;
        } finally {
          await close();
        }
      }),
    );
}

interface Answer {
  lines: string[];
  /** For `-o json`. */
  data: unknown;
}

export async function answer(client: Client, { kind, object }: WhySubject, nowMs: number): Promise<Answer> {
  switch (kind) {
    case 'job':
      return { lines: jobLines(object, nowMs), data: object };
    case 'rollout':
      return { lines: rolloutLines(object, nowMs), data: object };
    case 'rule': {
      const { items } = await client.listAll(RemedyOperationJobs, {
        labelSelector: `${JOB_LABELS.rule}=${jobLabel(object.metadata.name)}`,
      });
      return { lines: ruleLines(object, items, nowMs), data: { rule: object, jobs: items } };
    }
    case 'machineset':
      return { lines: machineSetLines(object, nowMs), data: object };
    case 'machinecomponentset':
      return { lines: componentSetLines(object, nowMs), data: object };
    case 'cluster':
      return { lines: clusterLines(object, nowMs), data: object };
    case 'fleet': {
      const data = await gatherFleet(client, object);
      return { lines: fleetLines(data, nowMs), data };
    }
    case 'machine': {
      const data = await whyMachine(await gatherMachine(client, object, nowMs));
      return { lines: machineLines(data), data };
    }
    default:
      return kind satisfies never;
  }
}

export function machineLines({ machine, phase, node, trouble, rules, jobs, defender, wouldChange, notKnown }: WhyMachine): string[] {
  const indent = (lines: readonly string[]) => lines.map((line) => `  ${line}`);
  return [
    `${machine}  ${phase}${node === '' ? ', it has claimed no Node' : `, node ${node}`}`,
    ...(trouble.length === 0 ? [] : ['', 'TROUBLE', ...indent(trouble)]),
    '',
    'JOBS',
    ...(jobs.length === 0
      ? ['  none is open']
      : jobs.map((job) => `  ${job.name}  ${job.phase}  ${job.action}${job.explanation === '' ? '' : `; ${job.explanation}`}`)),
    '',
    'DEFENDER',
    ...indent(defender),
    '',
    'RULES',
    ...(rules.length === 0 ? ['  there are none in this cluster'] : []),
    ...rules.flatMap(({ rule, mode, explanation, next }) => [
      ...(explanation === undefined
        ? [`  ${rule} (${mode}) ${next}`]
        : indent(explanationLines({ ...explanation, rule: `${rule} (${mode})` }))),
      ...(explanation === undefined || next === 'nothing' ? [] : [`    next: ${next}`]),
    ]),
    ...(wouldChange.length === 0 ? [] : ['', 'WHAT WOULD CHANGE IT', ...indent(wouldChange)]),
    '',
    'NOT KNOWN FROM HERE',
    ...indent(notKnown),
  ];
}
