/** What a name means on the API server that is asked. */
import { Nodes } from '../../api/builtin.ts';
import { Clusters, type Cluster } from '../../api/cluster.ts';
import { Fleets, type Fleet } from '../../api/fleet.ts';
import { MachineComponentSets, type MachineComponentSet } from '../../api/machine-component-set.ts';
import { MachineSets, type MachineSet } from '../../api/machine-set.ts';
import { Machines, type Machine } from '../../api/machine.ts';
import { NodeRemediers, type NodeRemedier } from '../../api/node-remedier.ts';
import { RemedyOperationJobs, type RemedyOperationJob } from '../../api/remedy-operation-job.ts';
import type { Resource } from '../../api/resource.ts';
import { Rollouts, type Rollout } from '../../api/rollout.ts';
import type { KubeObject, Stored } from '../../api/wire.ts';
import { hasReason } from '../../kube/api-error.ts';
import type { Client } from '../../kube/client.ts';
import { sameConnection, type ConnectionFlags } from '../connection.ts';
import { cliError } from '../errors.ts';

export type WhySubject =
  | { kind: 'machine'; object: Stored<Machine> }
  | { kind: 'job'; object: Stored<RemedyOperationJob> }
  | { kind: 'rollout'; object: Stored<Rollout> }
  | { kind: 'rule'; object: Stored<NodeRemedier> }
  | { kind: 'machineset'; object: Stored<MachineSet> }
  | { kind: 'machinecomponentset'; object: Stored<MachineComponentSet> }
  | { kind: 'cluster'; object: Stored<Cluster> }
  | { kind: 'fleet'; object: Stored<Fleet> };

/** Of kinds, as messages list them. */
const NAMES = 'node, machine, job, rule, machineset, machinecomponentset, rollout, cluster, fleet';
/** Words before a slash, as kubectl takes them. */
const KINDS: Readonly<Record<string, WhySubject['kind']>> = {
  node: 'machine',
  nodes: 'machine',
  no: 'machine',
  machine: 'machine',
  machines: 'machine',
  ma: 'machine',
  job: 'job',
  remedyoperationjob: 'job',
  remedyoperationjobs: 'job',
  roj: 'job',
  rollout: 'rollout',
  rollouts: 'rollout',
  ro: 'rollout',
  rule: 'rule',
  noderemedier: 'rule',
  noderemediers: 'rule',
  nrem: 'rule',
  machineset: 'machineset',
  machinesets: 'machineset',
  mset: 'machineset',
  machinecomponentset: 'machinecomponentset',
  machinecomponentsets: 'machinecomponentset',
  mcs: 'machinecomponentset',
  cluster: 'cluster',
  clusters: 'cluster',
  kcl: 'cluster',
  fleet: 'fleet',
  fleets: 'fleet',
};

/** What was asked for: `NAME`, `KIND/NAME`, and as kubectl and we print it, `KIND.kubenode.io/NAME` and `KIND/NAMESPACE/NAME`. */
function asked(text: string): { kind: WhySubject['kind'] | undefined; namespace: string | undefined; name: string } {
  const parts = text.split('/');
  const name = parts.at(-1) ?? '';
  const word = parts.length === 1 ? undefined : parts[0];
  const kind = word === undefined ? undefined : KINDS[word.toLowerCase().replace(/\.kubenode\.io$/, '')];
  if (parts.length > 3 || parts.includes('') || (word !== undefined && kind === undefined))
    throw cliError('Usage', `"${text}" must be NAME or KIND/NAME; kinds: ${NAMES}`, {
      next: `kubenode why ${name === '' ? 'NAME' : name}`,
    });
  return { kind, namespace: parts.length === 3 ? parts[1] : undefined, name };
}

