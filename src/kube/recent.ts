/** A map that forgets what was set longest ago. */
export function createRecent<Value>(limit: number): { get(key: string): Value | undefined; set(key: string, value: Value): void } {
  const values = new Map<string, Value>();
  return {
    get: (key) => values.get(key),
    set(key, value) {
      values.delete(key);
      values.set(key, value);
      for (const oldest of values.keys()) {
        if (values.size <= limit) return;
        values.delete(oldest);
      }
    },
  };
}
