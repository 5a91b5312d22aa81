import { expect, test } from 'vitest';
import { begin, live } from '../testing/life.ts';
import { announced, app, give, node, rest, want } from '../testing/node.ts';
import { World, entry, order, release, MIRROR, ROOT } from '../testing/world.ts';

/* What the agent reports of a component at each point of its way, as the cell reads it. */

/** A node without components that is to have app 1.0.0. */
function fresh(spec: Record<string, unknown> = {}): World {
  const world = new World();
  release(world, '1.0.0', { spec });
  world.change({ components: [entry('app', '1.0.0', 1)] });
  return world;
}

test('Fetching: what is not here yet and did not fail', async () => {
  const world = fresh();
  world.artifacts.clear();
  const life = begin(world);
  await rest(world, life, 3_000);
  expect(app(world)).toMatchObject({ state: 'Fetching', version: '', content: '', running: 0, revision: 1 });
  expect(app(world)?.failed).toBeUndefined();
});

test('Failed: what is not here, and is not tried again', async () => {
  const world = fresh({ platforms: [] });
  const life = begin(world);
  await live(world, life, () => app(world)?.failed !== undefined);
  expect(app(world)).toMatchObject({
    state: 'Failed',
    version: '',
    running: 0,
    failed: { revision: 1, reason: 'NoPlatform', restored: false },
  });
  // Another revision is fetched again.
  release(world, '1.0.1');
  world.artifacts.delete(`${MIRROR}app-1.0.1`);
  want(world, life, [entry('app', '1.0.1', 2)]);
  await rest(world, life, 3_000);
  expect(app(world)).toMatchObject({ state: 'Fetching', revision: 2, running: 0 });
  expect(app(world)?.failed).toBeUndefined();
});

test('Failed, and what ran before runs: the state is of what runs', async () => {
  const { world, life } = await announced({ program: 'bad' });
  give(world, life, order(world, 'op'));
  await live(world, life, () => app(world)?.failed !== undefined && app(world)?.state === 'Healthy');
  expect(app(world)).toMatchObject({ version: '1.0.0', running: 1, revision: 2, failed: { revision: 2, restored: true } });
});

test('the states of an upgrade and of a removal, in their order, whenever the agent waits', async () => {
  const { world, life } = await node();
  const states: string[] = [];
  const seen = (): boolean => {
    const state = app(world)?.state;
    if (state !== undefined && states.at(-1) !== state) states.push(state);
    return false;
  };
  release(world, '1.1.0');
  want(world, life, [entry('app', '1.1.0', 2)]);
  await live(world, life, () => seen() || app(world)?.needs !== undefined);
  expect(app(world)).toMatchObject({ state: 'Waiting', needs: 'Restart', needsFor: 'Change', version: '1.0.0', running: 1 });
  give(world, life, order(world, 'op'));
  await live(world, life, () => seen() || world.status.operation?.state === 'Done');
  expect(app(world)).toMatchObject({ state: 'Healthy', version: '1.1.0', running: 2, previous: '1.0.0', bootID: 'boot-1' });
  want(world, life, [entry('app', '1.1.0', 3, { action: 'Remove' })]);
  await live(world, life, () => seen() || app(world)?.needs !== undefined);
  give(world, life, order(world, 'op-2', { epoch: 2 }));
  await live(world, life, () => seen() || (world.status.operation?.id === 'op-2' && world.status.operation.state === 'Done'));
  seen();
  expect(states).toEqual(['Waiting', 'Probing', 'Healthy', 'Waiting', 'Removed']);
  expect(app(world)).toMatchObject({ version: '', content: '', running: 3, revision: 3 });
  expect(app(world)?.bootID).toBeUndefined();
});

test('while the node is held by hand, the agent reports that and is ready', async () => {
  const { world, life } = await node();
  const ready = () => world.status.conditions?.find((each) => each.type === 'AgentReady');
  expect(ready()).toMatchObject({ status: 'True', reason: 'Working' });
  expect(world.status.agent?.hold).toBeUndefined();
  const since = ready()?.lastTransitionTime;
  for (const path of [`${ROOT}/etc/kubenode`]) world.mkdir(path);
  const id = world.disk.add({ kind: 'file', data: Buffer.alloc(0), durable: Buffer.alloc(0), lost: false, mode: 0o644 });
  world.disk.change(`${ROOT}/etc/kubenode/hold`, [['hold', id]]);
  await rest(world, life, 700_000);
  expect(ready()).toMatchObject({ status: 'True', reason: 'Held', lastTransitionTime: since });
  expect(world.status.agent?.hold).toBe(true);
});
