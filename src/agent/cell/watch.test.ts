import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Machine } from '../../api/machine.ts';
import type { Stored } from '../../api/wire.ts';
import { createClient } from '../../kube/http-client.ts';
import { fakeApiServer, statusResponse } from '../../kube/testing/api-server.ts';
import type { FakeApiServer } from '../../kube/testing/api-server.ts';
import { fakeClock, seededRandom } from '../../kube/testing/clock.ts';
import type { FakeClock } from '../../kube/testing/clock.ts';
import { recordingLog } from '../../kube/testing/log.ts';
import { settle } from '../../kube/testing/wait-for.ts';
import { watchMachine } from './watch.ts';
import { Machines } from './wanted.ts';

const key = { namespace: 'web', name: 'a' };
let api: FakeApiServer;
let clock: FakeClock;
let ended: AbortController;
let seen: (Stored<Machine> | undefined)[];
let running: Promise<void>;
let random: () => number;

function put(hold: boolean, name = 'a'): Stored<Machine> {
  return api.put(Machines, { apiVersion: 'kubenode.io/v1alpha1', kind: 'Machine', metadata: { namespace: 'web', name }, spec: { hold } });
}

const holdsSeen = (): (boolean | undefined)[] => seen.map((each) => each?.spec.hold);
const watches = () => api.requests.filter((each) => each.query?.['watch'] === 'true');
const reads = () => api.requests.filter((each) => each.query?.['watch'] === undefined);

beforeEach(() => {
  api = fakeApiServer();
  clock = fakeClock();
  ended = new AbortController();
  seen = [];
  random = seededRandom(1);
});

afterEach(async () => {
  ended.abort(new Error('ended'));
  await clock.advance(1);
  await running;
});

async function follow(): Promise<void> {
  running = watchMachine({
    client: createClient(api.transport),
    machine: key,
    clock,
    random: () => random(),
    log: recordingLog(),
    signal: ended.signal,
    onMachine: (machine) => seen.push(machine),
  });
  await settle();
}

test('the Machine is read once and then followed', async () => {
  put(false);
  put(true, 'b');
  await follow();
  put(true);
  put(false, 'b');
  await settle();
  expect(holdsSeen()).toEqual([false, true]);
  expect([reads().length, watches().length]).toEqual([1, 1]);
  // An agent may get and watch its own Machine, and list nothing.
  expect(reads()[0]?.path).toMatch(/\/machines\/a$/);
  expect(watches()[0]?.query?.['fieldSelector']).toBe('metadata.name=a');
  ended.abort(new Error('ended'));
  await clock.advance(1);
  await running;
  expect(api.watches.open).toBe(0);
});

test('after an interruption it goes on from the last bookmark, without reading anything again', async () => {
  put(false);
  await follow();
  put(true, 'other');
  api.bookmark();
  await settle();
  api.watches.reset();
  put(true);
  await clock.advance(5_000);
  expect(holdsSeen()).toEqual([false, true]);
  expect(reads()).toHaveLength(1);
  expect(watches().map((each) => each.query?.['resourceVersion'])).toEqual(['101', '102']);
});

test('when the history is gone a watch without a version brings what there is', async () => {
  put(false);
  await follow();
  api.watches.end();
  put(true);
  api.compact();
  await clock.advance(10_000);
  expect(holdsSeen()).toEqual([false, true]);
  expect(watches().at(-1)?.query?.['resourceVersion']).toBeUndefined();
  put(false);
  await settle();
  expect(holdsSeen()).toEqual([false, true, false]);
});

test('a server that was put back to a backup is believed', async () => {
  put(false);
  put(true);
  await follow();
  api.watches.end();
  api.rewind(50);
  await clock.advance(60_000);
  put(false);
  await settle();
  expect(holdsSeen().at(-1)).toBe(false);
});

test('a watch that became stale is given up', async () => {
  put(false);
  await follow();
  api.watches.stall();
  put(true);
  await clock.advance(310_000);
  expect(holdsSeen()).toEqual([false, true]);
});

test('while watches fail the Machine is polled, about once a minute', async () => {
  put(false);
  await follow();
  const stop = api.intercept((request) => (request.query?.['watch'] === undefined ? undefined : statusResponse(502, 'BadGateway')));
  api.watches.reset();
  await clock.advance(120_000);
  put(true);
  await clock.advance(120_000);
  expect(holdsSeen().at(-1)).toBe(true);
  const before = api.requests.length;
  await clock.advance(3_600_000);
  const polls = api.requests.slice(before).filter((each) => each.query?.['watch'] === undefined).length;
  expect(polls).toBeGreaterThan(45);
  expect(polls).toBeLessThan(80);
  stop();
  await clock.advance(120_000);
  put(false);
  await settle();
  expect(holdsSeen().at(-1)).toBe(false);
});

