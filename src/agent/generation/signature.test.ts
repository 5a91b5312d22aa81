import { generateKeyPairSync } from 'node:crypto';
import { beforeEach, describe, expect, test } from 'vitest';
import { keyIDOf, keyLine, signComponent } from '../../api/component-key.ts';
import type { ComponentEntry } from '../../api/machine.ts';
import { begin, live, type Life } from '../testing/life.ts';
import { app, find, put, rest, want } from '../testing/node.ts';
import { entry, release, World } from '../testing/world.ts';

const key = generateKeyPairSync('ed25519').privateKey;
const next = generateKeyPairSync('ed25519').privateKey;
const KEYS = '/etc/kubenode/component-keys';
const VALUES = [{ name: 'color', pattern: '[a-z]+' }];
/** Taken without an order. */
const NO_DISRUPTION = { values: VALUES, probes: [], disruption: { minor: 'None', config: 'None' } };

interface Spec {
  version: string;
  [field: string]: unknown;
}
const specOf = (world: World, name: string): Spec => world.components.get(name) as Spec;
const without = (spec: Spec, field: string): object => Object.fromEntries(Object.entries(spec).filter(([name]) => name !== field));
const sign = (world: World, name: string, ...by: (typeof key)[]): void => {
  const spec = specOf(world, name);
  world.components.set(name, { ...spec, signatures: by.map((each) => signComponent(spec, each)) });
};

let world: World;
let life: Life;
/** Its agent was installed with the public half of `key`, and runs app 1.0.0, which is signed. */
beforeEach(async () => {
  world = new World();
  world.pinned = keyLine(key, 'release');
  release(world, '1.0.0', { spec: NO_DISRUPTION });
  sign(world, 'app-1.0.0', key);
  world.change({ components: [entry('app', '1.0.0', 1)] });
  life = begin(world);
  await live(world, life, () => app(world)?.state === 'Healthy');
  await rest(world, life);
  world.effects = [];
});

/** Makes the cell want it, and waits for what the agent reports. */
async function refused(components: ComponentEntry[], name = 'app') {
  const artifacts = world.requests.artifact;
  want(world, life, components);
  await live(world, life, () => world.component(name)?.failed !== undefined);
  expect(world.requests.artifact).toBe(artifacts);
  expect(world.effects).toEqual([]);
  expect(app(world)).toMatchObject({ state: 'Healthy', version: '1.0.0' });
  return world.component(name)?.failed;
}

describe('security 10, G6: an intruder who controls the API of a cell', () => {
  test.each<[string, (spec: Spec) => object]>([
    ['a component without a signature', (spec) => without(spec, 'signatures')],
    ['an empty list of signatures', (spec) => ({ ...spec, signatures: [] })],
    ['a key of his own', (spec) => ({ ...spec, signatures: [signComponent(spec, next)] })],
    [
      'a key of his own under the name of ours',
      (spec) => ({ ...spec, signatures: [{ keyID: keyIDOf(key), value: signComponent(spec, next).value }] }),
    ],
    ['the signature of another version', (spec) => ({ ...spec, signatures: specOf(world, 'app-1.0.0')['signatures'] })],
    ['another program', (spec) => ({ ...spec, units: [{ name: 'app', exec: ['/bin/sh', '-c', 'evil'] }] })],
    ['a hook more', (spec) => ({ ...spec, hooks: { preInstall: { command: ['evil'] } } })],
    ['a probe more', (spec) => ({ ...spec, probes: [{ name: 'answers', exec: { command: ['evil'] } }] })],
    ['a file more', (spec) => ({ ...spec, files: [{ path: '/etc/cron.d/evil', content: '* * * * * root evil\n' }] })],
    ['an environment', (spec) => ({ ...spec, units: [{ name: 'app', exec: ['{{dir}}/bin'], environment: { LD_PRELOAD: '/evil.so' } }] })],
    ['a folder to clean', (spec) => ({ ...spec, disposable: [{ path: '/home', olderThanSeconds: 1 }] })],
    ['looser values', (spec) => ({ ...spec, values: [{ name: 'color', pattern: '.*' }] })],
    ['no limits of values', (spec) => without(spec, 'values')],
    ['a weaker class of disruption', (spec) => ({ ...spec, disruption: { minor: 'None' } })],
    ['a field that only a later agent knows', (spec) => ({ ...spec, sandbox: false })],
    ['other artifacts', (spec) => ({ ...spec, platforms: [{ os: 'any', arch: 'any', artifacts: [] }] })],
  ])('gets nothing run by %s', async (_what, change) => {
    release(world, '1.1.0', { spec: { values: VALUES } });
    sign(world, 'app-1.1.0', key);
    world.components.set('app-1.1.0', change(specOf(world, 'app-1.1.0')));
    expect(await refused([entry('app', '1.1.0', 2)])).toMatchObject({
      reason: 'SignatureRefused',
      message: expect.stringMatching(/^app 1\.1\.0 is not run here: .*next: kubenode component sign/),
    });
  });

  test.each<[string, Record<string, unknown>]>([
    ['a value that the component does not name', { color: 'blue', script: 'evil' }],
    ['a value that does not match', { color: 'blue; evil' }],
    ['a line more', { color: 'blue\nevil' }],
    ['a line more at the end', { color: 'blue\n' }],
    ['something inside of a value', { color: { $: 'evil' } }],
    ['a list', { color: ['blue'] }],
    ['a long one', { color: 'a'.repeat(5000) }],
  ])('gets nothing run by %s', async (_what, values) => {
    expect(await refused([entry('app', '1.0.0', 2, { values })])).toMatchObject({ reason: 'ValuesRefused' });
  });

  test('gets no label into a template that is none', async () => {
    world.change({ labels: { 'kubenode.io/a': 'evil"\nx' } });
    expect(await refused([entry('app', '1.0.0', 2, { values: { color: 'red' } })])).toMatchObject({ reason: 'ValuesRefused' });
  });

  test('gets nothing run by a signed component under another name', async () => {
    world.components.set('other-1.0.0', specOf(world, 'app-1.0.0'));
    expect(await refused([entry('app', '1.0.0', 1), entry('other', '1.0.0', 1)], 'other')).toMatchObject({ reason: 'SpecInvalid' });
  });

  test('gets no component with other values by leaving them undeclared', async () => {
    release(world, '1.1.0');
    sign(world, 'app-1.1.0', key);
    expect(await refused([entry('app', '1.1.0', 2)])).toMatchObject({
      reason: 'ValuesRefused',
      message: expect.stringContaining('allowed: none'),
    });
  });

  test('does not take the pinned keys away with another bootstrap', async () => {
    life.end();
    world.pinned = keyLine(next, 'intruder');
    life = begin(world);
    release(world, '1.1.0', { spec: { values: VALUES } });
    sign(world, 'app-1.1.0', next);
    expect(await refused([entry('app', '1.1.0', 2)])).toMatchObject({ reason: 'SignatureRefused' });
    expect(find(world, KEYS)).toMatchObject({ data: Buffer.from(`${keyLine(key, 'release')}\n`), mode: 0o644 });
  });
});

