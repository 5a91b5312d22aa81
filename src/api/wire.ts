/** The JSON that the Kubernetes API speaks; the embedded server speaks the same. Here since of `src` only this folder may name the package (tools/imports.ts). */
export type * from '@kubenode/api-machinery/wire';
