/** What a kubeconfig contains for one cluster. */
interface Access {
  readonly cluster: string;
  readonly server: string;
  /** PEM of the authority that signed the server's certificate. */
  readonly authority: string;
  readonly token: string;
}

/** A kubeconfig with one cluster, user and context, each named after the cluster. It contains a secret: keep it 0600. */
export function kubeconfigText({ cluster, server, authority, token }: Access): string {
  const name = JSON.stringify(cluster);
  return `apiVersion: v1
kind: Config
clusters:
- name: ${name}
  cluster:
    server: ${JSON.stringify(server)}
    certificate-authority-data: ${Buffer.from(authority, 'utf8').toString('base64')}
users:
- name: ${name}
  user:
    token: ${JSON.stringify(token)}
contexts:
- name: ${name}
  context:
    cluster: ${name}
    user: ${name}
current-context: ${name}
`;
}
