import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openState } from './state.ts';
import { welcome } from './welcome.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'kubenode-welcome-'));
});
afterEach(() => rmSync(dir, { recursive: true }));

function printed(): string {
  let text = '';
  const nothing = {
    firstState: async () => {},
    fleet: () => undefined,
    clusters: () => [],
    machines: () => [],
    start() {},
    stop: async () => {},
  };
  welcome({
    output: { print: (line) => (text += line), report: () => undefined, live: false, plain: false },
    state: openState(join(dir, 'state'), { server: 1, artifacts: 2 }),
    repository: dir,
    branch: undefined,
    progress: nothing,
    servers: undefined,
  });
  return text;
}

it('shows how to make a node ill where a rule would notice', () => {
  expect(printed()).not.toContain('kern.log');
  mkdirSync(join(dir, 'rules'));
  writeFileSync(join(dir, 'rules', 'readonly-filesystem.ts'), '');
  expect(printed()).toContain(`>> ${join(dir, 'state', 'nodes')}/$uid/root/var/log/kern.log\n`);
});

it('shows the line to edit where a later version is packed', () => {
  mkdirSync(join(dir, 'fleet'));
  writeFileSync(join(dir, 'fleet', 'versions.ts'), "export const kubelet = localKubelet('1.0.0');\n");
  writeFileSync(join(dir, 'fleet', 'artifacts.lock.json'), JSON.stringify({ 'local-kubelet': { '1.0.0': {}, '1.0.1': {} } }));
  expect(printed()).toMatch(/line 1, make 1\.0\.0 1\.0\.1:\n {4}export const kubelet/);
});
