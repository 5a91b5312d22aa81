import * as fc from 'fast-check';
import { afterEach, describe, expect, test } from 'vitest';
import { Leases } from '../api/builtin.ts';
import type { Lease } from '../api/builtin.ts';
import type { Clock } from '../api/ports.ts';
import type { ApiRequest, ApiResponse, Transport } from '../api/transport.ts';
import { sleep } from './clock.ts';
import { createClient } from './http-client.ts';
import { runLeaderElection } from './lease.ts';
import type { LeaseOptions, Term } from './lease.ts';
import { fakeApiServer, jsonResponse, statusResponse } from './testing/api-server.ts';
import type { FakeApiServer } from './testing/api-server.ts';
import { fakeClock, seededRandom, skewedClock } from './testing/clock.ts';
import type { FakeClock } from './testing/clock.ts';
import { recordingLog } from './testing/log.ts';
import { settle } from './testing/wait-for.ts';

const controllers: AbortController[] = [];
afterEach(() => controllers.splice(0).forEach((controller) => controller.abort(new Error('the test is over'))));

interface Candidate {
  controller: AbortController;
  terms: Term[];
  done: Promise<void>;
  leads(): boolean;
}

function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}

function candidate(
  transport: Transport,
  clock: Clock,
  identity: string,
  lead: (term: Term) => Promise<void> = (term) => untilAborted(term.signal),
  options: Partial<LeaseOptions> = {},
): Candidate {
  const controller = new AbortController();
  controllers.push(controller);
  const terms: Term[] = [];
  const done = runLeaderElection(
    {
      client: createClient(transport),
      clock,
      random: seededRandom(identity.charCodeAt(0)),
      log: recordingLog(),
      signal: controller.signal,
      namespace: 'kubenode',
      name: 'cell',
      identity,
      ...options,
    },
    (term) => {
      terms.push(term);
      return lead(term);
    },
  );
  return { controller, terms, done, leads: () => terms.at(-1)?.isValid() === true };
}

const leaseOf = (server: FakeApiServer): Lease['spec'] => server.objects(Leases)[0]?.spec;

test('a candidate that waits asks no more often than the retry period, with jitter on top', async () => {
  const server = fakeApiServer();
  const clock = fakeClock();
  candidate(server.transport, clock, 'a');
  await settle();
  const begin = server.requests.length;
  candidate(server.transport, clock, 'b', undefined, { random: () => 0, retryPeriodMs: 3000 });
  await settle();
  const asked = (): number => server.requests.slice(begin).filter(({ method }) => method === 'GET').length;
  expect(asked()).toBe(1);
  await clock.advance(2999);
  expect(asked()).toBe(1);
  await clock.advance(1);
  await settle();
  expect(asked()).toBe(2);
});

test('the jitter of a candidate is at most a fifth more than twice the retry period', async () => {
  const server = fakeApiServer();
  const clock = fakeClock();
  candidate(server.transport, clock, 'a');
  await settle();
  const begin = server.requests.length;
  candidate(server.transport, clock, 'b', undefined, { random: () => 1, retryPeriodMs: 1000 });
  const asked = (): number => server.requests.slice(begin).filter(({ method }) => method === 'GET').length;
  await clock.advance(2199);
  expect(asked()).toBe(1);
  await clock.advance(1);
  await settle();
  expect(asked()).toBe(2);
});

test('a Lease that has no duration is waited for as long as one of ours', async () => {
  const server = fakeApiServer();
  const clock = fakeClock();
  server.put(Leases, {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { namespace: 'kubenode', name: 'cell' },
    spec: { holderIdentity: 'another' },
  });
  const a = candidate(server.transport, clock, 'a');
  await clock.advance(15_000);
  expect(a.leads()).toBe(false);
  await clock.advance(10_000);
  expect(a.leads()).toBe(true);
  expect(leaseOf(server)).toMatchObject({ holderIdentity: 'a', leaseTransitions: 1 });
});

test('a leader that was stopped for too long learns that before any timer has run, and its term ends there', async () => {
  const server = fakeApiServer();
  const clock = fakeClock();
  const a = candidate(server.transport, clock, 'a');
  await settle();
  const [term] = a.terms;
  clock.pause(9999);
  expect(() => term?.require()).not.toThrow();
  expect(term?.signal.aborted).toBe(false);
  clock.pause(1);
  expect(() => term?.require()).toThrow(expect.objectContaining({ code: 'LeaseLost' }));
  expect(term?.signal.reason).toMatchObject({ code: 'LeaseLost' });
  // Why it ended stays what it was.
  a.controller.abort(new Error('stopped'));
  expect(() => term?.require()).toThrow(expect.objectContaining({ code: 'LeaseLost' }));
  await a.done;
});

