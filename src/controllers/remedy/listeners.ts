export interface Listeners<A extends unknown[]> {
  /** Returns the cancellation. */
  add(listener: (...args: A) => void): () => void;
  notify(...args: A): void;
}

export function createListeners<A extends unknown[]>(): Listeners<A> {
  const listeners = new Set<(...args: A) => void>();
  return {
    add(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    notify(...args) {
      for (const listener of listeners) listener(...args);
    },
  };
}
