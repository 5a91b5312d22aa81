import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Secrets } from '../../api/builtin.ts';
import { unitDigest } from '../../api/digest.ts';
import type { CodedError } from '../../api/errors.ts';
import type { Fleet } from '../../api/fleet.ts';
import { API_VERSION } from '../../api/kind.ts';
import { SYSTEM_NAMESPACE } from '../../api/names.ts';
import { judgeObject } from '../../cli/object-rules.ts';
import { systemClock } from '../../kube/clock.ts';
import { createClient } from '../../kube/http-client.ts';
import { fakeApiServer, type FakeApiServer } from '../../kube/testing/api-server.ts';
import { recordingLog } from '../../kube/testing/log.ts';
import { waitFor } from '../../kube/testing/wait-for.ts';
import { checkRules } from '../../rules/check.ts';
import { hasGit, hasSshKeygen, runGit, serveGit, testRepository, type TestRepository } from '../git/testing/repository.ts';
import { walls } from '../render/wall.ts';
import { childBundle } from '../render/testing/child-bundle.ts';
import { openCheckouts, type OpenCheckouts } from './checkouts.ts';

const { signal } = new AbortController();
let dir: string;
let server: FakeApiServer;
let repository: TestRepository;
let checkouts: OpenCheckouts;

function open(childPath: string): OpenCheckouts {
  return openCheckouts({
    client: createClient(server.transport),
    clock: systemClock(),
    log: recordingLog(),
    signal,
    cacheDir: join(dir, 'cache'),
    childPath,
    isolation: 'process',
    checkRules,
    judgeObject,
  });
}

beforeEach(async () => {
  dir = fs.mkdtempSync(join(tmpdir(), 'kubenode-checkouts-'));
  server = fakeApiServer();
  repository = testRepository(join(dir, 'fleet'));
  checkouts = open(await childBundle());
});
afterEach(async () => {
  await checkouts.closeAll();
  fs.rmSync(dir, { recursive: true });
});

/** A fleet of one cluster with one ConfigMap. */
const main = (text: string, more = ''): string => `import { fleet, KubeObject } from 'kubenode/constructs';
const cluster = fleet.cluster('prod', { labels: { stage: 'prod' } });
new KubeObject(cluster.pool('web'), { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'motd' }, data: { text: '${text}' } });
${more}`;
const fleetOf = (spec: Partial<Fleet['spec']> = {}, name = 'main'): Fleet => ({
  apiVersion: API_VERSION,
  kind: 'Fleet',
  metadata: { name, generation: 1 },
  spec: { source: { path: repository.dir }, stages: [{ name: 'all', clusterSelector: {} }], ...spec },
});
const failure = (promise: Promise<unknown>): Promise<CodedError> =>
  promise.then(
    () => {
      throw new Error('it did not fail');
    },
    (error: unknown) => error as CodedError,
  );
const UNIT = 'ConfigMap/web/motd';

