/** Stands for `node:fs` in the fleet's realm. */
import { refuse } from './refuse.ts';

export {
  refuse as copyFileSync,
  refuse as createReadStream,
  refuse as createWriteStream,
  refuse as existsSync,
  refuse as lstatSync,
  refuse as mkdirSync,
  refuse as mkdtempSync,
  refuse as readFileSync,
  refuse as readdirSync,
  refuse as realpathSync,
  refuse as rmSync,
  refuse as statSync,
  refuse as writeFileSync,
};
