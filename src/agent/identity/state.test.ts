import { expect, test } from 'vitest';
import { createDurable } from '../disk/durable.ts';
import { identityState } from './state.ts';
import type { Current, PendingRequest } from './state.ts';
import { simulatedFiles } from '../testing/disk.ts';
import { Disk } from '../testing/inodes.ts';

const FOLDER = '/state/identity';

function stateOn() {
  const disk = new Disk();
  const files = simulatedFiles(disk, { lags: true });
  const durable = createDurable(files, '');
  const put = async (name: string, text: string): Promise<void> => {
    await durable.folder(FOLDER);
    await files.write(`${FOLDER}/${name}`, Buffer.from(text), { mode: 0o600 });
  };
  return { files, put, state: identityState(durable, '/state', 'uid') };
}

const certificate: Current = { kind: 'Certificate', machineUID: 'uid', key: 'k', certificate: 'c', admittedBy: 'a' };
const token: Current = { kind: 'Token', machineUID: 'uid', token: 't', since: 1, until: 2, admittedBy: 'a' };
const pending: PendingRequest = { machineUID: 'uid', key: 'k', request: 'r', name: 'n' };

/** The same without one field, or with another value in it. */
const but = (object: object, field: string, value?: unknown): string => JSON.stringify({ ...object, [field]: value });

test.each([certificate, token])('an identity of kind $kind is read as it was adopted, by its owner alone', async (current) => {
  const { files, state } = stateOn();
  await state.adopt(current);
  expect(await state.current()).toEqual(current);
  expect((await files.stat(`${FOLDER}/current.json`))?.mode).toBe(0o600);
});

test.each([
  ['no kind', but(certificate, 'kind')],
  ['an unknown kind', but(certificate, 'kind', 'Password')],
  ['no key', but(certificate, 'key')],
  ['a key that is no text', but(certificate, 'key', 7)],
  ['no certificate', but(certificate, 'certificate')],
  ['no trace of who admitted it', but(certificate, 'admittedBy')],
  ['no trace of who admitted its token', but(token, 'admittedBy')],
  ['no token', but(token, 'token')],
  ['no beginning', but(token, 'since')],
  ['no end', but(token, 'until')],
  ['an end that is no number', but(token, 'until', '2')],
  ['a beginning that is no number', but(token, 'since', '1')],
  ['no machine', but(certificate, 'machineUID')],
  ['another machine', but(certificate, 'machineUID', 'other')],
  ['text that is cut', JSON.stringify(certificate).slice(0, -3)],
  ['nothing', ''],
  ['null', 'null'],
  ['a number', '7'],
])('an identity with %s is none', async (_what, text) => {
  const { put, state } = stateOn();
  await put('current.json', text);
  expect(await state.current()).toBeUndefined();
});

test.each([
  ...['key', 'request', 'name'].map((field) => [`no ${field}`, but(pending, field)]),
  ['a name that is no text', but(pending, 'name', {})],
  ['another machine', but(pending, 'machineUID', 'other')],
  ['text that is cut', JSON.stringify(pending).slice(1)],
])('a request with %s is none', async (_what, text) => {
  const { put, state } = stateOn();
  await put('pending.json', text);
  expect(await state.pending()).toBeUndefined();
});

test('a request is kept until what it led to is adopted, or as long as it is to be kept', async () => {
  const { state } = stateOn();
  expect([await state.current(), await state.pending()]).toEqual([undefined, undefined]);
  await state.begin({ ...pending, voucher: 'v' });
  expect(await state.pending()).toEqual({ ...pending, voucher: 'v' });
  await state.adopt(certificate, true);
  expect(await state.pending()).toBeDefined();
  await state.adopt(certificate);
  expect(await state.pending()).toBeUndefined();
  await state.begin(pending);
  await state.drop();
  expect(await state.pending()).toBeUndefined();
  expect(await state.current()).toEqual(certificate);
});
