/**
 * Connects a pod's own network with the outside, through sockets in a folder, by `node in-cluster-relay.ts FOLDER`. `FOLDER/ports.json`:
 * `out`, ports of its loopback whose connections go out by `FOLDER/out-PORT`; `in`, ports to which connections of `FOLDER/in-PORT` come.
 */
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer, connect, type Socket } from 'node:net';
import { join } from 'node:path';

export interface Ports {
  out: number[];
  in: number[];
}

export function couple(a: Socket, b: Socket): void {
  for (const [from, to] of [
    [a, b],
    [b, a],
  ] as const) {
    from.pipe(to);
    from.on('error', () => to.destroy());
    from.on('close', () => to.destroy());
  }
}

async function relay(folder: string): Promise<void> {
  const ports = JSON.parse(readFileSync(join(folder, 'ports.json'), 'utf8')) as Ports;
  for (const port of ports.out) {
    const server = createServer((socket) => couple(socket, connect(join(folder, `out-${port}`))));
    await once(server.listen(port, '127.0.0.1'), 'listening');
  }
  for (const port of ports.in) {
    const server = createServer((socket) => couple(socket, connect(port, '127.0.0.1')));
    await once(server.listen(join(folder, `in-${port}`)), 'listening');
  }
  writeFileSync(join(folder, 'ready'), '');
}

if (import.meta.main) await relay(process.argv[2] ?? '');
