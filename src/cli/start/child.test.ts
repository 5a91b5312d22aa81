import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { systemClock } from '../../kube/clock.ts';
import { keepRunning, tail } from './child.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'kubenode-child-'));
});
afterEach(() => rmSync(dir, { recursive: true }));

const noLog = { debug() {}, info() {}, warn() {}, error() {} };
const options = (script: string, extra = {}) => ({
  name: 'x',
  command: process.execPath,
  args: ['-e', script],
  logFile: join(dir, 'x.log'),
  clock: systemClock(),
  log: noLog,
  ...extra,
});

it('starts a process again that was killed, and stops it when asked', async () => {
  const exits: string[] = [];
  const child = keepRunning(
    options('console.log("up", process.pid); setInterval(() => {}, 1000)', { onExit: (why: string) => exits.push(why) }),
  );
  const lines = () =>
    tail(join(dir, 'x.log'), 9)
      .split('\n')
      .filter((line) => line.startsWith('up'));
  await vi.waitFor(() => expect(lines()).toHaveLength(1), 10_000);
  const { pid } = child;
  process.kill(pid ?? 0, 'SIGKILL');
  await vi.waitFor(() => expect(lines()).toHaveLength(2), 10_000);
  expect(child.pid).not.toBe(pid);
  expect(exits).toEqual(['SIGKILL']);
  await child.stop();
  expect(child.pid).toBeUndefined();
});

it('kills a child that ignores SIGTERM', async () => {
  const child = keepRunning(options('process.on("SIGTERM", () => {}); console.log("unresponsive"); setInterval(() => {}, 1000)'));
  await vi.waitFor(() => expect(readFileSync(join(dir, 'x.log'), 'utf8')).toContain('unresponsive'), 10_000);
  await child.stop(50);
  expect(child.pid).toBeUndefined();
});
