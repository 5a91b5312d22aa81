/** The files that are planned are those that the hub reads of their commit, and are judged as it judges them. */
import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as git from 'isomorphic-git';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { planLines } from './plan/lines.ts';
import { makePlan } from './plan/make.ts';
import { namedFolder, readFleet } from './fleet-folder.ts';
import { writeInto } from './testing/tree.ts';
import { acceptedBy, fleetText, planHub, SERVICE_ACCOUNT, SIGNAL, type PlanHub } from './plan/testing/hub.ts';

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'kubenode-folder-'));
});
afterEach(() => fs.rmSync(root, { recursive: true }));
const gitIn = (...args: string[]): string =>
  execFileSync('git', ['-c', 'user.name=ada', '-c', 'user.email=ada@example.com', '-c', 'safe.directory=*', ...args], {
    cwd: root,
    encoding: 'utf8',
  });

describe('the folder of a fleet', () => {
  it('is the repository around the working directory, where none is named', () => {
    gitIn('init', '-q');
    mkdirSync(join(root, 'fleet/deep'), { recursive: true });
    expect(namedFolder(undefined, join(root, 'fleet/deep'))).toBe(root);
    expect(namedFolder('.', root)).toBe(process.cwd());
    expect(() => namedFolder(join(root, 'absent'))).toThrow(expect.objectContaining({ code: 'Usage' }));
  });

  it('without a repository is the working directory', () => {
    expect(namedFolder(undefined, root)).toBe(root);
  });
});

