import { beforeEach, describe, expect, test } from 'vitest';
import { ConfigMaps, Nodes } from '../../api/builtin.ts';
import type { ApiResponse } from '../../api/transport.ts';
import { CodedError, isCoded } from '../../api/errors.ts';
import type { Client } from '../../kube/client.ts';
import { createClient } from '../../kube/http-client.ts';
import { fakeApiServer, statusResponse } from '../../kube/testing/api-server.ts';
import { fakeClock, type FakeClock } from '../../kube/testing/clock.ts';
import { recordingLog } from '../../kube/testing/log.ts';
import { configMap, node } from '../../kube/testing/objects.ts';
import { awayOf, plainAway } from './away.ts';
import { createCellWall, type CellWall } from './wall.ts';

let clock: FakeClock;
let wall: CellWall;
let failures: number;

beforeEach(() => {
  clock = fakeClock();
  failures = 0;
  wall = createCellWall('prod', {
    clock,
    random: () => 1,
    log: recordingLog(),
    onFailure: () => void failures++,
    onChange: () => undefined,
  });
});

function thrown(): never {
  throw new RangeError('Invalid time value');
}

describe('E16: what is read of a cell', () => {
  test('that throws makes it away, with the reason in plain and few words, until it is tried again', async () => {
    expect(wall.read(() => 7)).toBe(7);
    expect(wall.read(thrown)).toBeUndefined();
    expect(wall.away()).toEqual({ reason: 'ContentInvalid', message: 'Invalid time value' });
    expect([wall.read(() => 7), wall.isOnTrial(), failures]).toEqual([undefined, false, 1]);
    await clock.advance(5000);
    expect([wall.away(), wall.isOnTrial(), wall.read(() => 7)]).toEqual([undefined, false, 7]);
  });

  test('again and again is tried ever more rarely, and what is long ago counts no more', async () => {
    const waits: number[] = [];
    for (let time = 0; time < 6; time++) {
      wall.read(thrown);
      let waited = 0;
      for (; wall.away() !== undefined; waited += 1000) await clock.advance(1000);
      waits.push(waited);
    }
    expect(waits).toEqual([5000, 10_000, 20_000, 40_000, 60_000, 60_000]);
    await clock.advance(121_000);
    wall.read(thrown);
    await clock.advance(5000);
    expect(wall.away()).toBeUndefined();
  });

  test('is cut and made plain, also the reason', () => {
    expect(plainAway({ reason: 'no reason!', message: `a\u001b[2J${'x'.repeat(1e6)}` })).toEqual({
      reason: 'Unreachable',
      message: expect.stringMatching(/^a\\u001b\[2Jx+…$/) as string,
    });
    expect(awayOf('text').message).toBe('text');
    expect(plainAway({ reason: 'x'.repeat(1e6), message: '' }).reason).toBe('Unreachable');
  });
});

describe('E16: requests to a cell', () => {
  test('that hang end its turn: no other begins until the next, and watches go on', async () => {
    const server = fakeApiServer();
    server.put(Nodes, node('a'));
    let hangs = true;
    server.intercept(({ method, signal }) => {
      if (!hangs || method !== 'PATCH') return undefined;
      return new Promise<ApiResponse>((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason as Error)));
    });
    const limits = { answerMs: 30_000 };
    const client = wall.guarded(createClient(server.transport, { limits, clock }));
    const patched = [1, 2].map(() => client.patch(Nodes, { name: 'a' }, { merge: {} }).catch((error: unknown) => error));
    await clock.advance(30_000);
    expect(await Promise.all(patched)).toMatchObject([{ code: 'RequestTimeout' }, { code: 'RequestTimeout' }]);
    expect([wall.away()?.reason, failures]).toEqual(['RequestTimeout', 1]);
    const before = server.requests.length;
    await expect(client.get(Nodes, { name: 'a' })).rejects.toMatchObject({ code: 'RequestTimeout' });
    expect(server.requests).toHaveLength(before);
    hangs = false;
    await clock.advance(5000);
    expect((await client.get(Nodes, { name: 'a' })).metadata.name).toBe('a');
    // What hung was no read.
    expect([wall.away(), wall.isOnTrial()]).toEqual([undefined, true]);
    await client.patch(Nodes, { name: 'a' }, { merge: {} });
    expect(wall.isOnTrial()).toBe(false);
  });

  test('that hung, and of which none is made any more, are forgotten after a while', async () => {
    const hung = (): Promise<never> => Promise.reject(new CodedError('RequestTimeout', 'late'));
    const client = wall.guarded(createClient(hung));
    await expect(client.get(Nodes, { name: 'a' })).rejects.toThrow('late');
    await clock.advance(5000);
    expect(wall.isOnTrial()).toBe(true);
    await clock.advance(120_000);
    expect(wall.isOnTrial()).toBe(false);
  });

  test('that are answered too much do the same; what it refuses, or a connection that fails, does not', async () => {
    const server = fakeApiServer();
    server.put(ConfigMaps, { ...configMap('web', 'a'), data: { big: 'x'.repeat(5000) } });
    server.intercept(({ path }) => (path.endsWith('/nodes/a') ? statusResponse(403, 'Forbidden') : undefined));
    const client = wall.guarded(createClient(server.transport, { limits: { objectBytes: 4000 } }));
    await expect(client.get(Nodes, { name: 'a' })).rejects.toMatchObject({ code: 'Forbidden' });
    await expect(client.get(Nodes, { name: 'b' })).rejects.toMatchObject({ code: 'NotFound' });
    expect(wall.away()).toBeUndefined();
    await expect(client.get(ConfigMaps, { namespace: 'web', name: 'a' })).rejects.toMatchObject({ code: 'AnswerTooLarge' });
    expect(wall.away()?.reason).toBe('AnswerTooLarge');
  });
});

