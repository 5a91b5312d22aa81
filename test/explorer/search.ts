/**
 * Visits every state of a small world once, breadth first, so that the first counterexample is a shortest one. Nothing is sampled and no
 * depth is cut: when it ends with `complete`, that was all.
 */

/** What may happen next. */
export interface Move<W> {
  label: string;
  world: W;
  /** Something that went wrong or that a human did: nothing that the system needs in order to converge. */
  fault: boolean;
  /** A rule that this very step breaks. */
  broken?: string;
}

export interface Space<W> {
  start: W;
  /** Equal texts: worlds that differ in nothing that could ever matter. */
  key(world: W): string;
  moves(world: W): Move<W>[];
  /** Rules that the step from one world to the next breaks. `isNew`: the world was not reached before. */
  broken(before: W, after: W, isNew: boolean): readonly string[];
  isConverged(world: W): boolean;
}

export interface Search {
  states: number;
  transitions: number;
  /** False when a limit or a broken rule ended it. */
  complete: boolean;
  converged: number;
  /** A broken rule with the steps that lead to it. */
  violation: { rule: string; trace: string[] } | undefined;
  /** The steps to a state from which nothing leads to convergence. Only searched when complete. */
  trap: { trace: string[] } | undefined;
}

export interface Limits {
  /** Ends after about so many states. */
  limit?: number;
  /** Ends after so long. What it has visited until then is judged; what it has not is not known. */
  limitMs?: number;
}

export function search<W>(space: Space<W>, limits: Limits = {}): Search {
  const endMs = performance.now() + (limits.limitMs ?? Infinity);
  const numbers = new Map<string, number>();
  const parents: number[] = [];
  const labels: string[] = [];
  const goals: number[] = [];
  const from: number[] = [];
  const to: number[] = [];
  let transitions = 0;

  const traceTo = (number: number): string[] => {
    const trace: string[] = [];
    for (let at = number; at > 0; at = parents[at] ?? 0) trace.unshift(labels[at] ?? '');
    return trace;
  };
  const result = (rest: Partial<Search>): Search => ({
    states: numbers.size,
    transitions,
    complete: false,
    converged: goals.length,
    violation: undefined,
    trap: undefined,
    ...rest,
  });

  numbers.set(space.key(space.start), 0);
  parents.push(0);
  labels.push('');
  let frontier: { number: number; world: W }[] = [{ number: 0, world: space.start }];
  while (frontier.length > 0) {
    const next: typeof frontier = [];
    for (const { number, world } of frontier) {
      if (space.isConverged(world)) goals.push(number);
      for (const move of space.moves(world)) {
        transitions++;
        const key = space.key(move.world);
        const known = numbers.get(key);
        const reached = known ?? numbers.size;
        if (known === undefined) {
          numbers.set(key, reached);
          parents.push(number);
          labels.push(move.label);
          next.push({ number: reached, world: move.world });
        }
        if (!move.fault) {
          from.push(number);
          to.push(reached);
        }
        const rule = move.broken ?? space.broken(world, move.world, known === undefined)[0];
        if (rule !== undefined) return result({ violation: { rule, trace: [...traceTo(number), move.label] } });
      }
      if (numbers.size > (limits.limit ?? Infinity) || performance.now() > endMs) return result({});
    }
    frontier = next;
  }
  const lost = firstTrap(numbers.size, goals, from, to);
  return result({ complete: true, ...(lost === undefined ? {} : { trap: { trace: traceTo(lost) } }) });
}

/** The first state that no path without faults leads from to a converged one. */
function firstTrap(states: number, goals: readonly number[], from: readonly number[], to: readonly number[]): number | undefined {
  const offsets = new Int32Array(states + 1);
  for (const target of to) offsets[target + 1] = (offsets[target + 1] ?? 0) + 1;
  for (let index = 0; index < states; index++) offsets[index + 1] = (offsets[index + 1] ?? 0) + (offsets[index] ?? 0);
  const fill = offsets.slice();
  const sources = new Int32Array(to.length);
  to.forEach((target, edge) => {
    const at = fill[target] ?? 0;
    sources[at] = from[edge] ?? 0;
    fill[target] = at + 1;
  });
  const reached = new Uint8Array(states);
  const stack = [...goals];
  for (const goal of goals) reached[goal] = 1;
  for (let state = stack.pop(); state !== undefined; state = stack.pop())
    for (let at = offsets[state] ?? 0; at < (offsets[state + 1] ?? 0); at++) {
      const source = sources[at] ?? 0;
      if (reached[source] === 1) continue;
      reached[source] = 1;
      stack.push(source);
    }
  const lost = reached.indexOf(0);
  return lost < 0 ? undefined : lost;
}