describe.skipIf(!hasGit)('a checkout (skipped without git)', () => {
  it('gives the commits of a repository, and what one renders, with where each object was made', async () => {
    const commit = repository.commit('First', { 'fleet/main.ts': main('1'), 'docs/main.ts': 'no' });
    const checkout = await checkouts.open(fleetOf());
    expect(await checkout.head(signal)).toMatchObject({ oid: commit });
    expect(await checkout.fetch(undefined, signal)).toMatchObject({ head: commit, relation: 'first', commits: [{ subject: 'First' }] });
    await checkout.verify({ head: commit, commits: [] }, signal);
    const { clusters, isolation, ms } = await checkout.render(commit, signal);
    expect(clusters.map(({ name, object }) => [name, object.metadata.labels])).toEqual([['prod', { stage: 'prod' }]]);
    const unit = clusters[0]?.units.find(({ key }) => key === UNIT);
    expect(unit).toMatchObject({ digest: unitDigest(unit?.objects ?? []), origins: ['fleet/main.ts:3:1'] });
    expect((await walls()).map((wall) => wall.isolation)).toContain(isolation);
    expect(ms).toBeGreaterThan(0);
    // The same commit is rendered once, and one unit of it is the same again.
    expect(await checkout.render(commit, signal)).toBe(await checkout.render(commit, signal));
    expect(await checkouts.unit('main', commit, UNIT, 'prod', signal)).toEqual({
      key: UNIT,
      objects: unit?.objects,
      origins: unit?.origins,
    });
  });

  it('reports what a commit renders no longer, and that nothing is open yet', async () => {
    const commit = repository.commit('First', { 'fleet/main.ts': main('1') });
    expect(await failure(checkouts.unit('main', commit, UNIT, 'prod', signal))).toMatchObject({
      code: 'ClusterUnreachable',
      message: 'fleet "main" is not open yet',
    });
    await checkouts.open(fleetOf());
    for (const [unit, cluster] of [
      ['ConfigMap/web/other', 'prod'],
      [UNIT, 'test'],
    ] as const) {
      expect(await failure(checkouts.unit('main', commit, unit, cluster, signal))).toMatchObject({
        code: 'DigestMismatch',
        message: `commit ${commit.slice(0, 10)} no longer renders ${unit} for "${cluster}"`,
        next: 'make a new commit: what was rendered before cannot be made again',
      });
    }
  });

  it('reads the folders and the entry that the Fleet names', async () => {
    const files = {
      'a/main.ts': main('1').replace("'1'", 'text').replace('const cluster', "import { text } from '../b/text.ts';\nconst cluster"),
      'b/text.ts': "export const text = 'b';",
    };
    const commit = repository.commit('First', files);
    const texts = async (spec: Partial<Fleet['spec']>): Promise<unknown> => {
      const { clusters } = await (await checkouts.open(fleetOf(spec))).render(commit, signal);
      return clusters[0]?.units.find(({ key }) => key === UNIT)?.objects[0];
    };
    expect(await texts({ entry: 'a/main.ts', include: ['a', 'b'] })).toMatchObject({ data: { text: 'b' } });
    expect(await failure(texts({ entry: 'a/main.ts', include: ['a'] }))).toMatchObject({ code: 'RenderNotFound' });
    expect(await failure(texts({}))).toMatchObject({
      code: 'RenderNotFound',
      message: expect.stringContaining('fleet/main.ts') as unknown,
    });
  });

  it('reads fleet and rules where the Fleet names nothing', async () => {
    repository.commit('First', { 'rules/a.ts': 'export {};', 'else/b.ts': 'export {};' });
    const checkout = await checkouts.open(fleetOf());
    const next = repository.commit('Second', { 'fleet/main.ts': `import '../rules/a.ts';\n${main('2')}` });
    expect((await checkout.render(next, signal)).clusters).toHaveLength(1);
    const last = repository.commit('Third', { 'fleet/main.ts': `import '../else/b.ts';\n${main('3')}` });
    expect(await failure(checkout.render(last, signal))).toMatchObject({ code: 'RenderNotFound' });
  });

  it('is one for as long as the Fleet asks for the same', async () => {
    repository.commit('First', { 'fleet/main.ts': main('1') });
    const first = await checkouts.open(fleetOf());
    expect(await checkouts.open(fleetOf({ paused: true, acceptRewrittenHead: 'abc', acceptMoves: 'abc' }))).toBe(first);
    expect(await checkouts.open(fleetOf({}, 'other'))).not.toBe(first);
    expect(await checkouts.open(fleetOf())).toBe(first);
    const second = await checkouts.open(fleetOf({ include: ['fleet'] }));
    expect(second).not.toBe(first);
    await checkouts.close('main');
    expect(await checkouts.open(fleetOf({ include: ['fleet'] }))).not.toBe(second);
    await checkouts.closeAll();
    expect(await failure(checkouts.unit('other', 'x', UNIT, 'prod', signal))).toMatchObject({ code: 'ClusterUnreachable' });
    await checkouts.close('none');
  });

  it('notifies when a repository on this machine changes, as long as it is open and has a listener', async () => {
    repository.commit('First', { 'fleet/main.ts': main('1') });
    await checkouts.open(fleetOf());
    const notified: string[] = [];
    const others: string[] = [];
    const cancel = checkouts.onChange((fleet) => notified.push(fleet));
    checkouts.onChange((fleet) => others.push(fleet));
    // What is there at the first pass is no change.
    const commitUntil = (what: () => boolean): Promise<unknown> =>
      waitFor(() => {
        repository.commit('Another');
        return what();
      });
    await commitUntil(() => notified.includes('main') && others.includes('main'));
    cancel();
    const [before, notifiedOthers] = [notified.length, others.length];
    await commitUntil(() => others.length > notifiedOthers);
    expect(notified).toHaveLength(before);
    await checkouts.close('main');
    const closed = others.length;
    await checkouts.open(fleetOf({}, 'late'));
    await commitUntil(() => others.includes('late'));
    expect(others.slice(closed)).not.toContain('main');
  });
});