test('a server that restarts within seconds is watched again within seconds, however many tries it refused', async () => {
  put(false);
  random = () => 0.01;
  await follow();
  let refusals = 0;
  const stop = api.intercept(() => (refusals++, statusResponse(503, 'ServiceUnavailable')));
  api.watches.reset();
  await clock.advance(1_500);
  expect(refusals).toBeGreaterThan(10);
  stop();
  put(true);
  random = () => 0.5;
  await clock.advance(9_000);
  expect(holdsSeen().at(-1)).toBe(true);
});

test('a server that asks to be left alone is, and its agents are not back all at once', async () => {
  put(false);
  await follow();
  let refusals = 0;
  const stop = api.intercept(() => (refusals++, statusResponse(429, 'TooManyRequests', 'later', { 'retry-after': '30' })));
  random = () => 0.5;
  api.watches.reset();
  await clock.advance(10_000);
  expect(refusals).toBe(1);
  await clock.advance(30_000);
  expect(refusals).toBe(1);
  stop();
  put(true);
  await clock.advance(10_000);
  expect(holdsSeen().at(-1)).toBe(true);
});

test('a Machine that is gone is reported as gone', async () => {
  put(false);
  await follow();
  api.remove(Machines, key);
  await settle();
  expect(holdsSeen()).toEqual([false, undefined]);
  put(true);
  await settle();
  expect(holdsSeen()).toEqual([false, undefined, true]);
});

test('an idle hour costs at most two watches', async () => {
  put(false);
  await follow();
  const before = api.requests.length;
  for (let minute = 0; minute < 60; minute++) {
    await clock.advance(60_000);
    api.bookmark();
  }
  expect(api.requests.length - before).toBeLessThanOrEqual(2);
  expect(Number(watches()[0]?.query?.['timeoutSeconds'])).toBeGreaterThanOrEqual(2_400);
});

test('a server that came back without its history is no reason to wait, however often it was refused before', async () => {
  put(false);
  await follow();
  let refusals = 0;
  api.intercept((request) => {
    if (request.query?.['watch'] !== 'true') return undefined;
    refusals += 1;
    if (refusals === 1) throw new Error('connection refused');
    return refusals === 2 ? statusResponse(410, 'Expired', 'too old resource version') : undefined;
  });
  api.watches.reset();
  put(true);
  // The interruption and the refused connection take 4 and 8 s at most; the refused resourceVersion is then asked for again within a second.
  await clock.advance(14_000);
  await settle();
  expect(holdsSeen().at(-1)).toBe(true);
});

test('a watch that the server ends is opened again within a second, and not by all agents at once', async () => {
  put(false);
  random = () => 0.25;
  await follow();
  api.watches.end();
  await clock.advance(249);
  expect(watches()).toHaveLength(1);
  await clock.advance(2);
  expect(watches()).toHaveLength(2);
  random = () => 0.75;
  api.watches.end();
  await clock.advance(749);
  expect(watches()).toHaveLength(2);
  await clock.advance(2);
  expect(watches()).toHaveLength(3);
});

test('a watch that ended well makes an end of the failures before it', async () => {
  put(false);
  random = () => 0.5;
  await follow();
  let refusals = 2;
  api.intercept((request) => (request.query?.['watch'] === 'true' && refusals-- > 0 ? statusResponse(502, 'BadGateway') : undefined));
  api.watches.reset();
  await clock.advance(20_000);
  expect(api.watches.open).toBe(1);
  // It brought no event: only its regular end shows that the server is healthy.
  api.watches.end();
  await clock.advance(501);
  expect(api.watches.open).toBe(1);
  // The next failure is a first one, and no reason to poll.
  await clock.advance(100_000);
  const before = reads().length;
  api.watches.reset();
  await clock.advance(10_000);
  expect(reads()).toHaveLength(before);
});

test('who reads the Machine, or begins a watch without a version, refetches the first state only', async () => {
  put(false);
  const repeats: boolean[] = [];
  running = watchMachine({
    client: createClient(api.transport),
    machine: key,
    clock,
    random: () => random(),
    log: recordingLog(),
    signal: ended.signal,
    onMachine: (_machine, again) => repeats.push(again),
  });
  await settle();
  put(true);
  await settle();
  expect(repeats).toEqual([true, false]);
  api.watches.end();
  put(false);
  api.compact();
  await clock.advance(5_000);
  put(true);
  await settle();
  expect(repeats).toEqual([true, false, true, false]);
});

