/** Folders of `kubenode serve` that are not as it left them, or that it may not write, given to the real program. */
import { spawn } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { parse } from 'yaml';
import { Namespaces } from '../../src/api/builtin.ts';
import { sha256Hex } from '../../src/api/digest.ts';
import { systemClock } from '../../src/kube/clock.ts';
import { createClient } from '../../src/kube/http-client.ts';
import { httpTransport } from '../../src/kube/http-transport.ts';
import { loadKubeconfig } from '../../src/kube/kubeconfig.ts';
import { waitFor } from '../../src/kube/testing/wait-for.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const ENTRY = fileURLToPath(new URL('../../bin/kubenode.js', import.meta.url));
let folder: string;
const at = (...names: string[]): string => join(folder, ...names);

/** Runs it until it serves, or ends. The user that runs the tests may be able to write everywhere; the user nobody is not. */
async function serve(state: string, { as }: { as?: number } = {}) {
  const kubeconfig = at(`kubeconfig-${sha256Hex(state).slice(0, 8)}`);
  const args = [
    ENTRY,
    'serve',
    '--listen',
    '127.0.0.1:0',
    '--state',
    state,
    ...(as === undefined ? ['--write-kubeconfig', kubeconfig] : []),
  ];
  const env = { ...process.env, LC_ALL: 'C' };
  const child = spawn(process.execPath, args, {
    stdio: ['ignore', 'ignore', 'pipe'],
    env,
    ...(as === undefined ? {} : { uid: as, gid: as }),
  });
  let printed = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (printed += text));
  let code: number | null | undefined;
  const ended = new Promise<void>((resolve) =>
    child.once('close', (exit) => {
      code = exit;
      resolve();
    }),
  );
  await waitFor(() => code !== undefined || printed.includes('serving'), { deadlineMs: 30_000 });
  return {
    printed,
    code,
    kubeconfig,
    async stop() {
      child.kill('SIGTERM');
      await ended;
    },
  };
}

async function namespaces(kubeconfig: string): Promise<string[]> {
  const transport = httpTransport(await loadKubeconfig({ path: kubeconfig, env: {}, clock: systemClock() }));
  try {
    return (await createClient(transport).list(Namespaces)).items.map(({ metadata }) => metadata.name);
  } finally {
    await transport.close();
  }
}

/** Every file and its content. */
function contents(dir: string): Record<string, string> {
  const files = readdirSync(dir, { recursive: true, encoding: 'utf8' }).filter((name) => statSync(join(dir, name)).isFile());
  return Object.fromEntries(files.toSorted().map((name) => [name, sha256Hex(readFileSync(join(dir, name)))]));
}

function sql(state: string, text: string): void {
  const database = new DatabaseSync(join(state, 'default', 'state.db'));
  database.exec(text);
  database.close();
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'kubenode-state-'));
  const first = await serve(at('good'));
  // What is damaged later was whole, and had content.
  if (!(await namespaces(first.kubeconfig)).includes('default')) throw new Error('a new state folder has no namespace default');
  await first.stop();
});
afterAll(() => rmSync(folder, { recursive: true }));

const damage: [string, (state: string) => void, string][] = [
  ['whose file is something else', (state) => writeFileSync(join(state, 'default/state.db'), 'x'.repeat(9000)), 'file is not a database'],
  ['whose file was cut off', (state) => truncateSync(join(state, 'default/state.db'), 5000), 'database disk image is malformed'],
  ['whose file is empty', (state) => truncateSync(join(state, 'default/state.db')), 'state.db is empty'],
  ['of another program', (state) => sql(state, 'PRAGMA application_id = 7'), 'it contains a database of another program'],
  [
    'with an object that is no JSON',
    (state) => sql(state, `UPDATE objects SET json = '{' WHERE key = 'default'`),
    'its content for default of /namespaces is no JSON',
  ],
  [
    'with an object that is none',
    (state) => sql(state, `UPDATE objects SET json = '[1]' WHERE key = 'default'`),
    'its content for default of /namespaces is no object',
  ],
];

