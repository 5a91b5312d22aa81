import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { execFileSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { differenceOf } from '../upkeep/drift.ts';
import { createDurable } from './durable.ts';
import type { Durable } from './durable.ts';
import type { FileSpec } from '../generation/spec.ts';
import { writeNodeFile, removeFile } from './node-files.ts';
import { nodeFiles } from '../ports/files.ts';
import { openLog, rotateLog } from '../ports/logs.ts';

const OTHER_USER = 65534;
const IS_ROOT = process.geteuid?.() === 0;

let root: string;
let durable: Durable;

beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), 'kubenode-files-')));
  durable = createDurable(nodeFiles(), root);
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const web: FileSpec = { path: '/srv/web/conf/web', content: 'FROM FLEET', mode: 0o644, onDrift: 'Repair' };
const at = (path: string): string => join(root, path);

function folder(path: string, mode = 0o755): void {
  mkdirSync(at(path), { recursive: true });
  chmodSync(at(path), mode);
}

/** What the agent answers when it reads and writes it. */
const refused = { code: 'PathRefused' };

async function expectRefused(): Promise<void> {
  await expect(writeNodeFile(durable, root, web)).rejects.toMatchObject(refused);
  await expect(removeFile(durable, root, web.path)).rejects.toMatchObject(refused);
  await expect(differenceOf(durable.files, root, web)).rejects.toMatchObject(refused);
}

describe('A8: a file on the node is reached folder by folder', () => {
  test.runIf(IS_ROOT)('a link of another user in the way is refused: nothing is read, written or removed behind it', async () => {
    await writeNodeFile(durable, root, web);
    folder('etc/sudoers.d');
    chownSync(at('srv/web'), OTHER_USER, OTHER_USER);
    renameSync(at('srv/web/conf'), at('srv/web/old'));
    symlinkSync(at('etc/sudoers.d'), at('srv/web/conf'));
    writeFileSync(at('etc/sudoers.d/web'), 'OF ANOTHER USER');
    await expectRefused();
    expect(readdirSync(at('etc/sudoers.d'))).toEqual(['web']);
    expect(readFileSync(at('etc/sudoers.d/web'), 'utf8')).toBe('OF ANOTHER USER');
  });

  test.runIf(IS_ROOT)('a link that another user owns is refused in a folder of root, too', async () => {
    folder('srv/web');
    folder('etc/sudoers.d');
    symlinkSync(at('etc/sudoers.d'), at('srv/web/conf'));
    execFileSync('chown', ['-h', String(OTHER_USER), at('srv/web/conf')]);
    await expectRefused();
    expect(readdirSync(at('etc/sudoers.d'))).toEqual([]);
  });

  test.runIf(IS_ROOT).each(['srv', 'srv/web', 'srv/web/conf'])('%s that another user owns is refused', async (path) => {
    folder('srv/web/conf');
    chownSync(at(path), OTHER_USER, OTHER_USER);
    await expectRefused();
    expect(existsSync(at(web.path))).toBe(false);
  });

  test.each([0o777, 0o1777, 0o757])('a folder that everybody may write (mode %o) is refused, and named', async (mode) => {
    folder('srv/web/conf');
    chmodSync(at('srv/web'), mode);
    await expect(writeNodeFile(durable, root, web)).rejects.toMatchObject({
      code: 'PathRefused',
      message: expect.stringContaining(at('srv/web')),
    });
    await expectRefused();
  });

  test.runIf(IS_ROOT)('a folder that a group may write is refused', async () => {
    folder('srv/web/conf', 0o775);
    await expectRefused();
  });

  test('links of the system are followed: relative, absolute, and through each other', async () => {
    folder('usr/lib');
    folder('run');
    symlinkSync('usr/lib', at('lib'));
    folder('var');
    symlinkSync(at('run'), at('var/run'));
    symlinkSync('../lib', at('var/lib'));
    for (const [path, real] of [
      ['/lib/app/x', 'usr/lib/app/x'],
      ['/var/run/x', 'run/x'],
      ['/var/lib/deep/er/x', 'usr/lib/deep/er/x'],
    ] as const) {
      const file = { ...web, path };
      expect(await writeNodeFile(durable, root, file)).toBe(true);
      expect(readFileSync(at(real), 'utf8')).toBe('FROM FLEET');
      expect(await differenceOf(durable.files, root, file)).toBeUndefined();
      expect(await writeNodeFile(durable, root, file)).toBe(false);
      await removeFile(durable, root, path);
      expect(existsSync(at(real))).toBe(false);
    }
    expect(lstatSync(at('lib')).isSymbolicLink()).toBe(true);
  });

  test('links that lead nowhere, out of the root, in a circle, or to the agent are refused', async () => {
    folder('srv/web');
    folder('var/lib/kubenode');
    for (const target of [
      'nowhere',
      '../../../..',
      dirname(root),
      'conf',
      '../../var/lib/kubenode',
      '../../var/lib/kubenode/new',
      '/etc',
    ]) {
      symlinkSync(target, at('srv/web/conf'));
      await expectRefused();
      rmSync(at('srv/web/conf'));
    }
    expect(readdirSync(at('var/lib/kubenode'))).toEqual([]);
  });

  test('what is not there is missing, is made with its folders, and is not there again', async () => {
    expect(await differenceOf(durable.files, root, web)).toBe('is missing');
    await removeFile(durable, root, web.path);
    expect(existsSync(at('srv'))).toBe(false);
    await writeNodeFile(durable, root, web);
    expect(await differenceOf(durable.files, root, web)).toBeUndefined();
    chmodSync(at(web.path), 0o600);
    expect(await differenceOf(durable.files, root, web)).toBe('has mode 0600, not 0644');
    await removeFile(durable, root, web.path);
    await removeFile(durable, root, web.path);
    expect(await differenceOf(durable.files, root, web)).toBe('is missing');
  });

  test('a failure names the path, not the way by which the agent reached it', async () => {
    folder('srv/web/conf/web');
    await expect(writeNodeFile(durable, root, web)).rejects.toMatchObject({
      code: 'FileFailed',
      message: `${at(web.path)} is a folder; a file belongs there`,
    });
    writeFileSync(at('file'), '');
    await expect(writeNodeFile(durable, root, { ...web, path: '/file/below' })).rejects.toMatchObject({
      code: 'FileFailed',
      message: `${at('file')} is in the way: a folder is needed there`,
    });
  });
});

