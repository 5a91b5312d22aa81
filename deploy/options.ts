export interface InstallOptions {
  role: 'hub' | 'cell';
  /** Where KubeNode's own processes run. */
  namespace: string;
  image: string;
  replicas: number;
  /** Cell: how nodes reach this API server; absent: as the controllers do, which is an address inside the cluster. */
  server?: string;
  /** Hub: a seccomp profile on its nodes that lets a process make namespaces, as deploy/seccomp.json does; absent: RuntimeDefault, which does not. */
  seccompProfile?: string;
  /** Cell: where new nodes resolve relative artifact URLs. */
  mirror?: string;
  /** Cell: public keys, `ssh-ed25519 AAAA… comment`, that new nodes pin. */
  componentKeys?: readonly string[];
  /** Cell: names, with `*`, of Nodes that no Machine may become. */
  reservedNodeNames?: readonly string[];
  /** Cell: domains below which Nodes may have names that people chose. */
  nodeDomains?: readonly string[];
}
