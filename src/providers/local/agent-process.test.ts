import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { systemClock } from '../../kube/clock.ts';
import { waitFor } from '../../kube/testing/wait-for.ts';
import { startAgent, type AgentProcess } from './agent-process.ts';
import { layoutOf, type NodeLayout } from './layout.ts';
import { isAlive } from './process.ts';

const LATE = { deadlineMs: 15_000 };

let dir: string;
let layout: NodeLayout;
let agent: AgentProcess | undefined;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'kubenode-agent-'));
  layout = layoutOf(dir, 'u');
  mkdirSync(layout.folder);
  agent = undefined;
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await agent?.stop();
  rmSync(dir, { recursive: true, force: true });
});

async function start(script: string): Promise<AgentProcess> {
  const path = join(dir, 'agent.cjs');
  writeFileSync(path, script);
  agent = await startAgent(layout, [process.execPath, path], systemClock({ ref: true }));
  return agent;
}

test('an agent gets its bootstrap, its root and few variables, and nothing else of its host', async () => {
  vi.stubEnv('SECRET', 'hidden');
  vi.stubEnv('TZ', 'UTC');
  vi.stubEnv('LANG', undefined);
  const { ended } = await start('console.log(JSON.stringify([process.argv.slice(2), process.env, process.cwd()]));process.exit(3)');
  expect(await ended).toBe('exit code 3');
  expect(agent?.hasEnded).toBe(true);
  const [args, env, cwd] = JSON.parse(readFileSync(layout.log, 'utf8')) as [string[], Record<string, string>, string];
  expect(args).toEqual(['--bootstrap', layout.bootstrap, '--root', layout.root, '--host', 'local']);
  expect(env).toMatchObject({ TZ: 'UTC', KUBENODE_ROOT: layout.root });
  expect(env['SECRET']).toBeUndefined();
  expect(env).not.toHaveProperty('LANG');
  expect(env['PATH']?.split(':')[0]).toBe(join(process.execPath, '..'));
  expect(cwd).toBe(layout.folder);
  expect(statSync(layout.log).mode & 0o777).toBe(0o600);
});

test('it is stopped politely, and known as running until then', async () => {
  const started = await start("process.on('SIGTERM', () => process.exit(0)); console.log('ready'); setInterval(() => {}, 1000)");
  await waitFor(() => readFileSync(layout.log, 'utf8') === 'ready\n', LATE);
  const { identity } = started;
  if (identity === undefined) throw new Error('it runs');
  expect([started.hasEnded, await isAlive(identity)]).toEqual([false, true]);
  await started.stop();
  expect([await started.ended, started.hasEnded, await isAlive(identity)]).toEqual(['exit code 0', true, false]);
});

test('it reports how it ended, also where there is no such program', async () => {
  const started = await start('setInterval(() => {}, 1000)');
  process.kill(started.identity?.pid ?? 0, 'SIGKILL');
  expect(await started.ended).toBe('signal SIGKILL');
  const none = await startAgent(layout, [join(dir, 'nothing')], systemClock({ ref: true }));
  expect(await none.ended).toContain('ENOENT');
  expect(none.identity).toBeUndefined();
  await none.stop();
});

test('its log is put aside before it is too large, and goes on otherwise', async () => {
  writeFileSync(layout.log, 'x'.repeat(5 * 1024 * 1024));
  await (
    await start("console.log('next')")
  ).ended;
  expect(existsSync(`${layout.log}.1`)).toBe(false);
  expect(readFileSync(layout.log, 'utf8').endsWith('xnext\n')).toBe(true);
  await (
    await start("console.log('last')")
  ).ended;
  expect(readFileSync(`${layout.log}.1`, 'utf8').endsWith('xnext\n')).toBe(true);
  expect(readFileSync(layout.log, 'utf8')).toBe('last\n');
});