describe('a single candidate', () => {
  test('creates the Lease, leads, and renews it', async () => {
    const server = fakeApiServer();
    const clock = fakeClock();
    const a = candidate(server.transport, clock, 'a');
    await settle();
    expect(a.leads()).toBe(true);
    expect(leaseOf(server)).toEqual({
      holderIdentity: 'a',
      leaseDurationSeconds: 15,
      acquireTime: '2026-11-20T00:00:00.000000Z',
      renewTime: '2026-11-20T00:00:00.000000Z',
      leaseTransitions: 0,
    });
    await clock.advance(60_000);
    expect(a.leads()).toBe(true);
    expect(leaseOf(server)).toMatchObject({ acquireTime: '2026-11-20T00:00:00.000000Z', renewTime: '2026-11-20T00:01:00.000000Z' });
    expect(a.terms).toHaveLength(1);
  });

  test('a clean stop ends the term, waits for the work, and frees the Lease for the next', async () => {
    const server = fakeApiServer();
    const clock = fakeClock();
    const order: string[] = [];
    const a = candidate(server.transport, clock, 'a', async (term) => {
      await untilAborted(term.signal);
      order.push(`aborted, Lease of ${leaseOf(server)?.holderIdentity}`);
      await sleep(clock, 500);
      order.push(`worked, Lease of ${leaseOf(server)?.holderIdentity}`);
    });
    await clock.advance(3000);
    a.controller.abort(new Error('stop'));
    await clock.advance(1000);
    await a.done;
    expect(order).toEqual(['aborted, Lease of a', 'worked, Lease of a']);
    expect(leaseOf(server)).toMatchObject({ holderIdentity: '', leaseTransitions: 0 });
    expect(clock.timers).toBe(0);
    const b = candidate(server.transport, clock, 'b');
    await settle();
    expect(b.leads()).toBe(true);
    expect(b.terms[0]?.transitions).toBe(1);
  });

  test.each([
    { retryAfter: '1', at: [2, 4, 6] },
    { retryAfter: '5', at: [2, 7] },
    { retryAfter: '60', at: [2] },
  ])('a server that asks for $retryAfter s gets them, but one try is left before the term ends', async ({ retryAfter, at }) => {
    const server = fakeApiServer();
    const clock = fakeClock();
    const a = candidate(server.transport, clock, 'a');
    await settle();
    const begun = clock.monotonic();
    const tries: number[] = [];
    const cancel = server.intercept(() => {
      tries.push((clock.monotonic() - begun) / 1000);
      return statusResponse(429, 'TooManyRequests', 'slow down', { 'retry-after': retryAfter });
    });
    await clock.advance(7999);
    expect(tries).toEqual(at);
    cancel();
    await clock.advance(30_000);
    expect([a.leads(), a.terms.length]).toEqual([true, 1]);
  });

  test('a candidate waits as long as it is asked to, but no longer than a Lease lasts', async () => {
    const server = fakeApiServer();
    const clock = fakeClock();
    const cancel = server.intercept(() => statusResponse(429, 'TooManyRequests', 'slow down', { 'retry-after': '600' }));
    const a = candidate(server.transport, clock, 'a');
    await settle();
    const asked = server.requests.length;
    cancel();
    await clock.advance(15_000);
    expect(server.requests.length).toBe(asked);
    await clock.advance(5000);
    expect(a.leads()).toBe(true);
  });

  test('a Lease that another took is not logged as a warning, and what keeps it from being acquired is logged once', async () => {
    const server = fakeApiServer();
    const clock = fakeClock();
    const log = recordingLog();
    const logged = (): string[] =>
      log.lines.splice(0).map(({ level, message, fields }) => `${level}: ${message}: ${String(fields['error'])}`);
    let answer = (): ApiResponse => statusResponse(409, 'Conflict', 'changed');
    server.intercept(() => answer());
    candidate(server.transport, clock, 'a', undefined, { log });
    await settle();
    expect(logged()).toEqual([expect.stringMatching(/^debug: the Lease was taken by another: .*changed$/)]);
    answer = () => statusResponse(503, 'ServiceUnavailable', 'away');
    await clock.advance(15_000);
    const [first, ...others] = logged();
    expect(first).toMatch(/^warn: the Lease cannot be acquired: .*away$/);
    expect(others.length).toBeGreaterThan(1);
    expect(others.filter((each) => !each.startsWith('debug: the Lease cannot'))).toEqual([]);
    answer = () => statusResponse(403, 'Forbidden', 'not you');
    await clock.advance(5000);
    expect(logged().filter((each) => each.startsWith('warn'))).toHaveLength(1);
  });

  test('a stop in the middle of a renewal still frees the Lease', async () => {
    const server = fakeApiServer();
    const clock = fakeClock();
    const a = candidate(server.transport, clock, 'a');
    await settle();
    const cancel = server.intercept(async (request) => {
      cancel();
      await server.transport({ method: request.method, path: request.path, ...(request.body === undefined ? {} : { body: request.body }) });
      return await new Promise((_, reject) => request.signal?.addEventListener('abort', () => reject(request.signal?.reason)));
    });
    await clock.advance(2000);
    a.controller.abort(new Error('stop'));
    await a.done;
    expect(leaseOf(server)?.holderIdentity).toBe('');
  });

  test('a stop while it waits for the Lease is a clean end', async () => {
    const server = fakeApiServer();
    const clock = fakeClock();
    candidate(server.transport, clock, 'a');
    await settle();
    const b = candidate(server.transport, clock, 'b');
    await settle();
    b.controller.abort(new Error('stop'));
    await b.done;
    expect(b.terms).toHaveLength(0);
    expect(leaseOf(server)?.holderIdentity).toBe('a');
  });

  test('a stop, or a pause past the deadline, between the acquisition and the term begins no work', async () => {
    const server = fakeApiServer();
    const clock = fakeClock();
    let pauseMs = 0;
    let stop: (() => void) | undefined;
    server.intercept(async (request) => {
      if (request.method === 'GET') return undefined;
      clock.pause(pauseMs);
      const answer = await passing(server, request);
      stop?.();
      return answer;
    });
    pauseMs = 11_000;
    const a = candidate(server.transport, clock, 'a');
    await settle();
    expect(a.terms).toHaveLength(0);
    pauseMs = 0;
    await clock.advance(5000);
    expect(a.terms.map((term) => term.transitions)).toEqual([1]);
    a.controller.abort(new Error('stop'));
    await a.done;
    const b = candidate(server.transport, clock, 'b');
    stop = () => b.controller.abort(new Error('stop'));
    await settle();
    await b.done;
    expect(b.terms).toHaveLength(0);
    expect(leaseOf(server)?.holderIdentity).toBe('');
  });

  test('work that fails ends the election with its error, and frees the Lease', async () => {
    const server = fakeApiServer();
    const a = candidate(server.transport, fakeClock(), 'a', () => Promise.reject(new Error('no disk')));
    await expect(a.done).rejects.toThrow('no disk');
    expect(a.terms[0]?.signal.aborted).toBe(true);
    expect(leaseOf(server)?.holderIdentity).toBe('');
  });

  test('work that is done ends the election', async () => {
    const server = fakeApiServer();
    const a = candidate(server.transport, fakeClock(), 'a', () => Promise.resolve());
    await a.done;
    expect(leaseOf(server)?.holderIdentity).toBe('');
  });

  test.each([
    ['an empty identity', { identity: '' }, 'identity'],
    ['a duration in parts of seconds', { durationMs: 15_500 }, 'whole seconds'],
    ['a deadline beyond the duration', { renewDeadlineMs: 15_000 }, 'must be less than durationMs'],
    ['a retry period as long as the deadline', { retryPeriodMs: 9000 }, 'well below'],
  ])('%s is refused', async (_what, options, message) => {
    const a = candidate(fakeApiServer().transport, fakeClock(), 'a', undefined, options);
    await expect(a.done).rejects.toThrow(message);
  });
});

