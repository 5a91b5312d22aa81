import { once } from 'node:events';
import { createServer as createHttp } from 'node:http';
import type { AddressInfo, Server } from 'node:net';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { TLSSocket } from 'node:tls';
import type { CertificateSigningRequest } from '../../api/builtin.ts';
import type { ApiRequest } from '../../api/transport.ts';
import { makeAuthority, signClient } from '@kubenode/embedded/pki';
import { fakeApiServer, jsonResponse } from '../../kube/testing/api-server.ts';
import type { FakeApiServer } from '../../kube/testing/api-server.ts';
import { createAuthority, serveTls } from '../../kube/testing/tls.ts';

/** A cell over HTTPS with an authority of its own, and a mirror over HTTP, both on loopback: for agents in processes of their own. */
export interface HttpCell {
  readonly api: FakeApiServer;
  readonly server: string;
  readonly certificateAuthority: string;
  /** Ends with a slash. */
  readonly mirror: string;
  /** What the mirror serves, by path. */
  readonly artifacts: Map<string, Buffer>;
  /** Who asked, in the order of their first request: the name in a client certificate, or the `authorization` header. */
  readonly peers: Set<string>;
  /** Answers no request while this is set. */
  away: boolean;
  close(): Promise<void>;
}

export async function httpCell(): Promise<HttpCell> {
  const api = fakeApiServer();
  const artifacts = new Map<string, Buffer>();
  const authority = await createAuthority();
  const making = { now: Date.now(), random: Math.random };
  const clients = await makeAuthority('clients', making);
  const peers = new Set<string>();
  // Approves and signs every request; the agent does not know who may have what.
  api.intercept(async ({ method, path, body }) => {
    if (method !== 'POST' || !path.endsWith('/certificatesigningrequests')) return undefined;
    const object = JSON.parse(Buffer.from(body ?? '').toString()) as CertificateSigningRequest;
    const certificate = await signClient(clients, Buffer.from(object.spec.request, 'base64').toString(), 3600, making);
    return jsonResponse(201, {
      ...object,
      metadata: { ...object.metadata, uid: 'csr', resourceVersion: '1', creationTimestamp: '2026-11-20T00:00:00Z' },
      status: { certificate: Buffer.from(certificate).toString('base64') },
    });
  });
  const secure = await serveTls(
    await authority.issue('cell'),
    (request, response) => {
      const { subject } = (request.socket as TLSSocket).getPeerCertificate() as { subject?: { CN: string } };
      peers.add(request.headers.authorization ?? subject?.CN ?? 'anonymous');
      if (cell.away) request.destroy();
      else void serve(api, request, response).catch(() => response.destroy());
    },
    { clientCa: clients.certificate },
  );
  const plain = createHttp((request, response) => {
    const bytes = artifacts.get((request.url ?? '').slice(1));
    response.writeHead(bytes === undefined ? 404 : 200).end(bytes);
  });
  const cell: HttpCell = {
    api,
    server: secure.url,
    certificateAuthority: authority.ca,
    mirror: `http://127.0.0.1:${await listen(plain)}/`,
    artifacts,
    peers,
    away: false,
    async close() {
      api.watches.end();
      await secure.close();
      plain.closeAllConnections();
      plain.close();
      await once(plain, 'close');
    },
  };
  return cell;
}

async function serve(api: FakeApiServer, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? '/', 'https://cell');
  const body: Uint8Array[] = [];
  for await (const chunk of request) body.push(chunk as Uint8Array);
  const ended = new AbortController();
  response.once('close', () => ended.abort(new Error('the client went away')));
  const answer = await api.transport({
    method: request.method as ApiRequest['method'],
    path: url.pathname,
    query: Object.fromEntries(url.searchParams),
    headers: Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name, String(value)])),
    ...(body.length === 0 ? {} : { body: Buffer.concat(body) }),
    signal: ended.signal,
  });
  response.writeHead(answer.status, answer.headers);
  response.flushHeaders();
  try {
    for await (const chunk of answer.body) response.write(chunk);
  } finally {
    response.end();
  }
}

async function listen(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}
