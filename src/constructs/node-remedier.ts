import type { Construct } from 'constructs';
import type { NodeRemedier as NodeRemedierObject, Rung } from '../api/node-remedier.ts';
import { REHEARSAL_ANNOTATIONS, type RehearsalTerms } from '../api/rehearsal.ts';
import { FleetError } from './errors.ts';
import { KubeNodeObject, type MetadataProps } from './object.ts';
import { askHuman } from './remedy/actions.ts';
import type { Term } from './remedy/term.ts';
import { outsidePools, type Pool } from './scope.ts';

type Spec = NodeRemedierObject['spec'];

/** See the kind NodeRemedier. */
export interface NodeRemedierProps extends MetadataProps, Omit<Spec, 'unitDigest' | 'when' | 'ladder' | 'pools'> {
  when: Term;
  /** What is tried, in this order. A human is asked at its end, also where that is not written. */
  ladder: readonly Rung[];
  /** Absent: every machine of the cluster. */
  pools?: readonly (Pool | string)[];
  /**
   * When its mode is Enforce: the Shadow it goes through first in each cluster, and the jobs it may have wanted to make meanwhile; more halt
   * its rollout. Default 600 s and 3 jobs; the Shadow lasts at least twice `holdsForSeconds`, so that the rule can make a job in it.
   */
  enforceAfter?: Partial<RehearsalTerms>;
}

/**
 * A repair rule: how an unhealthy node is recognized, what is tried, and what proves that it helped.
 *
 *   new NodeRemedier(cluster, 'hung', {
 *     when: all(condition('KernelDeadlock').is('True'), fact('machine.phase').equals('Running')),
 *     holdsForSeconds: 30,
 *     ladder: [migratePods(), reboot(), replaceMachine()],
 *     healedWhen: { condition: 'KernelDeadlock', is: 'False', onNewBoot: true, forSeconds: 300 },
 *   });
 *
 * It only reports what it would do until its mode is Enforce.
 */
export class NodeRemedier extends KubeNodeObject<Spec> {
  constructor(cluster: Construct, name: string, props: NodeRemedierProps) {
    const { labels, annotations, when, ladder, pools, mode, enforceAfter, ...spec } = props;
    const scope = outsidePools(cluster, 'NodeRemedier', name, "pools: ['…']");
    const term = when?.term;
    if (term === undefined || typeof term !== 'object')
      throw new FleetError('RuleInvalid', `\`when\` of "${name}" is not a condition`, "when: all(condition('KernelDeadlock').is('True'))");
    super(
      scope,
      'NodeRemedier',
      name,
      { labels, annotations: annotationsOf(name, annotations, enforceAfter) },
      {
        // The engine wants a group at the root.
        when: 'fact' in term ? { all: [term] } : { ...term },
        ...spec,
        ladder: ladder.at(-1)?.action === 'Human' ? [...ladder] : [...ladder, askHuman()],
        mode: mode ?? 'Shadow',
        ...(pools === undefined ? {} : { pools: pools.map((pool) => (typeof pool === 'string' ? pool : pool.name)) }),
      },
    );
  }
}

function annotationsOf(
  name: string,
  annotations: Record<string, string> | undefined,
  terms: Partial<RehearsalTerms> | undefined,
): Record<string, string> | undefined {
  if (terms === undefined) return annotations;
  const found: Record<string, string> = { ...annotations };
  for (const key of ['shadowSeconds', 'maxJobs'] as const) {
    const value = terms[key];
    if (value === undefined) continue;
    if (!Number.isInteger(value) || value < 0)
      throw new FleetError('RuleInvalid', `\`enforceAfter.${key}\` of "${name}" must be a whole number from 0, got ${value}`);
    found[REHEARSAL_ANNOTATIONS[key]] = String(value);
  }
  return found;
}
