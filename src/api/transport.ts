/** The one port between a client and an API server. */
export type * from '@kubenode/api-machinery/transport';
