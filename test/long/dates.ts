/** Tests under another date: libfaketime shifts the wall clock of a process and its children, and leaves the monotonic one alone. */
import { globSync } from 'node:fs';

const LIBRARY = globSync('/usr/lib/*/faketime/libfaketimeMT.so.1').at(0);

/** Why it cannot be done here; undefined where it can. */
export function whyNoShiftedDates(): string | undefined {
  return LIBRARY === undefined ? 'libfaketime is not installed (Debian: apt-get install libfaketime)' : undefined;
}

/** Environments of a day from now, 400 days from now, and 20 seconds before the next year begins (UTC). */
export function shiftedDates(now: Date): Record<string, string>[] {
  const yearEnd = Date.UTC(now.getUTCFullYear() + 1, 0, 1) - 20_000;
  const seconds = [86_400, 400 * 86_400, Math.floor((yearEnd - now.getTime()) / 1000)];
  return seconds.map((each) => ({ LD_PRELOAD: LIBRARY ?? '', FAKETIME: `+${each}s`, FAKETIME_DONT_FAKE_MONOTONIC: '1' }));
}
