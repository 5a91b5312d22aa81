/** Time limits for every server that KubeNode opens. */
export * from '@kubenode/api-machinery/server-limits';
