import { expect, test } from 'vitest';
import { sha256Hex } from '../../api/digest.ts';
import { begin, live } from '../testing/life.ts';
import { app, give, node, put, rest, waiting, want, type Node } from '../testing/node.ts';
import { entry, MIRROR, order, release, ROOT, World } from '../testing/world.ts';

/* How what is wanted is made ready, and what of it is kept. */

const eventsOf = (world: World, reason: string): string[] => world.events.filter((each) => each.startsWith(`${reason}: `));
const STORE = '/var/lib/kubenode/store';
const SPECS = '/var/lib/kubenode/specs';

function names(world: World, path: string): string[] {
  const inode = world.disk.inodes.get(world.disk.find(`${ROOT}${path}`, true) ?? 0);
  return inode?.kind === 'folder' ? [...inode.names.keys()].toSorted() : [];
}

/** Versions of app whose generations are here. */
function versions(world: World): string[] {
  const found = names(world, '/var/lib/kubenode/components/app').filter((name) => /^[a-f0-9]{24}$/.test(name));
  const manifests = found.map((name) => world.text(`/var/lib/kubenode/components/app/${name}/.kubenode/manifest.json`) ?? '');
  return manifests.map((text) => /"version":"([^"]*)"/.exec(text)?.[1] ?? '?').toSorted();
}

/** When something was asked for, in seconds since the first time. */
async function asked(world: World, life: Node['life'], which: 'component' | 'artifact', ms: number): Promise<number[]> {
  const at: number[] = [];
  const until = world.ms + ms;
  let before = world.requests[which];
  await live(world, life, () => {
    if (world.requests[which] > before) at.push(world.ms);
    before = world.requests[which];
    return world.ms >= until;
  });
  return at.map((each) => (each - (at[0] ?? 0)) / 1000);
}

test('what cannot be fetched is asked for ever more rarely, at least every five minutes, and reported once', async () => {
  const world = new World();
  world.change({ components: [entry('app', '1.0.0', 1)] });
  const life = begin(world);
  const at = await asked(world, life, 'component', 3_600_000);
  const gaps = at.map((each, index) => each - (at[index - 1] ?? each)).slice(1);
  expect(Math.min(...gaps)).toBeGreaterThanOrEqual(1);
  expect(gaps[0]).toBeLessThanOrEqual(11);
  expect(Math.max(...gaps)).toBeGreaterThan(60);
  expect(Math.max(...gaps)).toBeLessThanOrEqual(302);
  expect(eventsOf(world, 'FetchFailed')).toEqual(['FetchFailed: app 1.0.0: no MachineComponent app-1.0.0']);
  expect(app(world)).toMatchObject({ state: 'Fetching', message: expect.stringContaining('no MachineComponent app-1.0.0') });
  release(world, '1.0.0');
  await live(world, life, () => app(world)?.state === 'Healthy');
});

test('a mirror that lacks an artifact, or has another, is asked five times; then the revision has failed', async () => {
  for (const [disturb, reason] of [
    [(world: World) => world.artifacts.clear(), 'ArtifactRefused'],
    [(world: World) => world.artifacts.set(`${MIRROR}app-1.1.0`, Buffer.from('something else')), 'DigestMismatch'],
  ] as const) {
    const { world, life } = await node();
    release(world, '1.1.0');
    disturb(world);
    const before = world.requests.artifact;
    want(world, life, [entry('app', '1.1.0', 2)]);
    await live(world, life, () => app(world)?.failed !== undefined);
    expect(world.requests.artifact - before).toBe(5);
    expect(app(world)).toMatchObject({ version: '1.0.0', failed: { revision: 2, reason, restored: true } });
    // When it began, and when it ended.
    expect(eventsOf(world, 'FetchFailed')).toHaveLength(2);
    await rest(world, life, 3_600_000);
    expect(world.requests.artifact - before).toBe(5);
    release(world, '1.1.0');
    want(world, life, [entry('app', '1.1.0', 3)]);
    await waiting(world, life);
    expect(app(world)?.revision).toBe(3);
  }
});

test('what can never be made is tried once', async () => {
  const { world, life } = await node();
  release(world, '1.1.0', { spec: { files: [{ path: '/etc/app/app.conf', content: '{{nothing}}' }] } });
  const { component } = world.requests;
  want(world, life, [entry('app', '1.1.0', 2)]);
  await rest(world, life, 3_600_000);
  expect(world.requests.component - component).toBe(1);
  expect(app(world)?.failed).toMatchObject({ reason: 'TemplateUnknown', restored: true });
  expect(eventsOf(world, 'FetchFailed')).toHaveLength(1);
});

