/**
 * Time as clocks on the wall of a zone show it, exact over daylight saving. A wall time is written as the milliseconds that UTC would have where
 * it shows the same: that makes it a plain number.
 */

const formats = new Map<string, Intl.DateTimeFormat>();

function formatOf(timeZone: string): Intl.DateTimeFormat {
  let format = formats.get(timeZone);
  if (format === undefined) {
    const digits = { year: 'numeric', month: 'numeric', day: 'numeric', hour: 'numeric', minute: 'numeric', second: 'numeric' } as const;
    format = new Intl.DateTimeFormat('en-US', { timeZone, hourCycle: 'h23', ...digits });
    formats.set(timeZone, format);
  }
  return format;
}

/** A name of the IANA database. Offsets such as "+01:00" are none: they know no daylight saving. */
export function isTimeZone(timeZone: string): boolean {
  if (!/^[A-Za-z]/.test(timeZone)) return false;
  try {
    formatOf(timeZone);
    return true;
  } catch {
    return false;
  }
}

/** What the clock shows at this instant, to the second. Throws RangeError for an unknown zone. */
export function wallOf(instantMs: number, timeZone: string): number {
  const parts = new Map(
    formatOf(timeZone)
      .formatToParts(instantMs)
      .map(({ type, value }) => [type, Number(value)]),
  );
  const part = (type: Intl.DateTimeFormatPartTypes): number => parts.get(type) ?? 0;
  return Date.UTC(part('year'), part('month') - 1, part('day'), part('hour'), part('minute'), part('second'));
}

const DAY_MS = 86_400_000;
const offsetAt = (instantMs: number, timeZone: string): number => wallOf(instantMs, timeZone) - Math.floor(instantMs / 1000) * 1000;

/**
 * When the clock shows this: `first` and `last` differ in an hour that is repeated. In an hour that is skipped both are the moment at which it
 * would have begun, which is when the clock jumps.
 */
export function instantsOf(wall: number, timeZone: string): { first: number; last: number } {
  const before = offsetAt(wall - DAY_MS, timeZone);
  const after = offsetAt(wall + DAY_MS, timeZone);
  const hits = [wall - before, wall - after].filter((instant) => wallOf(instant, timeZone) === wall);
  if (hits.length > 0) return { first: Math.min(...hits), last: Math.max(...hits) };
  let low = wall - after;
  let high = wall - before;
  // The jump is the first second with the new offset; it lies after `low` and not after `high`.
  while (high - low > 1000) {
    const middle = Math.floor((low + high) / 2000) * 1000;
    if (offsetAt(middle, timeZone) === after) high = middle;
    else low = middle;
  }
  return { first: high, last: high };
}

/** `2026-03-29T02:30` → a wall time; undefined for anything else, also for a day that no month has. */
export function parseWall(text: string): number | undefined {
  const match = /^(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2})$/.exec(text);
  if (match === null) return undefined;
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0] = match.slice(1).map(Number);
  const wall = Date.UTC(year, month - 1, day, hour, minute);
  return new Date(wall).toISOString().startsWith(text) ? wall : undefined;
}

/** `2026-11-21 02:00 Europe/Berlin (2026-11-21T01:00:00Z)`. */
export function zonedText(instantMs: number, timeZone: string): string {
  const wall = new Date(wallOf(instantMs, timeZone)).toISOString().slice(0, 16).replace('T', ' ');
  return `${wall} ${timeZone} (${new Date(instantMs).toISOString().replace('.000Z', 'Z')})`;
}
