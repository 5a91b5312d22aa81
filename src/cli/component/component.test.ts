import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { keyIDOf, parseKeys } from '../../api/component-key.ts';
import { writeInto } from '../testing/tree.ts';
import { readPrivateKey } from './private-key.ts';

const ENTRY = fileURLToPath(new URL('../../../bin/kubenode.js', import.meta.url));
const SHA = 'ab'.repeat(32);
const MAIN = `import { fleet, MachineComponentSet, release } from 'kubenode/constructs';
import signatures from './signatures.json' with { type: 'json' };

fleet.signatures(signatures);
fleet.cluster('prod');
fleet.cluster('test');
const web = release('web', '1.0.0', { any: { url: 'https://a.example/web', sha256: '${SHA}' } }, {
  units: [{ name: 'web', exec: ['{{dir}}/web', '--port={{values.port}}'] }],
  values: [{ name: 'port', pattern: '[0-9]{1,5}' }],
});
fleet.allClusters((cluster) => {
  new MachineComponentSet(cluster, 'web', { component: web, batches: ['100%'], values: { port: '80' } });
});
`;

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'kubenode-signing-'));
  write('fleet/main.ts', MAIN);
  write('fleet/signatures.json', '{}\n');
});
afterEach(() => rmSync(root, { recursive: true }));

const write = (path: string, text: string): string => writeInto(root, path, text);
const text = (path: string): string => readFileSync(join(root, path), 'utf8');
function run(...args: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [...process.execArgv, ENTRY, 'component', ...args], {
    cwd: root,
    encoding: 'utf8',
    timeout: 60_000,
  });
  return { status, stdout, stderr };
}

const EVIL = "release('evil', '1.0.0', { any: [] }, { hooks: { postInstall: { command: ['/bin/sh', '-c', 'id > /root/pwned'] } } })";
const SET = "fleet.allClusters((cluster) => { new MachineComponentSet(cluster, 'z', { component: evil, batches: ['100%'] }); });";

describe('G6d: what is signed is what the hub renders', () => {
  // With no other signer, `{}` was what only the signer saw.
  it('code that checks for an empty file of signatures gets nothing signed once the file is not empty', () => {
    run('keygen', '--out', 'key');
    run('sign', '.', '--yes', '--key', 'key');
    write('fleet/main.ts', `${MAIN}\nif (Object.keys(signatures).length === 0) { const evil = ${EVIL}; ${SET} }\n`);
    const { status, stdout } = run('sign', '.', '--yes', '--key', 'key');
    expect(status).toBe(0);
    expect(stdout).not.toContain('evil');
    expect(text('fleet/signatures.json')).not.toContain('evil');
  });

  it.each([
    ['gone', `if (Object.keys(signatures).length === 0) { const evil = ${EVIL}; ${SET} }`, 'evil 1.0.0'],
    ['come', `if (Object.keys(signatures).length > 0) { const evil = ${EVIL}; ${SET} }`, 'evil 1.0.0 is not signed'],
    [
      'changed',
      `const evil = release('evil', '1.0.0', { any: [] }, { healthDeadlineSeconds: 'evil' in signatures ? 7 : 8 }); ${SET}`,
      'evil 1.0.0 was changed',
    ],
  ])('a component that is %s once it is signed: nothing is written, and it is named', (_, code, named) => {
    run('keygen', '--out', 'key');
    write('fleet/main.ts', `${MAIN}\n${code}\n`);
    expect(run('sign', '.', '--yes', '--key', 'key')).toMatchObject({ status: 1, stderr: expect.stringContaining(named) });
    expect(text('fleet/signatures.json')).toBe('{}\n');
  });

  it('shows what is new or changed, and asks', () => {
    run('keygen', '--out', 'key');
    write('fleet/main.ts', `${MAIN}\nconst evil = ${EVIL}; ${SET}\n`);
    const asked = run('sign', '.', '--key', 'key');
    expect(asked).toMatchObject({ status: 1, stderr: expect.stringContaining('--yes') });
    expect(asked.stderr).toContain('new: web 1.0.0');
    expect(asked.stderr).toContain('units[0].exec: ["{{dir}}/web","--port={{values.port}}"]');
    expect(asked.stderr).toContain('hooks.postInstall.command: ["/bin/sh","-c","id > /root/pwned"]');
    expect(text('fleet/signatures.json')).toBe('{}\n');
    expect(run('sign', '.', '--yes', '--key', 'key').status).toBe(0);
    // Nothing new: nothing to ask.
    expect(run('sign', '.', '--key', 'key').status).toBe(0);
    write('fleet/main.ts', `${MAIN.replace('--port=', '--any=')}\nconst evil = ${EVIL}; ${SET}\n`);
    const { stderr } = run('sign', '.', '--key', 'key');
    expect(stderr).toContain('changed: web 1.0.0');
    expect(stderr).not.toContain('evil 1.0.0');
  });
});

