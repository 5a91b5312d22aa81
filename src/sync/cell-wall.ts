/**
 * What stands between a cell and all others. A cell is not trusted with other cells, nor with the hub (docs/security.md): all that is read of its
 * content, and every request to it, goes through its wall. What throws there, what is too large or too much and what takes too long makes this one cell
 * away for a while, with the reason, and nothing else (docs/protocols.md#e16).
 */
import { CodedError, isCoded, messageOf } from '../api/errors.ts';
import { plainText } from '../api/plain-text.ts';
import type { Clock, Log, Random } from '../api/ports.ts';
import { halfJitterMs } from '../kube/backoff.ts';
import type { Client } from '../kube/client.ts';
import { sleep } from '../kube/clock.ts';

/** Why nothing is done in a cell, nor believed of it. */
export interface Away {
  /** Of the condition and Event: `Unreachable`, `KindsNewer`, `CredentialsExpired` … */
  reason: string;
  message: string;
}

export interface CellWall {
  /** It failed a moment ago, and is left alone. */
  away(): Away | undefined;
  /** A request failed before, and none of its kind was answered since: that it is well is not known yet. */
  isOnTrial(): boolean;
  /** What is decided from the content of the cell; undefined where that cannot be done. */
  read<T>(decide: () => T): T | undefined;
  /** The same client: requests that hang, or bring too much, end this cell's turn, and none begins until the next. */
  guarded(client: Client): Client;
  /** The same client, for the stores of its content: what sends more than is to be believed ends this cell's turn, and nothing is listed or watched until the next. */
  metered(client: Client): Client;
  /** Something of its content changed: `onChange` is called at once, or, where that comes all the time, now and then. */
  changed(): void;
}

const RETRY = { baseMs: 5000, maxMs: 60_000 };
/** A failure that comes this long after the cell was tried again is a first one. */
const FORGOTTEN_MS = 120_000;
/** Of requests: those that say that the server does not behave, and not that it is not reached. */
const MISBEHAVES = ['RequestTimeout', 'AnswerTooLarge'];

const MIB = 1024 ** 2;
/**
 * What all lists and watches of one cell may bring. `atOnce`: as much as its four stores may hold together (32 Mi characters each), so that no cell is cut
 * for what it has. `aSecond`, after that: the hub watches sets, rules and policies, and no machines. A leader of a cell writes at most eight sets at the same
 * time, each after it read all machines of the set, and an object of 4 kB or less: where 10,000 machines restart, that are some hundred events a second. Even
 * if each of the 10,000 led to four events at once, these were 40,000 events, or 200 MB, in the minutes that machines need to restart.
 */
const BUDGET = { atOnce: 128 * MIB, aSecond: 4 * MIB };
/** What one event, or one page, costs beside its characters. */
const EACH = 1024;
/** Of changes that are passed on: so many at once, and one each so many ms after that. */
const NEWS = { atOnce: 20, everyMs: 500 };

export interface CellWallOptions {
  clock: Clock;
  random: Random;
  log: Log;
  /** It is away from now on. */
  onFailure: () => void;
  onChange: () => void;
}

