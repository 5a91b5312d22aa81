import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openState, readPorts, requireServers } from './state.ts';

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

it('belongs to the API servers it was made with', () => {
  const servers = { hub: 'https://a', test: 'https://b' };
  requireServers(dir, servers);
  openState(dir, { server: 1, artifacts: 2 }, servers);
  requireServers(dir, servers);
  expect(() => requireServers(dir, undefined)).toThrow(/was made with hub at https:\/\/a, test at https:\/\/b, not with .* its own/);
  expect(() => requireServers(dir, { ...servers, test: 'https://c' })).toThrow(expect.objectContaining({ code: 'OtherServers' }));
});

it.each([
  ['{"format": 1, "ports": {"server": 1, "artifacts": 2}, "servers": {"hub": 1}}', 'StateDamaged', 'is not what KubeNode wrote'],
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
