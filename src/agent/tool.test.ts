import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { sha256Hex } from '../api/digest.ts';
import { createDurable, type Durable } from './disk/durable.ts';
import { buildGeneration } from './generation/generation.ts';
import { identityState } from './identity/state.ts';
import { beginJournal, type Journal } from './records/journal.ts';
import { componentLayout, layoutOf, type DiskLayout } from './disk/layout.ts';
import type { Manifest } from './generation/manifest.ts';
import { writeNodeFile } from './disk/node-files.ts';
import { nodeFiles } from './ports/files.ts';
import { writeReceipt, type Receipt } from './records/receipts.ts';
import type { OperationRecord, Transaction } from './records/state.ts';
import type { ArtifactStore } from './generation/store.ts';
import { manifestOf } from './testing/manifest.ts';

/* What `kubenode-agent` reports of a node by its disk alone. */

let root: string;
let layout: DiskLayout;
let durable: Durable;
let journal: Journal;
const write = (path: string, text: string): void => {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
};

beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), 'kubenode-tool-'));
  layout = layoutOf(root);
  durable = createDurable(nodeFiles(), root);
  for (const path of ['var/lib', 'etc', 'run']) mkdirSync(join(root, path), { recursive: true });
  await durable.folder(layout.state);
  journal = await beginJournal(durable, layout.journal, 'uid');
  const bootstrap = { server: 'https://cell', certificateAuthority: 'ca', token: 'secret', providerID: 'local://uid' };
  write('/etc/kubenode/bootstrap.json', JSON.stringify({ ...bootstrap, machine: { namespace: 'web', name: 'a', uid: 'uid' } }));
  await identity('uid', Date.UTC(2100, 0));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const identity = async (machineUID: string, until: number): Promise<void> =>
  await identityState(durable, layout.state, machineUID).adopt({
    kind: 'Token',
    machineUID,
    token: 'secret',
    since: 1,
    until,
    admittedBy: 'a',
  });

/** Runs the program in this process. */
async function ask(...args: string[]): Promise<{ code: unknown; out: string[]; err: string }> {
  const printed = { out: '', err: '' };
  const { argv, exitCode } = process;
  const spies = [
    vi.spyOn(process.stdout, 'write').mockImplementation((text) => ((printed.out += String(text)), true)),
    vi.spyOn(process.stderr, 'write').mockImplementation((text) => ((printed.err += String(text)), true)),
  ];
  process.argv = [process.execPath, join(root, 'opt/tool.mjs'), ...args];
  try {
    vi.resetModules();
    await import('./tool.ts');
    return { code: process.exitCode, out: printed.out.split('\n').slice(0, -1), err: printed.err };
  } finally {
    process.argv = argv;
    process.exitCode = exitCode;
    for (const spy of spies) spy.mockRestore();
  }
}
const here = (command: string) => ask(command, '--root', root);

const accepted = (name: string, version: string, revision: number) =>
  ({ name, action: 'Install', version, values: {}, labels: {}, revision, content: 'c' }) as const;
const MACHINE = 'machine     web/a (uid) of https://cell';
const IDENTITY = 'identity    Token, until 2100-01-01T00:00:00.000Z';

/** A component that is there, whole, with one file. */
async function install(name: string, version: string, revision: number): Promise<void> {
  const manifest = manifestOf({
    digest: sha256Hex(`${name} ${version}`).slice(0, 24),
    name,
    version,
    files: [{ path: `/etc/${name}.conf`, content: version, mode: 0o644, onDrift: 'Repair' }],
  });
  await durable.folder(layout.components);
  await durable.folder(componentLayout(layout, name).folder);
  await buildGeneration(durable, layout, {} as ArtifactStore, manifest);
  await writeNodeFile(durable, root, manifest.files[0] as Manifest['files'][number]);
  await durable.link(componentLayout(layout, name).current, manifest.digest);
  const receipt: Receipt = {
    machineUID: 'uid',
    name,
    version,
    values: {},
    labels: {},
    content: 'c',
    revision,
    generation: manifest.digest,
    switchedAt: 1,
  };
  await writeReceipt(durable, layout, receipt);
  await journal.append({ t: 'accept', accepted: accepted(name, version, revision) });
}

