/** What of a repository is its fleet, where the Fleet does not set `spec.entry` and `spec.include`. */
export const DEFAULT_ENTRY = 'fleet/main.ts';
export const DEFAULT_INCLUDE: readonly string[] = ['fleet', 'rules'];
