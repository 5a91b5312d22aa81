import { expect, test } from 'vitest';
import { parseBootstrap } from './bootstrap.ts';

const GOOD = {
  server: 'https://cell.example:6443',
  certificateAuthority: 'x',
  token: 't',
  providerID: 'local://web/m1',
  machine: { namespace: 'web', name: 'm1.example', uid: '0e4a-7' },
};
const parse = (change: object, machine: object = {}) =>
  parseBootstrap({ ...GOOD, ...change, machine: { ...GOOD.machine, ...machine } }, 'bootstrap.json');

test('G6b: what templates see of the machine has a strict form', () => {
  expect(parse({})).toMatchObject(GOOD);
  expect(parse({ providerID: 'aws:///eu-1a/i-0_a.b' }).providerID).toBe('aws:///eu-1a/i-0_a.b');
});

test.each<[string, object, object?]>([
  ['providerID', { providerID: 'x; echo PWNED as $(id -un);' }],
  ['providerID', { providerID: 'aws://a\nb' }],
  ['providerID', { providerID: 'aws://a\n' }],
  ['providerID', { providerID: `aws://${'a'.repeat(251)}` }],
  ['machine.name', {}, { name: '$(id)' }],
  ['machine.name', {}, { name: 'a'.repeat(254) }],
  ['machine.name', {}, { name: '../m1' }],
  ['machine.namespace', {}, { namespace: 'web;id' }],
  ['machine.namespace', {}, { namespace: 'a.b' }],
  ['machine.uid', {}, { uid: '`id`' }],
])('G6b: another %s is refused: %j %j', (field, change, machine) => {
  expect(() => parse(change, machine)).toThrow(
    expect.objectContaining({ code: 'BootstrapInvalid', message: expect.stringContaining(`\`${field}\``) as unknown }),
  );
});

test('keys that cannot be read do not pass for none', () => {
  expect(parse({}).componentKeys).toBeUndefined();
  expect(() => parse({ componentKeys: 'no key' })).toThrow(expect.objectContaining({ code: 'KeysInvalid' }));
  expect(() => parse({ componentKeys: '' })).toThrow(expect.objectContaining({ code: 'BootstrapInvalid' }));
});

test.each([
  ['https://mirror/x/', true],
  ['https://mirror/x', false],
  ['mirror/', false],
  [7, false],
])('a mirror %j is one: %s', (mirror, good) => {
  if (good) expect(parse({ mirror }).mirror).toBe(mirror);
  else expect(() => parse({ mirror })).toThrow(expect.objectContaining({ code: 'BootstrapInvalid' }));
});

test.each([[null], [[]], ['text'], [{}]])('%j is no bootstrap', (value) => {
  expect(() => parseBootstrap(value, 'bootstrap.json')).toThrow(expect.objectContaining({ code: 'BootstrapInvalid' }));
});
