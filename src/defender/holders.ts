/** How many are named where a limit is full. */
export const HOLDERS = 5;

/** The first few by name, without sorting them all. */
export function firstNames(names: readonly string[], many = HOLDERS): string[] {
  const first: string[] = [];
  for (const name of names) {
    if (first.length === many && name >= (first[many - 1] ?? '')) continue;
    const at = first.findIndex((other) => name < other);
    first.splice(at < 0 ? first.length : at, 0, name);
    if (first.length > many) first.pop();
  }
  return first;
}