test('arguments that mean nothing are refused with what there is', async () => {
  for (const args of [[], ['reboot'], ['status', 'more'], ['journal', 'more'], ['verify', 'more'], ['--what']]) {
    const { code, out, err } = await ask(...args);
    expect([args, code, out]).toEqual([args, 64, []]);
    expect(err).toContain('usage: kubenode-agent status | journal | verify [--root DIR]');
  }
});

test('status: a node that is well prints whose it is, until when, and what it runs', async () => {
  await install('app', '1.0.0', 3);
  await journal.append({ t: 'accept', accepted: accepted('gone', '2.0.0', 1) });
  await journal.append({ t: 'removed', name: 'gone' });
  await journal.append({ t: 'accept', accepted: accepted('new', '4.0.0', 1) });
  expect(await here('status')).toEqual({
    code: 0,
    out: [
      MACHINE,
      IDENTITY,
      'component   app 1.0.0 (revision 3)',
      'component   gone removed',
      'component   new not installed yet, wanted: 4.0.0 (revision 1)',
    ],
    err: '',
  });
});

test('status: what is under way and what was ordered is printed, the last five', async () => {
  await install('app', '1.0.0', 3);
  await journal.append({ t: 'accept', accepted: accepted('app', '1.1.0', 4) });
  const record: OperationRecord = { id: 'op', epoch: 1, kind: 'Change', startedAt: 1, components: [], class: 'Restart' };
  for (const id of ['1', '2', '3', '4', '5'])
    await journal.append({
      t: 'finish',
      operation: { ...record, id, outcome: 'Succeeded', ...(id === '5' ? { message: 'well done' } : {}) },
    });
  const transaction: Transaction = { name: 'app', revision: 4, why: 'Change', class: 'Restart', to: 'x', touched: [] };
  await journal.append({ t: 'begin', transaction, operation: record });
  const { code, out } = await here('status');
  expect(code).toBe(0);
  expect(out.slice(2)).toEqual([
    'component   app 1.0.0 (revision 3), wanted: 1.1.0 (revision 4)',
    'under way   app, revision 4, for Change, and goes on',
    'operation   2 Change Succeeded',
    'operation   3 Change Succeeded',
    'operation   4 Change Succeeded',
    'operation   5 Change Succeeded: well done',
    'operation   op Change runs',
  ]);
  await journal.append({ t: 'back', reason: 'ProbesFailed', message: 'm' });
  expect((await here('status')).out).toContain('under way   app, revision 4, for Change, and goes back: ProbesFailed');
});

test('status: a component that failed is not well, and the reason is printed', async () => {
  await install('app', '1.0.0', 3);
  await journal.append({ t: 'accept', accepted: accepted('app', '1.1.0', 4) });
  await journal.append({
    t: 'fail',
    name: 'app',
    failed: { revision: 4, reason: 'HookFailed', message: 'no', restored: true },
    ends: false,
  });
  const { code, out } = await here('status');
  expect([code, out.at(-1)]).toEqual([1, 'component   app 1.0.0 (revision 3), wanted: 1.1.0 (revision 4), failed: HookFailed: no']);
});

test('status: for a node that is held it prints by whom, and exits with 0', async () => {
  await journal.append({ t: 'machine', held: true, verified: {} });
  write('/etc/kubenode/hold', '');
  expect(await here('status')).toMatchObject({
    code: 0,
    out: [
      MACHINE,
      IDENTITY,
      `hold        ${layout.hold} is there: nothing is changed`,
      'held        the Machine is held, paused or being deleted',
    ],
  });
});

test('status: an identity that is not there or has run out, a bootstrap that cannot be read and a foreign journal are not well', async () => {
  await identity('uid', Date.now() - 1);
  expect((await here('status')).out[1]).toMatch(/^identity {4}Token, until .*: it has run out, by this clock$/);
  expect((await here('status')).code).toBe(1);
  await identity('another', Date.UTC(2100, 0));
  expect(await here('status')).toMatchObject({ code: 1, out: [MACHINE, 'identity    none: the agent is not admitted'] });
  await identity('uid', Date.UTC(2100, 0));
  expect((await here('status')).code).toBe(0);
  rmSync(layout.journal);
  expect(await here('status')).toMatchObject({ code: 0, out: [MACHINE, IDENTITY] });
  await beginJournal(durable, layout.journal, 'another');
  expect(await here('status')).toMatchObject({ code: 1, out: [MACHINE, IDENTITY, 'journal     it belongs to another Machine, another'] });
  rmSync(join(root, 'etc/kubenode/bootstrap.json'));
  const { code, out } = await here('status');
  expect([code, out.length]).toEqual([1, 1]);
  expect(out[0]).toMatch(/^machine {5}not known: .*bootstrap\.json cannot be read/);
});