test('a watch lives as long as bookmarks come, and its end is no failure', async () => {
  put(false);
  await follow();
  for (let minute = 0; minute < 12; minute++) {
    await clock.advance(60_000);
    api.bookmark();
    await settle();
  }
  expect(watches()).toHaveLength(1);
  ended.abort(new Error('ended'));
  await running;
  expect(clock.timers).toBe(0);
});

test('a server that refuses every resourceVersion is left alone after a few times', async () => {
  put(false);
  random = () => 0.5;
  await follow();
  const refusals: number[] = [];
  api.intercept((request) => {
    if (request.query?.['watch'] !== 'true') return undefined;
    refusals.push(clock.monotonic());
    return statusResponse(410, 'Expired', 'too old resource version');
  });
  api.watches.end();
  await clock.advance(30_000);
  const gaps = refusals.slice(1).map((at, index) => at - (refusals[index] ?? 0));
  expect(gaps.slice(0, 4)).toEqual([500, 500, 500, 4_000]);
});

test('a pause is never shorter than the server asked for, and up to twice as long', async () => {
  put(false);
  random = () => 0.99;
  await follow();
  const refusals: number[] = [];
  const stop = api.intercept(() => {
    refusals.push(clock.monotonic());
    return statusResponse(429, 'TooManyRequests', 'later', { 'retry-after': '30' });
  });
  api.watches.reset();
  await clock.advance(70_000);
  stop();
  expect(refusals).toHaveLength(2);
  expect((refusals[1] ?? 0) - (refusals[0] ?? 0)).toBeCloseTo(59_700, -2);
});

test('a watch on which something came makes an end of the failures before it', async () => {
  put(false);
  random = () => 0.5;
  await follow();
  let refusing = true;
  api.intercept((request) => (request.query?.['watch'] === 'true' && refusing ? statusResponse(502, 'BadGateway') : undefined));
  api.watches.reset();
  await clock.advance(40_000);
  refusing = false;
  await clock.advance(30_000);
  expect(api.watches.open).toBe(1);
  api.bookmark();
  await settle();
  const before = reads().length;
  // Longer ago than what counts as persistent, were it not over.
  await clock.advance(60_000);
  refusing = true;
  api.watches.reset();
  await clock.advance(30_000);
  expect(reads()).toHaveLength(before);
});

test('what a poll has read does not move the resourceVersion from which the watch goes on', async () => {
  put(false);
  await follow();
  api.bookmark();
  await settle();
  const stop = api.intercept((request) => (request.query?.['watch'] === 'true' ? statusResponse(502, 'BadGateway') : undefined));
  api.watches.reset();
  await clock.advance(90_000);
  put(true);
  await clock.advance(180_000);
  expect(reads().length).toBeGreaterThan(1);
  stop();
  await clock.advance(120_000);
  expect(watches().at(-1)?.query?.['resourceVersion']).toBe(watches()[1]?.query?.['resourceVersion']);
});

test('a resourceVersion that is refused is asked for again within a second, though the server had failed before', async () => {
  put(false);
  random = () => 0.99;
  await follow();
  const asked: number[] = [];
  api.intercept((request) => {
    if (request.query?.['watch'] !== 'true') return undefined;
    asked.push(clock.monotonic());
    if (asked.length === 1) throw new Error('connection refused');
    return asked.length === 2 ? statusResponse(410, 'Expired', 'too old resource version') : undefined;
  });
  api.watches.reset();
  await clock.advance(60_000);
  expect(asked.slice(1).map((at, index) => Math.round(at - (asked[index] ?? 0)))).toEqual([7_920, 990]);
});

test('refusals of a resourceVersion are counted in a row only', async () => {
  put(false);
  random = () => 0.5;
  await follow();
  const asked: number[] = [];
  const answers = ['version', 'version', 'version', 'down', 'version', 'version', 'version', 'version'];
  api.intercept((request) => {
    if (request.query?.['watch'] !== 'true') return undefined;
    const answer = answers[asked.length];
    asked.push(clock.monotonic());
    if (answer === undefined) return undefined;
    return answer === 'down' ? statusResponse(502, 'BadGateway') : statusResponse(410, 'Expired', 'too old resource version');
  });
  api.watches.end();
  await clock.advance(60_000);
  expect(asked.slice(1).map((at, index) => at - (asked[index] ?? 0))).toEqual([500, 500, 500, 4_000, 500, 500, 500, 4_000]);
});

test('what happened to a watch is in the log', async () => {
  put(false);
  const log = recordingLog();
  running = watchMachine({
    client: createClient(api.transport),
    machine: key,
    clock,
    random,
    log,
    signal: ended.signal,
    onMachine: () => undefined,
  });
  await settle();
  await clock.advance(305_000);
  expect(log.lines).toMatchObject([{ level: 'warn', fields: { error: expect.stringContaining('for 300 s'), failures: 1 } }]);
});
