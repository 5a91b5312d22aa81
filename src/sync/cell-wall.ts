/**
 * What stands between a cell and all others. A cell is not trusted with other cells, nor with the hub (docs/security.md): all that is read of its
 * content, and every request to it, goes through its wall. What throws there, what is too large and what takes too long makes this one cell away for
 * a while, with the reason, and nothing else (docs/protocols.md#e16).
 */
import { CodedError, isCoded, messageOf } from '../api/errors.ts';
import { plainText } from '../api/plain-text.ts';
import type { Clock, Log, Random } from '../api/ports.ts';
import { halfJitterMs } from '../kube/backoff.ts';
import type { Client } from '../kube/client.ts';

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
}

const RETRY = { baseMs: 5000, maxMs: 60_000 };
/** A failure that comes this long after the cell was tried again is a first one. */
const FORGOTTEN_MS = 120_000;
/** Of requests: those that say that the server does not behave, and not that it is not reached. */
const MISBEHAVES = ['RequestTimeout', 'AnswerTooLarge'];

export interface CellWallOptions {
  clock: Pick<Clock, 'monotonic'>;
  random: Random;
  log: Log;
  /** It is away from now on. */
  onFailure: () => void;
}

export function createCellWall(name: string, { clock, random, log, onFailure }: CellWallOptions): CellWall {
  /** `verb`: of the request that failed, until one like it is answered. */
  let failure: { count: number; notBefore: number; away: Away; verb: keyof Client | undefined } | undefined;

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
      // Reflectors alone watch; they have deadlines and a backoff of their own.
      watch: (resource, options) => client.watch(resource, options),
      create: (resource, object, options) => guard('create', () => client.create(resource, object, options)),
      update: (resource, object, options) => guard('update', () => client.update(resource, object, options)),
      patch: (resource, key, patch, options) => guard('patch', () => client.patch(resource, key, patch, options)),
      apply: (resource, object, options) => guard('apply', () => client.apply(resource, object, options)),
      delete: (resource, key, options) => guard('delete', () => client.delete(resource, key, options)),
      post: (path, body, options) => guard('post', () => client.post(path, body, options)),
      request: (request) => guard('request', () => client.request(request)),
    }),
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
