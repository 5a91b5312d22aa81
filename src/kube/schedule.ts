/** Keys by the time they fall due; the earliest first. A key has one time; setting a later one is ignored. */
export interface Schedule {
  readonly size: number;
  /** Entries in memory, superseded ones too. */
  readonly entries: number;
  has(key: string): boolean;
  /** True when `at` is now the key's time: it had none, or a later one. */
  set(key: string, at: number): boolean;
  delete(key: string): void;
  /** The earliest time, or undefined. */
  next(): number | undefined;
  /** Removes and returns the keys due at `now`, earliest first; `most`: no more than so many. */
  due(now: number, most?: number): string[];
}

interface Item {
  at: number;
  key: string;
}

/** A binary heap; entries that were superseded stay in it until they reach the top. */
export function createSchedule(): Schedule {
  const times = new Map<string, number>();
  const heap: Item[] = [];

  function push(item: Item): void {
    let at = heap.push(item) - 1;
    while (at > 0) {
      const above = (at - 1) >> 1;
      const parent = heap[above] as Item;
      if (parent.at <= item.at) break;
      heap[at] = parent;
      at = above;
    }
    heap[at] = item;
  }

  function pop(): void {
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let at = 0;
    for (;;) {
      let below = 2 * at + 1;
      if (below >= heap.length) break;
      const right = heap[below + 1];
      if (right !== undefined && right.at < (heap[below] as Item).at) below++;
      const child = heap[below] as Item;
      if (child.at >= last.at) break;
      heap[at] = child;
      at = below;
    }
    heap[at] = last;
  }

  /** Superseded entries far in the future would stay for long: a key that is set again each second must not fill the memory. */
  function sweep(): void {
    if (heap.length < 2 * times.size + 64) return;
    heap.length = 0;
    for (const [key, at] of times) push({ at, key });
  }

  /** The earliest entry that still counts. */
  function top(): Item | undefined {
    for (let item = heap[0]; item !== undefined; item = heap[0]) {
      if (times.get(item.key) === item.at) return item;
      pop();
    }
    return undefined;
  }

  return {
    get size() {
      return times.size;
    },
    get entries() {
      return heap.length;
    },
    has: (key) => times.has(key),
    set(key, at) {
      const known = times.get(key);
      if (known !== undefined && known <= at) return false;
      times.set(key, at);
      push({ at, key });
      sweep();
      return true;
    },
    delete: (key) => void times.delete(key),
    next: () => top()?.at,
    due(now, most = Infinity) {
      const keys: string[] = [];
      for (let item = top(); item !== undefined && item.at <= now && keys.length < most; item = top()) {
        pop();
        times.delete(item.key);
        keys.push(item.key);
      }
      return keys;
    },
  };
}
