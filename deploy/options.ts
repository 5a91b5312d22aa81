export interface InstallOptions {
  role: 'hub' | 'cell';
  /** Where KubeNode's own processes run. */
  namespace: string;
  image: string;
  replicas: number;
  /** Cell: how nodes reach this API server; absent: as the controllers do, which is an address inside the cluster. */
  server?: string;
  /** Cell: where new nodes resolve relative artifact URLs. */
  mirror?: string;
}