/** Artifacts of a server that is not this machine. */
function far(world: World, version: string, names: readonly string[]): void {
  const artifacts = names.map((name) => {
    const bytes = Buffer.from(`${name} ${version}: app ${version} good`);
    const url = `https://far.example.com/${name}-${version}`;
    world.artifacts.set(url, bytes);
    return { name, url, sha256: sha256Hex(bytes) };
  });
  release(world, version, { spec: { platforms: [{ os: 'any', arch: 'any', artifacts }] } });
}

test('nodes do not all fetch at once: each waits up to half a minute before its first artifact, and not where all is here', async () => {
  const took: number[] = [];
  for (const artifacts of [['bin'], ['bin', 'two', 'three']]) {
    const world = new World();
    far(world, '1.0.0', artifacts);
    world.change({ components: [entry('app', '1.0.0', 1)] });
    const life = begin(world);
    const began = world.ms;
    await live(world, life, () => app(world)?.state === 'Healthy');
    took.push(world.ms - began);
    expect(world.requests.artifact).toBe(artifacts.length);
    // Another generation of the same artifacts.
    const again = world.ms;
    want(world, life, [entry('app', '1.0.0', 2, { values: { color: 'red' } })]);
    await waiting(world, life);
    expect(world.ms - again).toBeLessThan(500);
    expect(world.requests.artifact).toBe(artifacts.length);
  }
  expect(took[0]).toBeGreaterThan(5_000);
  expect(took[0]).toBeLessThanOrEqual(33_000);
  // Once, however many there are.
  expect(took[1]).toBe(took[0]);
});

test('a mirror on this machine is not waited for', async () => {
  const world = new World();
  release(world, '1.0.0');
  world.change({ components: [entry('app', '1.0.0', 1)] });
  const life = begin(world);
  const began = world.ms;
  await live(world, life, () => app(world)?.state === 'Probing' || app(world)?.state === 'Healthy');
  expect(world.ms - began).toBeLessThan(500);
});

test('a MachineComponent is asked for once; what is kept of it serves while the API server is away, and is asked for again when damaged', async () => {
  const { world, life } = await node();
  expect(names(world, SPECS)).toEqual(['app-1.0.0.json']);
  const { component } = world.requests;
  want(world, life, [entry('app', '1.0.0', 2, { values: { color: 'red' } })]);
  await waiting(world, life);
  expect(world.requests.component).toBe(component);
  put(world, `${SPECS}/app-1.0.0.json`, `${world.text(`${SPECS}/app-1.0.0.json`) ?? ''} `);
  want(world, life, [entry('app', '1.0.0', 3, { values: { color: 'green' } })]);
  await live(world, life, () => app(world)?.revision === 3 && app(world)?.state === 'Waiting' && app(world)?.needs !== undefined);
  expect(world.requests.component).toBe(component + 1);
  // What was read again is kept again.
  want(world, life, [entry('app', '1.0.0', 4, { values: { color: 'black' } })]);
  await live(world, life, () => app(world)?.revision === 4 && app(world)?.state === 'Waiting' && app(world)?.needs !== undefined);
  expect(world.requests.component).toBe(component + 1);
});

test('a newer revision is made ready at once, and not what was being asked for', async () => {
  const { world, life } = await node();
  want(world, life, [entry('app', '1.1.0', 2)]);
  await live(world, life, () => app(world)?.message?.includes('no MachineComponent app-1.1.0') === true);
  await rest(world, life, 600_000);
  release(world, '1.2.0');
  const began = world.ms;
  want(world, life, [entry('app', '1.2.0', 3)]);
  await waiting(world, life);
  expect(world.ms - began).toBeLessThan(1_000);
  release(world, '1.1.0');
  const { component } = world.requests;
  await rest(world, life, 600_000);
  expect(world.requests.component).toBe(component);
  expect(versions(world)).toEqual(['1.0.0', '1.2.0']);
});

test('a component that is made from another MachineComponent than before is not taken for what was installed', async () => {
  const { world, life } = await node();
  life.end();
  const generation = world.units.get('app')?.generation ?? '';
  put(world, `/var/lib/kubenode/components/app/${generation}`, undefined);
  put(world, `${SPECS}/app-1.0.0.json`, undefined);
  release(world, '1.0.0', { spec: { files: [{ path: '/etc/app/app.conf', content: 'changed' }] } });
  const next = begin(world);
  await rest(world, next, 60_000);
  expect(eventsOf(world, 'FetchFailed')).toEqual([
    'FetchFailed: app 1.0.0: what is made from its MachineComponent now is not what was installed',
  ]);
  expect(world.text('/etc/app/app.conf')).toBe('version=1.0.0 color=blue\n');
  expect(world.effects).toEqual([]);
});

