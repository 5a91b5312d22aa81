/** What a map has under a key that others chose. `map[key]` would find what every object has, such as `toString`. */
export function own<T>(map: Readonly<Record<string, T>> | undefined, key: string): T | undefined {
  return map !== undefined && Object.hasOwn(map, key) ? map[key] : undefined;
}