export function createCellWall(name: string, { clock, random, log, onFailure, onChange }: CellWallOptions): CellWall {
  /** `verb`: of the request that failed, until one like it is answered. */
  let failure: { count: number; notBefore: number; away: Away; verb: keyof Client | undefined } | undefined;

  const characters = createBudget(clock, BUDGET);
  const news = createBudget(clock, { atOnce: NEWS.atOnce, aSecond: 1000 / NEWS.everyMs });
  /** A change is kept back. */
  let kept = false;

  const away = (): Away | undefined => (failure !== undefined && clock.monotonic() < failure.notBefore ? failure.away : undefined);

  function fail(error: unknown, code: string, verb?: keyof Client): void {
    // What was under way at the same time is of the same turn.
    if (away() !== undefined) return;
    const now = clock.monotonic();
    const count = failure !== undefined && now - failure.notBefore < FORGOTTEN_MS ? failure.count + 1 : 1;
    const found = awayOf(error, code);
    const retryInMs = halfJitterMs(RETRY, count, random);
    failure = { count, notBefore: now + retryInMs, away: found, verb };
    log.warn({ cluster: name, reason: found.reason, error: found.message, failures: count, retryInMs }, 'a cell is left alone for a while');
    onFailure();
  }

  function received(verb: 'list' | 'watch', length: number): void {
    if (characters.take(length + EACH)) return;
    const [atOnce, aSecond] = [BUDGET.atOnce / MIB, BUDGET.aSecond / MIB];
    const error = new CodedError(
      'SendsTooMuch',
      `it sent more than ${atOnce} MiB, and ${aSecond} MiB more each second, of what the hub watches there`,
    );
    fail(error, error.code, verb);
    throw error;
  }

  /** Until it is tried again. */
  async function itsTurn(signal: AbortSignal | undefined): Promise<void> {
    if (failure === undefined || failure.away.reason !== 'SendsTooMuch' || away() === undefined) return;
    await sleep(clock, failure.notBefore - clock.monotonic(), signal);
  }

  async function guard<T>(verb: keyof Client, request: () => Promise<T>): Promise<T> {
    const before = away();
    if (before !== undefined) throw new CodedError(before.reason, before.message);
    try {
      const answer = await request();
      if (failure?.verb === verb && away() === undefined) failure.verb = undefined;
      return answer;
    } catch (error) {
      if (isCoded(error, ...MISBEHAVES)) fail(error, error.code, verb);
      throw error;
    }
  }

  return {
    away,
    isOnTrial: () => failure?.verb !== undefined && away() === undefined && clock.monotonic() - failure.notBefore < FORGOTTEN_MS,
    read(decide) {
      if (away() !== undefined) return undefined;
      try {
        return decide();
      } catch (error) {
        fail(error, 'ContentInvalid');
        return undefined;
      }
    },
    guarded: (client) => ({
      get: (resource, key, options) => guard('get', () => client.get(resource, key, options)),
      find: (resource, key, options) => guard('find', () => client.find(resource, key, options)),
      list: (resource, options) => guard('list', () => client.list(resource, options)),
      listAll: (resource, options) => guard('listAll', () => client.listAll(resource, options)),
      // Stores alone watch, by `metered`.
      watch: (resource, options) => client.watch(resource, options),
      create: (resource, object, options) => guard('create', () => client.create(resource, object, options)),
      update: (resource, object, options) => guard('update', () => client.update(resource, object, options)),
      patch: (resource, key, patch, options) => guard('patch', () => client.patch(resource, key, patch, options)),
      apply: (resource, object, options) => guard('apply', () => client.apply(resource, object, options)),
      delete: (resource, key, options) => guard('delete', () => client.delete(resource, key, options)),
      post: (path, body, options) => guard('post', () => client.post(path, body, options)),
      request: (request) => guard('request', () => client.request(request)),
    }),
    // Reflectors have deadlines and a backoff of their own.
    metered: (client) => ({
      ...client,
      async list(resource, options) {
        await itsTurn(options?.signal);
        return await client.list(resource, { ...options, onReceived: (length) => received('list', length) });
      },
      async *watch(resource, options) {
        await itsTurn(options?.signal);
        yield* client.watch(resource, { ...options, onReceived: (length) => received('watch', length) });
      },
    }),
    changed() {
      if (kept) return;
      if (news.take(1)) return onChange();
      kept = true;
      clock.setTimer(NEWS.everyMs, () => {
        kept = false;
        news.take(1);
        onChange();
      });
    },
  };
}

/** So much at once, and so much a second after that. What is refused takes nothing. */
function createBudget(clock: Pick<Clock, 'monotonic'>, { atOnce, aSecond }: { atOnce: number; aSecond: number }) {
  let left = atOnce;
  let at = clock.monotonic();
  return {
    take(amount: number): boolean {
      const now = clock.monotonic();
      left = Math.min(atOnce, left + ((now - at) / 1000) * aSecond);
      at = now;
      if (amount > left) return false;
      left -= amount;
      return true;
    },
  };
}

/** As the schema of conditions has it. */
const REASON = /^[A-Za-z]([A-Za-z0-9_,:]{0,254}[A-Za-z0-9_])?$/;
const LONGEST = 4096;

/** A server may say any reason, and any message. */
export function awayOf(error: unknown, code = 'Unreachable'): Away {
  return plainAway({ reason: isCoded(error) ? error.code : code, message: messageOf(error) });
}

export function plainAway({ reason, message }: Away): Away {
  // oxlint-disable-next-line kubenode/no-sentence-decisions -- nothing is decided: a form that no condition may have is not passed on
  return { reason: REASON.test(reason) ? reason : 'Unreachable', message: plainText(message, LONGEST) };
}
