/**
 * Four control planes to try things on by hand, until Ctrl-C:
 *
 *   node test/kubernetes/planes.ts     prints the path of a kubeconfig with the contexts hub, test, pre and prod
 */
import { findPrograms } from '../../tools/kubernetes/programs.ts';
import { startControlPlanes } from './control-plane.ts';

const planes = await startControlPlanes(await findPrograms((line) => void process.stderr.write(`${line}\n`)), [
  'hub',
  'test',
  'pre',
  'prod',
]);
process.stdout.write(`${planes.kubeconfig}\n`);
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, () => void planes.stop());
