/** Leader election while the way to the server stalls, loses answers and delivers late, and while wall clocks step. */
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test, vi, type TestContext } from 'vitest';
import type { Clock } from '../../src/api/ports.ts';
import { ConfigMaps, Leases, Namespaces } from '../../src/api/builtin.ts';
import type { Client } from '../../src/kube/client.ts';
import { systemClock } from '../../src/kube/clock.ts';
import type { ClosableTransport } from '../../src/kube/connect.ts';
import { createClient } from '../../src/kube/http-client.ts';
import { httpTransport } from '../../src/kube/http-transport.ts';
import { runLeaderElection, type Term } from '../../src/kube/lease.ts';
import { seededRandom } from '../../src/kube/testing/clock.ts';
import { recordingLog } from '../../src/kube/testing/log.ts';
import { configMap } from '../../src/kube/testing/objects.ts';
import { waitFor } from '../../src/kube/testing/wait-for.ts';
import { isWrite, startProxy, type Fault, type FaultProxy } from './proxy.ts';
import { KINDS, report, type BrokenServer } from './servers.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 180_000 });

const LATE = { deadlineMs: 30_000 };
const real = systemClock({ ref: true });
const QUICK = { durationMs: 1000, renewDeadlineMs: 600, retryPeriodMs: 100 };

/** The machine's clock, whose wall time can be set. */
function steppedClock(): Clock & { step(ms: number): void } {
  let offset = 0;
  return {
    now: () => real.now() + offset,
    monotonic: () => real.monotonic(),
    setTimer: (ms, fn) => real.setTimer(ms, fn),
    step(ms) {
      offset += ms;
    },
  };
}

