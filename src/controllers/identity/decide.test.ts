import { createPrivateKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { describe, expect, it, test } from 'vitest';
import { IDENTITY_SECONDS, SIGNERS, vouchedText } from '../../api/admission.ts';
import type { Bootstrap } from '../../api/machine.ts';
import { makeRequest, pemOf, spkiOf, vouch } from '../../agent/identity/request.ts';
import type { Asked } from './asked.ts';
import { decide } from './decide.ts';
import { askedOf, requestOf } from './requests.ts';
import { keyHash } from './signing-request.ts';
import { isVouched } from './voucher.ts';
import {
  AGENT_SUBJECT,
  AGENT_USER,
  asked,
  base64,
  BOOTSTRAP_USER,
  known,
  machineWith,
  NOW_MS,
  OPEN,
  pkcs10,
  summary,
  TOKEN_USER,
  type Made,
} from './testing/requests.ts';

const hashOf = ({ request }: Asked): string => ('keySHA256' in request ? request.keySHA256 : '');

describe('G1: the request of a bootstrap token', () => {
  it('is recorded and approved, once in an epoch', async () => {
    const first = await asked();
    const verdict = decide(first, known(OPEN));
    const record = { ...OPEN, csrUID: 'csr-1', keySHA256: hashOf(first), by: 'Certificate', until: '2026-11-21T12:00:00Z' };
    expect(verdict).toMatchObject({ do: 'Approve', reason: 'Admitted', record });
    // The leader that recorded it crashed before it approved.
    expect(decide(first, known(record as Bootstrap))).toEqual({ do: 'Approve', reason: 'Admitted', message: 'admitted in epoch 1' });
  });

  it('that is the second of an epoch is denied, though it is the same one made again', async () => {
    const first = await asked();
    const record: Bootstrap = { ...OPEN, csrUID: 'csr-1', keySHA256: hashOf(first) };
    expect(summary(decide({ ...first, uid: 'csr-2' }, known(record)))).toBe('Deny TokenUsed');
    expect(summary(decide(await asked({}, { uid: 'csr-2' }), known(record)))).toBe('Deny TokenUsed');
  });

  it('of an epoch that is over is denied', async () => {
    expect(summary(decide(await asked(), known({ ...OPEN, epoch: 2, accountUID: 'account-2' })))).toBe('Deny TokenOutdated');
    expect(summary(decide(await asked({}, { userUID: undefined }), known(OPEN)))).toBe('Deny TokenOutdated');
    expect(summary(decide(await asked(), known(undefined)))).toBe('Deny TokenOutdated');
  });

  it('of a Machine that is gone or going is denied', async () => {
    expect(summary(decide(await asked(), known(OPEN, { machine: undefined })))).toBe('Deny NoMachine');
    const machine = machineWith(OPEN);
    machine.metadata.deletionTimestamp = '2026-11-20T12:00:00Z';
    expect(summary(decide(await asked(), known(OPEN, { machine })))).toBe('Deny MachineDeleting');
  });

  const attacks: [string, Made, Partial<Asked>, string][] = [
    ["another machine's name", { subject: [{ O: ['kubenode:machines'] }, { CN: ['kubenode:machine:web:b'] }] }, {}, 'CN must be'],
    ["another pool's name", { subject: [{ O: ['kubenode:machines'] }, { CN: ['kubenode:machine:db:a'] }] }, {}, 'CN must be'],
    ['no name', { subject: [{ O: ['kubenode:machines'] }] }, {}, 'CN must be'],
    ['two names', { subject: [...AGENT_SUBJECT, { CN: ['admin'] }] }, {}, 'CN must be'],
    ['the name twice', { subject: [...AGENT_SUBJECT, { CN: ['kubenode:machine:web:a'] }] }, {}, 'CN must be'],
    ['one more group', { subject: [...AGENT_SUBJECT, { O: ['system:masters'] }] }, {}, 'O must be'],
    [
      'one more group beside the first',
      { subject: [{ O: ['kubenode:machines', 'system:nodes'] }, ...AGENT_SUBJECT.slice(1)] },
      {},
      'O must',
    ],
    ['another group', { subject: [{ O: ['system:nodes'] }, ...AGENT_SUBJECT.slice(1)] }, {}, 'O must be'],
    ['no group', { subject: AGENT_SUBJECT.slice(1) }, {}, 'O must be'],
    ['an attribute more', { subject: [...AGENT_SUBJECT, { OU: ['x'] }] }, {}, 'attribute 2.5.4.11'],
    ['a SAN', { names: [{ type: 'dns', value: 'api.example' }] }, {}, 'alternative names api.example'],
    ['an extension', { extensions: ['2.5.29.19'] }, {}, '2.5.29.19'],
    ['an attribute of PKCS#9', { challenge: 'x' }, {}, '1.2.840.113549.1.9.7'],
    ['a usage more', {}, { usages: ['client auth', 'digital signature', 'server auth'] }, 'usages must be exactly'],
    ['other usages', {}, { usages: ['server auth', 'digital signature'] }, 'usages must be exactly'],
    ['a usage twice', {}, { usages: ['client auth', 'client auth'] }, 'usages must be exactly'],
    ['no end', {}, { expirationSeconds: undefined }, 'expirationSeconds must be'],
    ['a year', {}, { expirationSeconds: 365 * 86_400 }, 'expirationSeconds must be'],
    ['a key that is not expected', { algorithm: 'P-384' }, {}, 'its key must be'],
    ['an RSA key', { algorithm: 'RSA' }, {}, 'its key must be'],
  ];
  test.each(attacks)('for %s is denied', async (_what, made, more, why) => {
    const verdict = decide(await asked(made, more), known(OPEN));
    expect(verdict).toMatchObject({ do: 'Deny', reason: 'RequestInvalid' });
    expect('message' in verdict && verdict.message).toContain(why);
  });

  it('that cannot be read is denied', async () => {
    expect(summary(decide(await asked({}, { request: { unreadable: 'torn' } }), known(OPEN)))).toBe('Deny RequestUnreadable');
  });

  it('is for a life of at least an hour and at most a day, to the second', async () => {
    const { least, most } = IDENTITY_SECONDS;
    const judged = async (expirationSeconds: number) => summary(decide(await asked({}, { expirationSeconds }), known(OPEN)));
    expect([await judged(least), await judged(most)]).toEqual(['Approve Admitted', 'Approve Admitted']);
    expect([await judged(least - 1), await judged(most + 1)]).toEqual(['Deny RequestInvalid', 'Deny RequestInvalid']);
  });
});

it('a request shows who asked by the UID that the server wrote into it, and an empty one is none', async () => {
  const { pem } = await pkcs10();
  const stored = (uid?: string) =>
    askedOf({
      apiVersion: 'certificates.k8s.io/v1',
      kind: 'CertificateSigningRequest',
      metadata: { name: 'csr', uid: 'csr-1', resourceVersion: '1', creationTimestamp: '2026-11-20T12:00:00Z' },
      spec: { request: base64(pem), signerName: SIGNERS.client, username: BOOTSTRAP_USER, ...(uid === undefined ? {} : { uid }) },
    });
  expect([stored('account-1').userUID, stored('').userUID, stored().userUID]).toEqual(['account-1', undefined, undefined]);
  expect(stored()).toMatchObject({ uid: 'csr-1', usages: [], groups: [], username: BOOTSTRAP_USER });
});

describe('the identity of an agent', () => {
  it.each(['alice', 'system:node:a', 'system:serviceaccount:web:default', 'kubenode:machine:web', 'kubenode:machine:a:b:c'])(
    'is denied to %s',
    async (username) => {
      expect(summary(decide(await asked({}, { username }), known(OPEN, { machine: undefined })))).toBe('Deny ForeignRequester');
    },
  );

  it('is denied to others in every spelling, also beside something else, and what cannot be read is left to others', async () => {
    const alice = async (made: Made, more: Partial<Asked> = {}) =>
      summary(decide(await asked(made, { username: 'alice', ...more }), known(OPEN, { machine: undefined })));
    expect(await alice({ subject: [{ O: ['sre'] }, { CN: ['kubenode:machine:web:a'] }] })).toBe('Deny ForeignRequester');
    expect(await alice({ subject: [{ O: ['KubeNode:machines'] }, { CN: ['bob'] }] })).toBe('Deny ForeignRequester');
    expect(await alice({}, { request: { unreadable: 'torn' } })).toBe('Leave');
  });

  it('is not granted to a certificate whose Machine is gone, also for another subject', async () => {
    const subject = [{ O: ['sre'] }, { CN: ['bob'] }];
    expect(summary(decide(await asked({ subject }, { username: AGENT_USER }), known(undefined, { machine: undefined })))).toBe(
      'Deny NoMachine',
    );
  });

  it('asked for by the token of another machine is denied', async () => {
    const username = 'system:serviceaccount:web:kubenode-bootstrap-b';
    const verdict = decide(await asked({}, { username, userUID: 'account-b' }), {
      nowMs: NOW_MS,
      machine: machineWith({ ...OPEN, accountUID: 'account-b' }, {}, 'b'),
      ofNode: [],
      node: undefined,
      reserved: false,
      hold: undefined,
      server: { hosts: [], addresses: [] },
      nodeDomains: [],
      newer: 0,
    });
    expect(summary(verdict)).toBe('Deny RequestInvalid');
  });

  it('is all that is judged: what others ask of the same signer is left to others', async () => {
    const subject = [{ O: ['sre'] }, { CN: ['bob'] }];
    for (const username of ['alice', 'system:serviceaccount:web:kubenode-bootstrap-of-mine'])
      expect(summary(decide(await asked({ subject }, { username }), known(undefined, { machine: undefined })))).toBe('Leave');
    expect(summary(decide(await asked({ subject }, { userUID: 'no account of ours' }), known(OPEN)))).toBe('Leave');
    expect(summary(decide(await asked({}, { signerName: 'example.com/signer' }), known(OPEN)))).toBe('Leave');
  });
});

describe('a renewal', () => {
  const keyOf = (): KeyObject => generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
  const [first, second, third] = [keyOf(), keyOf(), keyOf()];
  const hash = (key: KeyObject): string => keyHash(spkiOf(key));
  const ADMITTED: Bootstrap = { ...OPEN, csrUID: 'csr-0', keySHA256: hash(first), by: 'Certificate', until: '2026-11-20T20:00:00Z' };

  async function renewal(key: KeyObject, by?: KeyObject, more: Partial<Asked> = {}): Promise<Asked> {
    const der = makeRequest(key, AGENT_USER, 'kubenode:machines');
    const groups = ['kubenode:machines', 'system:authenticated'];
    const voucher = by === undefined ? undefined : vouch(by, der);
    return {
      ...(await asked()),
      username: AGENT_USER,
      userUID: undefined,
      groups,
      request: requestOf(base64(pemOf(der))),
      voucher,
      ...more,
    };
  }

  it('with the key that was admitted is approved, and its end recorded', async () => {
    expect(decide(await renewal(first), known(ADMITTED))).toMatchObject({
      do: 'Approve',
      reason: 'Renewed',
      record: { ...ADMITTED, until: '2026-11-21T12:00:00Z' },
    });
  });

  it('with a new key is approved if the one so far vouches for it, and again after a crash', async () => {
    const request = await renewal(second, first);
    const verdict = decide(request, known(ADMITTED));
    const record = { ...ADMITTED, keySHA256: hash(second), formerKeySHA256: hash(first), until: '2026-11-21T12:00:00Z' };
    expect(verdict).toMatchObject({ do: 'Approve', record });
    expect(decide(request, known(record))).toMatchObject({ do: 'Approve', record });
  });

  it('that follows one whose certificate never arrived is approved with the key before it', async () => {
    const record = { ...ADMITTED, keySHA256: hash(second), formerKeySHA256: hash(first) };
    expect(decide(await renewal(third, first), known(record))).toMatchObject({
      record: { keySHA256: hash(third), formerKeySHA256: hash(first) },
    });
  });

  it.each([
    ['no key vouches for', async () => await renewal(second)],
    ['a stranger vouches for', async () => await renewal(second, third)],
    ['whose voucher is of another request', async () => ({ ...(await renewal(second)), voucher: (await renewal(third, first)).voucher })],
    ['whose voucher is nonsense', async () => await renewal(second, undefined, { voucher: 'AAAA.BBBB' })],
    ['whose voucher goes on', async () => await renewal(second, first).then((of) => ({ ...of, voucher: `${of.voucher ?? ''}.AAAA` }))],
    ['whose voucher is empty', async () => await renewal(second, undefined, { voucher: '' })],
  ])('with a key that %s is denied', async (_what, make) => {
    expect(summary(decide(await make(), known(ADMITTED)))).toBe('Deny KeyUnknown');
  });

  it('by a certificate of an earlier epoch is denied, while the next is open and after it', async () => {
    expect(summary(decide(await renewal(first), known({ ...OPEN, epoch: 2 })))).toBe('Deny NotAdmitted');
    const next = { ...ADMITTED, epoch: 2, keySHA256: hash(third) };
    expect(summary(decide(await renewal(first), known(next)))).toBe('Deny KeyUnknown');
    expect(summary(decide(await renewal(second, first), known(next)))).toBe('Deny KeyUnknown');
  });

  it('for another machine, by a user outside the group, or of a Machine that is gone is denied', async () => {
    expect(summary(decide(await renewal(first, undefined, { username: 'kubenode:machine:web:b' }), known(ADMITTED)))).toBe(
      'Deny RequestInvalid',
    );
    expect(summary(decide(await renewal(first, undefined, { groups: ['system:authenticated'] }), known(ADMITTED)))).toBe(
      'Deny RequestInvalid',
    );
    expect(summary(decide(await renewal(first), known(ADMITTED, { machine: undefined })))).toBe('Deny NoMachine');
  });

  it('by the token instead of a certificate is approved only where that was granted, with the key that was admitted', async () => {
    const token = { username: TOKEN_USER, userUID: 'account-9' };
    expect(summary(decide(await renewal(first, undefined, token), known(ADMITTED)))).toBe('Deny NotByToken');
    expect(decide(await renewal(first, undefined, token), known({ ...ADMITTED, by: 'Token' }))).toMatchObject({
      do: 'Approve',
      record: { by: 'Token' },
    });
    expect(summary(decide(await renewal(second, undefined, token), known({ ...ADMITTED, by: 'Token' })))).toBe('Deny KeyUnknown');
  });

  it('by a certificate ends the token that stood for it', async () => {
    expect(decide(await renewal(first), known({ ...ADMITTED, by: 'Token' }))).toMatchObject({ record: { by: 'Certificate' } });
  });

  it('is vouched for by whole vouchers of accepted keys alone, and anything else instead of them is no error', () => {
    const request = Buffer.from('a request');
    const text = vouchedText(request);
    const voucher = vouch(first, request);
    expect(isVouched(voucher, text, [hash(first)])).toBe(hash(first));
    expect(isVouched(voucher, vouchedText(Buffer.from('another request')), [hash(first)])).toBeUndefined();
    expect(isVouched(voucher, text, [hash(second)])).toBeUndefined();
    const [spki = '', signature = ''] = voucher.split('.');
    // Each key that has the hash of an accepted key by its name alone.
    const long = Buffer.alloc(1025).toString('base64');
    const accepted = [hash(first), ...[long, ''].map((each) => keyHash(Buffer.from(each, 'base64')))];
    for (const torn of [undefined, '', spki, `.${signature}`, `${spki}.`, `${voucher}.${signature}`, `${long}.${signature}`])
      expect(isVouched(torn, text, accepted)).toBeUndefined();
  });

  it('is vouched for by the key on the disk, as it is stored', () => {
    const stored = createPrivateKey(first.export({ type: 'pkcs8', format: 'pem' }));
    expect(hash(stored)).toBe(hash(first));
  });
});
