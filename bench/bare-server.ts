/**
 * Runs in a process of its own: the least that a server can do. Over plain HTTP it answers every request with the body it was sent. Over TLS it
 * keeps requests to /watch open, and writes the body of a request to /send to all of them.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createSecure } from 'node:https';
import type { AddressInfo } from 'node:net';
import { createAuthority } from '../src/kube/testing/tls.ts';

export interface BareAddresses {
  pid: number;
  plain: string;
  secure: string;
  /** PEM. */
  authority: string;
}

const watching = new Set<ServerResponse>();

function answer(request: IncomingMessage, response: ServerResponse): void {
  const type = { 'content-type': 'application/json' };
  if (request.url?.startsWith('/watch') === true) {
    response.writeHead(200, type).flushHeaders();
    watching.add(response);
    response.once('close', () => watching.delete(response));
    return;
  }
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    const body = Buffer.concat(chunks);
    if (request.url === '/send') for (const each of watching) each.write(body);
    response.writeHead(200, { ...type, 'content-length': body.length }).end(body);
  });
}

async function listening(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

process.once('disconnect', () => process.exit(0));
const authority = await createAuthority();
const plain = `http://${await listening(createServer(answer))}`;
const secure = `https://${await listening(createSecure(await authority.issue('bare'), answer))}`;
process.send?.({ pid: process.pid, plain, secure, authority: authority.ca } satisfies BareAddresses);