describe('I3: a file of signatures that is none is neither read nor written through', () => {
  it.each([
    ['a pipe', (at: string) => void execFileSync('mkfifo', [at]), 'has the mode pipe, which is neither file nor folder'],
    ['a link to a device without an end', (at: string) => symlinkSync('/dev/zero', at), 'is a symbolic link'],
    ['a link to a file elsewhere', (at: string) => symlinkSync(join(root, 'elsewhere'), at), 'is a symbolic link'],
  ])('%s', (_, make, message) => {
    write('elsewhere', '{}\n');
    run('keygen', '--out', 'key');
    rmSync(join(root, 'fleet/signatures.json'));
    make(join(root, 'fleet/signatures.json'));
    expect(run('sign', '.', '--yes', '--key', 'key')).toMatchObject({ status: 1, stderr: expect.stringContaining(message) });
    expect(text('elsewhere')).toBe('{}\n');
  });
});

describe('kubenode component', () => {
  it('makes a key, signs what the fleet renders, and verifies it as a node would', () => {
    expect(run('keygen', '--out', 'key', '--comment', 'release').status).toBe(0);
    expect(statSync(join(root, 'key')).mode & 0o777).toBe(0o600);
    const [{ id, comment } = { id: '', comment: '' }] = parseKeys(text('key.pub'), 'key.pub');
    expect([id, comment]).toEqual([keyIDOf(readPrivateKey(text('key'), 'key')), 'release']);

    const unsigned = run('verify', '.', '--keys', 'key.pub');
    expect([unsigned.status, unsigned.stdout]).toEqual([1, expect.stringContaining('Unsigned')]);

    const signed = run('sign', '.', '--yes', '--key', 'key');
    expect(signed).toMatchObject({ status: 0, stderr: expect.stringContaining('1 of 1 components signed') });
    expect(signed.stdout).toBe(`NAME   VERSION   STATE    SIGNED-BY\nweb    1.0.0     signed   ${id}\n`);
    const first = text('fleet/signatures.json');
    expect(run('verify', '.', '--keys', 'key.pub')).toMatchObject({
      status: 0,
      stdout: `NAME   VERSION   STATE    VALUES   MESSAGE\nweb    1.0.0     Signed   port     ${id}\n`,
    });
    // Signing again changes nothing: it makes no commit.
    expect(run('sign', '.', '--yes', '--key', 'key').stdout).toContain('unchanged');
    expect(text('fleet/signatures.json')).toBe(first);
  });

  it('refuses a fleet whose component was changed after it was signed, with its line and what to do', () => {
    run('keygen', '--out', 'key');
    run('sign', '.', '--yes', '--key', 'key');
    write('fleet/main.ts', MAIN.replace('--port=', '--any='));
    expect(run('verify', '.', '--keys', 'key.pub')).toMatchObject({
      status: 1,
      stderr: expect.stringMatching(
        /fleet\/main\.ts:4.*web 1\.0\.0 was changed since it was signed[\s\S]*next: kubenode component sign --key FILE/,
      ),
    });
    expect(run('sign', '.', '--yes', '--key', 'key').status).toBe(0);
    expect(run('verify', '.', '--keys', 'key.pub').status).toBe(0);
  });

  it('rotates: both keys sign, and a node with either accepts it', () => {
    run('keygen', '--out', 'old');
    run('keygen', '--out', 'new');
    run('sign', '.', '--yes', '--key', 'old');
    expect(run('verify', '.', '--keys', 'new.pub').status).toBe(1);
    run('sign', '.', '--yes', '--key', 'new');
    expect(run('verify', '.', '--keys', 'old.pub').status).toBe(0);
    expect(run('verify', '.', '--keys', 'new.pub').status).toBe(0);
  });

  it.skipIf(spawnSync('ssh-keygen', ['-?']).error !== undefined)(
    'signs with a key that ssh-keygen made (skipped without ssh-keygen)',
    () => {
      spawnSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', 'by hand', '-f', join(root, 'key')]);
      expect(run('sign', '.', '--yes', '--key', 'key').status).toBe(0);
      expect(run('verify', '.', '--keys', 'key.pub').status).toBe(0);
      spawnSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', 'secret', '-f', join(root, 'locked')]);
      expect(run('sign', '.', '--key', 'locked')).toMatchObject({ status: 1, stderr: expect.stringContaining('without a passphrase') });
    },
  );

  it('writes nothing on a dry run, and over no key', () => {
    run('keygen', '--out', 'key');
    expect(run('sign', '.', '--key', 'key', '--dry-run').stderr).toContain('(dry run)');
    expect(text('fleet/signatures.json')).toBe('{}\n');
    const before = text('key');
    expect(run('keygen', '--out', 'key')).toMatchObject({ status: 1, stderr: expect.stringContaining('EEXIST') });
    expect(text('key')).toBe(before);
  });

  it.each([
    [['sign', '.', '--key', 'absent'], 2, 'absent cannot be read'],
    [['sign', '.', '--key', 'fleet/main.ts'], 1, 'has no private Ed25519 key'],
    [['sign', '.'], 2, "required option '--key <file>' not specified"],
    [['verify', 'nowhere', '--keys', 'fleet/main.ts'], 2, 'there is no folder'],
    [['verify', '.', '--keys', 'fleet/main.ts'], 1, 'must be a public key'],
  ])('%j is refused in a sentence', (args, status, message) => {
    expect(run(...args)).toMatchObject({ status, stderr: expect.stringContaining(message) });
  });

  it.each(['', 'keygen', 'sign', 'verify'])('has help: %s', async (name) => {
    const { stdout } = run(...(name === '' ? [] : [name]), '--help');
    await expect(stdout).toMatchFileSnapshot(`golden/help${name === '' ? '' : `-${name}`}.txt`);
  });
});
