/** A real control plane that nodes reach: etcd, kube-apiserver, kube-controller-manager and kube-scheduler, as processes of this machine. */
import { readFileSync } from 'node:fs';
import type { ClosableTransport } from '../../src/kube/connect.ts';
import { httpTransport } from '../../src/kube/http-transport.ts';
import { kubeconfigText } from '@kubenode/embedded';
import { findPrograms } from '../../tools/kubernetes/programs.ts';
import { nodePrograms, type NodePrograms } from '../../tools/nodes/programs.ts';
import type { OnProgress } from '../../tools/gobuild.ts';
import { files, openRig, type AdminConnection } from '../kubernetes/rig.ts';

export interface NodesControlPlane {
  /** The administrator's. */
  readonly connection: AdminConnection;
  readonly transport: ClosableTransport;
  /** A file. */
  readonly kubeconfig: string;
  readonly kubectl: string;
  readonly programs: NodePrograms;
  /** Of this machine, by the authority that nodes trust. */
  readonly serving: { readonly cert: string; readonly key: string };
  stop(): Promise<void>;
}

/** `gateway`: an address of this machine that nodes reach. Everything is as Kubernetes has it by default. */
export async function startNodesControlPlane(gateway: string, onProgress: OnProgress): Promise<NodesControlPlane> {
  const programs = await findPrograms(onProgress);
  const ofNodes = await nodePrograms(onProgress);
  const { controllerManager, kubectl } = programs;
  if (controllerManager === undefined || kubectl === undefined)
    throw new Error(`${programs.folder} has no kube-controller-manager and kubectl`);
  const { folder, stop, ...rig } = openRig(programs);
  try {
    const made = await files(folder, [gateway]);
    const { connection, ready } = await rig.apiserver(
      'the server',
      folder,
      made,
      [
        ...(await rig.etcd(folder, made)).args,
        '--enable-admission-plugins=NodeRestriction',
        '--kubelet-preferred-address-types=InternalIP',
        `--kubelet-client-certificate=${made.client}`,
        `--kubelet-client-key=${made.clientKey}`,
      ],
      undefined,
      gateway,
    );
    await ready;
    const kubeconfig = made.write(
      'kubeconfig',
      kubeconfigText({ cluster: 'nodes', server: connection.server, authority: connection.ca, token: connection.token }),
    );
    rig.controllerManager(controllerManager, kubeconfig, folder, made, [
      '--controllers=*',
      '--use-service-account-credentials=true',
      `--service-account-private-key-file=${made.accountsKey}`,
      `--root-ca-file=${made.ca}`,
    ]);
    rig.scheduler(ofNodes.scheduler, kubeconfig, folder);
    const transport = httpTransport(connection);
    return {
      connection,
      transport,
      kubeconfig,
      kubectl,
      programs: ofNodes,
      serving: { cert: readFileSync(made.serving, 'utf8'), key: readFileSync(made.servingKey, 'utf8') },
      async stop() {
        await transport.close();
        await stop();
      },
    };
  } catch (error) {
    await stop();
    throw error;
  }
}
