import { setTimeout } from 'node:timers/promises';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { sha256Hex } from '../../api/digest.ts';
import type { ApiRequest, ApiResponse } from '../../api/transport.ts';
import { makeAuthority, signClient } from '@kubenode/embedded/pki';
import { jsonResponse, statusResponse } from '../../kube/testing/api-server.ts';
import { fakeClock } from '../../kube/testing/clock.ts';
import type { FakeClock } from '../../kube/testing/clock.ts';
import { recordingLog } from '../../kube/testing/log.ts';
import { settle } from '../../kube/testing/wait-for.ts';
import { createDurable } from '../disk/durable.ts';
import { createIdentity } from './identity.ts';
import type { AgentIdentity } from './identity.ts';
import type { ApiCredentials } from './session.ts';
import { lifeOf } from './key.ts';
import { identityState } from './state.ts';
import type { IdentityState } from './state.ts';
import { simulatedFiles } from '../testing/disk.ts';
import { Disk } from '../testing/inodes.ts';

/* When an identity is asked for, waited for, renewed and given up, against a server that does what the test configures. */

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const machine = { namespace: 'web', name: 'a', uid: 'uid' };

type Judgement = 'sign' | 'approve' | 'wait' | 'deny' | 'fail' | 'gone' | 'foreign';

let authority: Awaited<ReturnType<typeof makeAuthority>>;
beforeAll(async () => {
  authority = await makeAuthority('clients', { now: 0, random: () => 0.5 });
});

let clock: FakeClock;
let ended: AbortController;
let log: ReturnType<typeof recordingLog>;
let state: IdentityState;
let running: Promise<void>;
let identity: AgentIdentity;
/** What the server does with requests for certificates, and with anything else. */
let judgement: Judgement;
let gives: boolean;
let refuses: (credentials: ApiCredentials) => boolean;
let reachable: boolean;
let serverAheadMs: number;
let draw: number;
let token: string;
let reads: number;
/** `METHOD name-or-path`, with the time. */
let asked: { what: string; at: number; by: string }[];
let open: number;
let connected: string[];
let closed: string[];

beforeEach(() => {
  clock = fakeClock();
  ended = new AbortController();
  log = recordingLog();
  state = identityState(createDurable(simulatedFiles(new Disk()), ''), '/state', machine.uid);
  [judgement, gives, reachable, serverAheadMs, draw, token, reads, asked, open] = ['sign', true, true, 0, 0.5, 'first', 0, [], 0];
  [connected, closed] = [[], []];
  refuses = () => false;
});

afterEach(async () => {
  ended.abort(new Error('ended'));
  await running;
});

const nameOf = (credentials: ApiCredentials): string => ('token' in credentials ? credentials.token : 'certificate');
const serverMs = (): number => clock.now() + serverAheadMs;

async function serve(request: ApiRequest, credentials: ApiCredentials): Promise<ApiResponse> {
  const what = request.path.slice(request.path.lastIndexOf('/') + 1);
  asked.push({ what: `${request.method} ${what}`, at: clock.monotonic(), by: nameOf(credentials) });
  if (!reachable) throw new Error('connection refused');
  const date = { date: new Date(serverMs()).toUTCString() };
  if (refuses(credentials)) return statusResponse(401, 'Unauthorized', 'Unauthorized', date);
  if (what === 'version') return jsonResponse(200, {}, date);
  if (what === 'token') {
    const status = { token: `stand-in-${asked.length}`, expirationTimestamp: new Date(serverMs() + HOUR).toISOString() };
    return gives ? jsonResponse(201, { status }, date) : statusResponse(404, 'NotFound', 'NotFound', date);
  }
  const pending = await state.pending();
  if (judgement === 'gone' && request.method === 'GET') {
    const failure = {
      apiVersion: 'v1',
      kind: 'Status',
      status: 'Failure',
      reason: 'NotFound',
      message: '',
      code: 404,
      details: { name: what },
    };
    return jsonResponse(404, failure, date);
  }
  const metadata = { name: pending?.name, uid: 'csr', resourceVersion: '1', creationTimestamp: '2026-11-20T00:00:00Z' };
  const spec = { request: pending?.request, signerName: 's', usages: [] };
  return jsonResponse(
    request.method === 'POST' ? 201 : 200,
    {
      apiVersion: 'certificates.k8s.io/v1',
      kind: 'CertificateSigningRequest',
      metadata,
      spec,
      status: await judged(pending?.request ?? ''),
    },
    date,
  );
}

