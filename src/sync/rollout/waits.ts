const FLOOR_MS = 100;

/** After how many ms the next pass is due, for whichever reason comes first; undefined where there is none. What is due already is no reason to spin. */
export function nextPassMs(reasonsMs: readonly (number | undefined)[]): number | undefined {
  const known = reasonsMs.filter((each) => each !== undefined);
  return known.length === 0 ? undefined : Math.max(FLOOR_MS, Math.min(...known));
}
