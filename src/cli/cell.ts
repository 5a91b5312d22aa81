import { CodedError } from '../api/errors.ts';
import { MANAGERS } from '../api/names.ts';
import { runDefenderPolicyController } from '../controllers/defenderpolicy/controller.ts';
import { runMachineController } from '../controllers/machine/controller.ts';
import { runMachineComponentController } from '../controllers/machinecomponent/controller.ts';
import { runMachineComponentSetController } from '../controllers/machinecomponentset/controller.ts';
import { runMachineSetController } from '../controllers/machineset/controller.ts';
import { runRemedyController } from '../controllers/remedy/controller.ts';
import { openSight } from '../controllers/remedy/sight.ts';
import { runRemedyJobController } from '../controllers/remedyjob/controller.ts';
import type { InfraProvider } from '../api/provider.ts';
import { createCache, type Cache } from '../kube/cache.ts';
import { createRecorder, type Recorder } from '../kube/recorder.ts';
import { localProvider } from '../providers/local/provider.ts';
import { together, type Ports } from './ports.ts';

export interface CellOptions {
  localNodes: string | undefined;
  mirror: string | undefined;
  /** How nodes reach this cell. */
  server: string;
  certificateAuthority: string | undefined;
}

/** Both see the same, so that what one decides about a machine and what the other proves is never of two minds. */
async function runRemedies(ports: Ports & { cache: Cache }, recorder: Recorder): Promise<void> {
  const sight = await openSight(ports);
  try {
    await together(ports.signal, [
      (signal) => runRemedyController({ ...ports, signal, sight, recorder }),
      (signal) => runRemedyJobController({ ...ports, signal, sight, recorder }),
    ]);
  } finally {
    sight.stop();
  }
}

/** Runs the controllers of one cell for one term of leadership; everything is read afresh. */
export async function runCellControllers(ports: Ports, options: CellOptions): Promise<void> {
  if (options.certificateAuthority === undefined) {
    throw new CodedError('NoAuthority', 'the kubeconfig names no certificate authority, which nodes need to verify the API server', {
      next: 'put certificate-authority-data into it',
    });
  }
  const cell = { server: options.server, certificateAuthority: options.certificateAuthority, mirror: options.mirror };
  const providers = new Map<string, InfraProvider>();
  if (options.localNodes !== undefined) providers.set('local', localProvider({ nodesDir: options.localNodes }));
  await together(ports.signal, [
    async (signal) => {
      const cache = createCache({ ...ports, signal, keepManagers: [MANAGERS.machine, MANAGERS.machineSet] });
      const recorder = (component: string) => createRecorder({ ...ports, signal, component, instance: String(process.pid) });
      const shared = { ...ports, signal, cache };
      await together(signal, [
        (signal) => runMachineController({ ...shared, signal, providers, cell, recorder: recorder('kubenode-machine') }),
        (signal) => runMachineSetController({ ...shared, signal, recorder: recorder('kubenode-machineset') }),
        (signal) => runMachineComponentSetController({ ...shared, signal, recorder: recorder('kubenode-machinecomponentset') }),
        (signal) => runMachineComponentController({ ...shared, signal }),
        (signal) => runDefenderPolicyController({ ...shared, signal }),
        (signal) => runRemedies({ ...shared, signal }, recorder('kubenode-remedy')),
      ]);
      await cache.done();
    },
  ]);
}
