/**
 * Loaded into the processes of `kubenode start` with `--import`. In the one that serves the API it writes a line for each request as it
 * arrives: `[ms since the epoch, port of the server, method, url, user agent]`. Counting is done by who reads it, so the server does one small write more.
 */
import { subscribe } from 'node:diagnostics_channel';
import { openSync, writeSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';

const file = process.env['KUBENODE_BENCH_REQUESTS'];
if (file !== undefined && process.argv[2] === 'serve') {
  const log = openSync(file, 'a');
  subscribe('http.server.request.start', (message) => {
    const { request } = message as { request: IncomingMessage };
    const atMs = performance.timeOrigin + performance.now();
    const line = [atMs, request.socket.localPort, request.method, request.url, request.headers['user-agent'] ?? ''];
    writeSync(log, `${JSON.stringify(line)}\n`);
  });
}