test('status and verify: a damaged receipt or journal is not well, and keeps nothing else from being printed', async () => {
  await install('app', '1.0.0', 3);
  const { receipt } = componentLayout(layout, 'app');
  const text = readFileSync(receipt, 'utf8');
  writeFileSync(receipt, text.replace('1.0.0', '9.9.9'));
  const { code, out } = await here('status');
  expect(code).toBe(1);
  expect(out[2]).toMatch(/^installed {3}.*receipt\.json does not match its checksum$/);
  expect(out[3]).toBe('component   app not installed yet, wanted: 1.0.0 (revision 3)');
  expect(await here('verify')).toMatchObject({ code: 1, err: expect.stringMatching(/^kubenode-agent: .*checksum\n$/) });
  writeFileSync(receipt, text);
  writeFileSync(layout.journal, `x${readFileSync(layout.journal, 'utf8').slice(1)}`);
  expect(await here('status')).toMatchObject({ code: 1, out: [MACHINE, IDENTITY, expect.stringMatching(/^journal {5}.*damaged/)] });
  expect(await here('verify')).toMatchObject({ code: 1, out: [expect.stringMatching(/^journal: .*damaged/), '1 differ'] });
});

test('journal: a line each; what is damaged is printed as such', async () => {
  await journal.append({ t: 'removed', name: 'app\u001b[31m' });
  const whole = await here('journal');
  expect(whole).toMatchObject({ code: 0, out: ['1 open {"machineUID":"uid"}', expect.stringMatching(/^2 removed \{"name":"app/)] });
  expect(whole.out.join('')).not.toContain('\u001b');
  const lines = readFileSync(layout.journal, 'utf8').split('\n');
  writeFileSync(layout.journal, ['x', ...lines.slice(1)].join('\n'));
  expect(await here('journal')).toMatchObject({ code: 1, out: ['1 damaged', expect.stringContaining('2 removed')] });
  rmSync(layout.journal);
  expect(await here('journal')).toMatchObject({ code: 1, out: ['this node has no journal: no agent ran here'] });
});

test('verify: counts what is whole, names what is not, of components and of the agent itself', async () => {
  expect(await here('verify')).toMatchObject({ code: 0, out: ['0 components and the agent are as they were installed'] });
  await install('app', '1.0.0', 3);
  expect(await here('verify')).toMatchObject({ code: 0, out: ['1 component and the agent are as they were installed'] });
  await install('web', '2.0.0', 1);
  expect(await here('verify')).toMatchObject({ code: 0, out: ['2 components and the agent are as they were installed'] });
  write('/etc/app.conf', 'drift');
  expect(await here('verify')).toMatchObject({ code: 1, out: ['app: /etc/app.conf has other content', '1 differ'] });
  rmSync(componentLayout(layout, 'web').generation(sha256Hex('web 2.0.0').slice(0, 24)), { recursive: true });
  const { out } = await here('verify');
  expect(out).toEqual([
    'app: /etc/app.conf has other content',
    'web: what was installed is not known: its manifest is missing or damaged',
    '2 differ',
  ]);
  write('/etc/app.conf', '1.0.0');
  rmSync(componentLayout(layout, 'web').folder, { recursive: true });
  // Of its own package: what SHA256SUMS beside the program lists.
  for (const [name, text] of Object.entries({ 'agent.mjs': 'agent', node: 'node' })) write(`/opt/${name}`, text);
  write('/opt/SHA256SUMS', `${sha256Hex('agent')}  agent.mjs\n${sha256Hex('node')}  node\n`);
  expect(await here('verify')).toMatchObject({ code: 0 });
  write('/opt/agent.mjs', 'changed');
  renameSync(join(root, 'opt/node'), join(root, 'opt/node.old'));
  expect(await here('verify')).toMatchObject({
    code: 1,
    out: [
      `agent: ${join(root, 'opt/agent.mjs')} is missing or differs`,
      `agent: ${join(root, 'opt/node')} is missing or differs`,
      '2 differ',
    ],
  });
});