async function judged(request: string): Promise<object> {
  const conditions = [{ type: judgement === 'deny' ? 'Denied' : 'Approved', status: 'True', reason: 'Judged', message: 'so' }];
  switch (judgement) {
    case 'wait':
    case 'gone':
      return {};
    case 'approve':
    case 'deny':
      return { conditions };
    case 'fail':
      return { conditions: [...conditions, { type: 'Failed', status: 'True', reason: 'Broken' }] };
    case 'foreign':
      return { conditions, certificate: Buffer.from(authority.certificate).toString('base64') };
    case 'sign':
    default: {
      const text = Buffer.from(request, 'base64').toString();
      const certificate = await signClient(authority, text, 24 * 3600, { now: serverMs(), random: () => 0.5 });
      return { conditions, certificate: Buffer.from(certificate).toString('base64') };
    }
  }
}

function start(): void {
  identity = createIdentity({
    machine,
    readToken: () => {
      reads += 1;
      return Promise.resolve(token);
    },
    state,
    connect(credentials) {
      const name = nameOf(credentials);
      connected.push(name);
      const send = async (request: ApiRequest): Promise<ApiResponse> => {
        open += 1;
        try {
          return await serve(request, credentials);
        } finally {
          open -= 1;
        }
      };
      const retire = (): void => void closed.push(name);
      return Object.assign(send, { retire, close: () => Promise.resolve(retire()) });
    },
    userAgent: 'agent',
    clock,
    random: () => draw,
    log,
    signal: ended.signal,
  });
  running = identity.run();
}

/** Certificates are made in real time, which the clock must not outrun. */
async function calm(): Promise<void> {
  for (let idle = 0; idle < 2; idle = open === 0 ? idle + 1 : 0) {
    await settle();
    if (open > 0) await setTimeout(1);
  }
}

async function pass(ms: number, steps = 20): Promise<void> {
  await calm();
  for (let step = 0; step < steps; step++) {
    await clock.advance(ms / steps);
    await calm();
  }
}

const kind = async (): Promise<string | undefined> => (await state.current())?.kind;
const messages = (): string[] => log.lines.map(({ message }) => message);
const posts = (): number => asked.filter(({ what }) => what.startsWith('POST certificatesigningrequests')).length;
const use = (signal?: AbortSignal) => identity.transport({ method: 'GET', path: '/version', ...(signal === undefined ? {} : { signal }) });

/** Its outcome as soon as there is one. */
function outcome(work: Promise<ApiResponse>): { value: number | Error | undefined } {
  const found: { value: number | Error | undefined } = { value: undefined };
  work.then(
    ({ status }) => (found.value = status),
    (error: Error) => (found.value = error),
  );
  return found;
}