describe('losing the Lease', () => {
  test('a leader that cannot renew steps down before the Lease expires for others, and leads again in a new term', async () => {
    const server = fakeApiServer();
    const clock = fakeClock();
    const a = candidate(server.transport, clock, 'a');
    await settle();
    const cancel = server.intercept(() => statusResponse(500, 'InternalError'));
    await clock.advance(9000);
    expect(a.leads()).toBe(true);
    await clock.advance(1000);
    expect(a.leads()).toBe(false);
    expect(a.terms[0]?.signal.reason).toMatchObject({ code: 'LeaseLost' });
    cancel();
    await clock.advance(6000);
    expect(a.leads()).toBe(true);
    expect(a.terms.map((term) => term.transitions)).toEqual([0, 1]);
  });

  test('a renewal that hangs delays neither the deadline nor the next attempt', async () => {
    const server = fakeApiServer();
    const clock = fakeClock();
    const a = candidate(server.transport, clock, 'a');
    await settle();
    const cancel = server.intercept(
      (request) => new Promise((_, reject) => request.signal?.addEventListener('abort', () => reject(request.signal?.reason))),
    );
    await clock.advance(3000);
    cancel();
    await clock.advance(20_000);
    expect(a.terms).toHaveLength(1);
    expect(a.leads()).toBe(true);
    server.intercept(
      (request) => new Promise((_, reject) => request.signal?.addEventListener('abort', () => reject(request.signal?.reason))),
    );
    await clock.advance(12_000);
    expect(a.leads()).toBe(false);
  });

  test('a renewal whose answer was lost is no loss of the Lease', async () => {
    const server = fakeApiServer();
    const clock = fakeClock();
    const a = candidate(server.transport, clock, 'a');
    await settle();
    const cancel = server.intercept(async (request) => {
      cancel();
      await server.transport(request);
      throw new Error('read ECONNRESET');
    });
    await clock.advance(30_000);
    expect(a.terms).toHaveLength(1);
    expect(a.leads()).toBe(true);
  });

  test('a stranger that annotates the Lease deposes no leader', async () => {
    const server = fakeApiServer();
    const clock = fakeClock();
    const a = candidate(server.transport, clock, 'a');
    await settle();
    for (const lease of server.objects(Leases))
      server.put(Leases, { ...lease, metadata: { ...lease.metadata, annotations: { note: 'x' } } });
    await clock.advance(30_000);
    expect(a.terms).toHaveLength(1);
    expect(server.objects(Leases)[0]?.metadata.annotations).toEqual({ note: 'x' });
  });

  test('a renewal that lost to an annotation is one once its second write is known', async () => {
    const server = fakeApiServer();
    const clock = fakeClock();
    const a = candidate(server.transport, clock, 'a');
    await settle();
    let writes = 0;
    server.intercept(({ method }) => {
      if (method !== 'PUT') return undefined;
      writes += 1;
      if (writes % 2 === 0) return statusResponse(503, 'ServiceUnavailable', 'later');
      for (const lease of server.objects(Leases))
        server.put(Leases, { ...lease, metadata: { ...lease.metadata, annotations: { note: String(writes) } } });
      return undefined;
    });
    await clock.advance(4000);
    expect(writes).toBeGreaterThanOrEqual(2);
    await clock.advance(20_000);
    expect(a.terms[0]?.signal.aborted).toBe(true);
  });

  test('a Lease that is taken away, or deleted, ends the term at once', async () => {
    const server = fakeApiServer();
    const clock = fakeClock();
    const a = candidate(server.transport, clock, 'a');
    await settle();
    for (const lease of server.objects(Leases))
      server.put(Leases, { ...lease, spec: { ...lease.spec, holderIdentity: 'b', leaseTransitions: 7 } });
    await clock.advance(2000);
    expect(a.leads()).toBe(false);
    await clock.advance(20_000);
    expect(a.terms.map((term) => term.transitions)).toEqual([0, 8]);
    server.remove(Leases, { namespace: 'kubenode', name: 'cell' });
    await clock.advance(2000);
    expect(a.terms[1]?.signal.aborted).toBe(true);
  });

  test('a new term begins only when the work of the old one has ended', async () => {
    const server = fakeApiServer();
    const clock = fakeClock();
    let working = 0;
    let most = 0;
    const a = candidate(server.transport, clock, 'a', async (term) => {
      most = Math.max(most, ++working);
      await untilAborted(term.signal);
      await sleep(clock, 60_000);
      working--;
    });
    await settle();
    const cancel = server.intercept(() => statusResponse(500, 'InternalError'));
    await clock.advance(12_000);
    cancel();
    await clock.advance(40_000);
    expect(a.terms).toHaveLength(1);
    await clock.advance(40_000);
    expect(a.terms).toHaveLength(2);
    expect(most).toBe(1);
  });

  test('a process stopped past the deadline knows when it wakes, before any timer has run', async () => {
    const server = fakeApiServer();
    const clock = fakeClock();
    const a = candidate(server.transport, clock, 'a');
    await settle();
    clock.pause(10_000);
    expect(a.terms[0]?.signal.aborted).toBe(false);
    expect(a.leads()).toBe(false);
  });

  test('a machine that slept knows by the wall clock, where the monotonic one stood still', async () => {
    const server = fakeApiServer();
    const clock = fakeClock();
    const a = candidate(server.transport, clock, 'a');
    await settle();
    clock.jump(3_600_000);
    expect(a.leads()).toBe(false);
  });
});

