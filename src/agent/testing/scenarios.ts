import { sha256Hex } from '../../api/digest.ts';
import { tarGz } from './archive.ts';
import { MIRROR, World, entry, order, putOld, release, repair } from './world.ts';
import { begin, live } from './life.ts';

/** Something that a node goes through: how it begins, what its cell does, and how it must end, with any faults on the way. */
export interface Scenario {
  name: string;
  /** The world before, at rest. */
  prepare(): Promise<World>;
  /** What others do while the agent rests; true when it was something. */
  drive(world: World): boolean;
  /** The end that was to be reached. */
  done(world: World): boolean;
  /** An end that is right where the disk failed on the way; without it only `done` is. */
  safe?(world: World): boolean;
  /** Whether a third hand changed the node: then what was installed need not be there. */
  disturbed?: boolean;
}

/** Orders what is announced, once: under the id of the scenario. */
function orderOnce(world: World): boolean {
  const announced = world.status.components?.some((each) => each.needs !== undefined) === true;
  if (!announced || world.machine.spec.operation !== undefined) return false;
  world.change({ operation: order(world, 'op-1') });
  return true;
}

/** A node on which these versions run. */
async function running(
  versions: string[],
  options: (version: string) => Parameters<typeof release>[2] = () => ({}),
  before: (world: World) => void = () => undefined,
): Promise<World> {
  const world = new World();
  before(world);
  for (const [index, version] of versions.entries()) {
    release(world, version, options(version));
    world.change({ components: [entry('app', version, index + 1)] });
    const life = begin(world);
    await live(world, life, (w) => w.component('app')?.running === index + 1 && w.component('app')?.state === 'Healthy', orderOnce);
    life.end();
  }
  world.disk.settleAll();
  world.disk.pending = [];
  world.effects = [];
  world.events = [];
  return world;
}

const DAY_MS = 86_400_000;

const ARCHIVE = tarGz([
  { name: 'bin/run', content: 'app 1.0.0 good', mode: 0o755 },
  { name: 'share/data', content: 'data' },
  { name: 'empty/', type: '5' },
]);
/** Its program is in an archive. */
const UNPACKED = {
  platforms: [{ os: 'any', arch: 'any', artifacts: [{ name: 'app', url: 'archive', sha256: sha256Hex(ARCHIVE), unpack: 'TarGz' }] }],
  units: [{ name: 'app', exec: ['{{dir}}/app/bin/run'] }],
};

const state = (world: World): string | undefined => world.component('app')?.state;
const outcome = (world: World): string | undefined => (world.status.operation?.id === 'op-1' ? world.status.operation.outcome : undefined);

/** It was given up, what ran before runs, and the order is answered. */
const wentBack = (world: World): boolean => {
  const app = world.component('app');
  return (
    app?.failed !== undefined &&
    app.failed.restored &&
    app.state === 'Healthy' &&
    app.running === 1 &&
    outcome(world) === 'PermanentFailure'
  );
};

