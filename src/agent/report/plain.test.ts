import { expect, test } from 'vitest';
import { live } from '../testing/life.ts';
import { announced, app, give, node, put, rest, unit } from '../testing/node.ts';
import { ROOT, entry, order, release, repair } from '../testing/world.ts';

/* docs/protocols.md#g7: the agent reports the text of a program and the name of a file plain and short. */

const PLAIN = /^[^\p{Cc}\p{Cf}]*$/u;

/** Every string that is in it. */
function texts(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  return value !== null && typeof value === 'object' ? Object.values(value).flatMap(texts) : [];
}

test('security 6: what a hook wrote is plain and short in the status and in Events', async () => {
  const command = ['hook', 'app', 'fail', `\u001B[2J\u009B31m\nline two \u202E${'x'.repeat(5000)}`];
  const { world, life } = await announced({ spec: { hooks: { preInstall: { command } } } });
  give(world, life, order(world, 'op'));
  await live(world, life, () => app(world)?.failed !== undefined);
  expect(app(world)?.failed?.reason).toBe('HookFailed');
  expect(app(world)?.failed?.message).toContain('\\u001b[2J\\u009b31m line two \\u202e');
  const all = [...texts(world.status), ...world.events];
  for (const text of all) expect([PLAIN.test(text), text.length <= 1024]).toEqual([true, true]);
});

test('security 6: what a unit wrote when it ended is plain', async () => {
  const { world, life } = await node();
  Object.assign(unit(world), { running: false, exit: '\u001B]0;title\u0007' });
  world.disk.settleAll();
  put(world, '/var/lib/kubenode/components/app/current/bin', 'crash');
  world.disk.watches = [];
  await rest(world, life, 3_000);
  for (const text of texts(world.status)) expect(text).toMatch(PLAIN);
});

test('security 6: an order and a version with any text come back plain', async () => {
  const { world, life } = await node();
  give(world, life, repair(world, `op\u001B${'y'.repeat(3000)}`, '\u001B[31m'));
  await live(world, life, () => world.status.operation?.state === 'Done');
  for (const text of texts(world.status)) expect([PLAIN.test(text), text.length <= 1024]).toEqual([true, true]);
});

test('a name of a folder that is in the way is plain too', async () => {
  const { world, life } = await node();
  release(world, '1.1.0', { spec: { files: [{ path: '/etc/\u001B[31m/x', content: 'x' }] } });
  world.change({ components: [entry('app', '1.1.0', 2)] });
  world.disk.change(`${ROOT}/etc/\u001B[31m`, [['\u001B[31m', world.disk.add({ kind: 'link', target: '/nowhere' })]]);
  life.notify();
  await rest(world, life, 60_000);
  for (const text of texts(world.status)) expect(text).toMatch(PLAIN);
});