describe('A8: a check costs no more than what was installed', () => {
  test('a file that is huge is known by its size', async () => {
    await writeNodeFile(durable, root, web);
    truncateSync(at(web.path), 1_900_000_000);
    const before = process.resourceUsage().maxRSS;
    expect(await differenceOf(durable.files, root, web)).toBe('has other content');
    expect(process.resourceUsage().maxRSS - before).toBeLessThan(200_000);
  });

  test('one that grows, or becomes a pipe, after its size was compared is neither read whole nor waited for', async () => {
    await writeNodeFile(durable, root, web);
    const real = nodeFiles();
    const then = (act: () => void) => ({
      ...real,
      async stat(path: string) {
        const found = await real.stat(path);
        if (path.endsWith('/web') && found?.kind === 'file') act();
        return found;
      },
    });
    const before = process.resourceUsage().maxRSS;
    const grows = then(() => truncateSync(at(web.path), 1_900_000_000));
    expect(await differenceOf(grows, root, web)).toBe('has other content');
    expect(process.resourceUsage().maxRSS - before).toBeLessThan(200_000);
    rmSync(at(web.path));
    await writeNodeFile(durable, root, web);
    const pipe = (): void => {
      if (!lstatSync(at(web.path)).isFile()) return;
      rmSync(at(web.path));
      execFileSync('mkfifo', [at(web.path)]);
    };
    await expect(differenceOf(then(pipe), root, web)).rejects.toMatchObject({ code: 'FileFailed' });
    rmSync(at(web.path));
    await writeNodeFile(durable, root, web);
    await createDurable(then(pipe), root).replace(at(web.path), web.content, web.mode);
    expect(readFileSync(at(web.path), 'utf8')).toBe('FROM FLEET');
  });

  test('the agent does not wait for a pipe that replaces a file it reads', async () => {
    execFileSync('mkfifo', [at('pipe')]);
    await expect(durable.files.read(at('pipe'))).rejects.toMatchObject({ code: 'FileFailed' });
  });
});

describe('logs of units', () => {
  test('the agent neither writes nor cuts through a link that replaces a log', async () => {
    writeFileSync(at('precious'), 'x'.repeat(100));
    folder('var/log/kubenode');
    symlinkSync(at('precious'), at('var/log/kubenode/app.log'));
    await expect(openLog(root, 'app')).rejects.toMatchObject({ code: 'ELOOP' });
    await rotateLog(root, 'app', 10).catch(() => undefined);
    expect(readFileSync(at('precious'), 'utf8')).toHaveLength(100);
  });

  test('nor through one that replaces a rotated log, which goes', async () => {
    writeFileSync(at('precious'), 'precious');
    folder('var/log/kubenode');
    writeFileSync(at('var/log/kubenode/app.log'), 'x'.repeat(100), { mode: 0o640 });
    symlinkSync(at('precious'), at('var/log/kubenode/app.log.1'));
    expect(await rotateLog(root, 'app', 10)).toBe(true);
    expect(readFileSync(at('precious'), 'utf8')).toBe('precious');
    expect(readFileSync(at('var/log/kubenode/app.log.1'), 'utf8')).toHaveLength(100);
    expect(readFileSync(at('var/log/kubenode/app.log'), 'utf8')).toBe('');
  });
});
