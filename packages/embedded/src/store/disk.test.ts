import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { FORMAT, openDisk, type StoreDisk } from './disk.ts';

let root: string;
let open: StoreDisk[];

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'embedded-disk-'));
  open = [];
});

afterEach(() => {
  for (const disk of open) disk.close();
  rmSync(root, { recursive: true });
});

function reopen(dir = join(root, 'state')): StoreDisk {
  const disk = openDisk(dir);
  open.push(disk);
  return disk;
}

function close(disk: StoreDisk): void {
  disk.close();
  open = open.filter((other) => other !== disk);
}

describe('the state folder', () => {
  it('gives back what was put, in order, with the newest resourceVersion', () => {
    const disk = reopen();
    disk.put({ resource: '/nodes', key: 'b', rv: 1, json: '{"b":1}' });
    disk.put({ resource: '/nodes', key: 'a', rv: 2, json: '{"a":1}' });
    disk.put({ resource: '/nodes', key: 'b', rv: 3, json: '{"b":2}' });
    close(disk);
    const again = reopen();
    expect(again.rv).toBe(3);
    expect(Array.from(again.rows(), (row) => [row.key, row.rv, row.json])).toEqual([
      ['a', 2, '{"a":1}'],
      ['b', 3, '{"b":2}'],
    ]);
  });

  it('remembers the resourceVersion of a deletion, which leaves no row', () => {
    const disk = reopen();
    disk.put({ resource: '/nodes', key: 'a', rv: 1, json: '{}' });
    disk.remove('/nodes', 'a', 2);
    close(disk);
    const again = reopen();
    expect([again.rv, Array.from(again.rows())]).toEqual([2, []]);
  });

  it('keeps secrets, and keeps them from other users', () => {
    const disk = reopen();
    disk.keepSecret('admin.token', 'one');
    disk.keepSecret('admin.token', 'two');
    close(disk);
    expect(reopen().secret('admin.token')).toBe('two');
    expect(statSync(join(root, 'state', 'state.db')).mode & 0o777).toBe(0o600);
    expect(statSync(join(root, 'state')).mode & 0o777).toBe(0o700);
  });

  it('is opened by one process at a time', () => {
    reopen();
    expect(() => openDisk(join(root, 'state'))).toThrow(expect.objectContaining({ code: 'StateInUse' }));
  });

  it('of a newer format is refused, and left as it is', () => {
    close(reopen());
    const path = join(root, 'state', 'state.db');
    const database = new DatabaseSync(path);
    database.exec(`PRAGMA user_version = ${FORMAT + 1}`);
    database.close();
    const before = readFileSync(path);
    expect(() => openDisk(join(root, 'state'))).toThrow(
      expect.objectContaining({ code: 'StateTooNew', message: expect.stringContaining(`has format ${FORMAT + 1}`) }),
    );
    expect(readFileSync(path).equals(before)).toBe(true);
  });

  it.each([
    ['is no database', () => Buffer.from('this is not a database at all, just some text'.repeat(200))],
    ['is empty', () => Buffer.alloc(0)],
    ['was cut off', (whole: Buffer) => whole.subarray(0, Math.floor(whole.length / 2))],
    ['was overwritten in the middle', (whole: Buffer) => Buffer.concat([whole.subarray(0, 4096), Buffer.alloc(whole.length - 4096, 0x5a)])],
  ])('whose file %s is refused with one clear message', (_, damage) => {
    const disk = reopen();
    for (let n = 1; n < 400; n++)
      disk.put({ resource: '/nodes', key: `node-${n}`, rv: n, json: JSON.stringify({ pad: 'x'.repeat(200), n }) });
    close(disk);
    const path = join(root, 'state', 'state.db');
    writeFileSync(path, damage(readFileSync(path)));
    expect(() => openDisk(join(root, 'state'))).toThrow(
      expect.objectContaining({
        code: 'StateDamaged',
        message: expect.stringContaining(join(root, 'state')),
        next: expect.stringContaining('backup'),
      }),
    );
  });

  it('with the database of another program is refused', () => {
    close(reopen());
    const path = join(root, 'other', 'state.db');
    close(reopen(join(root, 'other')));
    const database = new DatabaseSync(path);
    database.exec('PRAGMA application_id = 7');
    database.close();
    expect(() => openDisk(join(root, 'other'))).toThrow(expect.objectContaining({ code: 'StateDamaged' }));
  });

  it('is made whole or not at all: what a crash left of the first moment is no obstacle', () => {
    mkdirSync(join(root, 'state'));
    writeFileSync(join(root, 'state', 'state.db.new'), 'half');
    const disk = reopen();
    disk.put({ resource: '/nodes', key: 'a', rv: 1, json: '{}' });
    expect(readdirSync(join(root, 'state'))).not.toContain('state.db.new');
  });

  const paths: [string, () => string, string][] = [
    ['below a file', () => join(root, 'file', 'state'), 'ENOTDIR'],
    ['that is a file', () => join(root, 'file'), 'EEXIST'],
    ['whose database is a folder', () => join(root, 'folder'), 'EISDIR'],
    // A file system that makes no folders, and reports for each that its parent is absent.
    ...(process.platform === 'linux' ? [['in /proc', () => '/proc/kubenode/state', 'ENOENT'] as [string, () => string, string]] : []),
  ];
  it.each(paths)('%s cannot be written, and is refused', (_, dir, code) => {
    writeFileSync(join(root, 'file'), '');
    mkdirSync(join(root, 'folder', 'state.db'), { recursive: true });
    expect(() => openDisk(dir())).toThrow(
      expect.objectContaining({
        code: 'StateUnwritable',
        message: expect.stringContaining(`cannot write the state folder ${dir()}: ${code}`),
      }),
    );
  });
});
