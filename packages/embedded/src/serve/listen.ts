import type { Server } from 'node:https';
import { messageOf } from '@kubenode/api-machinery/errors';
import { embeddedError } from '../errors.ts';

const LOOPBACK: Record<string, string> = { '127.0.0.1': '127.0.0.1', localhost: '127.0.0.1', '[::1]': '::1' };

/** Throws CodedError BadListen or NotLoopback. */
export function parseListen(listen: string): { host: string; port: number } {
  const match = /^(\[[^\]]+\]|[^:]+):(\d{1,5})$/.exec(listen);
  const port = Number(match?.[2]);
  if (match === null || port > 65_535) {
    throw embeddedError('BadListen', `cannot listen on ${JSON.stringify(listen)}: give an address and a port, such as 127.0.0.1:8443`);
  }
  const host = LOOPBACK[match[1] ?? ''];
  if (host === undefined) {
    throw embeddedError(
      'NotLoopback',
      `refusing to listen on ${JSON.stringify(match[1])}: the embedded API server is for trying things and not hardened for networks, so it listens on loopback only`,
      {
        next: 'use 127.0.0.1, localhost or [::1]',
      },
    );
  }
  return { host, port };
}

/** Resolves to the port when the server listens. Throws CodedError PortInUse or CannotListen. */
export async function listenOn(server: Server, host: string, port: number): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      const inUse = error.code === 'EADDRINUSE';
      reject(
        embeddedError(
          inUse ? 'PortInUse' : 'CannotListen',
          inUse ? `port ${port} of ${host} is in use by another process` : `cannot listen on ${host}:${port}: ${messageOf(error)}`,
          {
            cause: error,
            ...(inUse ? { next: 'choose another port with --listen, or 0 for a free one' } : {}),
          },
        ),
      );
    });
    server.listen(port, host, resolve);
  });
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : port;
}
