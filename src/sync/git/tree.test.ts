import { describe, expect, it } from 'vitest';
import { gitError } from './errors.ts';
import { objectId, type Objects } from './objects.ts';
import type { ReadLimits } from './source.ts';
import { defaultReadLimits, readFiles } from './tree.ts';

const signal = new AbortController().signal;

/** Objects in memory, of any form: `git mktree` would refuse most of these. */
function store() {
  const objects = new Map<string, Buffer>();
  let reads = 0;
  function put(type: 'tree' | 'blob', content: Buffer): string {
    const oid = objectId(type, content);
    objects.set(oid, content);
    return oid;
  }
  return {
    reads: () => reads,
    blob: (content: string | Buffer) => put('blob', Buffer.from(content)),
    /** `[mode, name, oid]` in the order given. */
    tree: (...entries: [string, string | Buffer, string][]) =>
      put(
        'tree',
        Buffer.concat(
          entries.flatMap(([mode, name, oid]) => [Buffer.from(`${mode} `), Buffer.from(name), Buffer.from([0]), Buffer.from(oid, 'hex')]),
        ),
      ),
    raw: (content: Buffer) => put('tree', content),
    read: (root: string, paths: string[] = ['fleet'], limits: Partial<ReadLimits> = {}) => {
      const source: Objects = {
        async read(oid) {
          reads += 1;
          const content = objects.get(oid);
          if (content === undefined) throw gitError('GitObjectMissing', oid);
          return content;
        },
        commit: () => Promise.reject(new Error('no commits here')),
      };
      return readFiles(source, root, paths, { ...defaultReadLimits, ...limits }, signal);
    },
  };
}

describe('what is read from a commit', () => {
  it('keeps text as it was committed', async () => {
    const { blob, tree, read } = store();
    const text = '\ufeffline\r\nünï\u{1f389}\n';
    expect(await read(tree(['40000', 'fleet', tree(['100755', 'run.sh', blob(text)])]))).toEqual(new Map([['fleet/run.sh', text]]));
  });

  it('does not judge what lies beside it', async () => {
    const { blob, tree, read } = store();
    const fleet = tree(['100644', 'a', blob('a')]);
    const root = tree(
      ['120000', 'link', blob('/etc')],
      ['40000', 'fleet', fleet],
      ['100644', 'README', blob('')],
      ['100644', 'readme', blob('')],
      ['100644', Buffer.from([0xff]), blob('')],
    );
    expect([...(await read(root)).keys()]).toEqual(['fleet/a']);
  });

  it('may be a single file', async () => {
    const { blob, tree, read } = store();
    const root = tree(['100644', 'package.json', blob('{}')], ['40000', 'fleet', tree(['100644', 'a', blob('a')])]);
    expect(await read(root, ['package.json'])).toEqual(new Map([['package.json', '{}']]));
    expect(await read(root, ['package.json/x', 'fleet/a/b', 'none'])).toEqual(new Map());
  });

  it.each(['', '/', 'fleet/', '/fleet', '../fleet', 'fleet/../..', 'fleet/./a', '.git', 'fleet//a', '..'])(
    'has no path %j',
    async (path) => {
      await expect(store().read('', [path])).rejects.toMatchObject({ code: 'GitSpec' });
    },
  );

  const bad: [string, string, string, (s: ReturnType<typeof store>) => string][] = [
    ['a symbolic link', 'TreeSymlink', 'fleet/passwd', (s) => s.tree(['120000', 'passwd', s.blob('/etc/passwd')])],
    ['a submodule', 'TreeSubmodule', 'fleet/lib', (s) => s.tree(['160000', 'lib', 'a'.repeat(40)])],
    ['an unknown mode', 'TreeMode', 'fleet/a', (s) => s.tree(['140000', 'a', s.blob('')])],
    [
      'a pointer of Git LFS',
      'TreeLfsPointer',
      'fleet/a',
      (s) => s.tree(['100644', 'a', s.blob('version https://git-lfs.github.com/spec/v1\noid sha256:0\n')]),
    ],
    [
      'bytes that are not UTF-8',
      'TreeNotText',
      'fleet/logo.png',
      (s) => s.tree(['100644', 'logo.png', s.blob(Buffer.from([0x89, 0x50, 0x4e, 0x47]))]),
    ],
    ['a NUL', 'TreeNotText', 'fleet/a', (s) => s.tree(['100644', 'a', s.blob('a\0b')])],
    ['half a surrogate', 'TreeNotText', 'fleet/a', (s) => s.tree(['100644', 'a', s.blob(Buffer.from([0xed, 0xa0, 0x80]))])],
    ['a name twice', 'TreeDuplicateName', 'fleet/a', (s) => s.tree(['100644', 'a', s.blob('1')], ['100644', 'a', s.blob('2')])],
    [
      'names equal in lower case',
      'TreeDuplicateName',
      'fleet/Main.ts',
      (s) => s.tree(['100644', 'main.ts', s.blob('1')], ['100644', 'Main.ts', s.blob('2')]),
    ],
    [
      'names equal when composed',
      'TreeDuplicateName',
      'fleet/e\u0301',
      (s) => s.tree(['100644', '\u00e9', s.blob('1')], ['100644', 'e\u0301', s.blob('2')]),
    ],
    [
      'a file and a folder of one name',
      'TreeDuplicateName',
      'fleet/a',
      (s) => s.tree(['100644', 'a', s.blob('1')], ['40000', 'a', s.tree()]),
    ],
    ['a name that is not UTF-8', 'TreeName', 'fleet/\u00e4b', (s) => s.tree(['100644', Buffer.from([0xe4, 0x62]), s.blob('')])],
    ['the name ..', 'TreeName', 'fleet/..', (s) => s.tree(['40000', '..', s.tree(['100644', 'a', s.blob('')])])],
    ['the name .', 'TreeName', 'fleet/.', (s) => s.tree(['40000', '.', s.tree()])],
    ['no name', 'TreeName', 'fleet/', (s) => s.tree(['100644', '', s.blob('')])],
    ['a name with a slash', 'TreeName', 'fleet/../../etc', (s) => s.tree(['100644', '../../etc', s.blob('')])],
    ['a name with a backslash', 'TreeName', 'fleet/..\\x', (s) => s.tree(['100644', '..\\x', s.blob('')])],
    ['a name with a newline, shown on one line', 'TreeName', 'fleet/a b', (s) => s.tree(['100644', 'a\nb', s.blob('')])],
    ['.git', 'TreeName', 'fleet/.git', (s) => s.tree(['40000', '.git', s.tree()])],
    ['.GIT', 'TreeName', 'fleet/.GiT', (s) => s.tree(['40000', '.GiT', s.tree()])],
    ['.git with a dot after it', 'TreeName', 'fleet/.git. .', (s) => s.tree(['40000', '.git. .', s.tree()])],
    ['.git as an NTFS stream', 'TreeName', 'fleet/.git::$INDEX_ALLOCATION', (s) => s.tree(['40000', '.git::$INDEX_ALLOCATION', s.tree()])],
    ['.git by its short name', 'TreeName', 'fleet/GIT~1', (s) => s.tree(['40000', 'GIT~1', s.tree()])],
    ['.git with a character that HFS+ ignores', 'TreeName', 'fleet/.g', (s) => s.tree(['40000', '.g\u200cit', s.tree()])],
    ['a tree that ends inside an entry', 'GitObjectCorrupt', 'fleet', (s) => s.raw(Buffer.from('100644 a\0abc'))],
    ['a tree that is no tree', 'GitObjectCorrupt', 'fleet', (s) => s.raw(Buffer.from('hello'))],
  ];
  it.each(bad)('is refused as a whole for %s, naming the path', async (_, code, path, make) => {
    const s = store();
    const root = s.tree(['40000', 'fleet', make(s)]);
    await expect(s.read(root)).rejects.toMatchObject({ code, message: expect.stringContaining(path) });
  });

  it('is refused when the way to it is a link, a submodule or not the only one', async () => {
    const s = store();
    const fleet = s.tree(['100644', 'a', s.blob('a')]);
    await expect(s.read(s.tree(['120000', 'fleet', s.blob('/')]), ['fleet/a'])).rejects.toMatchObject({ code: 'TreeSymlink' });
    await expect(s.read(s.tree(['120000', 'fleet', s.blob('/')]))).rejects.toMatchObject({ code: 'TreeSymlink' });
    await expect(s.read(s.tree(['160000', 'fleet', 'a'.repeat(40)]), ['fleet/a'])).rejects.toMatchObject({ code: 'TreeSubmodule' });
    for (const twin of ['fleet', 'Fleet']) {
      await expect(s.read(s.tree(['40000', 'fleet', fleet], ['40000', twin, s.tree()]))).rejects.toMatchObject({
        code: 'TreeDuplicateName',
      });
    }
  });
});

