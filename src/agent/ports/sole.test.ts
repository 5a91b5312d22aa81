import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { startOf } from './processes.ts';
import { beSole } from './sole.ts';

let root = '';
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'kubenode-sole-'));
});
afterEach(() => rmSync(root, { recursive: true }));

const path = (): string => join(root, 'run/kubenode/agent.pid');
const write = (text: string): void => {
  mkdirSync(join(root, 'run/kubenode'), { recursive: true });
  writeFileSync(path(), text);
};

test('the first is the only one; it leaves nothing beside its file', async () => {
  await beSole(root);
  expect(readFileSync(path(), 'utf8')).toBe(`${process.pid} ${await startOf(process.pid)}`);
  expect(readdirSync(join(root, 'run/kubenode'))).toEqual(['agent.pid']);
});

test('while another one lives there is no second; when it was killed there is', async () => {
  const other = spawn('sleep', ['60']);
  await once(other, 'spawn');
  write(`${other.pid} ${await startOf(other.pid ?? 0)}`);
  await expect(beSole(root)).rejects.toMatchObject({ code: 'AgentRunning', message: expect.stringContaining(String(other.pid)) });
  other.kill('SIGKILL');
  await once(other, 'exit');
  await beSole(root);
  expect(readFileSync(path(), 'utf8')).toContain(`${process.pid} `);
});

test.each(['', 'x', '1', `${process.ppid} another-start`, '999999999 x'])('a file with %j stops no agent', async (text) => {
  write(text);
  await beSole(root);
  expect(readFileSync(path(), 'utf8')).toContain(`${process.pid} `);
});
