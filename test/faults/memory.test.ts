/** What a client keeps in memory over many faults: in a process of its own, whose heap can be collected and measured. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { KINDS, type BrokenServer } from './servers.ts';

vi.setConfig({ testTimeout: 240_000, hookTimeout: 180_000 });

const run = promisify(execFile);

describe.each(KINDS)('$name', ({ name: serverName, open }) => {
  let server: BrokenServer;
  beforeAll(async () => {
    server = await open();
  });
  afterAll(() => server.close());

  test('a client that is cut off again and again keeps nothing of it', async () => {
    const child = fileURLToPath(new URL('cutoff.ts', import.meta.url));
    const { stdout, stderr } = await run(process.execPath, ['--expose-gc', child], {
      env: { ...process.env, KUBENODE_TEST_CONNECTION: JSON.stringify(server.connection) },
      // It would outlive a test that gave up, and try for ever.
      timeout: 230_000,
      killSignal: 'SIGKILL',
    });
    const found = JSON.parse(stdout) as { cycles: number; beforeBytes: number; afterBytes: number; listeners: number; lists: number };
    const grown = found.afterBytes - found.beforeBytes;
    const mib = (bytes: number): string => (bytes / 2 ** 20).toFixed(1);
    process.stdout.write(
      `  ${serverName}: heap after ${found.cycles} cycles: ${mib(found.afterBytes)} MiB, ${mib(grown)} more than before\n`,
    );
    // One list is about 400 KiB: a hundredth of what keeping each of them would take.
    expect(found.lists).toBeGreaterThan(found.cycles / 2);
    expect(grown).toBeLessThan(8 * 2 ** 20);
    // Node warns of listeners that pile up.
    expect(stderr).toBe('');
    expect(found.listeners).toBeLessThan(20);
  });
});
