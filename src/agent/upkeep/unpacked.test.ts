import { expect, test } from 'vitest';
import { sha256Hex } from '../../api/digest.ts';
import { begin, live } from '../testing/life.ts';
import { tarGz } from '../testing/archive.ts';
import { type Node, app, find, put, rest, unit } from '../testing/node.ts';
import { MIRROR, ROOT, World, entry, release } from '../testing/world.ts';

/* Drift of what a component unpacked (docs/protocols.md#a8): seen in every file, found at once, repaired from a store that is verified first. */

const GENERATION = '/var/lib/kubenode/components/app/current';
const STORE = '/var/lib/kubenode/store';

/** A node whose component is one archive: scripts in nested folders, an empty folder, and the unit that runs one of them. */
async function unpacked(): Promise<Node & { before: string; sha256: string }> {
  const world = new World();
  const archive = tarGz([
    { name: 'bin/', type: '5' },
    { name: 'bin/run', content: 'app 1.0.0 good', mode: 0o755 },
    { name: 'share/deep/er/data', content: 'data' },
    { name: 'empty/', type: '5' },
  ]);
  const sha256 = sha256Hex(archive);
  world.artifacts.set(`${MIRROR}archive`, archive);
  release(world, '1.0.0', {
    spec: {
      platforms: [{ os: 'any', arch: 'any', artifacts: [{ name: 'app', url: 'archive', sha256, unpack: 'TarGz' }] }],
      units: [{ name: 'app', exec: ['{{dir}}/app/bin/run'] }],
    },
  });
  world.change({ components: [entry('app', '1.0.0', 1)] });
  const life = begin(world);
  await live(world, life, () => app(world)?.state === 'Healthy');
  await rest(world, life);
  Object.assign(world, { effects: [], events: [] });
  return { world, life, before: tree(world), sha256 };
}

/** Everything that the agent keeps of the component. */
const tree = (world: World): string =>
  world.disk
    .key()
    .split('\n')
    .filter((line) => line.startsWith(`${ROOT}/var/lib/kubenode/components`))
    .join('\n');

/** As `mkdir`, instead of what is there. */
function folder(world: World, path: string): void {
  put(world, path, undefined);
  world.mkdir(`${ROOT}${path}`);
}

function link(world: World, path: string, target: string): void {
  const full = `${ROOT}${path}`;
  world.disk.change(full, [[path.slice(path.lastIndexOf('/') + 1), world.disk.add({ kind: 'link', target })]]);
}

/** The real path of the generation, since a change of `current` is another matter. */
const generation = (world: World): string => `/var/lib/kubenode/components/app/${unit(world).generation}`;

function chmod(world: World, path: string, mode: number): void {
  const inode = world.disk.inodes.get(world.disk.find(`${ROOT}${path}`, false) ?? 0);
  if (inode === undefined || inode.kind === 'link') throw new Error(`${path} has no mode`);
  inode.mode = mode;
  world.disk.notify(`${ROOT}${path.slice(0, path.lastIndexOf('/'))}`, path.slice(path.lastIndexOf('/') + 1));
}

const disturbances: [string, (world: World) => void][] = [
  ['an overwritten script', (world) => put(world, `${generation(world)}/app/bin/run`, 'exit 127')],
  ['a script that is gone', (world) => put(world, `${generation(world)}/app/bin/run`, undefined)],
  ['a file deep inside that is gone', (world) => put(world, `${generation(world)}/app/share/deep/er/data`, undefined)],
  ['the mode of a script', (world) => chmod(world, `${generation(world)}/app/bin/run`, 0o644)],
  ['a set-user-ID bit', (world) => chmod(world, `${generation(world)}/app/bin/run`, 0o4755)],
  ['the mode of a folder', (world) => chmod(world, `${generation(world)}/app/share`, 0o777)],
  ['a deleted folder', (world) => put(world, `${generation(world)}/app/share`, undefined)],
  ['a deleted folder inside folders', (world) => put(world, `${generation(world)}/app/share/deep`, undefined)],
  ['a deleted empty folder', (world) => put(world, `${generation(world)}/app/empty`, undefined)],
  ['a folder instead of a script', (world) => folder(world, `${generation(world)}/app/bin/run`)],
  ['a file instead of a folder', (world) => put(world, `${generation(world)}/app/share/deep`, 'file')],
  ['a link instead of a script', (world) => link(world, `${generation(world)}/app/bin/run`, '/node/etc/app/app.conf')],
  ['a link instead of a folder', (world) => link(world, `${generation(world)}/app/share`, `${ROOT}/etc`)],
  ['a link instead of the generation', (world) => link(world, generation(world), `${ROOT}/etc`)],
  ['the deleted generation', (world) => put(world, generation(world), undefined)],
  ['the deleted folder of the component', (world) => put(world, '/var/lib/kubenode/components/app', undefined)],
  ['a list of files that is empty', (world) => put(world, `${generation(world)}/.kubenode/tree.json`, '[]')],
  ['a deleted manifest', (world) => put(world, `${generation(world)}/.kubenode/manifest.json`, undefined)],
  ['the mode of the manifest, which may contain secrets', (world) => chmod(world, `${generation(world)}/.kubenode/manifest.json`, 0o644)],
  ['the deleted folder of the manifest', (world) => put(world, `${generation(world)}/.kubenode`, undefined)],
  ['a deleted receipt', (world) => put(world, '/var/lib/kubenode/components/app/receipt.json', undefined)],
];

