/** Real control planes on loopback: etcd, kube-apiserver and, where there is one, kube-controller-manager. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import { kubeconfigText } from '@kubenode/embedded';
import type { Programs } from '../../tools/kubernetes/programs.ts';
import { files, openRig, type AdminConnection } from './rig.ts';

export interface ControlPlane {
  readonly connection: AdminConnection;
  /** A file; the administrator's. */
  readonly kubeconfig: string;
  /** Controllers run: owners are collected, namespaces emptied, certificates signed. */
  readonly controllers: boolean;
  /** Ends every program and removes the folder. */
  stop(): Promise<void>;
}

/**
 * Controllers that are left out, because what they add to a namespace or a node at some later moment would make every answer
 * depend on time: without kubelets every node would soon be judged lost, too.
 */
const WITHOUT = [
  'root-ca-certificate-publisher-controller',
  'serviceaccount-controller',
  'legacy-serviceaccount-token-cleaner-controller',
  'node-lifecycle-controller',
  'taint-eviction-controller',
  'ttl-controller',
];

const kubeconfigOf = (cluster: string, { server, ca, token }: { server: string; ca: string; token: string }): string =>
  kubeconfigText({ cluster, server, authority: ca, token });

/** Starts a control plane of its own on free ports; nothing is shared with another one. */
export async function startControlPlane(programs: Programs): Promise<ControlPlane> {
  const { folder, stop, ...rig } = openRig(programs);
  try {
    const made = await files(folder);
    const { connection, ready } = await rig.apiserver('the server', folder, made, [
      ...(await rig.etcd(folder, made)).args,
      // It wants a ServiceAccount in every namespace before the first pod.
      '--disable-admission-plugins=ServiceAccount',
    ]);
    await ready;
    const kubeconfig = made.write('kubeconfig', kubeconfigOf('real', connection));
    const { controllerManager } = programs;
    if (controllerManager !== undefined)
      rig.controllerManager(controllerManager, kubeconfig, folder, made, [
        `--controllers=*,${WITHOUT.map((name) => `-${name}`).join(',')}`,
      ]);
    return { connection, kubeconfig, controllers: controllerManager !== undefined, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** What a fleet of nodes without workload needs of Kubernetes' own controllers. */
const OF_A_FLEET = [
  'certificatesigningrequest-signing-controller',
  'clusterrole-aggregation-controller',
  'garbage-collector-controller',
  'namespace-controller',
  'node-lifecycle-controller',
  'pod-garbage-collector-controller',
  'serviceaccount-controller',
  'serviceaccount-token-controller',
  'taint-eviction-controller',
];

/** Who asked for what, and what was answered. */
const AUDITED = { apiVersion: 'audit.k8s.io/v1', kind: 'Policy', omitStages: ['RequestReceived'], rules: [{ level: 'Metadata' }] };

/** What workload needs besides, until it is run. */
export const OF_WORKLOAD = [
  'deployment-controller',
  'disruption-controller',
  'endpointslice-controller',
  'replicaset-controller',
  'root-ca-certificate-publisher-controller',
];

export interface ControlPlanes {
  /** A file with one context each; the administrators'. */
  readonly kubeconfig: string;
  /** Files with all requests, one of each server. */
  readonly audits: readonly string[];
  stop(): Promise<void>;
}

/**
 * Starts control planes that know nothing of each other, save that their API servers keep what they store in one etcd. Admission and rights are
 * Kubernetes' own defaults. Throws where there is no kube-controller-manager.
 */
export async function startControlPlanes(
  programs: Programs,
  names: readonly string[],
  moreControllers: readonly string[] = [],
): Promise<ControlPlanes> {
  const { controllerManager } = programs;
  if (controllerManager === undefined) throw new Error('there is no kube-controller-manager, which signs the certificates of agents');
  const { folder, stop, ...rig } = openRig(programs);
  const auditOf = (name: string): string => join(folder, name, 'audit.log');
  try {
    const store = await files(folder);
    const auditing = store.write('audit.yaml', stringify(AUDITED));
    const etcd = await rig.etcd(folder, store);
    const contexts = await Promise.all(
      names.map(async (name) => {
        const within = join(folder, name);
        mkdirSync(within, { mode: 0o700 });
        const made = await files(within);
        const { connection, ready } = await rig.apiserver(name, within, made, [
          ...etcd.args,
          `--etcd-prefix=/${name}`,
          // As kubeadm and everybody else has it: a kubelet changes its own Node and pods only.
          '--enable-admission-plugins=NodeRestriction',
          `--audit-policy-file=${auditing}`,
          `--audit-log-path=${auditOf(name)}`,
        ]);
        await ready;
        const text = kubeconfigOf(name, connection);
        rig.controllerManager(controllerManager, made.write('kubeconfig', text), within, made, [
          `--controllers=${[...OF_A_FLEET, ...moreControllers].join(',')}`,
          `--service-account-private-key-file=${made.accountsKey}`,
          `--root-ca-file=${made.ca}`,
        ]);
        return parse(text) as Kubeconfig;
      }),
    );
    const merged = {
      apiVersion: 'v1',
      kind: 'Config',
      clusters: contexts.flatMap(({ clusters }) => clusters),
      users: contexts.flatMap(({ users }) => users),
      contexts: contexts.flatMap((each) => each.contexts),
    };
    return { kubeconfig: store.write('kubeconfig', stringify(merged)), audits: names.map(auditOf), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

interface Kubeconfig {
  clusters: unknown[];
  users: unknown[];
  contexts: unknown[];
}
