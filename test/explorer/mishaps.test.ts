import { exhaust } from './exhaust.ts';
import { DELETIONS, FAILURES, FORGETTING, REGISTRATIONS, REVERTS } from './scenarios.ts';

exhaust('a failed probe', FAILURES);
exhaust('a revert', REVERTS);
exhaust('a deletion', DELETIONS);
exhaust('a lost ledger', FORGETTING);
exhaust('a Node that registers again', REGISTRATIONS);
