import { exhaust } from './exhaust.ts';
import { REPAIRS } from './repairscenarios.ts';

exhaust('a repair', REPAIRS);
