/** Errors with a code, shared with the embedded server. Here since of `src` only this folder may name the package (tools/imports.ts). */
export * from '@kubenode/api-machinery/errors';
