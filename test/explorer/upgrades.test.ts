import { exhaust } from './exhaust.ts';
import { UPGRADES } from './scenarios.ts';

exhaust('an upgrade', UPGRADES);
