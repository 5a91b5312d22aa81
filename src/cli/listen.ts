import type { Server } from 'node:net';
import { messageOf } from '../api/errors.ts';
import { cliError } from './errors.ts';

export interface ListeningServer {
  readonly port: number;
  close(): Promise<void>;
}

interface Closable extends Server {
  closeAllConnections(): void;
}

/** Begins to listen at `host:port`, or `:port` for every address; `flag` named it. Errors: `Usage` for an address that is none; `ListenFailed`. */
export async function listenAt(server: Closable, address: string, flag: string): Promise<ListeningServer> {
  const { host, port } = addressOf(address, flag);
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause) =>
      reject(cliError('ListenFailed', `${flag} ${address}: ${messageOf(cause)}`, { cause, next: 'name another port' })),
    );
    server.listen(port, host, resolve);
  });
  const bound = server.address();
  return {
    port: typeof bound === 'object' && bound !== null ? bound.port : port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function addressOf(address: string, flag: string): { host: string | undefined; port: number } {
  const match = /^(?:(\[[0-9a-f:]+\]|[^:]*):)(\d{1,5})$/i.exec(address);
  const port = Number(match?.[2]);
  if (match === null || port > 65_535)
    throw cliError('Usage', `\`${flag}\` must be host:port or :port, got "${address}"`, { next: `${flag} :8080` });
  const host = match[1]?.replaceAll(/[[\]]/g, '');
  return { host: host === '' ? undefined : host, port };
}
