/** Time limits for every server that KubeNode opens. Here since of `src` only this folder may name the package (tools/imports.ts). */
export * from '@kubenode/api-machinery/server-limits';