describe('the files of a folder', () => {
  const read = async (): Promise<string[]> => [
    ...(await readFleet({ root, entry: 'fleet/main.ts', include: ['fleet'] }, AbortSignal.timeout(20_000))).keys(),
  ];
  const write = (path: string, text = 'export {};\n'): string => writeInto(root, path, text);
  beforeEach(() => {
    gitIn('init', '-q');
    write('fleet/main.ts');
  });

  it('are those that the next commit may have: what the index has, and what is not ignored', async () => {
    write('.gitignore', '*.log\n/fleet/out\n');
    for (const path of ['fleet/staged.log', 'fleet/out/staged.ts', 'fleet/.staged']) write(path);
    gitIn('add', '--force', '.');
    for (const path of ['fleet/new.ts', 'fleet/new.log', 'fleet/out/new.ts', 'fleet/.new', 'fleet/node_modules/a/a.js']) write(path);
    expect(await read()).toEqual(['fleet/.staged', 'fleet/main.ts', 'fleet/new.ts', 'fleet/out/staged.ts', 'fleet/staged.log']);
  });

  it('are read in time for any patterns of .gitignore', async () => {
    write('.gitignore', `${'*a'.repeat(24)}b\n`);
    gitIn('add', '-A');
    const name = `fleet/${'a'.repeat(200)}`;
    write(name);
    expect(await read()).toEqual([name, 'fleet/main.ts']);
  });

  it.each([
    ['ident', '*.ts ident\n', '// $Id$\n'],
    ['eol', '*.ts text eol=crlf\n', 'export {};\n'],
  ])('are refused where Git wrote another text than the commit has (%s)', async (_, attributes, text) => {
    for (const name of ['main', 'b', 'c', 'd']) write(`fleet/${name}.ts`, text);
    gitIn('add', '-A');
    gitIn('commit', '-q', '-m', 'all');
    expect(await read()).toHaveLength(4);
    write('.gitattributes', attributes);
    gitIn('add', '-A');
    gitIn('commit', '-q', '-m', 'attributes');
    fs.rmSync(join(root, 'fleet'), { recursive: true });
    gitIn('checkout', '--', 'fleet');
    await expect(read()).rejects.toMatchObject({
      code: 'TextConverted',
      message: expect.stringMatching(
        /^fleet\/b\.ts, fleet\/c\.ts, fleet\/d\.ts and 1 more: Git wrote another text here than the commit has/,
      ),
      next: expect.stringContaining('git check-attr --all'),
    });
    // What a person writes is what the next commit has.
    for (const name of ['main', 'b', 'c', 'd']) write(`fleet/${name}.ts`, `${text}// by hand\n`);
    expect(await read()).toHaveLength(4);
  });

  it('are what a person wrote, also where size and second are those of the index', async () => {
    write('fleet/main.ts', 'export const a = 1;\n');
    fs.utimesSync(join(root, 'fleet/main.ts'), 1_700_000_000.25, 1_700_000_000.25);
    gitIn('add', '-A');
    write('fleet/main.ts', 'export const a = 2;\n');
    fs.utimesSync(join(root, 'fleet/main.ts'), 1_700_000_000.75, 1_700_000_000.75);
    expect(await read()).toEqual(['fleet/main.ts']);
  });

  it.each(['fleet/sub', 'fleet/.sub', 'fleet/node_modules'])('are refused with a submodule that is not checked out: %s', async (path) => {
    gitIn('add', '-A');
    gitIn('update-index', '--add', '--cacheinfo', `160000,${'1'.repeat(40)},${path}`);
    mkdirSync(join(root, path), { recursive: true });
    await expect(read()).rejects.toMatchObject({ code: 'TreeSubmodule', message: expect.stringContaining(path) });
  });

  it('are refused with a name that is not UTF-8', async () => {
    writeFileSync(Buffer.concat([Buffer.from(`${root}/fleet/`), Buffer.from([0xe4, 0x62])]), '');
    await expect(read()).rejects.toMatchObject({ code: 'TreeName', message: 'fleet/äb: the name is not UTF-8', next: expect.any(String) });
  });

  it.each([2, 3, 4])('are read with an index of version %i', async (version) => {
    write('.gitignore', '*.log\n');
    for (const path of ['fleet/a.log', 'fleet/a/b.log', 'fleet/a/bc.log', `fleet/${'n'.repeat(200)}.log`]) write(path);
    gitIn('add', '--force', '.');
    // What is only announced needs version 3.
    if (version === 3) {
      write('fleet/announced.log');
      gitIn('add', '--force', '-N', 'fleet/announced.log');
    } else gitIn('update-index', '--index-version', String(version));
    expect(readFileSync(join(root, '.git/index')).readUInt32BE(4)).toBe(version);
    write('fleet/z.log');
    expect(await read()).toEqual(
      [
        'fleet/a.log',
        'fleet/a/b.log',
        'fleet/a/bc.log',
        'fleet/main.ts',
        `fleet/${'n'.repeat(200)}.log`,
        ...(version === 3 ? ['fleet/announced.log'] : []),
      ].sort(),
    );
  });

  it('are read with an index without a checksum', async () => {
    gitIn('-c', 'index.skipHash=true', 'add', '-A');
    expect(await read()).toEqual(['fleet/main.ts']);
  });

  it.each([
    ['is empty', () => Buffer.alloc(0), /damaged/],
    ['is none', () => Buffer.alloc(100, 'x'), /damaged/],
    ['is cut', (index: Buffer) => index.subarray(0, 60), /damaged/],
    ['has another byte', (index: Buffer) => Buffer.from(index).fill(1, 40, 41), /damaged/],
    ['has another version', (index: Buffer) => Buffer.from(index).fill(9, 7, 8), /version 9/],
    [
      'counts too many',
      (index: Buffer) =>
        Buffer.from(index)
          .fill(9, 10, 11)
          .fill(0, index.length - 20),
      /damaged/,
    ],
  ])('are refused with an index that %s, with its file and what to do', async (_, damage, message) => {
    gitIn('add', '-A');
    const file = join(root, '.git/index');
    writeFileSync(file, damage(readFileSync(file)));
    await expect(read()).rejects.toMatchObject({
      code: 'IndexUnreadable',
      message: expect.stringMatching(message),
      next: expect.stringContaining('git '),
    });
    await expect(read()).rejects.toThrow(file);
  });

  it('are refused with an index that is split', async () => {
    gitIn('add', '-A');
    gitIn('update-index', '--split-index');
    await expect(read()).rejects.toMatchObject({ code: 'IndexUnreadable', next: 'git update-index --no-split-index' });
  });

  it.each([
    ['a link', (at: string) => fs.symlinkSync(join(root, 'elsewhere'), at)],
    ['a link to a device without an end', (at: string) => fs.symlinkSync('/dev/zero', at)],
    ['a pipe', (at: string) => void execFileSync('mkfifo', [at])],
    ['a folder', (at: string) => mkdirSync(at)],
  ])('are not left out by a .gitignore that is %s, as Git reads none', async (_, make) => {
    write('elsewhere', 'secret\n');
    gitIn('add', '-A');
    make(join(root, '.gitignore'));
    write('fleet/secret');
    expect(await read()).toEqual(['fleet/main.ts', 'fleet/secret']);
  });
});

