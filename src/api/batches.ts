import { objectError } from './errors.ts';

/** A count or a percentage as a user writes it. */
export type CountOrPercent = number | string;

/** Rounds down, but never a positive percentage below 1; 0 and "0%" are 0. `path` names the field in errors. */
export function resolveCount(value: CountOrPercent, total: number, path: string): number {
  if (typeof value === 'number') {
    if (!Number.isInteger(value) || value < 0)
      throw objectError('InvalidCount', `\`${path}\` must be a whole number not below 0 or a percentage, got "${value}"`);
    return value;
  }
  const match = /^(\d{1,3})%$/.exec(value);
  const percent = Number(match?.[1]);
  if (match === null || percent > 100)
    throw objectError('InvalidCount', `\`${path}\` must be a whole number or a percentage from "0%" to "100%", got "${value}"`);
  if (percent === 0) return 0;
  return Math.max(1, Math.floor((total * percent) / 100));
}

/**
 * Cumulative batch sizes for `total` machines (docs/protocols.md#b2): percentages round down but never below the entry before
 * nor below 1; the last entry is everything. Refused: nothing, zero, falling, over 100 %, a last entry that is not 100 %.
 * A count larger than `total` is all of them. For `total` 0 every batch is 0.
 */
export function resolveBatches(batches: readonly CountOrPercent[], total: number, path = 'spec.batches'): number[] {
  validateBatches(batches, path);
  const sizes: number[] = [];
  for (const [index, batch] of batches.entries()) {
    const before = sizes.at(-1) ?? 0;
    const size = Math.min(total, Math.max(before, resolveCount(batch, total, `${path}[${index}]`)));
    sizes.push(index === batches.length - 1 ? total : size);
  }
  return sizes;
}

/** What is wrong with the list for any number of machines; throws on the first entry that is not valid. */
export function validateBatches(batches: readonly CountOrPercent[], path = 'spec.batches'): void {
  if (batches.length === 0) throw objectError('InvalidBatches', `\`${path}\` must have at least one entry`);
  let count = 0;
  let percent = 0;
  for (const [index, batch] of batches.entries()) {
    const at = `${path}[${index}]`;
    const size = resolveCount(batch, 100, at);
    if (size === 0) throw objectError('InvalidBatches', `\`${at}\` must be above 0`);
    const last = typeof batch === 'number' ? count : percent;
    if (size < last) throw objectError('InvalidBatches', `\`${at}\` must not fall below the entry before it, got "${batch}"`);
    if (typeof batch === 'number') count = size;
    else percent = size;
  }
  if (batches.at(-1) !== '100%')
    throw objectError('InvalidBatches', `\`${path}[${batches.length - 1}]\` must be "100%": the last batch is every machine`);
}
