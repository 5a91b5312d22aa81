import { createServer, type AddressInfo } from 'node:net';
import type { Connection } from '../../src/kube/connect.ts';
import { httpTransport } from '../../src/kube/http-transport.ts';

export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise<void>((resolve) => server.close(() => resolve()));
  return port;
}

/** Whether a GET of the path is answered 200. */
export async function answers(connection: Connection, path: string): Promise<boolean> {
  const transport = httpTransport(connection, { idleTimeoutMs: 5000 });
  try {
    const { status, body } = await transport({ method: 'GET', path });
    for await (const _ of body);
    return status === 200;
  } finally {
    await transport.close();
  }
}