describe('G6: a node with pinned keys', () => {
  test('reports whose signature is accepted, and keeps what runs', async () => {
    release(world, '1.1.0', { spec: { values: VALUES } });
    const failed = await refused([entry('app', '1.1.0', 2)]);
    expect(failed?.message).toContain(`accepted: ${keyIDOf(key)} (release)`);
  });

  test('runs what is signed', async () => {
    release(world, '1.1.0', { spec: NO_DISRUPTION });
    sign(world, 'app-1.1.0', key);
    want(world, life, [entry('app', '1.1.0', 2)]);
    await live(world, life, () => app(world)?.version === '1.1.0' && app(world)?.state === 'Healthy');
  });

  test('takes a component once another key has signed it too, though it has read it before', async () => {
    release(world, '1.1.0', { spec: NO_DISRUPTION });
    sign(world, 'app-1.1.0', next);
    await refused([entry('app', '1.1.0', 2)]);
    sign(world, 'app-1.1.0', next, key);
    want(world, life, [entry('app', '1.1.0', 3)]);
    await live(world, life, () => app(world)?.version === '1.1.0' && app(world)?.state === 'Healthy');
  });

  test('goes over to another key without a restart: what it has read it verifies again', async () => {
    put(world, KEYS, `${keyLine(next, 'next')}\n`);
    expect(await refused([entry('app', '1.0.0', 2, { values: { color: 'red' } })])).toMatchObject({ reason: 'SignatureRefused' });
    sign(world, 'app-1.0.0', next);
    want(world, life, [entry('app', '1.0.0', 3, { values: { color: 'red' } })]);
    await live(world, life, () => app(world)?.running === 3 && app(world)?.state === 'Healthy');
  });

  test.each([
    ['emptied', '\n'],
    ['damaged', 'ssh-ed25519 AAAA'],
    ['taken away', undefined],
  ])('accepts nothing while its keys are %s, and reports that', async (_what, text) => {
    put(world, KEYS, text);
    const artifacts = world.requests.artifact;
    release(world, '1.1.0', { spec: { values: VALUES } });
    sign(world, 'app-1.1.0', key);
    want(world, life, [entry('app', '1.1.0', 2)]);
    await live(world, life, () => app(world)?.message !== undefined);
    expect(app(world)?.message).toContain('KeysInvalid');
    expect(world.requests.artifact).toBe(artifacts);
  });
});

test('G6: values that a component declares are checked without keys, too', async () => {
  world = new World();
  release(world, '1.0.0', { spec: { values: [{ name: 'color', pattern: 'red|green' }] } });
  world.change({ components: [entry('app', '1.0.0', 1)] });
  life = begin(world);
  await live(world, life, () => app(world)?.failed !== undefined);
  expect(app(world)?.failed).toMatchObject({
    reason: 'ValuesRefused',
    message: expect.stringContaining('values.color must match red|green'),
  });
});
