import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished, vi } from 'vitest';
import { lacksKubernetes } from './real-server.ts';

it('reports where a real API server was searched, and what builds one', async () => {
  const empty = mkdtempSync(join(tmpdir(), 'kubenode-bench-'));
  onTestFinished(() => {
    rmSync(empty, { recursive: true });
    vi.unstubAllEnvs();
  });
  vi.stubEnv('XDG_CACHE_HOME', empty);
  vi.stubEnv('KUBEBUILDER_ASSETS', '');
  const lacks = await lacksKubernetes();
  expect(lacks).toContain(`neither ${empty}/kubenode/kubernetes-`);
  expect(lacks).toContain('nor KUBEBUILDER_ASSETS (not set) has kube-apiserver and etcd');
  expect(lacks).toContain('`node tools/kubernetes/programs.ts`');
});