describe.each(KINDS)('$name', ({ name: serverName, open }) => {
  let server: BrokenServer;
  let direct: ClosableTransport;
  let client: Client;
  const namespace = 'leases';

  beforeAll(async () => {
    server = await open();
    direct = httpTransport(server.connection);
    client = createClient(direct, { fieldManager: 'a-human' });
    await client.create(Namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } });
  });
  afterAll(async () => {
    await direct.close();
    await server.close();
  });

  interface Candidate {
    identity: string;
    proxy: FaultProxy;
    client: Client;
    clock: ReturnType<typeof steppedClock>;
    stop: AbortController;
  }

  async function candidate(identity: string, { onTestFinished }: TestContext): Promise<Candidate> {
    const proxy = await startProxy(server.connection);
    const transport = httpTransport(proxy.connection, { idleTimeoutMs: 2000 });
    const stop = new AbortController();
    onTestFinished(async () => {
      stop.abort(new Error('the test is over'));
      await transport.close();
      await proxy.close();
    });
    return { identity, proxy, client: createClient(transport, { fieldManager: identity }), clock: steppedClock(), stop };
  }

  function stand(
    { identity, client, clock, stop }: Candidate,
    name: string,
    lead: (term: Term) => Promise<void>,
    times = QUICK,
  ): Promise<void> {
    const ports = { client, clock, random: seededRandom(identity.length), log: recordingLog(), signal: stop.signal };
    return runLeaderElection({ ...ports, ...times, namespace, name, identity }, lead);
  }

  test.concurrent('two candidates never believe to lead at once, and no deed of an older term follows one of a newer', async (context) => {
    const seed = 42;
    const random = seededRandom(seed);
    const candidates = await Promise.all(['a', 'bb'].map((identity) => candidate(identity, context)));
    const deed = { namespace, name: 'deed' };
    await client.create(ConfigMaps, configMap(namespace, 'deed', { term: '-1', by: '', n: '0' }));
    const history: { term: number; by: string; n: number }[] = [];
    const watching = new AbortController();
    context.onTestFinished(() => watching.abort(new Error('the test is over')));
    const { metadata } = await client.list(ConfigMaps, { namespace });
    const truth = (async () => {
      const from = { namespace, resourceVersion: metadata.resourceVersion, signal: watching.signal };
      for await (const { type, object } of client.watch(ConfigMaps, from)) {
        if (type === 'BOOKMARK' || object.metadata.name !== 'deed') continue;
        const { term, by = '', n } = object.data ?? {};
        history.push({ term: Number(term), by, n: Number(n) });
      }
    })().catch(() => undefined);

    const terms = new Map<string, Term>();
    const together: string[] = [];
    let acts = 0;
    const lead = (of: Candidate) => async (term: Term) => {
      terms.set(of.identity, term);
      while (term.isValid()) {
        const believers = [...terms].filter(([, each]) => each.isValid()).map(([identity]) => identity);
        if (believers.length > 1) together.push(believers.join(' and '));
        try {
          const current = await of.client.get(ConfigMaps, deed, { signal: term.signal });
          // A later leader has acted: what we could still do is over.
          if (Number(current.data?.['term']) > term.transitions) break;
          acts++;
          const data = { term: String(term.transitions), by: of.identity, n: String(Number(current.data?.['n']) + 1) };
          // Not with the term's signal: a deed under way when the term ends is the danger.
          await of.client.update(ConfigMaps, { ...current, data });
        } catch {
          // Conditioned on the version that was read: to read again is safe with any outcome.
        }
        await delay(15);
      }
      terms.delete(of.identity);
    };
    const standing = candidates.map((of) => stand(of, 'cell', lead(of)));
    await waitFor(() => history.length > 0, LATE);

    const isLease = (path: string): boolean => path.includes('/leases');
    const orders: Fault[] = [
      { type: 'swallow' },
      { type: 'mute' },
      { type: 'belated', ms: 700 },
      { type: 'belated', ms: 1500 },
      { type: 'answer', status: 429 },
      { type: 'answer', status: 500 },
      { type: 'reset' },
      { type: 'delay', ms: 500 },
    ];
    process.stdout.write(`  ${serverName}: leader election under faults: seed ${seed}\n`);
    // Once for longer than a Lease lasts, for any number that is drawn.
    const first = candidates.find(({ identity }) => terms.get(identity)?.isValid() === true) ?? candidates[0];
    first?.proxy.accept('hang');
    first?.proxy.stallAll();
    await waitFor(() => history.some(({ by }) => by !== first?.identity), LATE);
    first?.proxy.accept('all');
    first?.proxy.resetAll();
    const until = performance.now() + 5500;
    while (performance.now() < until) {
      // Mostly the one that leads.
      const leader = candidates.find(({ identity }) => terms.get(identity)?.isValid() === true);
      const hit = (random() < 0.8 ? leader : undefined) ?? candidates[Math.floor(random() * 2)];
      if (hit === undefined) throw new Error('there are two candidates');
      const dice = random();
      if (dice < 0.3) {
        hit.proxy.stallAll();
        hit.proxy.accept('hang');
        await delay(random() * 1300);
        hit.proxy.accept('all');
        hit.proxy.resetAll();
      } else if (dice < 0.75) {
        const fault = orders[Math.floor(random() * orders.length)] ?? { type: 'reset' };
        const onLease = random() < 0.6;
        hit.proxy.next((request) => isWrite(request) && isLease(request.path) === onLease, fault, 1 + Math.floor(random() * 4));
      } else {
        hit.clock.step((random() - 0.5) * 7_200_000);
      }
      await delay(random() * 350);
    }
    for (const { proxy } of candidates) {
      proxy.clear();
      proxy.accept('all');
      proxy.resetAll();
    }
    const since = performance.now();
    const healed = history.length;
    await waitFor(() => history.length > healed + 3, LATE);
    report(serverName, 'after all was healed, until a leader acted again', performance.now() - since);
    for (const { stop } of candidates) stop.abort(new Error('stop'));
    await Promise.all(standing);
    await waitFor(async () => (await client.get(ConfigMaps, deed)).data?.['n'] === String(history.at(-1)?.n), LATE);
    watching.abort(new Error('stop'));
    await truth;

    expect(together).toEqual([]);
    expect(history.map(({ n }) => n)).toEqual(history.map((_, i) => i + 1));
    const seen = history.map(({ term }) => term);
    expect(seen).toEqual(seen.toSorted((a, b) => a - b));
    const actors = new Map<number, Set<string>>();
    for (const { term, by } of history) actors.set(term, (actors.get(term) ?? new Set()).add(by));
    expect([...actors].filter(([, by]) => by.size !== 1)).toEqual([]);
    // Else the faults would have broken nothing.
    expect(actors.size).toBeGreaterThan(2);
    // An expired Lease was taken over, too.
    expect(new Set(history.map(({ by }) => by)).size).toBe(2);
    expect(acts).toBeGreaterThan(history.length - 1);
    process.stdout.write(`  ${serverName}: ${actors.size} terms, ${history.length} deeds of ${acts} that were tried\n`);
  });

  test.concurrent('with the usual times, a handshake that hangs for a moment does not cost a leader its Lease', async (context) => {
    const of = await candidate('usual', context);
    const terms: Term[] = [];
    const done = stand(
      of,
      'usual',
      async (term) => {
        terms.push(term);
        await new Promise<void>((resolve) => term.signal.addEventListener('abort', () => resolve(), { once: true }));
      },
      { durationMs: 15_000, renewDeadlineMs: 10_000, retryPeriodMs: 2000 },
    );
    await waitFor(() => terms.length === 1, LATE);
    const renewals = (): number => of.proxy.seen.filter((request) => request.method === 'PUT' && request.status === 200).length;
    of.proxy.accept('hang');
    of.proxy.resetAll();
    const before = renewals();
    // The next renewal runs into it.
    await delay(2500);
    of.proxy.accept('all');
    const since = performance.now();
    await waitFor(() => renewals() > before || terms[0]?.isValid() === false, LATE);
    report(serverName, 'a handshake that hung, until the Lease was renewed', performance.now() - since);
    expect(terms[0]?.isValid()).toBe(true);
    expect(terms).toHaveLength(1);
    of.stop.abort(new Error('stop'));
    await done;
    expect((await client.get(Leases, { namespace, name: 'usual' })).spec?.holderIdentity).toBe('');
  });
});
