/** Stands for `node:os` in the fleet's realm. */
import { refuse } from './refuse.ts';

export const EOL = '\n';
export { refuse as homedir, refuse as hostname, refuse as tmpdir };
