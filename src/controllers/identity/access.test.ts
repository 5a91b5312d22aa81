import { describe, expect, it } from 'vitest';
import type { ApiRequest, Transport } from '../../api/transport.ts';
import { createClient } from '../../kube/http-client.ts';
import { grantAgent, grantStandIn } from './access.ts';
import { machineWith, OPEN } from './testing/requests.ts';

const { signal } = new AbortController();
const machine = machineWith(OPEN);

interface Sent {
  request: ApiRequest;
  body: { kind: string; metadata: { name: string }; subjects?: { kind: string; name: string }[] };
}

const stored = (body: Sent['body']) => ({
  ...body,
  metadata: { ...body.metadata, uid: 'u', resourceVersion: '1', creationTimestamp: '2026-11-20T12:00:00Z' },
});
/** A server that answers each request with what `answer` makes of it. */
function server(answer: (body: Sent['body']) => { status: number; body: unknown } = (body) => ({ status: 200, body: stored(body) })) {
  const sent: Sent[] = [];
  const transport: Transport = (request) => {
    const body = JSON.parse(String(request.body)) as Sent['body'];
    sent.push({ request, body });
    const answered = answer(body);
    const text = new TextEncoder().encode(JSON.stringify(answered.body));
    return Promise.resolve({
      status: answered.status,
      headers: { 'content-type': 'application/json' },
      body: (async function* () {
        yield await Promise.resolve(text);
      })(),
    });
  };
  return { sent, client: createClient(transport) };
}
const failure = (status: number, reason: string) => ({
  status,
  body: { kind: 'Status', apiVersion: 'v1', status: 'Failure', reason, code: status },
});

describe('what an agent is granted', () => {
  it('is what its Machine needs, and its pool, under the name of this controller and against every earlier writer', async () => {
    const { sent, client } = server();
    await grantAgent(client, machine, signal);
    expect(sent.map(({ body }) => body.kind)).toEqual(['Role', 'RoleBinding', 'ClusterRoleBinding']);
    expect(sent.map(({ request }) => request.path)).toEqual([
      expect.stringMatching(/^\/apis\/rbac.authorization.k8s.io\/v1\/namespaces\/web\/roles\//),
      expect.stringMatching(/^\/apis\/rbac.authorization.k8s.io\/v1\/namespaces\/web\/rolebindings\//),
      expect.stringMatching(/^\/apis\/rbac.authorization.k8s.io\/v1\/clusterrolebindings\//),
    ]);
    for (const { request } of sent)
      expect(request.query).toMatchObject({ fieldManager: expect.stringContaining('identity'), force: 'true' });
  });

  it('for the account instead of a certificate is its own, and that the account acts as the agent', async () => {
    const { sent, client } = server();
    await grantStandIn(client, machine, signal);
    expect(sent.map(({ body }) => body.kind)).toEqual(['Role', 'RoleBinding', 'Role', 'RoleBinding', 'ClusterRoleBinding']);
    expect(sent[3]?.body.subjects).toContainEqual(expect.objectContaining({ kind: 'ServiceAccount', name: 'kubenode-agent-a' }));
    expect(sent[3]?.body.subjects).toContainEqual(expect.objectContaining({ kind: 'User', name: 'kubenode:machine:web:a' }));
  });

  it('is not reported as granted where the server refuses any of it', async () => {
    for (const grant of [grantAgent, grantStandIn]) {
      const { sent, client } = server((body) =>
        body.kind === 'RoleBinding' ? failure(403, 'Forbidden') : { status: 200, body: stored(body) },
      );
      await expect(grant(client, machine, signal)).rejects.toMatchObject({ code: 'Forbidden' });
      expect(sent).toHaveLength(2);
    }
  });

  it('is nothing on a server that knows no rights', async () => {
    const { sent, client } = server(() => failure(404, 'NotFound'));
    await grantAgent(client, machine, signal);
    expect(sent).toHaveLength(1);
  });

  it.each<[string, (body: Sent['body']) => object | null]>([
    ['another kind', (body) => ({ ...stored(body), kind: 'RoleBinding' })],
    ['no version', (body) => ({ kind: body.kind, metadata: stored(body).metadata })],
    ['no metadata', ({ kind }) => ({ kind, apiVersion: 'rbac.authorization.k8s.io/v1' })],
    ['nothing', () => null],
  ])('is not believed where the server answers with %s', async (_, answer) => {
    const { client } = server((body) => ({ status: 200, body: answer(body) }));
    await expect(grantAgent(client, machine, signal)).rejects.toThrow(/not a Role$/);
  });
});