describe('a request of an agent that is not admitted', () => {
  test('waits for 20 s, and then fails', async () => {
    judgement = 'wait';
    start();
    const request = outcome(use());
    await pass(19 * SECOND);
    expect(request.value).toBeUndefined();
    await pass(1.5 * SECOND);
    expect(request.value).toMatchObject({ code: 'NotAdmitted', message: 'this agent is not admitted yet' });
  });

  test('goes through as soon as it is', async () => {
    judgement = 'wait';
    start();
    const request = outcome(use());
    await pass(5 * SECOND);
    judgement = 'sign';
    await pass(10 * SECOND);
    expect(request.value).toBe(200);
    expect(asked.at(-1)).toMatchObject({ what: 'GET version', by: 'certificate' });
  });

  test('ends with its caller, before and meanwhile', async () => {
    judgement = 'wait';
    start();
    const caller = new AbortController();
    const request = outcome(use(caller.signal));
    await pass(SECOND);
    caller.abort(new Error('not wanted any more'));
    await settle();
    expect(request.value).toMatchObject({ message: 'not wanted any more' });
    const late = outcome(use(caller.signal));
    await settle();
    expect(late.value).toMatchObject({ message: 'not wanted any more' });
    // Without waiting for their time.
    const { timers } = clock;
    const other = outcome(use(AbortSignal.abort('words')));
    await settle();
    expect(other.value).toMatchObject({ message: 'words' });
    expect(clock.timers).toBe(timers);
  });

  test('fails at once where none can be: the token is not accepted', async () => {
    refuses = () => true;
    start();
    const waiting = outcome(use());
    await pass(SECOND);
    for (const request of [waiting, outcome(use())]) {
      await settle();
      expect(request.value).toMatchObject({ code: 'NotAdmitted', message: expect.stringContaining('the bootstrap token is not accepted') });
    }
    // The file is read every 5 s for another token; the server is left alone.
    const [before, readBefore] = [asked.length, reads];
    await pass(60 * SECOND, 60);
    expect(reads - readBefore).toBe(12);
    expect(asked.length).toBe(before);
    expect(messages().filter((each) => each.includes('not accepted'))).toHaveLength(1);
    refuses = () => false;
    token = 'second';
    await pass(6 * SECOND);
    expect(await state.current()).toMatchObject({ kind: 'Certificate', admittedBy: sha256Hex('second') });
    expect((await use()).status).toBe(200);
  });
});

describe('an admission', () => {
  test('is waited for with one request, read ever more seldom', async () => {
    judgement = 'wait';
    start();
    await pass(2 * SECOND, 40);
    expect(posts()).toBe(1);
    expect(asked.length).toBeGreaterThan(4);
    await pass(10 * MINUTE, 100);
    const before = asked.length;
    await pass(10 * MINUTE, 100);
    expect(posts()).toBe(1);
    expect(asked.length - before).toBeGreaterThanOrEqual(9);
    expect(asked.length - before).toBeLessThan(20);
  });

  test('whose request was cleaned up is asked for again, under the same name', async () => {
    judgement = 'wait';
    start();
    await pass(SECOND);
    const name = (await state.pending())?.name;
    judgement = 'gone';
    await pass(5 * MINUTE, 100);
    expect(posts()).toBeGreaterThan(1);
    expect((await state.pending())?.name).toBe(name);
  });

  test('that gives the certificate of another machine is begun again with another request', async () => {
    judgement = 'foreign';
    start();
    await pass(200, 10);
    expect(await kind()).toBeUndefined();
    expect(log.lines[0]?.fields['error']).toContain('is not for kubenode:machine:web:a and its key');
    judgement = 'sign';
    await pass(5 * SECOND);
    expect(posts()).toBeGreaterThan(1);
    expect(await kind()).toBe('Certificate');
  });

  test('that a server which is away delays is tried ever more slowly, at once again after a success', async () => {
    reachable = false;
    draw = 1;
    start();
    await pass(4 * MINUTE, 480);
    const gaps = asked.slice(1).map(({ at }, index) => Math.round((at - (asked[index]?.at ?? 0)) / SECOND));
    expect(gaps.slice(2)).toEqual([2, 4, 8, 16, 32, 60, 60]);
    reachable = true;
    await pass(2 * MINUTE);
    expect(await kind()).toBe('Certificate');
    expect(log.lines.find(({ level }) => level === 'warn')).toMatchObject({
      fields: { error: expect.stringContaining('connection refused'), failures: 1 },
    });
  });

  test('that is denied is over for this token, and another one asks again', async () => {
    judgement = 'deny';
    start();
    await pass(30 * SECOND);
    expect(posts()).toBe(1);
    expect(messages().at(-1)).toContain('the agent is not admitted: Judged: so; the node is kept as it is');
    expect(await state.pending()).toBeUndefined();
    judgement = 'sign';
    token = 'second';
    await pass(10 * SECOND);
    expect(posts()).toBe(2);
    expect(await kind()).toBe('Certificate');
    // What was had with either token is closed.
    expect(closed).toEqual(['first', 'second']);
  });

  test('of a token that was replaced while its request waited goes on with that request, and after its denial with one of its own', async () => {
    judgement = 'wait';
    start();
    await pass(5 * SECOND);
    const before = await state.pending();
    token = 'second';
    await pass(2 * MINUTE);
    expect((await state.pending())?.name).toBe(before?.name);
    expect(asked.at(-1)?.by).toBe('second');
    judgement = 'deny';
    await pass(2 * MINUTE);
    // The first of the two denials is of the token before this one.
    expect(posts()).toBe(3);
    expect(messages().filter((each) => each.includes('the agent is not admitted'))).toHaveLength(1);
  });
});

