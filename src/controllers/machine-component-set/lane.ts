/**
 * Why an entry may be written.
 * - `Leave`: the set selects the machine no more, and notes that on its entry.
 * - `Adopt`: the content is wanted already, by another set's entry that is left over, or the lane of it has changed; only the book-keeping changes.
 * - `Settle`: the content is wanted and works, and only an old failure is still noted on it.
 * - `Restore`: the set declares it and the content is among the two last verified on this machine (docs/protocols.md#b7): batch order, ceiling, halt and soak do not count.
 * - `Join`: the set's verified content for a machine that came later (#b5).
 * - `Forward`: everything else; only this obeys batches, ceiling and halt.
 */
export type Lane = 'Leave' | 'Adopt' | 'Settle' | 'Restore' | 'Join' | 'Forward';
