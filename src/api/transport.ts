/** The one port between a client and an API server. Here since of `src` only this folder may name the package (tools/imports.ts). */
export type * from '@kubenode/api-machinery/transport';
