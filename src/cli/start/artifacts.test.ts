import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { serveArtifacts } from './artifacts.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'kubenode-artifacts-'));
  writeFileSync(join(dir, 'a-1.0.0.tgz'), 'content');
});
afterEach(() => rmSync(dir, { recursive: true }));

it('serves artifacts by name and nothing beside them', async () => {
  const server = await serveArtifacts(dir, 0);
  try {
    const answer = await fetch(`${server.url}artifacts/a-1.0.0.tgz`);
    expect([answer.status, await answer.text()]).toEqual([200, 'content']);
    for (const path of ['artifacts/b.tgz', 'artifacts/..%2Fetc', 'artifacts/.hidden', 'a-1.0.0.tgz', '']) {
      expect((await fetch(`${server.url}${path}`)).status, path).toBe(404);
    }
    expect((await fetch(`${server.url}artifacts/a-1.0.0.tgz`, { method: 'DELETE' })).status).toBe(404);
  } finally {
    await server.close();
  }
});

it('reports clearly that its port is in use', async () => {
  const first = await serveArtifacts(dir, 0);
  try {
    const port = Number(new URL(first.url).port);
    await expect(serveArtifacts(dir, port)).rejects.toMatchObject({ code: 'PortInUse', message: expect.stringContaining(`port ${port}`) });
  } finally {
    await first.close();
  }
});
