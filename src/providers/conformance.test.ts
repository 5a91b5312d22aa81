import { mkdtemp, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { NodeBootstrap } from '../api/provider.ts';
import { systemClock } from '../kube/clock.ts';
import { fakeInfra, fakeProvider } from './testing/fake.ts';
import { nodeDisk, type Disk } from './local/disk.ts';
import { layoutOf, parseInstance } from './local/layout.ts';
import { cutPower, cyclesAsked, isKeptOff, noteCycled, noteOff, takeCuts } from './local/power.ts';
import { localProvider } from './local/provider.ts';
import { providerConformance } from './testing/conformance.ts';

const uidOf = (providerID: string): string => providerID.slice('local://'.length);

/** Dies before the write of this number; a file is left half written, as a process that dies in it leaves one. */
function dyingDisk(dieAt: number): Disk {
  const disk = nodeDisk();
  let writes = 0;
  const step = async <T>(act: () => Promise<T>, half?: () => Promise<void>): Promise<T> => {
    if (++writes !== dieAt) return act();
    await half?.();
    throw new Error('died');
  };
  return {
    ...disk,
    makeFolder: (path) => step(() => disk.makeFolder(path)),
    write: (path, text, mode) =>
      step(
        () => disk.write(path, text, mode),
        () => writeFile(path, text.slice(0, text.length / 2)),
      ),
    rename: (from, to) => step(() => disk.rename(from, to)),
    syncFolder: (path) => step(() => disk.syncFolder(path)),
    remove: (path) => step(() => disk.remove(path)),
  };
}

providerConformance('local', async () => {
  const parent = await mkdtemp(join(tmpdir(), 'kubenode-provider-'));
  const nodesDir = join(parent, 'nodes');
  const disk = nodeDisk();
  await disk.makeFolder(nodesDir);
  const ports = { disk, clock: systemClock({ ref: true }), stopUnits: () => Promise.resolve() };
  const cycles = new Map<string, number>();
  return {
    open: (dieAt) => localProvider({ nodesDir, disk: dieAt === undefined ? disk : dyingDisk(dieAt) }),
    // What the host does about deletion and power, without processes.
    async progress() {
      for (const name of (await disk.list(nodesDir)) ?? []) {
        const layout = layoutOf(nodesDir, name);
        const text = name.startsWith('.') ? undefined : await disk.read(layout.instance);
        if (text === undefined) continue;
        const { deleting, providerID } = parseInstance(text, layout.instance);
        await takeCuts(disk, layout);
        const asked = await cyclesAsked(disk, layout);
        if (deleting === true) await disk.remove(layout.folder);
        else if (asked.length > 0) {
          await cutPower(ports, layout);
          await noteCycled(disk, layout, asked);
          cycles.set(providerID, (cycles.get(providerID) ?? 0) + 1);
        } else if (await isKeptOff(disk, layout)) {
          await cutPower(ports, layout);
          await noteOff(disk, layout);
        }
      }
    },
    async cyclesOf(providerID) {
      await Promise.resolve();
      return cycles.get(providerID) ?? 0;
    },
    async bootstrapOf(providerID) {
      const { instance, bootstrap } = layoutOf(nodesDir, uidOf(providerID));
      if ((await disk.read(instance)) === undefined) return undefined;
      return JSON.parse((await disk.read(bootstrap)) ?? 'null') as NodeBootstrap;
    },
    hideOne: (providerID) => writeFile(layoutOf(nodesDir, uidOf(providerID)).instance, '{"machineUID":'),
    cutOff: () => rename(nodesDir, join(parent, 'unmounted')),
    end: () => rm(parent, { recursive: true, force: true }),
  };
});

providerConformance('fake', async () => {
  const infra = fakeInfra();
  await Promise.resolve();
  return {
    open(dieAt) {
      infra.fault = (_operation, write) => {
        if (write === dieAt) throw new Error('died');
      };
      return fakeProvider(infra);
    },
    async progress() {
      infra.progress();
      await Promise.resolve();
    },
    async cyclesOf(providerID) {
      await Promise.resolve();
      return infra.instances.get(providerID)?.reboots ?? 0;
    },
    async bootstrapOf(providerID) {
      await Promise.resolve();
      return infra.instances.get(providerID)?.bootstrap;
    },
    async hideOne() {
      infra.hidden = true;
      await Promise.resolve();
    },
    async cutOff() {
      infra.down = new Error('no route');
      await Promise.resolve();
    },
    async end() {
      await Promise.resolve();
    },
  };
});

it('a node that the host takes away while it is being deleted is gone, not an error', async () => {
  const parent = await mkdtemp(join(tmpdir(), 'kubenode-provider-'));
  try {
    const { signal } = new AbortController();
    const disk = nodeDisk();
    const { folder, instance } = layoutOf(parent, 'u');
    const request = { machineUID: 'u', namespace: 'web', name: 'a', config: {} };
    const bootstrap = {
      server: 's',
      certificateAuthority: 'c',
      token: 't',
      machine: { namespace: 'web', name: 'a', uid: 'u' },
      providerID: 'local://u',
    };
    await localProvider({ nodesDir: parent }).ensure(request, bootstrap, signal);
    const racing: Disk = {
      ...disk,
      async read(path) {
        if (path === instance) await disk.remove(folder);
        return disk.read(path);
      },
    };
    expect(await localProvider({ nodesDir: parent, disk: racing }).delete('local://u', signal)).toBe('gone');
  } finally {
    await rm(parent, { recursive: true, force: true });
  }
});

it('a node folder keeps its secret for its owner alone', async () => {
  const parent = await mkdtemp(join(tmpdir(), 'kubenode-provider-'));
  try {
    const provider = localProvider({ nodesDir: parent });
    const request = { machineUID: 'u', namespace: 'web', name: 'a', config: {} };
    const bootstrap = {
      server: 's',
      certificateAuthority: 'c',
      token: 't',
      machine: { namespace: 'web', name: 'a', uid: 'u' },
      providerID: 'local://u',
    };
    await provider.ensure(request, bootstrap, new AbortController().signal);
    expect((await stat(layoutOf(parent, 'u').bootstrap)).mode & 0o777).toBe(0o600);
    expect((await nodeDisk().list(layoutOf(parent, 'u').folder))?.toSorted()).toEqual(['bootstrap.json', 'instance.json', 'root']);
  } finally {
    await rm(parent, { recursive: true, force: true });
  }
});

it.each(['../x', 'a/b', '', '.gone', 'x'.repeat(65)])('a Machine UID %j that could lead out of the folder is refused', (machineUID) => {
  const provider = localProvider({ nodesDir: '/nowhere' });
  expect(() => provider.providerIDOf({ machineUID, namespace: 'web', name: 'a', config: {} })).toThrow('letters, digits and dashes');
});