describe.skipIf(!hasGit)('what is not accepted (skipped without git)', () => {
  it('is reported with its location, what to do, and that it is a verdict', async () => {
    const bad = main(
      '1',
      "new KubeObject(cluster.pool('web'), { apiVersion: 'v1', kind: 'Secret', metadata: { name: 's' }, data: { a: 'Yg==' } });",
    );
    const commit = repository.commit('First', { 'fleet/main.ts': bad });
    const error = await failure((await checkouts.open(fleetOf())).render(commit, signal));
    expect(error).toMatchObject({ code: 'SecretInGit', verdict: true });
    expect(error.message).toMatch(/^fleet\/main\.ts:4:1: Secret\/web\/s/);
    expect(error.next).toBeTypeOf('string');
  });

  it('is reported in ten lines at most', async () => {
    const bad = (count: number): string =>
      main(
        '1',
        `for (let i = 0; i < ${count}; i += 1) new KubeObject(cluster.pool('web'), { apiVersion: 'v1', kind: 'Secret', metadata: { name: \`s\${i}\` }, data: { a: 'Yg==' } });`,
      );
    const lines = async (count: number): Promise<string[]> => {
      const commit = repository.commit(`${count}`, { 'fleet/main.ts': bad(count) });
      return (await failure((await checkouts.open(fleetOf())).render(commit, signal))).message.split('\n');
    };
    const ten = await lines(10);
    expect([ten.length, ten.at(-1)]).toEqual([10, expect.stringContaining('Secret/web/s9')]);
    const twelve = await lines(12);
    expect([twelve.length, twelve.at(-1)]).toEqual([11, '… and 2 more']);
  });

  it('by a rendering that could not be had is no verdict, and is tried again', async () => {
    const commit = repository.commit('First', { 'fleet/main.ts': main('1') });
    const child = join(dir, 'child.mjs');
    fs.writeFileSync(child, 'process.exit(7);');
    const broken = open(child);
    const checkout = await broken.open(fleetOf());
    const error = await failure(checkout.render(commit, signal));
    expect(error).toMatchObject({ code: 'RenderCrashed', verdict: false });
    fs.copyFileSync(await childBundle(), child);
    expect((await checkout.render(commit, signal)).clusters).toHaveLength(1);
    await broken.closeAll();
  });
});

