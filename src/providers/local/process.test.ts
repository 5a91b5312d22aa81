import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { afterEach, expect, test, vi } from 'vitest';
import { systemClock } from '../../kube/clock.ts';
import { waitFor } from '../../kube/testing/wait-for.ts';
import { end, isAlive, processesWith, startOf, type ProcessIdentity } from './process.ts';

const clock = systemClock({ ref: true });
const LATE = { deadlineMs: 15_000 };
const children: ChildProcess[] = [];
afterEach(() => {
  vi.unstubAllGlobals();
  for (const child of children.splice(0)) child.kill('SIGKILL');
});

/** A process that prints when it is ready. */
async function child(script: string, mark = ''): Promise<ProcessIdentity> {
  const started = spawn(process.execPath, ['-e', `${script}; console.log('ready'); setInterval(() => {}, 1000)`], {
    stdio: ['ignore', 'pipe', 'ignore'],
    env: { MARK: mark },
  });
  children.push(started);
  await once(started.stdout, 'data');
  const pid = started.pid ?? 0;
  return { pid, start: (await startOf(pid)) ?? '' };
}

test.runIf(process.platform === 'linux')('a process is found by its full environment', async () => {
  const mark = `here-${process.pid}`;
  const found = await child('', mark);
  await child('', `${mark}-other`);
  expect(await processesWith(`MARK=${mark}`)).toEqual([found]);
  expect(await processesWith('MARK=nowhere')).toEqual([]);
});

test('a process is asked to end, and ended when it does not within its grace', async () => {
  const polite = await child('');
  const unresponsive = await child("process.on('SIGTERM', () => console.log('no'))");
  const began = clock.monotonic();
  expect(await end(unresponsive, 300, clock)).toBe(true);
  expect(clock.monotonic() - began).toBeGreaterThanOrEqual(300);
  expect(await isAlive(unresponsive)).toBe(false);
  expect(await end(polite, 600_000, clock)).toBe(true);
  expect(await isAlive(polite)).toBe(false);
  const [ofPolite, ofUnresponsive] = children;
  await waitFor(() => ofPolite?.signalCode !== null && ofUnresponsive?.signalCode !== null, LATE);
  expect([ofPolite?.signalCode, ofUnresponsive?.signalCode]).toEqual(['SIGTERM', 'SIGKILL']);
});

test('another process of that number is left alone, and what is gone has ended', async () => {
  const found = await child('');
  expect(await end({ ...found, start: 'another' }, 0, clock)).toBe(true);
  expect(await isAlive(found)).toBe(true);
  expect(await end(found, 0, clock)).toBe(true);
  expect(await startOf(found.pid)).toBeUndefined();
});

test.runIf(process.platform === 'linux')('where there is no /proc, ps reports when a process began', async () => {
  const found = await child('');
  vi.stubGlobal('process', Object.create(process, { platform: { value: 'darwin' } }));
  const start = await startOf(found.pid);
  // As `Sat Nov 21 09:31:37 2026`.
  expect(start).toMatch(/^\w{3} \w{3} \d+ \d\d:\d\d:\d\d \d{4}$/);
  expect(await isAlive({ pid: found.pid, start: start ?? '' })).toBe(true);
  expect(await startOf(2 ** 22 + 1)).toBeUndefined();
  expect(await processesWith('MARK=')).toEqual([]);
});
