/**
 * What stands between a cell and all others. A cell is not trusted with other cells, nor with the hub (docs/security.md): all that is read of its
 * content, and every request to it, goes through its wall. What throws there, what is too large or too much and what takes too long makes this one cell
 * away for a while, with the reason, and nothing else (docs/protocols.md#e16).
 */
import { isCoded } from '../../api/errors.ts';
import { kubeErrorCodes } from '../../kube/errors.ts';
import type { Clock } from '../../api/ports.ts';
import type { Client } from '../../kube/client.ts';
import { CellAway, type Away } from './away.ts';
import { createBudget, type Budget } from './budget.ts';
import { CellFailures, type CellFailuresOptions, type Verb } from './failures.ts';

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

/** Of requests: those that prove that the server misbehaves, and not that it is unreachable. */
const MISBEHAVES = ['RequestTimeout', 'AnswerTooLarge'] as const;
const SENDS_TOO_MUCH = 'SendsTooMuch';

const MIB = 1024 ** 2;
/**
 * What all lists and watches of one cell may bring. `atOnce`: as much as its four stores may contain together (32 Mi characters each), so that no cell is cut
 * for what it has. `aSecond`, after that: the hub watches sets, rules and policies, and no machines. A leader of a cell writes at most eight sets at the same
 * time, each after it read all machines of the set, and an object of 4 kB or less: where 10,000 machines restart, that are some hundred events a second. Even
 * if each of the 10,000 led to four events at once, these were 40,000 events, or 200 MB, in the minutes that machines need to restart.
 */
const BUDGET = { atOnce: 128 * MIB, aSecond: 4 * MIB };
/** What one event, or one page, costs beside its characters. */
const EACH = 1024;
/** Of changes that are passed on: so many at once, and one each so many ms after that. */
const NEWS = { atOnce: 20, everyMs: 500 };

export interface CellWallOptions extends CellFailuresOptions {
  onChange: () => void;
}

export function createCellWall(name: string, options: CellWallOptions): CellWall {
  const failures = new CellFailures(name, options);
  const characters = createBudget(options.clock, BUDGET);
  return {
    away: () => failures.away(),
    isOnTrial: () => failures.isOnTrial(),
    read(decide) {
      if (failures.away() !== undefined) return undefined;
      try {
        return decide();
      } catch (error) {
        failures.add(error, 'ContentInvalid');
        return undefined;
      }
    },
    guarded: (client) => guardedClient(client, failures),
    metered: (client) => meteredClient(client, failures, characters),
    changed: paced(options.clock, options.onChange),
  };
}

async function guard<T>(failures: CellFailures, verb: Verb, request: () => Promise<T>): Promise<T> {
  const before = failures.away();
  if (before !== undefined) throw new CellAway(before);
  try {
    const answer = await request();
    failures.answered(verb);
    return answer;
  } catch (error) {
    if (isCoded(error, kubeErrorCodes, ...MISBEHAVES)) failures.add(error, error.code, verb);
    throw error;
  }
}

function guardedClient(client: Client, failures: CellFailures): Client {
  return {
    get: (resource, key, options) => guard(failures, 'get', () => client.get(resource, key, options)),
    find: (resource, key, options) => guard(failures, 'find', () => client.find(resource, key, options)),
    list: (resource, options) => guard(failures, 'list', () => client.list(resource, options)),
    listAll: (resource, options) => guard(failures, 'listAll', () => client.listAll(resource, options)),
    // Stores alone watch, by `metered`.
    watch: (resource, options) => client.watch(resource, options),
    create: (resource, object, options) => guard(failures, 'create', () => client.create(resource, object, options)),
    update: (resource, object, options) => guard(failures, 'update', () => client.update(resource, object, options)),
    patch: (resource, key, patch, options) => guard(failures, 'patch', () => client.patch(resource, key, patch, options)),
    apply: (resource, object, options) => guard(failures, 'apply', () => client.apply(resource, object, options)),
    delete: (resource, key, options) => guard(failures, 'delete', () => client.delete(resource, key, options)),
    post: (path, body, options) => guard(failures, 'post', () => client.post(path, body, options)),
    request: (request) => guard(failures, 'request', () => client.request(request)),
  };
}

/** Reflectors have deadlines and a backoff of their own. */
function meteredClient(client: Client, failures: CellFailures, characters: Budget): Client {
  function received(verb: 'list' | 'watch', length: number): void {
    if (characters.take(length + EACH)) return;
    const [atOnce, aSecond] = [BUDGET.atOnce / MIB, BUDGET.aSecond / MIB];
    const message = `it sent more than ${atOnce} MiB, and ${aSecond} MiB more each second, of what the hub watches there`;
    const error = new CellAway({ reason: SENDS_TOO_MUCH, message });
    failures.add(error, error.code, verb);
    throw error;
  }
  return {
    ...client,
    async list(resource, options) {
      await failures.over(SENDS_TOO_MUCH, options?.signal);
      return await client.list(resource, { ...options, onReceived: (length) => received('list', length) });
    },
    async *watch(resource, options) {
      await failures.over(SENDS_TOO_MUCH, options?.signal);
      yield* client.watch(resource, { ...options, onReceived: (length) => received('watch', length) });
    },
  };
}

/** Calls it at once, or, where that comes all the time, now and then. */
function paced(clock: Clock, call: () => void): () => void {
  const news = createBudget(clock, { atOnce: NEWS.atOnce, aSecond: 1000 / NEWS.everyMs });
  /** A call is kept back. */
  let kept = false;
  return () => {
    if (kept) return;
    if (news.take(1)) return call();
    kept = true;
    clock.setTimer(NEWS.everyMs, () => {
      kept = false;
      news.take(1);
      call();
    });
  };
}