test('what was made ready and is wanted no more goes, and is made again when it is wanted under the same revision', async () => {
  const world = new World();
  release(world, '1.0.0');
  release(world, '2.0.0', { name: 'web', spec: { requires: [{ componentName: 'app', versionRange: '>=9' }] } });
  world.change({ components: [entry('app', '1.0.0', 1), entry('web', '2.0.0', 1)] });
  const life = begin(world);
  await live(world, life, () => app(world)?.state === 'Healthy' && world.component('web')?.state === 'Waiting');
  await rest(world, life);
  expect(names(world, STORE)).toHaveLength(2);
  want(world, life, [entry('app', '1.0.0', 1)]);
  await rest(world, life);
  expect([names(world, '/var/lib/kubenode/components'), names(world, STORE).length, names(world, SPECS)]).toEqual([
    ['app'],
    1,
    ['app-1.0.0.json'],
  ]);
  release(world, '2.0.0', { name: 'web' });
  want(world, life, [entry('app', '1.0.0', 1), entry('web', '2.0.0', 1)]);
  await live(world, life, () => world.component('web')?.state === 'Healthy');
});

test('what the revision before had made ready goes when another one is accepted', async () => {
  const { world, life } = await node();
  for (const [index, version] of ['1.1.0', '1.2.0'].entries()) {
    release(world, version);
    want(world, life, [entry('app', version, index + 2)]);
    await live(world, life, () => app(world)?.revision === index + 2 && app(world)?.needs !== undefined);
  }
  await rest(world, life);
  expect(versions(world)).toEqual(['1.0.0', '1.2.0']);
  expect(names(world, STORE)).toHaveLength(2);
});

test('what is verified no more goes when the Machine shows that', async () => {
  const { world, life } = await node();
  const verified = (...of: string[]) => of.map((version) => ({ name: 'app', version, values: { color: 'blue' } }));
  world.machine = { ...world.machine, status: { ...world.machine.status, verified: verified('1.0.0') as never } };
  for (const [index, version] of ['1.1.0', '1.2.0'].entries()) {
    release(world, version);
    want(world, life, [entry('app', version, index + 2)]);
    await waiting(world, life);
    give(world, life, order(world, `op-${index}`));
    await live(world, life, () => world.status.operation?.id === `op-${index}` && world.status.operation.state === 'Done');
  }
  await rest(world, life);
  expect(versions(world)).toEqual(['1.0.0', '1.1.0', '1.2.0']);
  world.machine = { ...world.machine, status: { ...world.machine.status, verified: verified('1.2.0', '1.1.0', '1.0.0') as never } };
  world.change({});
  life.notify();
  await rest(world, life);
  expect(versions(world)).toEqual(['1.1.0', '1.2.0']);
});

test('what came of an artifact is kept while it is fetched again and again', async () => {
  const { world, life } = await node();
  release(world, '1.1.0');
  const whole = world.artifacts.get(`${MIRROR}app-1.1.0`) ?? Buffer.alloc(0);
  world.artifacts.delete(`${MIRROR}app-1.1.0`);
  const part = `${STORE}/${sha256Hex(whole)}.part`;
  want(world, life, [entry('app', '1.1.0', 2)]);
  await live(world, life, () => app(world)?.message?.includes('404') === true);
  put(world, part, whole.subarray(0, 10).toString());
  // Something else that calls for what is not needed to go.
  want(world, life, [entry('app', '1.1.0', 2), entry('web', '1.0.0', 1)]);
  await rest(world, life, 2_000);
  expect(world.text(part)).toBeDefined();
  world.artifacts.set(`${MIRROR}app-1.1.0`, whole);
  await waiting(world, life);
  expect(world.text(part)).toBeUndefined();
});

test('values that change no file reload nothing', async () => {
  const spec = {
    units: [{ name: 'app', exec: ['{{dir}}/bin'], reload: 'SIGHUP' }],
    files: [
      { path: '/etc/app/app.conf', content: 'size={{values.size}}\n' },
      { path: '/etc/app/fixed', content: 'fixed' },
    ],
    disruption: { config: 'Reload' },
  };
  const world = new World();
  release(world, '1.0.0', { spec });
  const values = (revision: number, size: number, color: string) => [entry('app', '1.0.0', revision, { values: { size, color } })];
  world.change({ components: values(1, 1, 'blue') });
  const life = begin(world);
  await live(world, life, () => app(world)?.state === 'Healthy');
  world.effects = [];
  want(world, life, values(2, 1, 'red'));
  await live(world, life, () => app(world)?.running === 2);
  expect(world.effects.filter((each) => each.what === 'reload')).toEqual([]);
  want(world, life, values(3, 2, 'red'));
  await live(world, life, () => app(world)?.running === 3);
  expect(world.effects.filter((each) => each.what === 'reload')).toHaveLength(1);
  expect(world.effects.some((each) => each.what === 'restart')).toBe(false);
  // Back to the first of them: what ran before is still known, and so is what ran before that.
  expect(versions(world)).toEqual(['1.0.0', '1.0.0']);
});
