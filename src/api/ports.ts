/** Ports for what a pure core must not reach by itself. Fakes stand beside the real ones in `src/kube/testing`. Here since of `src` only this folder may name the package (tools/imports.ts). */
export type * from '@kubenode/api-machinery/ports';
