export interface TourStep {
  name: string;
  /** Returns what was observed, in words; throws when it did not come true. */
  run: () => Promise<string>;
}

/** Machines of each cell, as the fleet declares them. */
export const MACHINES = { test: 1, pre: 2, prod: 4 } as const;
export const RUNTIME = 'local-runtime';
export const KUBELET = 'local-kubelet';
export const DETECTOR = 'local-detector';
