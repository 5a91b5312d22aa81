/**
 * Order of two resourceVersions of one resource (KEP-5504: decimal numbers of any length). Undefined when either is not
 * such a number; then only equality can be decided.
 */
export function compareVersions(a: string, b: string): number | undefined {
  if (a === b) return 0;
  if (!isNumber(a) || !isNumber(b)) return undefined;
  if (a.length !== b.length) return a.length - b.length;
  return a < b ? -1 : 1;
}

/** Whether `seen` is `wanted` or later. What cannot be compared is not. */
export function hasReached(seen: string | undefined, wanted: string): boolean {
  if (seen === undefined) return false;
  const order = compareVersions(seen, wanted);
  return order !== undefined && order >= 0;
}

function isNumber(version: string): boolean {
  return /^[1-9][0-9]*$/.test(version);
}