describe.skipIf(!hasGit || !hasSshKeygen)('E7: signatures (skipped without git or ssh-keygen)', () => {
  function newKey(name: string): { path: string; line: string } {
    const path = join(dir, name);
    runSshKeygen(path);
    return { path, line: `ada@example.com ${fs.readFileSync(`${path}.pub`, 'utf8').trim()}` };
  }
  const runSshKeygen = (path: string): void => void execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', 'x', '-f', path]);
  const sign = (key: string, message: string): string => {
    repository.git('-c', 'gpg.format=ssh', '-c', `user.signingKey=${key}`, 'commit', '--quiet', '--allow-empty', '-S', '-m', message);
    return repository.git('rev-parse', 'HEAD');
  };

  it('are asked of the head and of each new commit, where the Fleet asks for them', async () => {
    const key = newKey('key');
    repository.commit('Unsigned', { 'fleet/main.ts': main('1') });
    const first = sign(key.path, 'Signed');
    const asks = await checkouts.open(fleetOf({ signatures: { allowedSigners: key.line } }));
    await asks.verify(await asks.fetch(undefined, signal), signal);
    const second = repository.commit('Second');
    const one = await failure(asks.fetch(first, signal).then((fetched) => asks.verify(fetched, signal)));
    expect(one).toMatchObject({
      code: 'Unsigned',
      next: expect.stringContaining('git commit --amend --allow-empty --no-edit -S') as unknown,
    });
    expect(one.message).toMatch(/^1 of 1 commits is not acceptable; the newest: /);
    expect(one.message).toContain(second.slice(0, 7));
    repository.commit('Third');
    sign(key.path, 'Fourth');
    const two = await failure(asks.fetch(first, signal).then((fetched) => asks.verify(fetched, signal)));
    expect(two.message).toMatch(/^2 of 3 commits are not acceptable; the newest: /);
    // A head that is not new must be signed too.
    expect(await failure(asks.verify({ head: second, commits: [] }, signal))).toMatchObject({ code: 'Unsigned' });
    const other = await checkouts.open(fleetOf({ signatures: { allowedSigners: newKey('other').line } }));
    expect(await failure(other.verify({ head: first, commits: [] }, signal))).toMatchObject({ code: 'Unsigned' });
    const none = await checkouts.open(fleetOf());
    await none.verify({ head: second, commits: [] }, signal);
  });

  /** The command that is printed, run as it stands. */
  function follow(error: CodedError): void {
    const [, command = ''] = / run: (git .+)$/.exec(error.next ?? '') ?? [];
    execFileSync('sh', ['-c', command], { cwd: repository.dir, stdio: 'pipe', env: { ...process.env, GIT_EDITOR: 'false' } });
  }

  it('are put on commits that stand already by the command that is printed, with merges, empty commits and a head that was signed', async () => {
    const key = newKey('key');
    const accepted = repository.commit('Accepted', { 'fleet/main.ts': main('1') });
    repository.git('switch', '--quiet', '-c', 'side');
    repository.commit('Aside', { 'fleet/side.ts': 'export {};\n' });
    repository.git('switch', '--quiet', 'main');
    repository.commit('Second', { 'fleet/main.ts': main('2') });
    repository.git('commit', '--quiet', '--allow-empty', '--message', 'Nothing');
    repository.git('merge', '--quiet', '--no-ff', '--message', 'Merge', 'side');
    sign(key.path, 'Signed');
    const tree = repository.git('rev-parse', 'HEAD^{tree}');
    repository.git('config', 'gpg.format', 'ssh');
    repository.git('config', 'user.signingKey', key.path);
    const asks = await checkouts.open(fleetOf({ signatures: { allowedSigners: key.line } }));
    const judge = async (last: string): Promise<void> => asks.verify({ ...(await asks.fetch(last, signal)), accepted: last }, signal);
    const error = await failure(judge(accepted));
    expect(error.message).toMatch(/^4 of 5 commits are not acceptable/);
    expect(error.next).toContain(accepted);
    follow(error);
    await judge(accepted);
    expect(repository.git('rev-parse', 'HEAD^{tree}')).toBe(tree);
    expect(repository.git('log', '--format=%s', `${accepted}..`).split('\n').toSorted()).toEqual([
      'Aside',
      'Merge',
      'Nothing',
      'Second',
      'Signed',
    ]);
    expect((await asks.fetch(accepted, signal)).relation).toBe('descendant');
  });

  it('are put on the head alone where it alone has none, and on what a rewritten history brings', async () => {
    const key = newKey('key');
    const accepted = repository.commit('Accepted', { 'fleet/main.ts': main('1') });
    repository.git('config', 'gpg.format', 'ssh');
    repository.git('config', 'user.signingKey', key.path);
    const asks = await checkouts.open(fleetOf({ signatures: { allowedSigners: key.line } }));
    const same = await failure(asks.verify({ ...(await asks.fetch(accepted, signal)), accepted }, signal));
    // To amend it would rewrite what was accepted.
    follow(same);
    const added = await asks.fetch(accepted, signal);
    expect([added.relation, added.commits.length]).toEqual(['descendant', 1]);
    await asks.verify({ ...added, accepted }, signal);
    repository.commit('Newest');
    const newest = await failure(asks.verify({ ...(await asks.fetch(accepted, signal)), accepted }, signal));
    expect(newest.next).not.toContain('rebase');
    follow(newest);
    await asks.verify({ ...(await asks.fetch(accepted, signal)), accepted }, signal);
    // Another history than the accepted one, which a person would have to accept.
    repository.git('switch', '--quiet', '--orphan', 'other');
    repository.commit('Zero');
    repository.git('commit', '--quiet', '--amend', '--allow-empty', '--no-edit', '-S');
    for (const each of ['One', 'Two']) repository.commit(each);
    const elsewhere = { ...(await asks.fetch(accepted, signal)) };
    expect(elsewhere.relation).toBe('rewritten');
    follow(await failure(asks.verify(elsewhere, signal)));
    await asks.verify(await asks.fetch(accepted, signal), signal);
  });
});

