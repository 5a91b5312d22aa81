import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as fs from 'node:fs';
import { systemClock } from '../../kube/clock.ts';
import { listTree, readTreeFile } from '../tree-files.ts';
import { cliError } from '../errors.ts';

/** What a fleet repository of one's own begins with. */
const PARTS = ['fleet', 'rules', 'cdk8s.yaml'];

/** A repository beside the state with the reference fleet as its first commit; one that is there is used as it is, never reset. */
export async function ownRepository(dir: string, source: string): Promise<string> {
  if (fs.existsSync(dir)) return dir;
  const shipped = fs.existsSync(join(source, 'fleet')) ? source : fileURLToPath(new URL('../../../', import.meta.url));
  if (!fs.existsSync(join(shipped, 'fleet'))) {
    throw cliError('NoFleet', `${source} has no fleet/ folder and no Git repository`, {
      next: 'run it in a checkout, or name one: --repository DIR',
    });
  }
  const files = new Map<string, string>();
  for (const part of PARTS) for (const path of listTree(shipped, part)) files.set(path, readTreeFile(shipped, path));
  const { initRepository } = await import('../../sync/git/index.ts');
  await initRepository(
    dir,
    files,
    { message: 'Start from the reference fleet', author: { name: 'KubeNode', email: 'kubenode@localhost' } },
    { fs, clock: systemClock() },
  );
  return dir;
}
