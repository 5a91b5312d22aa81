/** Polls in real time until `condition` returns something truthy, which it returns; throws after `deadlineMs` (default 5,000) with `what`. */
export declare function waitFor<T>(
  condition: () => T | Promise<T>,
  options?: { deadlineMs?: number; what?: string },
): Promise<NonNullable<Exclude<T, false | 0 | ''>>>;

/** Lets everything that is ready run: promise chains and immediates, no time passes. */
export declare function settle(): Promise<void>;