test.each(disturbances)('safety 16: %s is found at once and put right, and nothing that runs is touched', async (_what, disturb) => {
  const { world, life, before } = await unpacked();
  disturb(world);
  expect(tree(world)).not.toBe(before);
  await rest(world, life, 5_000);
  expect(tree(world)).toBe(before);
  expect(world.effects).toEqual([]);
  expect(world.events.filter((each) => !each.startsWith('Drift'))).toEqual([]);
  expect(world.events.at(-1)).toMatch(/^DriftRepaired: app: /);
  expect(app(world)).toMatchObject({ state: 'Healthy', driftRepairs: 1 });
  // What was made again is watched again.
  put(world, `${generation(world)}/app/bin/run`, 'tampered');
  await rest(world, life, 5_000);
  expect(tree(world)).toBe(before);
});

test.each(disturbances)('safety 16: %s is found by the regular check where no watch reports it', async (_what, disturb) => {
  const { world, life, before } = await unpacked();
  world.disk.watches = [];
  disturb(world);
  await rest(world, life, 620_000);
  expect(tree(world)).toBe(before);
  expect(world.effects).toEqual([]);
});

test('safety 16: what others put into a generation’s folder is not the agent’s', async () => {
  const { world, life } = await unpacked();
  put(world, `${generation(world)}/app/bin/run.pid`, '17');
  await rest(world, life, 620_000);
  expect(world.text(`${GENERATION}/app/bin/run.pid`)).toBe('17');
  expect(world.events).toEqual([]);
});

test('safety 16: a link instead of a folder is not followed: nothing is written where it leads', async () => {
  const { world, life } = await unpacked();
  world.mkdir(`${ROOT}/etc/bin`);
  put(world, '/etc/bin/run', 'of another program');
  link(world, `${generation(world)}/app/bin`, `${ROOT}/etc/bin`);
  await rest(world, life, 5_000);
  expect(world.text('/etc/bin/run')).toBe('of another program');
  expect(world.text(`${GENERATION}/app/bin/run`)).toBe('app 1.0.0 good');
});

test('safety 16: a unit that could not start for what was missing is started as soon as that is back', async () => {
  const { world, life } = await unpacked();
  // No watch reports it, so that it is down for long.
  world.disk.watches = [];
  put(world, `${generation(world)}/app/bin`, undefined);
  Object.assign(unit(world), { running: false });
  await rest(world, life, 300_000);
  expect(unit(world)).toMatchObject({ running: false, exit: 'exit code 127' });
  let repairedMs = 0;
  await live(world, life, () => {
    if (repairedMs === 0 && world.events.some((each) => each.startsWith('DriftRepaired'))) repairedMs = world.ms;
    return unit(world).running;
  });
  expect(world.ms - repairedMs).toBeLessThan(2_000);
});

test('safety 16: the store is verified before it is used for a repair, and what is damaged there is fetched again', async () => {
  const { world, life, before, sha256 } = await unpacked();
  find(world, `${STORE}/${sha256}`).data = Buffer.from('damaged');
  const fetched = world.requests.artifact;
  put(world, `${generation(world)}/app/bin/run`, 'exit 127');
  await rest(world, life, 5_000);
  expect(tree(world)).toBe(before);
  expect(world.requests.artifact).toBe(fetched + 1);
  expect(world.text(`${STORE}/${sha256}`)).not.toBe('damaged');
  expect(world.events.some((each) => each.startsWith('RepairFailed'))).toBe(false);
});

test('safety 16: what the store lacks and the mirror does not give keeps nothing else from being repaired', async () => {
  const { world, life, sha256 } = await unpacked();
  put(world, `${STORE}/${sha256}`, undefined);
  const artifact = world.artifacts.get(`${MIRROR}archive`) ?? Buffer.alloc(0);
  world.artifacts.delete(`${MIRROR}archive`);
  put(world, `${generation(world)}/app/bin/run`, 'exit 127');
  put(world, '/etc/app/app.conf', 'drift');
  await rest(world, life, 5_000);
  expect(world.text('/etc/app/app.conf')).toBe('version=1.0.0 color=blue\n');
  expect(world.events).toContainEqual(expect.stringMatching(/^RepairFailed: app: /));
  world.artifacts.set(`${MIRROR}archive`, artifact);
  await rest(world, life, 130_000);
  expect(world.text(`${GENERATION}/app/bin/run`)).toBe('app 1.0.0 good');
});

test('safety 16: repairs of unpacked files are within the budget too, then the agent only reports', async () => {
  const { world, life } = await unpacked();
  for (let round = 0; round < 7; round++) {
    put(world, `${generation(world)}/app/bin/run`, `exit ${round}`);
    await rest(world, life, 5_000);
  }
  expect(world.text(`${GENERATION}/app/bin/run`)).toBe('exit 6');
  expect(app(world)).toMatchObject({ state: 'Healthy', driftRepairs: 6, message: expect.stringContaining('repaired too often') });
  expect(app(world)?.message).toContain('app/bin/run is missing or differs');
});

test('safety 16: while something is written without end in a watched folder, checks are few', async () => {
  const { world, life } = await unpacked();
  let opened = 0;
  const bin = world.disk.find(`${ROOT}${GENERATION}/app/bin/run`, true) ?? 0;
  const inode = world.disk.inodes.get(bin);
  if (inode?.kind !== 'file') throw new Error('the script is there');
  const { data } = inode;
  Object.defineProperty(inode, 'data', { get: () => (opened++, data), configurable: true });
  for (let each = 0; each < 100; each++) {
    put(world, `${generation(world)}/app/bin/log`, `line ${each}`);
    await rest(world, life, 100);
  }
  // The script stands beside what is written, and is not hashed for it.
  expect(opened).toBe(0);
  expect(world.events).toEqual([]);
});