describe.skipIf(!hasGit)('a repository elsewhere (skipped without git)', () => {
  const auth = { username: 'ada', password: 'h:unter2' };
  const credentials = (data: Record<string, string>): void => {
    const encoded = Object.fromEntries(Object.entries(data).map(([key, text]) => [key, Buffer.from(text).toString('base64')]));
    server.put(Secrets, { apiVersion: 'v1', kind: 'Secret', metadata: { namespace: SYSTEM_NAMESPACE, name: 'git' }, data: encoded });
  };

  it('is read with the credentials of its Secret, from the branch that is named', async () => {
    const git = await serveGit(dir, auth);
    try {
      repository.commit('First', { 'fleet/main.ts': main('1') });
      runGit(repository.dir, ['branch', 'stable']);
      const stable = repository.git('rev-parse', 'HEAD');
      const newest = repository.commit('Second');
      const source = { url: `${git.url}/fleet/.git`, branch: 'stable', credentialsSecret: 'git' };
      const refused = (): Promise<CodedError> => failure(checkouts.open(fleetOf({ source })));
      expect(await refused()).toMatchObject({
        code: 'InvalidFleet',
        message: '`spec.source.credentialsSecret`: Secret kubenode-system/git is absent',
      });
      const parts: Record<string, string>[] = [{ username: 'ada' }, { password: 'x' }];
      for (const data of parts) {
        credentials(data);
        expect((await refused()).message).toBe(
          '`spec.source.credentialsSecret`: Secret kubenode-system/git must have the keys username and password',
        );
      }
      credentials(auth);
      const checkout = await checkouts.open(fleetOf({ source }));
      expect(await checkout.fetch(undefined, signal)).toMatchObject({ head: stable });
      expect((await (await checkouts.open(fleetOf({ source: { ...source, branch: 'main' } }))).head(signal)).oid).toBe(newest);
      expect(fs.readdirSync(join(dir, 'cache'))).toEqual(['main']);
      const open = await checkouts.open(fleetOf({ source: { url: source.url, branch: 'main' } }));
      expect(await failure(open.head(signal))).toMatchObject({ code: 'GitAuth' });
    } finally {
      await git.close();
    }
  });

  it('on this machine is read from the branch that is named', async () => {
    repository.commit('First', { 'fleet/main.ts': main('1') });
    runGit(repository.dir, ['branch', 'stable']);
    const stable = repository.git('rev-parse', 'HEAD');
    const newest = repository.commit('Second');
    const headOf = async (branch: string | undefined): Promise<string> =>
      (
        await (
          await checkouts.open(fleetOf({ source: { path: repository.dir, ...(branch === undefined ? {} : { branch }) } }))
        ).head(signal)
      ).oid;
    expect([await headOf('stable'), await headOf(undefined)]).toEqual([stable, newest]);
  });
});