export const scenarios: Scenario[] = [
  {
    name: 'first install',
    async prepare() {
      const world = new World();
      release(world, '1.0.0');
      world.change({ components: [entry('app', '1.0.0', 1)] });
      return world;
    },
    drive: () => false,
    done: (world) => state(world) === 'Healthy' && world.component('app')?.running === 1,
    safe: (world) => state(world) === 'Failed' && world.units.size === 0,
  },
  {
    name: 'first install of an archive',
    async prepare() {
      const world = new World();
      world.artifacts.set(`${MIRROR}archive`, ARCHIVE);
      release(world, '1.0.0', { spec: UNPACKED });
      world.change({ components: [entry('app', '1.0.0', 1)] });
      return world;
    },
    drive: () => false,
    done: (world) => state(world) === 'Healthy' && world.component('app')?.running === 1,
    safe: (world) => state(world) === 'Failed' && world.units.size === 0,
  },
  {
    name: 'upgrade',
    async prepare() {
      const world = await running(['1.0.0']);
      // Another file, another unit: what goes away is part of it.
      release(world, '1.1.0', {
        spec: {
          files: [{ path: '/etc/app/new.conf', content: 'new {{version}}\n' }],
          units: [
            { name: 'app', exec: ['{{dir}}/bin', '--new'] },
            { name: 'helper', exec: ['{{dir}}/bin', 'helper'] },
          ],
        },
      });
      world.change({ components: [entry('app', '1.1.0', 2)] });
      return world;
    },
    drive: orderOnce,
    done: (world) => state(world) === 'Healthy' && world.component('app')?.running === 2 && outcome(world) === 'Succeeded',
    safe: wentBack,
  },
  {
    name: 'failed probe and return',
    async prepare() {
      const world = await running(['1.0.0']);
      release(world, '1.1.0', { program: 'bad' });
      world.change({ components: [entry('app', '1.1.0', 2)] });
      return world;
    },
    drive: orderOnce,
    done: (world) =>
      state(world) === 'Healthy' &&
      world.component('app')?.running === 1 &&
      world.component('app')?.failed?.revision === 2 &&
      world.component('app')?.failed?.restored === true &&
      outcome(world) === 'PermanentFailure',
  },
  {
    name: 'failed first install',
    async prepare() {
      const world = new World();
      release(world, '1.0.0', { program: 'bad' });
      world.change({ components: [entry('app', '1.0.0', 1)] });
      return world;
    },
    drive: () => false,
    done: (world) => state(world) === 'Failed' && world.component('app')?.failed?.restored === false && world.units.size === 0,
  },
  {
    name: 'removal',
    async prepare() {
      const world = await running(['1.0.0']);
      world.change({ components: [entry('app', '1.0.0', 2, { action: 'Remove' })] });
      return world;
    },
    drive(world) {
      if (orderOnce(world)) return true;
      // Once it is gone the entry goes too.
      if (state(world) !== 'Removed' || outcome(world) === undefined || world.machine.spec.components?.length === 0) return false;
      world.change({ components: [] });
      return true;
    },
    done: (world) =>
      world.status.components?.length === 0 && outcome(world) === 'Succeeded' && world.text('/etc/app/app.conf') === undefined,
    safe: wentBack,
  },
  {
    name: 'reload without an order',
    async prepare() {
      const reloaded = { units: [{ name: 'app', exec: ['{{dir}}/bin'], reload: 'SIGHUP' }], disruption: { config: 'Reload' } };
      const world = await running(['1.0.0'], () => ({ spec: reloaded }));
      world.change({ components: [entry('app', '1.0.0', 2, { values: { color: 'red' } })] });
      return world;
    },
    drive: () => false,
    done: (world) =>
      state(world) === 'Healthy' && world.component('app')?.running === 2 && world.text('/etc/app/app.conf')?.includes('red') === true,
    safe: (world) =>
      world.component('app')?.failed?.restored === true && state(world) === 'Healthy' && world.component('app')?.running === 1,
  },
  {
    name: 'repair of drift',
    disturbed: true,
    async prepare() {
      const world = await running(['1.0.0']);
      const put = (path: string, text: string): void => {
        const id = world.disk.find(`/node${path}`, true);
        const inode = id === undefined ? undefined : world.disk.inodes.get(id);
        if (inode?.kind === 'file') inode.data = Buffer.from(text);
      };
      put('/etc/app/app.conf', 'changed by another program\n');
      put('/var/lib/kubenode/components/app/current/bin', 'and here');
      world.disk.settleAll();
      return world;
    },
    drive: () => false,
    done: (world) =>
      state(world) === 'Healthy' &&
      world.text('/etc/app/app.conf') === 'version=1.0.0 color=blue\n' &&
      world.text('/var/lib/kubenode/components/app/current/bin')?.startsWith('app 1.0.0 good') === true,
  },
  {
    name: 'repair of what was unpacked',
    disturbed: true,
    async prepare() {
      const world = await running(
        ['1.0.0'],
        () => ({ spec: UNPACKED }),
        (fresh) => fresh.artifacts.set(`${MIRROR}archive`, ARCHIVE),
      );
      const generation = `/node/var/lib/kubenode/components/app/${world.units.get('app')?.generation}`;
      for (const path of [`${generation}/app/share`, `${generation}/app/empty`]) {
        world.disk.change(path, [[path.slice(path.lastIndexOf('/') + 1), undefined]]);
      }
      const run = `${generation}/app/bin/run`;
      world.disk.change(run, [['run', world.disk.add({ kind: 'link', target: '/node/etc/app/app.conf' })]]);
      const bin = world.disk.inodes.get(world.disk.find(`${generation}/app/bin`, false) ?? 0);
      if (bin?.kind === 'folder') bin.mode = 0o777;
      world.disk.settleAll();
      world.disk.pending = [];
      return world;
    },
    drive: () => false,
    done: (world) =>
      state(world) === 'Healthy' &&
      world.text('/var/lib/kubenode/components/app/current/app/share/data') === 'data' &&
      world.text('/var/lib/kubenode/components/app/current/app/bin/run') === 'app 1.0.0 good',
  },
  {
    name: 'upgrade with a reboot',
    async prepare() {
      const world = await running(['1.0.0']);
      release(world, '1.1.0', { spec: { disruption: { minor: 'Reboot' } } });
      world.change({ components: [entry('app', '1.1.0', 2)] });
      return world;
    },
    drive: orderOnce,
    done: (world) => state(world) === 'Healthy' && world.component('app')?.running === 2 && outcome(world) === 'Succeeded',
    safe: wentBack,
  },
  {
    name: 'deletion of the machine',
    async prepare() {
      const world = await running(['1.0.0']);
      world.machine = { ...world.machine, metadata: { ...world.machine.metadata, deletionTimestamp: '2026-11-20T00:00:00Z' } };
      world.change({ operation: order(world, 'op-1', { kind: 'Delete' }) });
      return world;
    },
    drive: () => false,
    done: (world) => outcome(world) === 'Succeeded' && state(world) === 'Removed' && world.units.size === 0,
    safe: (world) => outcome(world) === 'PermanentFailure',
  },
  {
    name: 'a machine that is given back',
    async prepare() {
      const world = await running(['1.0.0']);
      world.delete('Orphan');
      return world;
    },
    drive: () => false,
    done: (world) => world.takenAway > 0 && world.text('/etc/app/app.conf') !== undefined,
  },
  {
    name: 'a machine that is reset',
    async prepare() {
      const world = await running(['1.0.0']);
      world.delete('Reset');
      world.change({ operation: order(world, 'op-1', { kind: 'Delete' }) });
      return world;
    },
    drive: () => false,
    done: (world) => world.takenAway > 0 && outcome(world) === 'Succeeded' && world.units.size === 0,
    safe: (world) => outcome(world) === 'PermanentFailure',
  },
  {
    name: 'the same content under a new revision',
    async prepare() {
      const world = await running(['1.0.0']);
      world.change({ components: [entry('app', '1.0.0', 5)] });
      return world;
    },
    drive: () => false,
    done: (world) => state(world) === 'Healthy' && world.component('app')?.running === 5,
  },
  {
    name: 'a newer revision while a bad one is probed',
    async prepare() {
      const world = await running(['1.0.0']);
      release(world, '1.1.0', { program: 'bad', spec: { files: [{ path: '/etc/app/only-bad.conf', content: 'x' }] } });
      release(world, '1.1.1');
      world.change({ components: [entry('app', '1.1.0', 2)] });
      return world;
    },
    drive(world) {
      if (orderOnce(world)) return true;
      const { components, operation } = world.machine.spec;
      if (components?.[0]?.revision !== 2) {
        // The newer one is asked for by itself, once the order for the bad one has ended.
        if (operation?.id !== 'op-1' || outcome(world) === undefined || world.component('app')?.needs === undefined) return false;
        world.change({ operation: order(world, 'op-2') });
        return true;
      }
      if (state(world) !== 'Probing') return false;
      world.change({ components: [entry('app', '1.1.1', 3)] });
      return true;
    },
    // A loss of power may let the bad one run out of time first, if the newer one does not come.
    done: (world) =>
      state(world) === 'Healthy' &&
      world.component('app')?.version === '1.1.1' &&
      world.status.operation?.id === 'op-2' &&
      world.status.operation.outcome === 'Succeeded' &&
      world.text('/etc/app/only-bad.conf') === undefined,
    // Under either order.
    safe: (world) => {
      const app = world.component('app');
      return app?.failed?.restored === true && app.state === 'Healthy' && world.status.operation?.outcome === 'PermanentFailure';
    },
  },
  {
    name: 'a disk that was another machine’s',
    async prepare() {
      const world = await running(['1.0.0']);
      world.machine = { ...world.machine, status: {}, spec: {}, metadata: { ...world.machine.metadata, uid: 'another-uid' } };
      release(world, '2.0.0', { name: 'other' });
      world.change({ components: [entry('other', '2.0.0', 1)] });
      return world;
    },
    drive: () => false,
    done: (world) =>
      world.component('other')?.state === 'Healthy' &&
      world.component('app') === undefined &&
      world.text('/etc/app/app.conf') === undefined &&
      !world.units.has('app'),
    safe: (world) => world.component('other')?.state === 'Failed' && world.units.size === 0,
  },
  {
    name: 'removal that is refused by its hook',
    async prepare() {
      const world = await running(['1.0.0'], () => ({ spec: { hooks: { preRemove: { command: ['hook', 'app', 'fail'] } } } }));
      world.change({ components: [entry('app', '1.0.0', 2, { action: 'Remove' })] });
      return world;
    },
    drive: orderOnce,
    done: (world) =>
      state(world) === 'Healthy' && world.component('app')?.failed?.restored === true && outcome(world) === 'PermanentFailure',
  },
  {
    name: 'restart of a component',
    async prepare() {
      const units = [
        { name: 'app', exec: ['{{dir}}/bin'] },
        { name: 'helper', exec: ['{{dir}}/bin', 'helper'] },
      ];
      const world = await running(['1.0.0'], () => ({ spec: { units } }));
      world.change({ operation: repair(world, 'op-1', 'RestartComponent', { component: 'app' }) });
      return world;
    },
    drive: () => false,
    done: (world) =>
      state(world) === 'Healthy' &&
      outcome(world) === 'Succeeded' &&
      [...world.units.values()].every((unit) => Number(unit.invocation) > 2),
  },
  {
    name: 'restart of a component that does not become healthy',
    disturbed: true,
    async prepare() {
      const world = await running(['1.0.0']);
      const id = world.disk.find('/node/var/lib/kubenode/components/app/current/bin', true);
      const inode = id === undefined ? undefined : world.disk.inodes.get(id);
      if (inode?.kind === 'file') inode.data = Buffer.from('app 1.0.0 bad');
      world.disk.settleAll();
      world.change({ operation: repair(world, 'op-1', 'RestartComponent', { component: 'app' }) });
      return world;
    },
    drive: () => false,
    // Before or after the drift is found and put right.
    done: (world) => outcome(world) === 'PermanentFailure' || outcome(world) === 'Succeeded',
  },
  {
    name: 'cleaning of a disk',
    async prepare() {
      const disposable = [{ path: '/var/cache/app', olderThanSeconds: 86_400 }];
      const world = await running(['1.0.0'], () => ({ spec: { disposable } }));
      for (const days of [2, 3, 4]) putOld(world, `/var/cache/app/${days}`, 20_000, days * DAY_MS);
      putOld(world, '/var/cache/app/young', 20_000, 0);
      putOld(world, '/var/cache/other', 20_000, 9 * DAY_MS);
      world.disk.settleAll();
      world.disk.pending = [];
      // Two of them are too many.
      world.disk.capacity = Math.ceil((world.disk.used - 30_000) / 0.8);
      world.change({ operation: repair(world, 'op-1', 'CleanDisk', { belowPercent: 80 }) });
      return world;
    },
    drive: () => false,
    done: (world) =>
      outcome(world) === 'Succeeded' &&
      ['/var/cache/app/2', '/var/cache/app/young', '/var/cache/other'].every((path) => world.text(path) !== undefined),
  },
  {
    name: 'reboot',
    async prepare() {
      const world = await running(['1.0.0']);
      world.change({ operation: repair(world, 'op-1', 'Reboot') });
      return world;
    },
    drive: () => false,
    done: (world) =>
      state(world) === 'Healthy' &&
      outcome(world) === 'Succeeded' &&
      world.boots > 1 &&
      world.status.operation?.bootID !== 'boot-1' &&
      world.effects.filter((each) => each.what === 'reboot').length <= 1,
  },
];