/** The server's own answer, past its interceptors. */
function passing(server: FakeApiServer, request: ApiRequest): Promise<ApiResponse> {
  const answer = jsonResponse(200, server.put(Leases, Leases.parse(JSON.parse(String(request.body)))));
  return Promise.resolve(answer);
}

describe('two candidates', () => {
  test('the second waits until the record has stood still for its duration by its own clock', async () => {
    const server = fakeApiServer();
    const clock = fakeClock();
    const reached = { a: true };
    const a = candidate((request) => (reached.a ? server.transport(request) : Promise.reject(new Error('cut off'))), clock, 'a');
    await settle();
    const b = candidate(server.transport, skewedClock(clock, 1, 86_400_000), 'b');
    await clock.advance(60_000);
    expect([a.leads(), b.leads()]).toEqual([true, false]);
    reached.a = false;
    await clock.advance(10_500);
    expect([a.leads(), b.leads()]).toEqual([false, false]);
    await clock.advance(10_000);
    expect([a.leads(), b.leads()]).toEqual([false, true]);
    reached.a = true;
    await clock.advance(60_000);
    expect([a.leads(), b.leads()]).toEqual([false, true]);
  });

  test('the whole duration is waited for after the last renewal, not a moment less', async () => {
    const server = fakeApiServer();
    const clock = fakeClock();
    let cut = false;
    candidate((request) => (cut ? Promise.reject(new Error('cut off')) : server.transport(request)), clock, 'a');
    await settle();
    candidate(server.transport, clock, 'b');
    await clock.advance(10_000);
    const renewed = clock.monotonic();
    cut = true;
    while (leaseOf(server)?.holderIdentity === 'a') await clock.advance(100);
    expect(clock.monotonic() - renewed).toBeGreaterThanOrEqual(15_000);
    expect(clock.monotonic() - renewed).toBeLessThan(15_000 + 2 * 4400 + 200);
  });

  test('the deadline counts from the sending of a renewal, not from its slow answer', async () => {
    const server = fakeApiServer();
    const clock = fakeClock();
    const a = candidate(server.transport, clock, 'a');
    await settle();
    let sent = 0;
    server.intercept(async (request) => {
      if (sent > 0) throw new Error('cut off');
      sent = clock.monotonic();
      const answer = await passing(server, request);
      await sleep(clock, 3000);
      return answer;
    });
    await clock.advance(2000);
    await clock.advance(sent + 9900 - clock.monotonic());
    expect(a.leads()).toBe(true);
    await clock.advance(100);
    expect(a.leads()).toBe(false);
  });

  test('both start at once: one leads', async () => {
    const server = fakeApiServer();
    const clock = fakeClock();
    const a = candidate(server.transport, clock, 'a');
    const b = candidate(server.transport, clock, 'b');
    await clock.advance(30_000);
    expect([a.leads(), b.leads()].filter(Boolean)).toHaveLength(1);
  });
});

