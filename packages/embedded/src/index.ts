/**
 * An embedded Kubernetes API server: the API that KubeNode and everyday kubectl use, in process and over
 * HTTPS on loopback. What it leaves out is listed in LEFT_OUT.
 */
export { openCluster, type ClusterOptions, type EmbeddedCluster } from './cluster.ts';
export { LEFT_OUT } from './left-out.ts';
export { serve, type ApiServer, type ServeOptions } from './serve/serve.ts';
export type { User } from './kinds/served.ts';
export { kubeconfigText } from './serve/kubeconfig.ts';
export { userOfCertificate } from './serve/peer.ts';
