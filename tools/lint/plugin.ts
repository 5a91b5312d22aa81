/** The rules of this project for the linter. */
import { codesOfTables } from './codes.ts';
import { noSentenceDecisions } from './sentences.ts';

export default { meta: { name: 'kubenode' }, rules: { 'no-sentence-decisions': noSentenceDecisions, 'codes-of-tables': codesOfTables } };
