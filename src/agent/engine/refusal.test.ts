import { expect, test } from 'vitest';
import { begin, live } from '../testing/life.ts';
import { app, find, node, rest, want } from '../testing/node.ts';
import { entry, release, ROOT, type World } from '../testing/world.ts';

test.each([
  ['an unknown template variable', { files: [{ path: '/etc/app/x', content: '{{values.missing}}' }] }, 'TemplateUnknown', 'values.missing'],
  ['a path of the agent', { files: [{ path: '/var/lib/kubenode/journal', content: '' }] }, 'PathRefused', '/var/lib/kubenode'],
  ['nothing for this platform', { platforms: [{ os: 'darwin', arch: 'arm64', artifacts: [] }] }, 'NoPlatform', 'linux/amd64'],
  ['plain http from elsewhere', { platforms: [artifact('http://example.com/x')] }, 'UrlRefused', 'https'],
  ['a probe that leaves the node', { probes: [{ name: 'p', http: { url: 'http://example.com/' } }] }, 'SpecInvalid', 'loopback'],
  ['an archive that is none', { platforms: [{ ...artifact('app-1.1.0', 'TarGz') }] }, 'ArchiveInvalid', 'gzip'],
])('%s: the agent does not switch to it, and reports why', async (_what, spec, reason, message) => {
  const { world, life } = await node();
  release(world, '1.1.0');
  const own = world.components.get('app-1.1.0') as { platforms: { artifacts: { sha256: string }[] }[] };
  const text = JSON.stringify({ ...own, ...spec }).replaceAll('SHA', own.platforms[0]?.artifacts[0]?.sha256 ?? '');
  world.components.set('app-1.1.0', JSON.parse(text) as object);
  want(world, life, [entry('app', '1.1.0', 2)]);
  await live(world, life, () => app(world)?.failed !== undefined);
  expect(app(world)).toMatchObject({
    state: 'Healthy',
    version: '1.0.0',
    failed: { revision: 2, reason, message: expect.stringContaining(message), restored: true },
  });
  expect(world.effects).toEqual([]);
});

function artifact(url: string, unpack = 'None'): object {
  return { os: 'any', arch: 'any', artifacts: [{ name: 'bin', url, sha256: 'SHA', unpack }] };
}

test.each([
  ['wrong bytes', (world: World) => world.artifacts.set('http://127.0.0.1:1/app-1.1.0', Buffer.from('something else')), 'DigestMismatch'],
  ['404', (world: World) => world.artifacts.delete('http://127.0.0.1:1/app-1.1.0'), 'ArtifactRefused'],
])('a mirror that answers with %s is asked again, and given up in the end', async (_what, break_, reason) => {
  const { world, life } = await node();
  release(world, '1.1.0');
  break_(world);
  want(world, life, [entry('app', '1.1.0', 2)]);
  await live(world, life, () => app(world)?.message !== undefined);
  expect(app(world)).toMatchObject({ state: 'Fetching', message: expect.stringContaining(reason) });
  await live(world, life, () => app(world)?.failed !== undefined);
  expect(app(world)).toMatchObject({ state: 'Healthy', version: '1.0.0', failed: { reason, restored: true } });
  expect(world.requests.artifact).toBe(6);
  expect(world.disk.key()).not.toContain('.part');
});

test('a folder on the way that is a symbolic link out of the root is refused, and what ran before stays', async () => {
  const { world, life } = await node();
  world.mkdir('/outside');
  world.disk.change(`${ROOT}/etc/escape`, [['escape', world.disk.add({ kind: 'link', target: '/outside' })]]);
  release(world, '1.1.0', { spec: { files: [{ path: '/etc/escape/x', content: 'x' }], probes: [], disruption: { minor: 'None' } } });
  want(world, life, [entry('app', '1.1.0', 2)]);
  await live(world, life, () => app(world)?.failed !== undefined && app(world)?.state === 'Healthy');
  expect(app(world)?.failed).toMatchObject({
    reason: 'PathRefused',
    message: expect.stringContaining('leads out of /node'),
    restored: true,
  });
  expect(world.disk.find('/outside/x', false)).toBeUndefined();
});

test('a journal that is damaged in the middle stops everything, and that is reported', async () => {
  const { world, life } = await node();
  want(world, life, [entry('app', '1.0.0', 2)]);
  await live(world, life, () => app(world)?.running === 2);
  life.end();
  const journal = find(world, '/var/lib/kubenode/journal');
  journal.data = Buffer.from(journal.data.toString().replace('"accept"', '"accepT"'));
  release(world, '1.1.0', { spec: { probes: [], disruption: { minor: 'None' } } });
  world.change({ components: [entry('app', '1.1.0', 3)] });
  const next = begin(world);
  await rest(world, next, 60_000);
  expect(world.status.conditions?.[0]).toMatchObject({
    status: 'False',
    reason: 'JournalDamaged',
    message: expect.stringContaining('nothing is changed'),
  });
  expect(app(world)).toMatchObject({ version: '1.0.0', running: 2 });
  expect(world.effects).toEqual([]);
});