describe('the limits of what is read', () => {
  it('count every file and folder', async () => {
    const s = store();
    const root = s.tree(['40000', 'fleet', s.tree(['100644', 'a', s.blob('')], ['100644', 'b', s.blob('')])]);
    expect((await s.read(root, ['fleet'], { entries: 3 })).size).toBe(2);
    await expect(s.read(root, ['fleet'], { entries: 2 })).rejects.toMatchObject({
      code: 'TreeTooManyEntries',
      message: expect.stringContaining('fleet/b'),
    });
  });

  it('stop trees of trees, of which a few objects name more paths than there are atoms', async () => {
    const s = store();
    let tree = s.tree(['100644', 'leaf', s.blob('')]);
    for (let i = 0; i < 15; i += 1) tree = s.tree(['40000', 'a', tree], ['40000', 'b', tree], ['40000', 'c', tree], ['40000', 'd', tree]);
    await expect(s.read(s.tree(['40000', 'fleet', tree]))).rejects.toMatchObject({ code: 'TreeTooManyEntries' });
    expect(s.reads()).toBeLessThan(25_000);
  });

  it('stop folders that are nested without end', async () => {
    const s = store();
    let tree = s.tree(['100644', 'leaf', s.blob('')]);
    for (let i = 0; i < 3; i += 1) tree = s.tree(['40000', 'd', tree]);
    const root = s.tree(['40000', 'fleet', tree]);
    expect([...(await s.read(root, ['fleet'], { depth: 4 })).keys()]).toEqual(['fleet/d/d/d/leaf']);
    await expect(s.read(root, ['fleet'], { depth: 3 })).rejects.toMatchObject({
      code: 'TreeTooDeep',
      message: expect.stringContaining('fleet/d/d/d'),
    });
  });

  it('stop large files, and many of a fair size', async () => {
    const s = store();
    const root = s.tree(['40000', 'fleet', s.tree(['100644', 'a', s.blob('x'.repeat(100))], ['100644', 'b', s.blob('y'.repeat(100))])]);
    expect((await s.read(root, ['fleet'], { fileBytes: 100, totalBytes: 200 })).size).toBe(2);
    await expect(s.read(root, ['fleet'], { fileBytes: 99 })).rejects.toMatchObject({
      code: 'TreeTooLarge',
      message: 'fleet/a: has 100 bytes; a file may have 99 bytes',
    });
    await expect(s.read(root, ['fleet'], { totalBytes: 199 })).rejects.toMatchObject({
      code: 'TreeTooLarge',
      message: expect.stringContaining('fleet/b'),
    });
  });
});