describe('G2: a signer', () => {
  test('that does not respond is given 5 s after the approval, before a token is asked for instead', async () => {
    judgement = 'wait';
    start();
    await pass(MINUTE);
    expect(asked.some(({ what }) => what === 'POST token')).toBe(false);
    judgement = 'approve';
    await pass(5 * MINUTE, 300);
    expect(asked.some(({ what }) => what === 'POST token')).toBe(true);
    expect(await kind()).toBe('Token');
    // Its request stays: the signer may only have been slow.
    expect((await state.pending())?.admittedBy).toBe(sha256Hex('first'));
  });

  test('that signs in time is not gone around', async () => {
    judgement = 'approve';
    start();
    await pass(4 * SECOND, 80);
    expect(asked.some(({ what }) => what === 'POST token')).toBe(false);
    judgement = 'sign';
    await pass(20 * SECOND);
    expect(await kind()).toBe('Certificate');
  });

  test('that refuses is gone around at once', async () => {
    judgement = 'fail';
    start();
    await pass(100, 5);
    expect(await kind()).toBe('Token');
    expect(connected).toEqual(['first', expect.stringMatching(/^stand-in/)]);
  });

  test('that refuses, where no token is given either, is asked again and again', async () => {
    [judgement, gives] = ['fail', false];
    start();
    await pass(MINUTE);
    expect(await kind()).toBeUndefined();
    expect(posts()).toBe(1);
    gives = true;
    await pass(2 * MINUTE);
    expect(await kind()).toBe('Token');
  });

  test('that was only slow: its certificate replaces the token', async () => {
    judgement = 'fail';
    start();
    await pass(SECOND);
    expect(await kind()).toBe('Token');
    judgement = 'sign';
    await pass(10 * MINUTE, 100);
    expect(await kind()).toBe('Certificate');
    expect(await state.pending()).toBeUndefined();
    expect((await use()).status).toBe(200);
  });
});

describe('a renewal', () => {
  /** When the first request after the admission is made, as a share of the identity's life. */
  async function renewedAt(share: number): Promise<number> {
    draw = share;
    start();
    await pass(SECOND);
    const current = await state.current();
    if (current === undefined) throw new Error('it is admitted');
    const { from, until } = lifeOf(current);
    const before = posts();
    for (let minutes = 0; posts() === before && minutes < 24 * 60; minutes += 5) await pass(5 * MINUTE, 1);
    return (clock.now() - from) / (until - from);
  }

  test.each([
    [0, 0.6167],
    [0.5, 0.6667],
    [1, 0.7167],
  ])('is due at two thirds of the life, spread by chance (%f)', async (share, expected) => {
    expect(Math.abs((await renewedAt(share)) - expected)).toBeLessThan(0.006);
  });

  test('has a new key, which the one so far vouches for', async () => {
    start();
    await pass(SECOND);
    const first = await state.current();
    judgement = 'wait';
    await pass(17 * HOUR, 200);
    const pending = await state.pending();
    expect(pending?.voucher).toBeDefined();
    expect(pending?.admittedBy).toBeUndefined();
    expect(first?.kind === 'Certificate' && first.key).not.toBe(pending?.key);
    judgement = 'sign';
    await pass(HOUR);
    expect(await state.current()).not.toEqual(first);
  });

  test('that is denied is asked for again after a quarter to half an hour, and reported each time', async () => {
    draw = 1;
    start();
    await pass(SECOND);
    judgement = 'deny';
    await pass(18 * HOUR, 400);
    const denied = messages().filter((each) => each.includes('is denied')).length;
    expect(denied).toBeGreaterThan(0);
    const before = posts();
    await pass(2 * HOUR, 240);
    expect(posts() - before).toBe(4);
    expect(messages().filter((each) => each.includes('is denied')).length - denied).toBe(4);
    expect((await use()).status).toBe(200);
  });

  test('that is denied ends with a new bootstrap token, if there is one', async () => {
    draw = 1;
    start();
    await pass(SECOND);
    judgement = 'deny';
    await pass(18 * HOUR, 400);
    token = 'second';
    judgement = 'deny';
    await pass(35 * MINUTE, 70);
    // The new token is tried at once, and denied as well; the identity so far goes on.
    expect(asked.some(({ by }) => by === 'second')).toBe(true);
    expect((await use()).status).toBe(200);
    token = 'third';
    judgement = 'sign';
    await pass(35 * MINUTE, 70);
    expect(await state.current()).toMatchObject({ admittedBy: sha256Hex(asked.some(({ by }) => by === 'third') ? 'third' : 'first') });
  });

  test('of a token is another token, and asks for a certificate with the key that was admitted', async () => {
    judgement = 'fail';
    start();
    await pass(SECOND);
    const [first, admitted] = [await state.current(), await state.pending()];
    await pass(45 * MINUTE, 90);
    const [second, again] = [await state.current(), await state.pending()];
    expect([first?.kind, second?.kind]).toEqual(['Token', 'Token']);
    expect(second).not.toEqual(first);
    expect([again?.key, again?.admittedBy]).toEqual([admitted?.key, admitted?.admittedBy]);
    gives = false;
    await pass(50 * MINUTE, 100);
    expect(log.lines.some(({ fields }) => String(fields['error']).includes('gives this agent no further token'))).toBe(true);
  });
});

