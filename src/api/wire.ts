/** The JSON that the Kubernetes API speaks; the embedded server speaks the same. */
export type * from '@kubenode/api-machinery/wire';
