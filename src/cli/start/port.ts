import { createServer } from 'node:net';
import { cliError } from '../errors.ts';

export async function freePort(): Promise<number> {
  return await new Promise((resolve, reject) => {
    const server = createServer().once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0));
    });
  });
}

/** The first of as many free ports in a row. */
export async function freePorts(count: number): Promise<number> {
  for (;;) {
    const first = await freePort();
    const rest = Array.from({ length: count - 1 }, (_, index) => first + 1 + index);
    const free = await Promise.all(
      rest.map((port) =>
        assertFree(port, 'an API server', '--port').then(
          () => true,
          () => false,
        ),
      ),
    );
    if (first + count <= 65_536 && free.every(Boolean)) return first;
  }
}

export async function assertFree(port: number, what: string, flag: string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const server = createServer().once('error', (error: NodeJS.ErrnoException) =>
      reject(
        error.code === 'EADDRINUSE'
          ? cliError('PortInUse', `port ${port} of 127.0.0.1, for ${what}, is in use`, {
              next: `end what uses it (another kubenode start?), or choose another: ${flag} PORT`,
            })
          : error,
      ),
    );
    server.listen(port, '127.0.0.1', () => server.close(() => resolve()));
  });
}
