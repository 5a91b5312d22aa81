import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { archiveOf } from './archive.ts';
import { buildAgentPackage, type AgentPackage } from './build.ts';

const run = promisify(execFile);

describe("the agent's package", () => {
  let folder = '';
  let built: AgentPackage;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'kubenode-package-'));
    built = await buildAgentPackage('amd64', join(folder, 'one.tar'));
    await run('mkdir', [join(folder, 'node')]);
    await run('tar', ['-xf', built.path, '-C', join(folder, 'node')]);
  }, 60_000);
  afterAll(() => rm(folder, { recursive: true, force: true }));

  it('has the same bytes whenever it is made', async () => {
    const again = await buildAgentPackage('amd64', join(folder, 'two.tar'));
    expect(again.sha256).toBe(built.sha256);
    expect(
      createHash('sha256')
        .update(await readFile(again.path))
        .digest('hex'),
    ).toBe(built.sha256);
  });

  it('contains agent, Node, unit, install and uninstall, each with its digest', async () => {
    const { stdout } = await run('sha256sum', ['--strict', '-c', 'SHA256SUMS'], { cwd: join(folder, 'node') });
    const names = [
      'LICENSE.node',
      'VERSION',
      'agent.mjs',
      'install',
      'kubenode-agent',
      'kubenode-agent.service',
      'node',
      'tool.mjs',
      'uninstall',
    ];
    expect(stdout.trim().split('\n').toSorted()).toEqual(names.map((name) => `${name}: OK`).toSorted());
    for (const name of ['install', 'uninstall', 'kubenode-agent', 'node'])
      expect((await stat(join(folder, 'node', name))).mode & 0o777, name).toBe(0o755);
  });

  it('runs with nothing else: its own Node runs its own agent', async () => {
    const program = join(folder, 'node', 'kubenode-agent');
    await expect(run(program, [], { env: { PATH: process.env['PATH'] ?? '', NODE_OPTIONS: '--no-such-flag' } })).rejects.toMatchObject({
      code: 64,
      stderr: expect.stringContaining('usage: kubenode-agent') as string,
    });
  });
});

describe('an archive', () => {
  it('does not depend on the order in which files are given', () => {
    const files = ['b', 'a'].map((name) => ({ name, mode: 0o644, content: Buffer.from(name) }));
    expect(Buffer.concat(archiveOf(files))).toEqual(Buffer.concat(archiveOf(files.toReversed())));
  });
});
