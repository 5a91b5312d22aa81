import { answerCodes } from '../kube/errors.ts';
import type { DisruptionLedger } from '../api/disruption-ledger.ts';
import { isCoded } from '../api/errors.ts';
import type { Machine } from '../api/machine.ts';
import type { Node } from '../api/builtin.ts';
import type { ObjectKey } from '../api/resource.ts';
import type { Stored } from '../api/wire.ts';
import type { ReleaseMark } from './evidence.ts';
import type { ReadFrom } from './guarded-patch.ts';

/** The three objects by which leaders, agents and machines agree. */
export type Target = 'machine' | 'node' | 'ledger';

/** Live reads. undefined: the server has none. Only what `reads` names is there. */
export interface Seen {
  machine?: Stored<Machine> | undefined;
  node?: Stored<Node> | undefined;
  ledger?: Stored<DisruptionLedger> | undefined;
}

export type Move<Effect = never> =
  | { write: 'machine'; object: Stored<Machine>; /** Its status, and nothing else; absent: all but that. */ status?: true }
  | { write: 'node'; object: Stored<Node> }
  | { write: 'ledger'; object: Stored<DisruptionLedger>; releases?: ReleaseMark }
  /** Something outside the three objects: an eviction, a provider's call. */
  | { effect: Effect }
  /** Nothing to do, or no longer; what was found instead. */
  | { stop: string };

/**
 * Everything that changes who is disrupted has this one shape: read live, in a stated order; let a pure function judge what was read; write
 * one object at most, conditioned on what was read of it.
 *
 * Guarantees: what is written was unchanged since it was read, in all that the decision depends on (of the ledger: all; of Nodes and Machines: see
 * `guarded-patch.ts`); everything else that was read may have changed since. The comment of each act explains why that is enough. Acts can be repeated and abandoned at any point: no state is kept between two of them.
 *
 * For the object that is written, a copy that is `known` already is enough, and saves a request: the write takes effect only where that is still the
 * newest one, by its resourceVersion, and then a live read at its position in the order would have given the same. Where it is not, the server refuses the write, and all is
 * read live. An object that is not written, or that an effect follows, is always read live.
 */
export interface GuardedWrite<Effect = never> {
  name: string;
  /** Which objects are meant. */
  machine: ObjectKey;
  node: string;
  /** In this order; the order is part of the proof. */
  reads: readonly Target[];
  /** What it may write. */
  writes: Target | 'effect';
  judge(seen: Seen): Move<Effect>;
}

/** Where guarded writes meet the API server. */
export interface GuardedPort<Effect = never> {
  /** The newest known state of an object, when no later write is known; undefined: it has to be read. */
  known?(target: Target, keys: { machine: ObjectKey; node: string }): Partial<Seen> | undefined;
  read(target: Target, keys: { machine: ObjectKey; node: string }): Promise<Partial<Seen>>;
  /** On condition of what was read; a conflict rejects with code `Conflict`. */
  put(move: Extract<Move<Effect>, { write: Target }>, from: ReadFrom & { seen: Seen }): Promise<void>;
  /** Called before the release is sent. */
  releasing(mark: ReleaseMark): void;
  /** The outcome, for people. `refused`: the other side refuses for now; `changed`: since what it is about is another one than was read. */
  run(effect: Effect): Promise<{ note: string; refused?: boolean; changed?: boolean }>;
}

export type Performed =
  | { done: true; note?: string }
  | { done: false; why: string; /** By who is asked for an effect. */ refused?: boolean };

/** Several reservations that end at once write one ledger, and nothing wakes those that lose: each tries again, from its first read. */
const ATTEMPTS = 5;

/** Carries one out. A lost race is not an error: the state that won is read and judged again; a race that is lost again and again is left to its next turn. */
export async function perform<Effect>(act: GuardedWrite<Effect>, port: GuardedPort<Effect>): Promise<Performed> {
  for (let attempt = 1; ; attempt++) {
    let seen: Seen = {};
    let isKnown = false;
    for (const target of act.reads) {
      const known = attempt === 1 && target === act.writes ? port.known?.(target, act) : undefined;
      isKnown ||= known !== undefined;
      seen = { ...seen, ...(known ?? (await port.read(target, act))) };
    }
    const move = act.judge(seen);
    if ('stop' in move) return { done: false, why: move.stop };
    if ('effect' in move) {
      const { note, refused, changed } = await port.run(move.effect);
      if (changed === true && attempt < ATTEMPTS) continue;
      return refused === true ? { done: false, why: note, refused } : { done: true, note };
    }
    try {
      if (move.write === 'ledger' && move.releases !== undefined) port.releasing(move.releases);
      await port.put(move, { seen, known: isKnown });
      return { done: true };
    } catch (error) {
      if (!isCoded(error, answerCodes, 'Conflict')) throw error;
      if (attempt === ATTEMPTS) return { done: false, why: `the ${move.write} changed meanwhile` };
    }
  }
}