describe('E16: what a cell sends', () => {
  /** Lists and watches that bring what they are given. */
  const bringing = (lengths: () => AsyncIterable<number>): Client => ({
    ...createClient(fakeApiServer().transport),
    list(_resource, options) {
      options?.onReceived?.(64 * 1024 ** 2);
      return Promise.reject(new Error('empty'));
    },
    // oxlint-disable-next-line eslint/require-yield -- what is counted are lengths
    async *watch(_resource, options) {
      for await (const length of lengths()) options?.onReceived?.(length);
    },
  });
  const takeAll = async (client: Client): Promise<string> => {
    try {
      for await (const event of client.watch(Nodes)) void event;
      return 'ended';
    } catch (error) {
      return isCoded(error) ? error.code : String(error);
    }
  };

  test('where 10,000 machines restart within 20 s, each with four events of 4 kB, is believed', async () => {
    const honest = bringing(async function* () {
      for (let second = 0; second < 20; second += 1) {
        for (let event = 0; event < 2000; event += 1) yield 4000;
        await clock.advance(1000);
      }
    });
    expect([await takeAll(wall.metered(honest)), wall.away()]).toEqual(['ended', undefined]);
  });

  test('without end, and be it little each, ends its turn; all stores of the cell count together, and lists too', async () => {
    let events = 0;
    const endless = bringing(async function* () {
      for (; events < 1e6; events += 1) yield await Promise.resolve(100);
    });
    const metered = wall.metered(endless);
    // Half of what it may send at once.
    await expect(metered.list(Nodes)).rejects.toThrow('empty');
    expect(await takeAll(metered)).toBe('SendsTooMuch');
    expect([wall.away()?.reason, wall.isOnTrial(), failures]).toEqual(['SendsTooMuch', false, 1]);
    expect(events).toBeLessThan(64 * 1024);
  });

  test('is not asked for while it is left alone, and the wait ends with its request', async () => {
    let asked = 0;
    const much = bringing(async function* () {
      asked += 1;
      yield await Promise.resolve(200 * 1024 ** 2);
    });
    const metered = wall.metered(much);
    expect([await takeAll(metered), asked]).toEqual(['SendsTooMuch', 1]);
    const stopped = new AbortController();
    const listed = metered.list(Nodes, { signal: stopped.signal });
    const again = takeAll(metered);
    await clock.advance(4900);
    expect(asked).toBe(1);
    stopped.abort(new Error('the store ends'));
    await expect(listed).rejects.toThrow('the store ends');
    await clock.advance(200);
    expect([await again, asked]).toEqual(['SendsTooMuch', 2]);
  });
});

describe('E16: changes in a cell', () => {
  test('are passed on at once, and one each half second where they come all the time; the last is never lost', async () => {
    let passed = 0;
    const paced = createCellWall('prod', {
      clock,
      random: () => 1,
      log: recordingLog(),
      onFailure: () => undefined,
      onChange: () => void (passed += 1),
    });
    for (let change = 0; change < 20; change++) paced.changed();
    expect(passed).toBe(20);
    for (let change = 0; change < 100; change++) paced.changed();
    expect([passed, clock.timers]).toEqual([20, 1]);
    await clock.advance(499);
    expect(passed).toBe(20);
    await clock.advance(1);
    expect([passed, clock.timers]).toEqual([21, 0]);
    // What was passed on late is taken from what may come at once.
    paced.changed();
    expect([passed, clock.timers]).toEqual([21, 1]);
    await clock.advance(10_000);
    expect(passed).toBe(22);
    for (let change = 0; change < 21; change++) paced.changed();
    expect([passed, clock.timers]).toEqual([41, 1]);
  });
});
