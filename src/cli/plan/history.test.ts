import * as fs from 'node:fs';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as git from 'isomorphic-git';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { historyWarning, resolveRevision } from './history.ts';

const SIGNAL = AbortSignal.timeout(60_000);
const author = { name: 'a', email: 'a@example.com' };

let folder: string;
let root: string;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'kubenode-history-'));
  root = join(folder, 'main');
  await git.init({ fs, dir: root, defaultBranch: 'main' });
});
afterEach(() => rmSync(folder, { recursive: true }));

const commit = async (parent?: string[], timestamp?: number): Promise<string> =>
  await git.commit({
    fs,
    dir: root,
    message: `after ${parent?.join(' ')}`,
    author: { ...author, ...(timestamp === undefined ? {} : { timestamp }) },
    ...(parent === undefined ? {} : { parent }),
  });

/** As `git worktree add` makes it. */
function linkedWorkTree(head: string): string {
  const path = join(folder, 'linked');
  const gitDir = join(root, '.git/worktrees/linked');
  mkdirSync(gitDir, { recursive: true });
  mkdirSync(path);
  writeFileSync(join(gitDir, 'HEAD'), `${head}\n`);
  writeFileSync(join(gitDir, 'commondir'), '../..\n');
  writeFileSync(join(path, '.git'), `gitdir: ${gitDir}\n`);
  return path;
}

describe('a revision', () => {
  it('is a commit, a branch, a tag, HEAD, or an ancestor of one', async () => {
    const [first, second] = [await commit(), await commit()];
    const side = await commit([first]);
    const merge = await commit([second, side]);
    await git.writeRef({ fs, dir: root, ref: 'refs/heads/main', value: merge, force: true });
    await git.branch({ fs, dir: root, ref: 'feature/beef', object: side });
    await git.tag({ fs, dir: root, ref: 'v1', object: first });
    await git.annotatedTag({ fs, dir: root, ref: 'v2', object: second, message: 'two', tagger: author });
    const found = async (revision: string) => await resolveRevision(root, revision);
    for (const [revision, oid] of [
      [merge, merge],
      [second.slice(0, 12), second],
      ['main', merge],
      ['HEAD', merge],
      ['@', merge],
      ['feature/beef', side],
      ['refs/heads/feature/beef', side],
      ['v1', first],
      ['v2', second],
      ['HEAD~', second],
      ['HEAD^', second],
      ['HEAD^2', side],
      ['HEAD^0', merge],
      ['main~2', first],
      ['main^2~1', first],
      ['v2^', first],
    ] as const)
      expect([revision, await found(revision)]).toEqual([revision, oid]);
    for (const revision of ['nowhere', 'main~3', 'main^3', 'main:fleet', 'main^{tree}', '~1', '', 'f'.repeat(40)])
      await expect(found(revision), revision).rejects.toMatchObject({ code: 'NoSuchRevision' });
  });

  it('of a linked work tree is one of its repository, and its HEAD is its own', async () => {
    const [first, second] = [await commit(), await commit()];
    const linked = linkedWorkTree(first);
    expect([await resolveRevision(linked, 'HEAD'), await resolveRevision(linked, 'main')]).toEqual([first, second]);
    expect(await historyWarning(linked, first, second, SIGNAL)).toContain('is older than what the hub accepted');
  });
});

describe('a warning', () => {
  it('reports where the commit lacks what the hub accepted', async () => {
    const [first, second] = [await commit(), await commit()];
    const side = await commit([first]);
    expect(await historyWarning(root, second, first, SIGNAL)).toBeUndefined();
    expect(await historyWarning(root, first, first, SIGNAL)).toBeUndefined();
    expect(await historyWarning(root, first, second, SIGNAL)).toContain('is older than what the hub accepted');
    expect(await historyWarning(root, side, second, SIGNAL)).toContain('does not contain the commit that the hub accepted');
    expect(await historyWarning(root, second, 'b'.repeat(40), SIGNAL)).toContain('is not in this clone');
  });

  it('of a shallow clone reports that it is not known, not that something is taken back', async () => {
    const first = await commit(undefined, 1000);
    const second = await commit(undefined, 2000);
    const third = await commit(undefined, 3000);
    writeFileSync(join(root, '.git/shallow'), `${second}\n`);
    expect(await historyWarning(root, third, first, SIGNAL)).toMatch(/does not have all commits since.*git fetch --unshallow/);
  });
});
