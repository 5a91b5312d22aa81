/** Errors with a code, shared with the embedded server. */
export * from '@kubenode/api-machinery/errors';
