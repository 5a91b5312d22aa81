import { parse, stringify } from 'yaml';
import { CodedError } from '../api/errors.ts';
import type { Client } from '../kube/client.ts';
import { createClient } from '../kube/httpclient.ts';
import { httpTransport } from '../kube/httptransport.ts';
import { parseKubeconfig } from '../kube/kubeconfig.ts';

/** A client from the text of a kubeconfig, as the hub keeps one for each cluster. */
export async function clientFromKubeconfig(text: string): Promise<{ client: Client; close(): Promise<void> }> {
  const transport = httpTransport(await parseKubeconfig(text, { source: 'the cluster Secret' }));
  return { client: createClient(transport, { userAgent: 'kubenode-hub' }), close: () => transport.close() };
}

interface Named {
  name: string;
}

/** The part of a kubeconfig that one context needs. */
export function contextOf(text: string, name: string): string {
  const config = parse(text) as { contexts?: (Named & { context: { cluster: string; user: string } })[]; clusters?: Named[]; users?: Named[] };
  const context = config.contexts?.find((each) => each.name === name);
  if (context === undefined) throw new CodedError('NoContext', `the kubeconfig has no context "${name}"`);
  return stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': name,
    contexts: [context],
    clusters: config.clusters?.filter((each) => each.name === context.context.cluster),
    users: config.users?.filter((each) => each.name === context.context.user),
  });
}
