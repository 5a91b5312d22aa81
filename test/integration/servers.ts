/** The API servers of integration tests: embedded ones in this process, or, with `npm run test:kubernetes`, real ones. */
import { readFileSync } from 'node:fs';
import { CustomResourceDefinitions, Namespaces, Secrets } from '../../src/api/builtin.ts';
import type { Kind } from '../../src/api/kind.ts';
import { ALL_KINDS } from '../../src/api/kinds.ts';
import { SYSTEM_NAMESPACE } from '../../src/api/names.ts';
import type { Transport } from '../../src/api/transport.ts';
import { contextOf, inlineConnection } from '../../src/cli/remote.ts';
import { openCluster } from '@kubenode/embedded';
import { hasReason } from '../../src/kube/api-error.ts';
import type { Client } from '../../src/kube/client.ts';
import { systemClock } from '../../src/kube/clock.ts';
import { createClient } from '../../src/kube/http-client.ts';
import { httpTransport } from '../../src/kube/http-transport.ts';
import { waitFor } from '../../src/kube/testing/wait-for.ts';

export interface TestServer {
  readonly transport: Transport;
  readonly client: Client;
  close(): Promise<void>;
}

/** A server with KubeNode's kinds and namespace and nothing of any other test. */
export async function openServer(name: string): Promise<TestServer> {
  const path = process.env['KUBENODE_TEST_CONTROL_PLANES'];
  return path === undefined ? await embedded(name) : await real(contextOf(readFileSync(path, 'utf8'), name));
}

async function embedded(name: string): Promise<TestServer> {
  const cluster = await openCluster({ name, state: 'memory', clock: systemClock() });
  const transport = cluster.asUser();
  const client = createClient(transport);
  await prepare(client);
  return { transport, client, close: () => cluster.close() };
}

async function real(kubeconfig: string): Promise<TestServer> {
  const transport = httpTransport(inlineConnection(kubeconfig));
  const client = createClient(transport);
  await prepare(client);
  await empty(client);
  return {
    transport,
    client,
    async close() {
      await empty(client);
      await transport.close();
    },
  };
}

async function prepare(client: Client): Promise<void> {
  const exists = (error: unknown): void => {
    if (!hasReason(error, 'AlreadyExists')) throw error;
  };
  for (const kind of ALL_KINDS) await client.create(CustomResourceDefinitions, kind.crd()).catch(exists);
  await client.create(Namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: SYSTEM_NAMESPACE } }).catch(exists);
  for (const kind of ALL_KINDS) await waitFor(() => isServed(client, kind), { deadlineMs: 30_000, what: `${kind.plural} to be served` });
}

async function isServed(client: Client, kind: Kind): Promise<boolean> {
  return await client.list(kind, { limit: 1 }).then(
    () => true,
    () => false,
  );
}

/** What tests leave; namespaces stay. No other process is there that would act on a finalizer. */
async function empty(client: Client): Promise<void> {
  for (const resource of [...ALL_KINDS, Secrets]) {
    const scope = resource === Secrets ? { namespace: SYSTEM_NAMESPACE } : {};
    for (const { metadata } of (await client.listAll(resource, scope)).items) {
      if (metadata.finalizers !== undefined) await client.patch(resource, metadata, { merge: { metadata: { finalizers: null } } });
      await client.delete(resource, metadata).catch((error: unknown) => {
        if (!hasReason(error, 'NotFound')) throw error;
      });
    }
  }
}
