import { setImmediate, setTimeout } from 'node:timers/promises';

/** Polls in real time until `condition` returns something truthy, which it returns; throws after `deadlineMs` (default 5,000) with `what`. */
export async function waitFor<T>(
  condition: () => T | Promise<T>,
  options: { deadlineMs?: number; what?: string } = {},
): Promise<NonNullable<Exclude<T, false | 0 | ''>>> {
  const deadlineMs = options.deadlineMs ?? 5000;
  const start = performance.now();
  for (;;) {
    const value = await condition();
    // oxlint-disable-next-line typescript/no-unnecessary-condition
    if (value) return value as NonNullable<Exclude<T, false | 0 | ''>>;
    if (performance.now() - start > deadlineMs) {
      throw new Error(
        `waited ${deadlineMs} ms without success${options.what === undefined ? `: ${condition.toString()}` : ` for ${options.what}`}`,
      );
    }
    await setTimeout(2);
  }
}

/** Lets everything that is ready run: promise chains and immediates; no time passes. */
export async function settle(): Promise<void> {
  for (let round = 0; round < 3; round++) await setImmediate();
}
