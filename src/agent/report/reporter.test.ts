import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Machine } from '../../api/machine.ts';
import type { Stored } from '../../api/wire.ts';
import { fakeClock, seededRandom } from '../../kube/testing/clock.ts';
import type { FakeClock } from '../../kube/testing/clock.ts';
import { recordingLog } from '../../kube/testing/log.ts';
import type { EngineView } from '../engine/engine.ts';
import type { AgentStatus } from './status.ts';
import { createReporter } from './reporter.ts';
import type { Reporter } from './reporter.ts';

let clock: FakeClock;
let ended: AbortController;
let running: Promise<void>;
let reporter: Reporter;
let trouble: string;
let settled: boolean;
let applied: AgentStatus[];
let server: Stored<Machine>;
let failing: boolean;
let reason: string;
let tries: number;
let log: ReturnType<typeof recordingLog>;

const identity = { version: '1', apiLevel: 1, bootID: 'b', os: 'linux', arch: 'amd64' };

function machine(status: object = {}): Stored<Machine> {
  const metadata = { name: 'a', namespace: 'web', uid: 'u', creationTimestamp: '', generation: 1 };
  const resourceVersion = String(Number(server?.metadata.resourceVersion ?? 0) + 1);
  server = { apiVersion: 'kubenode.io/v1alpha1', kind: 'Machine', metadata: { ...metadata, resourceVersion }, spec: {}, status };
  return server;
}

beforeEach(() => {
  clock = fakeClock();
  ended = new AbortController();
  [trouble, reason, settled, applied, failing, tries, log] = ['first', 'DiskFailing', true, [], false, 0, recordingLog()];
  reporter = createReporter({
    engine: {
      settled: () => settled,
      view: (): Promise<EngineView> => Promise.resolve({ observed: undefined, trouble: { reason, message: trouble } }),
    },
    identity,
    apply(_uid, status) {
      tries += 1;
      if (failing) return Promise.reject(new Error('no answer'));
      applied.push(status);
      return Promise.resolve(machine({ ...server.status, ...status }));
    },
    clock,
    random: seededRandom(1),
    log,
    signal: ended.signal,
  });
  running = reporter.run();
});

afterEach(async () => {
  ended.abort(new Error('ended'));
  await clock.advance(1);
  await running;
});

const messages = (): (string | undefined)[] => applied.map((each) => each.conditions?.[0]?.message);

test('the agent reports nothing before it has read the Machine and knows what runs', async () => {
  await clock.advance(60_000);
  expect(applied).toEqual([]);
  settled = false;
  reporter.seen(machine());
  await clock.advance(60_000);
  expect(applied).toEqual([]);
  settled = true;
  reporter.poke();
  await clock.advance(1_000);
  expect(messages()).toEqual(['nothing is changed: first']);
});

test('what is to be reported is reported at once, however often there was nothing to report just before', async () => {
  for (let tick = 0; tick < 20; tick++) {
    reporter.poke();
    await clock.advance(50);
  }
  reporter.seen(machine());
  await clock.advance(100);
  expect(messages()).toEqual(['nothing is changed: first']);
});

test('checks that find nothing to report use up none of the writes that may follow in a row', async () => {
  reporter.seen(machine());
  await clock.advance(60_000);
  for (let tick = 0; tick < 20; tick++) {
    reporter.poke();
    await clock.advance(50);
  }
  trouble = 'later';
  reporter.poke();
  await clock.advance(101);
  expect(messages()).toEqual(['nothing is changed: first', 'nothing is changed: later']);
});

test('the agent reports nothing while it reads the disk, and then what it knows at once', async () => {
  reason = 'Starting';
  reporter.seen(machine());
  for (let tick = 0; tick < 20; tick++) {
    reporter.poke();
    await clock.advance(50);
  }
  expect(applied).toEqual([]);
  reason = 'DiskFailing';
  reporter.poke();
  await clock.advance(101);
  expect(messages()).toEqual(['nothing is changed: first']);
});

test('a failure is tried again after a second at least, and its end by the signal is none', async () => {
  failing = true;
  reporter.seen(machine());
  await clock.advance(999);
  expect(tries).toBe(1);
  const { length } = log.lines;
  expect(log.lines.map((each) => [each.message, each.fields['failures']])).toEqual([['the status was not written', 1]]);
  ended.abort(new Error('ended'));
  await running;
  expect(log.lines).toHaveLength(length);
});

test('what follows one upon the other is reported at once, a few times', async () => {
  reporter.seen(machine());
  for (const what of ['seen', 'waits', 'begun', 'done', 'and', 'so', 'on']) {
    trouble = what;
    reporter.poke();
    await clock.advance(200);
  }
  expect(messages()).toEqual(['seen', 'waits', 'begun', 'done', 'so'].map((what) => `nothing is changed: ${what}`));
});

test('what changes often is written once a second in the long run, and what does not change never', async () => {
  reporter.seen(machine());
  for (let tick = 0; tick < 300; tick++) {
    trouble = `at ${tick}`;
    reporter.poke();
    await clock.advance(100);
  }
  expect(applied.length).toBeGreaterThan(25);
  expect(applied.length).toBeLessThanOrEqual(34);
  await clock.advance(2_000);
  expect(messages().at(-1)).toBe('nothing is changed: at 299');
  const before = applied.length;
  for (let tick = 0; tick < 100; tick++) {
    reporter.poke();
    await clock.advance(1_000);
  }
  expect(applied).toHaveLength(before);
});

test('an agent that starts reports nothing that is reported already', async () => {
  reporter.seen(machine());
  await clock.advance(2_000);
  expect(applied).toHaveLength(1);
  const before = server;
  ended.abort(new Error('ended'));
  await clock.advance(1);
  await running;
  ended = new AbortController();
  reporter = createReporter({
    engine: {
      settled: () => true,
      view: () => Promise.resolve({ observed: undefined, trouble: { reason: 'DiskFailing', message: trouble } }),
    },
    identity,
    apply: () => Promise.reject(new Error('not to be asked')),
    clock,
    random: seededRandom(1),
    log: recordingLog(),
    signal: ended.signal,
  });
  running = reporter.run();
  reporter.seen(before);
  await clock.advance(60_000);
  expect(applied).toHaveLength(1);
});

test('what another hand changed of it is reported again; what is older than the last answer is ignored', async () => {
  const old = machine();
  reporter.seen(old);
  await clock.advance(2_000);
  // A watch that is behind still brings what was before the answer.
  reporter.seen(old);
  await clock.advance(2_000);
  expect(applied).toHaveLength(1);
  reporter.seen(machine({ ...server.status, agent: { ...identity, version: 'forged' } }));
  await clock.advance(2_000);
  expect(applied).toHaveLength(2);
  await clock.advance(60_000);
  expect(applied).toHaveLength(2);
});

test('a write that fails is tried again, ever more slowly, with what is true then', async () => {
  failing = true;
  reporter.seen(machine());
  await clock.advance(600_000);
  trouble = 'later';
  failing = false;
  await clock.advance(61_000);
  expect(messages()).toEqual(['nothing is changed: later']);
});

test('the transition time moves with the status of the condition only', async () => {
  reporter.seen(machine());
  await clock.advance(2_000);
  const first = applied[0]?.conditions?.[0]?.lastTransitionTime;
  await clock.advance(60_000);
  trouble = 'second';
  reporter.poke();
  await clock.advance(2_000);
  expect(messages()).toEqual(['nothing is changed: first', 'nothing is changed: second']);
  expect(applied[1]?.conditions?.[0]?.lastTransitionTime).toBe(first);
});