describe('an identity', () => {
  test('that the server does not accept is reported once, and ends with another bootstrap token', async () => {
    start();
    await pass(SECOND);
    refuses = (credentials) => !('token' in credentials);
    expect((await use()).status).toBe(401);
    await pass(20 * SECOND, 40);
    expect(messages().filter((each) => each.includes('has run out or is not accepted'))).toHaveLength(1);
    // The server has the last word: what is refused now may be accepted later.
    expect((await use()).status).toBe(401);
    refuses = () => false;
    expect((await use()).status).toBe(200);
    refuses = (credentials) => !('token' in credentials);
    expect((await use()).status).toBe(401);
    token = 'second';
    await pass(10 * SECOND);
    expect(await state.current()).toMatchObject({ admittedBy: sha256Hex('second') });
  });

  test('is as old as by the server’s clock, however wrong the node’s is', async () => {
    serverAheadMs = 1000 * HOUR;
    start();
    await pass(SECOND);
    const before = posts();
    expect((await use()).status).toBe(200);
    await pass(15 * HOUR, 100);
    expect(posts()).toBe(before);
    await pass(2 * HOUR, 40);
    expect(posts()).toBe(before + 1);
  });

  test('that is out of date is used only when there is no hope of another', async () => {
    start();
    await pass(SECOND);
    ended.abort(new Error('ended'));
    await running;
    clock.jump(48 * HOUR);
    ended = new AbortController();
    connected = [];
    start();
    await pass(SECOND);
    expect(connected).toEqual(['certificate']);
    expect(messages().at(-1)).toContain('has run out or is not accepted, and the bootstrap token was used');
    ended.abort(new Error('ended'));
    await running;
    ended = new AbortController();
    [connected, token] = [[], 'second'];
    start();
    await pass(SECOND);
    expect(connected).toEqual(['second', 'certificate']);
    expect(await state.current()).toMatchObject({ admittedBy: sha256Hex('second') });
  });

  test('that is in order asks nothing when its agent begins again', async () => {
    start();
    await pass(SECOND);
    ended.abort(new Error('ended'));
    await running;
    ended = new AbortController();
    [asked, connected] = [[], []];
    start();
    expect((await use()).status).toBe(200);
    await pass(HOUR);
    expect(asked.map(({ what }) => what)).toEqual(['GET version']);
    expect(connected).toEqual(['certificate']);
  });

  test('closes what it keeps open', async () => {
    judgement = 'wait';
    start();
    await pass(SECOND);
    await identity.close();
    expect(closed).toEqual(['first']);
    judgement = 'sign';
    await pass(MINUTE);
    closed = [];
    await identity.close();
    expect(closed).toEqual(['certificate']);
  });
});
