import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { serverTimes } from '../../api/server-limits.ts';
import { cliError } from '../errors.ts';

/** Serves the packed stand-ins on loopback, as a mirror would: `GET /artifacts/<name>` and nothing else. */
export async function serveArtifacts(dir: string, port: number): Promise<{ url: string; close(): Promise<void> }> {
  const server: Server = createServer({ ...serverTimes() }, (request, response) => {
    const name = /^\/artifacts\/([A-Za-z0-9][A-Za-z0-9._+-]*)$/.exec(request.url ?? '')?.[1];
    if (name === undefined || request.method !== 'GET') {
      response.writeHead(404).end();
      return;
    }
    const path = join(dir, name);
    void send(path, response);
  });
  server.maxConnections = 256;
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      reject(
        error.code === 'EADDRINUSE'
          ? cliError('PortInUse', `port ${port} of 127.0.0.1, for artifacts, is in use`, {
              next: 'end what uses it, or choose another: --artifacts-port PORT',
            })
          : error,
      );
    });
    server.listen(port, '127.0.0.1', resolve);
  });
  const address = server.address();
  const bound = typeof address === 'object' && address !== null ? address.port : port;
  return {
    url: `http://127.0.0.1:${bound}/`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function send(path: string, response: ServerResponse): Promise<void> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined) {
    response.writeHead(404).end();
    return;
  }
  response.writeHead(200, { 'content-type': 'application/octet-stream', 'content-length': found.size });
  createReadStream(path)
    .on('error', () => response.destroy())
    .pipe(response);
}
