import { exhaust } from './exhaust.ts';
import { DELETIONS, FAILURES, REVERTS } from './scenarios.ts';

exhaust('a failed probe', FAILURES);
exhaust('a revert', REVERTS);
exhaust('a deletion', DELETIONS);
