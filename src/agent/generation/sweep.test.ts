import { expect, test } from 'vitest';
import { live } from '../testing/life.ts';
import { app, give, node, rest, waiting, want, type Node } from '../testing/node.ts';
import { entry, order, release, ROOT } from '../testing/world.ts';

/* What the agent keeps on a disk, and what goes when it is needed no more. */

const GENERATIONS = '/var/lib/kubenode/components';

/** Names in a folder of the agent. */
function names({ world }: Node, path: string): string[] {
  const inode = world.disk.inodes.get(world.disk.find(`${ROOT}${path}`, true) ?? 0);
  return inode?.kind === 'folder' ? [...inode.names.keys()].toSorted() : [];
}

/** Versions whose generations are here. */
function versions(each: Node): string[] {
  const found = names(each, `${GENERATIONS}/app`).filter((name) => /^[a-f0-9]{24}$/.test(name));
  const manifests = found.map((name) => each.world.text(`${GENERATIONS}/app/${name}/.kubenode/manifest.json`) ?? '');
  return manifests.map((text) => /"version":"([^"]*)"/.exec(text)?.[1] ?? '?').toSorted();
}

const specs = (each: Node): string[] => names(each, '/var/lib/kubenode/specs');

async function upgrade(each: Node, version: string, revision: number, options: Parameters<typeof release>[2] = {}): Promise<void> {
  const { world, life } = each;
  release(world, version, options);
  want(world, life, [entry('app', version, revision)]);
  await waiting(world, life);
  give(world, life, order(world, `op-${revision}`));
  await live(world, life, () => world.status.operation?.id === `op-${revision}` && world.status.operation.state === 'Done');
  await rest(world, life);
}

test('what runs and what ran before it is kept, with its artifacts and MachineComponents; what is older goes', async () => {
  const each = await node();
  await upgrade(each, '1.1.0', 2);
  expect(versions(each)).toEqual(['1.0.0', '1.1.0']);
  await upgrade(each, '1.2.0', 3);
  expect(versions(each)).toEqual(['1.1.0', '1.2.0']);
  expect(specs(each)).toEqual(['app-1.1.0.json', 'app-1.2.0.json']);
  expect(names(each, '/var/lib/kubenode/store')).toHaveLength(2);
  expect(each.world.disk.openFolders).toBe(0);
});

test('what was verified last is kept, too: the cell may want it back', async () => {
  const each = await node();
  const { world } = each;
  const verified = [{ name: 'app', version: '1.0.0', values: { color: 'blue' } }];
  world.machine = { ...world.machine, status: { ...world.machine.status, verified } as never };
  await upgrade(each, '1.1.0', 2);
  await upgrade(each, '1.2.0', 3);
  expect(versions(each)).toEqual(['1.0.0', '1.1.0', '1.2.0']);
});

test('what failed goes, and what a killed process had begun', async () => {
  const each = await node();
  each.world.mkdir(`${ROOT}${GENERATIONS}/app/.new-abc`);
  each.world.mkdir(`${ROOT}${GENERATIONS}/app/of-another-program`);
  await upgrade(each, '1.1.0', 2, { program: 'bad' });
  expect(app(each.world)).toMatchObject({ running: 1, failed: { revision: 2, restored: true } });
  expect(versions(each)).toEqual(['1.0.0']);
  expect(specs(each)).toEqual(['app-1.0.0.json']);
  const left = names(each, `${GENERATIONS}/app`);
  expect(left).toContain('of-another-program');
  expect(left).not.toContain('.new-abc');
});

test('nothing is left of a component that is forgotten', async () => {
  const each = await node();
  const { world, life } = each;
  want(world, life, [entry('app', '1.0.0', 2, { action: 'Remove' })]);
  await waiting(world, life);
  give(world, life, order(world, 'op'));
  await live(world, life, () => world.status.operation?.state === 'Done');
  want(world, life, []);
  await live(world, life, () => world.component('app') === undefined);
  await rest(world, life);
  expect([names(each, GENERATIONS), specs(each), names(each, '/var/lib/kubenode/store')]).toEqual([[], [], []]);
});