/** A process that can be stopped: time goes on, but its timers and the answers to it wait. */
function stoppable(clock: FakeClock, transport: Transport): { clock: Clock; transport: Transport; stopped: boolean; wake(): void } {
  const waiting: (() => void)[] = [];
  const process = {
    stopped: false,
    wake() {
      process.stopped = false;
      for (const go of waiting.splice(0)) go();
    },
    clock: {
      now: () => clock.now(),
      monotonic: () => clock.monotonic(),
      setTimer: (ms: number, fn: () => void) => {
        let cancelled = false;
        const run = (): void => (cancelled ? undefined : process.stopped ? void waiting.push(run) : fn());
        const cancel = clock.setTimer(ms, run);
        return () => {
          cancelled = true;
          cancel();
        };
      },
    },
    async transport(request: Parameters<Transport>[0]) {
      const answer = await transport(request);
      if (process.stopped) await new Promise<void>((resolve) => waiting.push(resolve));
      return answer;
    },
  };
  return process;
}

describe('under any schedule of faults', () => {
  test('with clocks that run up to 15 % apart, no two believe that they lead, and one leads in the end', async () => {
    const fault = fc.record({
      who: fc.nat(2),
      what: fc.constantFrom('cut', 'lose', 'slow', 'heal', 'stop', 'wake', 'quit'),
      afterMs: fc.integer({ min: 0, max: 12_000 }),
    });
    const rates = fc.tuple(...[0, 1, 2].map(() => fc.double({ min: 0.93, max: 1.07, noNaN: true })));
    await fc.assert(
      fc.asyncProperty(fc.array(fault, { maxLength: 12 }), rates, async (faults, rates) => {
        const server = fakeApiServer();
        const base = fakeClock();
        const network = rates.map(() => ({ mode: 'heal' as (typeof faults)[number]['what'] }));
        const processes = rates.map((rate, i) => {
          const skewed = skewedClock(base, rate, i * 3_600_000);
          return stoppable({ ...base, ...skewed }, async (request) => {
            const { mode } = network[i] ?? { mode: 'heal' };
            if (mode === 'cut') throw new Error('cut off');
            if (mode === 'slow') await sleep(base, 1500);
            const answer = await server.transport(request);
            if (mode === 'lose') throw new Error('answer lost');
            if (mode === 'slow') await sleep(base, 1500);
            return answer;
          });
        });
        const candidates = processes.map((process, i) => candidate(process.transport, process.clock, 'abc'[i] ?? '?'));

        async function pass(ms: number): Promise<void> {
          for (let left = ms; left > 0; left -= 500) {
            await base.advance(Math.min(left, 500));
            expect(candidates.filter((one) => one.leads()).length).toBeLessThanOrEqual(1);
            // The signal of a process that is not stopped is aborted, too.
            const notEnded = candidates.filter((one, i) => one.terms.at(-1)?.signal.aborted === false && processes[i]?.stopped === false);
            expect(notEnded.length).toBeLessThanOrEqual(1);
          }
        }

        for (const { who, what, afterMs } of faults) {
          const process = processes[who];
          if (process !== undefined && what === 'stop') process.stopped = true;
          else if (what === 'wake') process?.wake();
          else if (what === 'quit') candidates[who]?.controller.abort(new Error('quit'));
          else network[who] = { mode: what };
          await pass(afterMs);
        }
        network.forEach((one) => (one.mode = 'heal'));
        processes.forEach((process) => process.wake());
        await pass(45_000);
        const left = candidates.filter((one) => !one.controller.signal.aborted);
        expect(candidates.filter((one) => one.leads())).toHaveLength(left.length === 0 ? 0 : 1);
        const transitions = candidates.flatMap((one) => one.terms.map((term) => term.transitions));
        expect(new Set(transitions).size).toBe(transitions.length);
        candidates.forEach((one) => one.controller.abort(new Error('done')));
        await base.advance(5000);
        await Promise.all(candidates.map((one) => one.done));
        expect(base.timers).toBe(0);
      }),
      { numRuns: 80, endOnFailure: true },
    );
  }, 60_000);
});

test('a term asks the server whether the Lease is still its own: its holder and its number both count', async () => {
  const server = fakeApiServer();
  const clock = fakeClock();
  const a = candidate(server.transport, clock, 'a');
  await settle();
  const [term] = a.terms;
  const [lease] = server.objects(Leases);
  if (term === undefined || lease === undefined) throw new Error('no process leads');
  expect(await term.isOurs()).toBe(true);
  for (const [spec, expected] of [
    [{ holderIdentity: 'b' }, false],
    [{ leaseTransitions: term.transitions + 1 }, false],
    [{}, true],
  ] as const) {
    server.put(Leases, { ...lease, spec: { ...lease.spec, ...spec } });
    expect(await term.isOurs()).toBe(expected);
  }
  server.remove(Leases, { namespace: 'kubenode', name: 'cell' });
  expect(await term.isOurs()).toBe(false);
});
