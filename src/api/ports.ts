/** Ports for what a pure core must not reach by itself. Fakes stand beside the real ones in `src/kube/testing`. */
export type * from '@kubenode/api-machinery/ports';