/** The one thing of this name. A Node is the Machine that claimed it. Throws Usage, NotFound, Ambiguous, each with what to do next. */
export async function findSubject(
  client: Client,
  text: string,
  pool: string | undefined,
  flags: ConnectionFlags = {},
): Promise<WhySubject> {
  const { kind, name, ...named } = asked(text);
  const namespace = named.namespace ?? pool;
  const wants = (each: WhySubject['kind']): boolean => kind === undefined || kind === each;
  const [machines, jobs, rollouts, rules, sets, componentSets, clusters, fleets] = await Promise.all([
    wants('machine') ? machinesNamed(client, name, namespace) : [],
    wants('job') ? ofName(client, RemedyOperationJobs, name, namespace) : [],
    wants('rollout') ? ofName(client, Rollouts, name, undefined) : [],
    wants('rule') ? ofName(client, NodeRemediers, name, undefined) : [],
    wants('machineset') ? ofName(client, MachineSets, name, namespace) : [],
    wants('machinecomponentset') ? ofName(client, MachineComponentSets, name, undefined) : [],
    wants('cluster') ? ofName(client, Clusters, name, undefined) : [],
    wants('fleet') ? ofName(client, Fleets, name, undefined) : [],
  ]);
  const found: WhySubject[] = [
    ...machines.map((object) => ({ kind: 'machine' as const, object })),
    ...jobs.map((object) => ({ kind: 'job' as const, object })),
    ...rollouts.map((object) => ({ kind: 'rollout' as const, object })),
    ...rules.map((object) => ({ kind: 'rule' as const, object })),
    ...sets.map((object) => ({ kind: 'machineset' as const, object })),
    ...componentSets.map((object) => ({ kind: 'machinecomponentset' as const, object })),
    ...clusters.map((object) => ({ kind: 'cluster' as const, object })),
    ...fleets.map((object) => ({ kind: 'fleet' as const, object })),
  ];
  const [one, ...more] = found;
  if (one === undefined)
    throw cliError(
      'NotFound',
      `${flags.context === undefined ? 'this API server' : `the API server of context "${flags.context}"`} has no ${kind ?? 'object'} "${name}"${namespace === undefined ? '' : ` in ${namespace}`}${flags.context === undefined ? '' : ': it is gone, or never was there'}`,
      {
        next:
          flags.context === undefined
            ? 'name the cluster it is in (fleets, rollouts and clusters: the hub): kubenode why --context NAME …'
            : `what was reported of it lately: kubectl get events -A --field-selector involvedObject.name=${name}${sameConnection(flags)}`,
      },
    );
  if (more.length > 0)
    throw cliError('Ambiguous', `"${text}" is ${found.map(nameOf).join(' and ')}`, {
      next: `kubenode why ${one.kind}/${name}${one.object.metadata.namespace === undefined ? '' : ` -n ${one.object.metadata.namespace}`}${sameConnection(flags)}`,
    });
  return one;
}

/** `job/web/hung-x7` */
export function nameOf({ kind, object }: WhySubject): string {
  const { namespace, name } = object.metadata;
  return `${kind}/${namespace === undefined ? '' : `${namespace}/`}${name}`;
}

/** A server without the kind has none of that name. */
async function ofName<T extends KubeObject>(
  client: Client,
  resource: Resource<T>,
  name: string,
  namespace: string | undefined,
): Promise<Stored<T>[]> {
  try {
    const where = namespace === undefined || !resource.namespaced ? {} : { namespace };
    return (await client.listAll(resource, { ...where, fieldSelector: `metadata.name=${name}` })).items;
  } catch (error) {
    if (hasReason(error, 'NotFound')) return [];
    throw error;
  }
}

async function machinesNamed(client: Client, name: string, namespace: string | undefined): Promise<Stored<Machine>[]> {
  const own = await ofName(client, Machines, name, namespace);
  if (own.length > 0) return own;
  const nodes = await ofName(client, Nodes, name, undefined);
  if (nodes.length === 0) return [];
  const { items } = await client.listAll(Machines, namespace === undefined ? {} : { namespace });
  return items.filter((machine) => machine.status?.nodeRef?.name === name);
}