test.each(damage)('a folder %s is refused with one message, and left as it is; the backup goes on', async (_, harm, why) => {
  const state = at('damaged');
  cpSync(at('good'), state, { recursive: true });
  harm(state);
  const before = contents(state);
  const refused = await serve(state);
  expect(refused.code).toBe(1);
  expect(refused.printed.trimEnd().split('\n')).toEqual([
    `x the state folder ${join(state, 'default')} is damaged: ${why}${why.endsWith('no object') ? ' of that name' : ''}`,
    `next: restore ${join(state, 'default', 'state.db')} from a backup, or remove the folder to start with an empty cluster`,
  ]);
  const { 'default/state.db-wal': _wal, 'default/state.db-shm': _shm, ...after } = contents(state);
  expect(after).toEqual(before);
  rmSync(join(state, 'default'), { recursive: true });
  cpSync(at('good', 'default'), join(state, 'default'), { recursive: true });
  const again = await serve(state);
  expect(await namespaces(again.kubeconfig)).toContain('default');
  await again.stop();
  rmSync(state, { recursive: true });
});

test('a folder of a newer version is refused, and left as it is', async () => {
  const state = at('newer');
  cpSync(at('good'), state, { recursive: true });
  sql(state, 'PRAGMA user_version = 9');
  const before = contents(state);
  const refused = await serve(state);
  expect([refused.code, refused.printed]).toEqual([
    1,
    `x the state folder ${join(state, 'default')} has format 9; this version of kubenode reads formats up to 1\nnext: use the version of kubenode that wrote it, or another folder\n`,
  ]);
  expect(contents(state)).toEqual(before);
});

test('a serving key that cannot be read is made again, and the kubeconfigs of before go on to fit', async () => {
  const state = at('key');
  cpSync(at('good'), state, { recursive: true });
  const authority = readFileSync(join(state, 'pki/ca.crt'), 'utf8');
  writeFileSync(join(state, 'pki/server.key'), 'rubbish');
  const served = await serve(state);
  expect(await namespaces(served.kubeconfig)).toContain('default');
  const { clusters } = parse(readFileSync(served.kubeconfig, 'utf8')) as { clusters: [{ cluster: Record<string, string> }] };
  expect(Buffer.from(clusters[0].cluster['certificate-authority-data'] ?? '', 'base64').toString()).toBe(authority);
  await served.stop();
  writeFileSync(join(state, 'pki/ca.crt'), 'rubbish');
  const refused = await serve(state);
  expect(refused.code).toBe(1);
  expect(refused.printed).toMatch(/^x cannot use the certificates in .*\/key\/pki: .*\nnext: remove /);
});

test.each([
  ['that is a file', () => at('file'), 'ENOTDIR: not a directory'],
  ['below a file', () => at('file', 'below'), 'ENOTDIR: not a directory'],
  ['that another process uses', () => at('good'), 'is in use by another process'],
])('a folder %s is refused with one message', async (_, state, why) => {
  writeFileSync(at('file'), 'of a user');
  const holder = why.includes('in use') ? await serve(at('good')) : undefined;
  const refused = await serve(state());
  await holder?.stop();
  expect(refused.code).toBe(1);
  expect(refused.printed).toMatch(/^x [^\n]+\nnext: [^\n]+\n$/);
  expect(refused.printed).toContain(why);
  expect(readFileSync(at('file'), 'utf8')).toBe('of a user');
});

test('a folder that its user may not write is refused with one message, and taken when it may', async () => {
  chmodSync(folder, 0o755);
  const closed = at('closed');
  mkdirSync(closed, { mode: 0o555 });
  const root = process.getuid?.() === 0;
  const refused = await serve(join(closed, 'state'), root ? { as: 65_534 } : {});
  expect([refused.code, refused.printed]).toEqual([
    1,
    `x cannot write the state folder ${join(closed, 'state', 'default')}: EACCES: permission denied, mkdir '${join(closed, 'state')}'\nnext: choose a folder that this user may write, with --state\n`,
  ]);
  expect(readdirSync(closed)).toEqual([]);
  chmodSync(closed, 0o777);
  const served = await serve(join(closed, 'state'), root ? { as: 65_534 } : {});
  expect(served.printed).toContain('serving default');
  await served.stop();
});
