import { expect, test } from 'vitest';
import { begin, live } from '../testing/life.ts';
import { app, give, node, outcome, put, rest, unit, waiting, want } from '../testing/node.ts';
import { entry, order, release, ROOT } from '../testing/world.ts';

test('hold on the Machine: nothing new starts, and the agent keeps what is here', async () => {
  const { world, life } = await node();
  release(world, '1.1.0', { spec: { probes: [], disruption: { minor: 'None' } } });
  world.change({ hold: true });
  want(world, life, [entry('app', '1.1.0', 2)]);
  unit(world).running = false;
  await rest(world, life, 60_000);
  expect(app(world)).toMatchObject({ version: '1.0.0', state: 'Waiting', message: 'the Machine is held' });
  expect(world.effects.map((each) => each.what)).toEqual(['start']);
  life.end();
  // It is remembered where the API server cannot be asked.
  world.reachable = false;
  const next = begin(world);
  await rest(world, next, 60_000);
  expect(world.text('/etc/app/app.conf')).toContain('1.0.0');
  next.end();
  world.reachable = true;
  const third = begin(world);
  world.change({ hold: false });
  third.notify();
  await live(world, third, () => app(world)?.version === '1.1.0' && app(world)?.state === 'Healthy');
});

test('hold on the node: the agent changes nothing at all, and reports that', async () => {
  const { world, life } = await node();
  put(world, '/etc/kubenode', undefined);
  world.mkdir(`${ROOT}/etc/kubenode`);
  put(world, '/etc/kubenode/hold', '');
  release(world, '1.1.0', { spec: { probes: [], disruption: { minor: 'None' } } });
  want(world, life, [entry('app', '1.1.0', 2)]);
  put(world, '/etc/app/app.conf', 'drift');
  unit(world).running = false;
  const before = world.disk.key();
  await rest(world, life, 1_200_000);
  expect(world.disk.key()).toBe(before);
  expect(world.effects).toEqual([]);
  expect(world.status.agent?.hold).toBe(true);
  expect(world.status.conditions?.[0]).toMatchObject({ type: 'AgentReady', status: 'True', reason: 'Held' });
  put(world, '/etc/kubenode/hold', undefined);
  await live(world, life, () => app(world)?.version === '1.1.0' && app(world)?.state === 'Healthy');
  expect(world.status.agent?.hold).toBeUndefined();
});

test('while the node is held no deadline runs: what was being probed is probed again', async () => {
  const { world, life } = await node();
  world.mkdir(`${ROOT}/etc/kubenode`);
  release(world, '1.1.0', { program: 'bad' });
  want(world, life, [entry('app', '1.1.0', 2)]);
  await waiting(world, life);
  give(world, life, order(world, 'op'));
  await live(world, life, () => app(world)?.state === 'Probing');
  put(world, '/etc/kubenode/hold', '');
  await rest(world, life, 1_200_000);
  expect(app(world)).toMatchObject({ state: 'Probing' });
  expect(outcome(world)).toBeUndefined();
  put(world, '/etc/kubenode/hold', undefined);
  // It works by now.
  unit(world).program = 'app 1.1.0 good';
  await live(world, life, () => outcome(world) === 'Succeeded');
  expect(app(world)).toMatchObject({ version: '1.1.0', state: 'Healthy' });
});
