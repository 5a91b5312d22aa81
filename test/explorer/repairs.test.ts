import { exhaust } from './exhaust.ts';
import { REPAIRS } from './repair-scenarios.ts';

exhaust('a repair', REPAIRS);