describe('a plan of files or of their commit', { timeout: 280_000 }, () => {
  let hub: PlanHub;
  beforeEach(async () => {
    hub = await planHub();
  });
  afterEach(async () => await hub.close());
  const accepted = async (text: string): Promise<string> => await acceptedBy(hub, text);

  it('is refused for the name of a file, as by the hub', async () => {
    await accepted(fleetText('{}'));
    hub.prove();
    const name = 'evil\n\nNothing changes.\n.ts';
    hub.write(`export const x = 1;`, `fleet/${name}`);
    hub.write(fleetText('{}') + `\nimport ${JSON.stringify(`./${name}`)};`);
    const made = await hub.plan();
    await git.add({ fs, dir: hub.root, filepath: `fleet/${name}` });
    const head = await hub.commit(fleetText('{}') + `\nimport ${JSON.stringify(`./${name}`)};`);
    await hub.judged(head);
    expect(hub.ready()?.reason).toBe('TreeName');
    expect(made.result.state).toBe('Refused');
  });

  it.each([
    ['TreeNotText', 'fleet/logo.png', Buffer.from([0x89, 0x50, 0, 0xff])],
    ['TreeLfsPointer', 'fleet/big.bin', Buffer.from('version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n')],
    ['TreeDuplicateName', 'fleet/MAIN.ts', Buffer.from('export {}')],
  ])('is refused for %s, as by the hub', async (code, path, bytes) => {
    await accepted(fleetText('{}'));
    hub.prove();
    mkdirSync(join(hub.root, 'fleet'), { recursive: true });
    writeFileSync(join(hub.root, path), bytes);
    const made = await hub.plan();
    await git.add({ fs, dir: hub.root, filepath: path });
    const head = await hub.commit(`${fleetText('{}')}\n`);
    await hub.judged(head);
    expect(hub.ready()?.reason).toBe(code);
    expect(made.result.state).toBe('Refused');
  });

  it.each([
    ['TreeSymlink', () => fs.symlinkSync('/etc/passwd', join(hub.root, 'fleet/passwd.ts'))],
    ['TreeTooLarge', () => writeFileSync(join(hub.root, 'fleet/large.ts'), '/'.repeat(5 * 1024 * 1024))],
    ['EntryMissing', () => undefined],
  ])('is a verdict and no error for %s, as of the hub', async (code, change) => {
    await accepted(fleetText('{}'));
    hub.prove();
    change();
    if (code === 'EntryMissing') fs.renameSync(join(hub.root, 'fleet/main.ts'), join(hub.root, 'fleet/other.ts'));
    const made = await hub.plan().catch((error: unknown) => error);
    if (code === 'EntryMissing') await git.remove({ fs, dir: hub.root, filepath: 'fleet/main.ts' });
    const head =
      code === 'EntryMissing'
        ? await hub.commit('export {}', 'fleet/other.ts')
        : await (async () => {
            await git.add({ fs, dir: hub.root, filepath: code === 'TreeSymlink' ? 'fleet/passwd.ts' : 'fleet/large.ts' });
            return await hub.commit(`${fleetText('{}')}\n`);
          })();
    await hub.judged(head);
    expect(hub.ready()?.message).not.toContain('tried again');
    expect(made).not.toBeInstanceOf(Error);
  });

  it('has the hidden files that the index has', async () => {
    await accepted(fleetText('{}'));
    hub.prove();
    hub.write("export const name = 'hidden';", 'fleet/.names.ts');
    await git.add({ fs, dir: hub.root, filepath: 'fleet/.names.ts' });
    const text = `import { name } from './.names.ts';\n${fleetText('{ name }')}`;
    hub.write(text);
    const made = await hub.plan().catch((error: unknown) => error);
    const head = await hub.commit(text);
    await hub.judged(head);
    expect(hub.ready()?.status, JSON.stringify(hub.ready())).toBe('True');
    expect(made).toMatchObject({ result: { state: 'Planned' } });
  });

  it('is not made of files that Git wrote otherwise than the commit has them', async () => {
    await accepted(fleetText('{}', SERVICE_ACCOUNT));
    hub.prove();
    const before = await hub.snapshot();
    // Git writes `$Id: …$` into the working tree and keeps `$Id$` in the commit: the code sees which of the two it is.
    hub.write(fleetText('{}', `if ('$Id$'.length > 4) ${SERVICE_ACCOUNT}`));
    writeFileSync(join(hub.root, '.gitattributes'), '*.ts ident\n');
    await git.add({ fs, dir: hub.root, filepath: '.gitattributes' });
    const head = await hub.commit(readFileSync(join(hub.root, 'fleet/main.ts'), 'utf8'));
    execFileSync('git', ['-c', 'safe.directory=*', 'rm', '-q', '--cached', '-r', '.'], { cwd: hub.root });
    execFileSync('git', ['-c', 'safe.directory=*', 'reset', '-q', '--hard', head], { cwd: hub.root });
    const of = async (revision?: string) => await makePlan({ folder: hub.root, revision, fleet: undefined }, before, hub.renderer, SIGNAL);
    await expect(of()).rejects.toMatchObject({ code: 'TextConverted', next: expect.stringContaining('kubenode plan HEAD') });
    const ofCommit = await of(head);
    await hub.judged(head);
    expect(
      hub
        .rollouts()
        .at(-1)
        ?.spec.units.map(({ unit }) => unit),
    ).toContain('ServiceAccount/web/z');
    expect(planLines(ofCommit).join('\n')).toContain('ServiceAccount/web/z');
    expect(ofCommit.warnings).toEqual([]);
  });

  it('is made of a branch, and not of a commit whose id begins like its name', async () => {
    const first = await accepted(fleetText('{}', SERVICE_ACCOUNT));
    hub.prove();
    const name = first.slice(0, 8);
    await git.branch({ fs, dir: hub.root, ref: name, checkout: true });
    const evil = await hub.commit(fleetText('{}'));
    const made = await hub.plan(name);
    expect(made.commit).toBe(evil);
  });

  it('refuses an unsigned commit where the Fleet asks for signatures', async () => {
    await hub.close();
    hub = await planHub({
      signatures: { allowedSigners: `ada@example.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ3hpoEJRTsPvGKqXmkrZ8mLR0a2HUJtdmvkzTz9DR3C` },
    });
    const head = await hub.commit(fleetText('{}'));
    const made = await hub.plan(head);
    await hub.judged(head);
    expect(hub.ready()?.reason).toBe('Unsigned');
    expect([made.result.state, ...made.warnings].join(' ')).toMatch(/Refused|sign/);
  });
});
