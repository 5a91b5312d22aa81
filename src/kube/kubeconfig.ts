import type { Connection } from './connect.ts';

export interface KubeconfigOptions {
  /** File to read; absent: `$KUBECONFIG` (several files are merged, first wins), then `~/.kube/config`, then the pod's service account. */
  path?: string;
  /** Context to use; absent: `current-context`. */
  context?: string;
  env: Record<string, string | undefined>;
}

export interface LoadedConnection extends Connection {
  /** The context's namespace, `default` where it names none. */
  namespace: string;
  /** For messages: context and file. Never a secret. */
  source: string;
}

/**
 * Errors (CodedError): `KubeconfigAbsent`, `KubeconfigInvalid`, `NoContext`, `CredentialsExpired`, `CredentialsFailed`,
 * `TlsNotVerified` (insecure-skip-tls-verify is refused).
 */
export declare function loadKubeconfig(options: KubeconfigOptions): Promise<LoadedConnection>;
