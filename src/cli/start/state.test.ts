import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openState, readPorts } from './state.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'kubenode-state-'));
});
afterEach(() => rmSync(dir, { recursive: true }));

it('keeps the ports it was made with, since nodes remember them', () => {
  expect(readPorts(dir)).toBeUndefined();
  openState(dir, { server: 1, artifacts: 2 });
  expect(openState(dir, { server: 3, artifacts: 4 }).ports).toEqual({ server: 1, artifacts: 2 });
  expect(readPorts(dir)).toEqual({ server: 1, artifacts: 2 });
});

it.each([
  ['{"format": 99, "ports": {"server": 1, "artifacts": 2}}', 'StateTooNew', 'newer KubeNode'],
  ['{"format": 1}', 'StateDamaged', 'is not what KubeNode wrote'],
  ['{"format": 1, "ports": {"ser', 'StateDamaged', 'is not JSON'],
  ['', 'StateDamaged', 'is not JSON'],
])('refuses %s and changes nothing', (text, code, message) => {
  writeFileSync(join(dir, 'kubenode.json'), text);
  const open = () => openState(dir, { server: 1, artifacts: 2 });
  expect(open).toThrow(expect.objectContaining({ code, next: expect.stringContaining('--state DIR') }));
  expect(open).toThrow(message);
  expect(readdirSync(dir)).toEqual(['kubenode.json']);
  expect(readFileSync(join(dir, 'kubenode.json'), 'utf8')).toBe(text);
});
