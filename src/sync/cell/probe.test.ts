import { beforeEach, describe, expect, test } from 'vitest';
import { ApiError } from '../../kube/api-error.ts';
import type { Client } from '../../kube/client.ts';
import { fakeClock, type FakeClock } from '../../kube/testing/clock.ts';
import { settle } from '../../kube/testing/wait-for.ts';
import { CONNECTING } from './away.ts';
import { WRITTEN } from './kinds.ts';
import { CellProbe } from './probe.ts';

let clock: FakeClock;
let probe: CellProbe;
let ended: AbortController;
let changes: number;
let probes: number;
/** What the cell answers. */
let cell: { uid: string; plurals: string[]; fails?: Error | undefined; hangs?: boolean };

beforeEach(() => {
  clock = fakeClock();
  ended = new AbortController();
  changes = 0;
  probes = 0;
  cell = { uid: 'u1', plurals: WRITTEN.map(({ plural }) => plural) };
  const client = {
    async get(_resource: unknown, _key: unknown, { signal }: { signal: AbortSignal }) {
      probes += 1;
      if (cell.hangs === true)
        await new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)));
      if (cell.fails !== undefined) throw cell.fails;
      return { metadata: { uid: cell.uid } };
    },
    request: () => Promise.resolve({ resources: cell.plurals.map((name) => ({ name })) }),
  } as unknown as Client;
  probe = new CellProbe({ client, clock, signal: ended.signal, onChange: () => void (changes += 1) });
});

describe('a probe of a cell', () => {
  test('learns which cluster it is and that it has all kinds, and reports it once', async () => {
    expect([probe.uid, probe.unidentified.reason]).toEqual([undefined, CONNECTING]);
    await probe.run();
    expect([probe.uid, probe.kinds, changes]).toEqual(['u1', undefined, 1]);
    await probe.run();
    expect([changes, probes]).toEqual([1, 2]);
  });

  test('reports that another cluster answers, or that its kinds are others now', async () => {
    await probe.run();
    cell.uid = 'u2';
    await probe.run();
    expect([probe.uid, changes]).toEqual(['u2', 2]);
    cell.plurals = cell.plurals.slice(1);
    await probe.run();
    expect([probe.kinds?.reason, changes]).toEqual(['KindsAbsent', 3]);
    await probe.run();
    expect(changes).toBe(3);
  });

  test('takes no UID that a Cluster cannot hold', async () => {
    cell.uid = 'u'.repeat(128);
    await probe.run();
    expect(probe.uid).toBe(cell.uid);
    cell.uid = 'u'.repeat(129);
    await expect(probe.run()).rejects.toMatchObject({ code: 'InvalidObject' });
    expect(probe.uid).toBe('u'.repeat(128));
  });

  test('is one at a time', async () => {
    await Promise.all([probe.run(), probe.run()]);
    expect(probes).toBe(1);
  });

  test('ends after five seconds', async () => {
    cell.hangs = true;
    const found = probe.run().catch((error: unknown) => error);
    await clock.advance(4999);
    await settle();
    cell.hangs = false;
    expect(probe.uid).toBeUndefined();
    await clock.advance(1);
    expect(await found).toMatchObject({ code: 'Unreachable', message: expect.stringContaining('within 5 s') as string });
    expect(clock.timers).toBe(0);
  });
});

describe('a probe in the background', () => {
  const refused = new ApiError(403, { reason: 'Forbidden', message: 'no right to see it' });

  test('is repeated every five seconds until it is known which cluster this is, and reports each time why it is not', async () => {
    cell.fails = refused;
    await probe.runInBackground();
    expect([probes, changes, probe.unidentified]).toEqual([
      1,
      1,
      { reason: 'Forbidden', message: expect.stringContaining('no right') as string },
    ]);
    await clock.advance(4999);
    expect(probes).toBe(1);
    await clock.advance(1);
    expect([probes, changes]).toEqual([2, 2]);
    cell.fails = undefined;
    await clock.advance(5000);
    expect([probes, probe.uid]).toEqual([3, 'u1']);
    await clock.advance(60_000);
    expect([probes, clock.timers]).toEqual([3, 0]);
  });

  test('that fails once that is known changes nothing', async () => {
    await probe.run();
    cell.fails = refused;
    await probe.runInBackground();
    expect([probe.uid, changes, clock.timers]).toEqual(['u1', 1, 0]);
  });

  test('that is ended reports nothing and is not repeated', async () => {
    cell.fails = refused;
    const running = probe.runInBackground();
    ended.abort(new Error('the hub ends'));
    await running;
    expect([changes, clock.timers]).toEqual([0, 0]);
  });

  test('is soon: at once, or five seconds after the last one, and but once', async () => {
    probe.runSoon();
    await settle();
    expect([probes, probe.uid]).toEqual([1, 'u1']);
    await clock.advance(1000);
    probe.runSoon();
    probe.runSoon();
    await clock.advance(3999);
    expect(probes).toBe(1);
    await clock.advance(1);
    expect(probes).toBe(2);
    await clock.advance(60_000);
    expect(probes).toBe(2);
    probe.runSoon();
    await settle();
    expect(probes).toBe(3);
  });

  test('is not begun after it was stopped', async () => {
    await probe.run();
    probe.runSoon();
    expect(clock.timers).toBe(1);
    probe.stop();
    await clock.advance(60_000);
    expect([probes, clock.timers]).toEqual([1, 0]);
  });
});
