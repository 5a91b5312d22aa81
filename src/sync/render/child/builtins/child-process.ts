/** Stands for `node:child_process` in the fleet's realm. */
import { refuse } from './refuse.ts';

export {
  refuse as exec,
  refuse as execFile,
  refuse as execFileSync,
  refuse as execSync,
  refuse as fork,
  refuse as spawn,
  refuse as spawnSync,
};
