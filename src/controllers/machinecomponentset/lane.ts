/**
 * Why an entry may be written.
 * - `Adopt`: the content is wanted already, by another set's entry that is left over; only the book-keeping changes.
 * - `Settle`: the content is wanted and works, and only an old failure is still noted on it.
 * - `Restore`: content among the two last verified on this machine (B7): batch order, ceiling, halt and soak do not count.
 * - `Join`: the set's verified content for a machine that came later (B5).
 * - `Forward`: everything else; only this obeys batches, ceiling and halt.
 */
export type Lane = 'Adopt' | 'Settle' | 'Restore' | 'Join' | 'Forward';
