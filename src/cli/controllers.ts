/**
 * `kubenode controller` and nothing else, for a file that runs on its own: `kubenode start` runs four of these processes, and each would
 * load a thousand files otherwise.
 */
import '../kube/no-inspector.ts';
import { controllerCommand } from './commands/controller.ts';
import { runProgram } from './program.ts';

await runProgram(process.argv, { controller: () => Promise.resolve(controllerCommand) });
