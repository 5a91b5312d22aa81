import { describe, expect, it } from 'vitest';
import { foreignAgent, machineName, obstacles, readFacts } from './facts.ts';

const GOOD = {
  os: 'debian ',
  systemd: 'yes',
  arch: 'x86_64',
  hostname: 'Web-1.example',
  now: '1000000',
  glibc: 'glibc 2.36',
  freeOptKiB: '9000000',
  freeVarKiB: '9000000',
  route: 'yes',
};
const server = 'https://api.example:6443';
const around = { server, serverMs: 1_000_000_000, tookMs: 500 };
const facts = (changes: Record<string, string | undefined> = {}) =>
  readFacts(
    Object.entries({ ...GOOD, ...changes })
      .flatMap(([name, value]) => (value === undefined ? [] : [`${name}=${value}\n`]))
      .join(''),
  );

describe('what is in the way of an import', () => {
  it('is nothing on a plain Debian machine', () => {
    expect(obstacles(facts(), around)).toEqual([]);
    expect(obstacles(facts({ os: 'ubuntu debian', arch: 'aarch64' }), around)).toEqual([]);
  });

  it.each([
    ['NotDebian', { os: 'rocky rhel fedora' }],
    ['NotDebian', { os: 'notdebian ' }],
    ['NoSystemd', { systemd: undefined }],
    ['ArchitectureUnknown', { arch: 'riscv64' }],
    ['ToolMissing', { missing: 'flock' }],
    ['LibcTooOld', { glibc: 'glibc 2.27' }],
    ['LibcTooOld', { glibc: '' }],
    ['ReadOnly', { readonly: '/opt' }],
    ['NoSpace', { freeOptKiB: '102400' }],
    ['NoSpace', { freeVarKiB: undefined }],
    ['NoSpace', { freeOptKiB: 'much' }],
    ['NoRoute', { route: undefined }],
    ['ClockWrong', { now: '1000200' }],
    ['ClockWrong', { now: '999000' }],
    ['ClockWrong', { now: '' }],
    ['KubeletPresent', { kubelet: '77' }],
  ])('is %s with %j, and reports what to do', (code, changes) => {
    const found = obstacles(facts(changes), around);
    expect(found.map((each) => each.code)).toEqual([code]);
    expect(found[0]?.next).toBeTruthy();
  });

  it('is all of it where the machine reports nothing', () => {
    expect(obstacles(readFacts(''), around).length).toBeGreaterThan(6);
  });

  it('is no kubelet that an agent of ours may have brought', () => {
    expect(obstacles(facts({ kubelet: '77', bootstrap: 'yes' }), around)).toEqual([]);
  });

  it('is no clock where the time of the API server is not known', () => {
    expect(obstacles(facts({ now: '5' }), { ...around, serverMs: undefined })).toEqual([]);
  });

  it('never shows what a terminal would obey', () => {
    expect(obstacles(facts({ os: 'debian\u001b[2J' }), around)[0]?.message).toContain(String.raw`\u001b[2J`);
  });
});

describe('an agent that is there', () => {
  const there = { bootstrap: 'yes', bootstrap_uid: 'uid-1', bootstrap_server: server, bootstrap_namespace: 'web', bootstrap_name: 'web-1' };

  it('is none, or the one of this Machine', () => {
    expect(foreignAgent(facts(), undefined, server)).toBeUndefined();
    expect(foreignAgent(facts({ ...there, identity: 'yes', identity_uid: 'uid-1' }), 'uid-1', server)).toBeUndefined();
  });

  it.each([
    ['of another Machine', there, 'uid-2', 'Machine web/web-1'],
    ['of a Machine that is gone', there, undefined, 'Machine web/web-1'],
    ['of another cell', { ...there, bootstrap_server: 'https://other:6443' }, 'uid-2', 'another cell'],
    ['which only left its identity', { identity: 'yes', identity_uid: 'uid-9' }, 'uid-1', 'an agent of an unknown cell'],
    ['which cannot be read', { bootstrap: 'yes', bootstrap_uid: '' }, 'uid-1', 'an agent of an unknown cell'],
    ['whose identity is another’s than its bootstrap', { ...there, identity: 'yes', identity_uid: 'uid-9' }, 'uid-1', 'is there'],
  ])('%s is foreign', (_, changes, uid, expected) => {
    expect(foreignAgent(facts(changes), uid, server)).toMatchObject({
      code: 'OtherMachine',
      message: expect.stringContaining(expected) as string,
    });
  });
});

describe('the name of a Machine', () => {
  it('is what was given, else the hostname in small letters', () => {
    expect(machineName(undefined, facts())).toBe('web-1.example');
    expect(machineName('web-7', facts())).toBe('web-7');
  });

  it.each(['web_1', '-x', '', 'a/b', 'x'.repeat(64)])('is not "%s"', (name) => {
    expect(() => machineName(name, facts())).toThrow(expect.objectContaining({ code: 'HostnameUnfit' }) as Error);
  });
});
