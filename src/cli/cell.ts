import { MANAGERS } from '../api/names.ts';
import { runDefenderPolicyController } from '../controllers/defender-policy/controller.ts';
import { runFreezeController } from '../controllers/freeze/controller.ts';
import { runIdentityController } from '../controllers/identity/controller.ts';
import { runMachineController } from '../controllers/machine/controller.ts';
import { runMachineComponentController } from '../controllers/machine-component/controller.ts';
import { runMachineComponentSetController } from '../controllers/machine-component-set/controller.ts';
import { runMachineSetController } from '../controllers/machine-set/controller.ts';
import { runRemedyController } from '../controllers/remedy/controller.ts';
import { openRemedyCache } from '../controllers/remedy/remedy-cache.ts';
import { runRemedyJobController } from '../controllers/remedy-job/controller.ts';
import type { InfraProvider } from '../api/provider.ts';
import { createCache, type Cache } from '../kube/cache.ts';
import type { Client } from '../kube/client.ts';
import { createRecorder, type Recorder } from '../kube/recorder.ts';
import { localProvider } from '../providers/local/provider.ts';
import { sshProvider } from '../providers/ssh/provider.ts';
import { Machines } from '../api/machine.ts';
import { SSH_PROVIDER } from '../api/ssh.ts';
import { together, type Ports } from './ports.ts';
import { showCell } from './state-metrics.ts';
import { cliError } from './errors.ts';

export interface CellCommandOptions {
  localNodes: string | undefined;
  mirror: string | undefined;
  /** How nodes reach this cell. */
  server: string;
  certificateAuthority: string | undefined;
  /** Public keys, a line each, that new nodes pin. */
  componentKeys?: string;
  /** Of KubeNode's own objects. Default: kubenode-system. */
  namespace?: string;
  /** Names, with `*`, of Nodes that no Machine may become. */
  reservedNodeNames?: readonly string[];
  /** Domains below which Nodes may have names that people chose. */
  nodeDomains?: readonly string[];
  /** URLs, besides `server`, by which clients reach this API server. */
  serverURLs?: readonly string[];
  /** Besides the local one. */
  providers?: readonly InfraProvider[];
  /** The client of a writer (MANAGERS), where each has an identity of its own; absent: all write as this process. */
  as?: (writer: string) => Client;
}

/** Both see the same, so that what one decides about a machine and what the other proves is never of two minds. */
async function runRemedies(given: (writer: string) => Ports & { cache: Cache; recorder: Recorder }): Promise<void> {
  const ports = given(MANAGERS.remedy);
  const jobs = given(MANAGERS.remedyJob);
  const remedyCache = await openRemedyCache(ports);
  try {
    await together(ports.signal, [
      (signal) => runRemedyController({ ...ports, signal, remedyCache }),
      (signal) => runRemedyJobController({ ...jobs, signal, remedyCache }),
    ]);
  } finally {
    remedyCache.stop();
  }
}

/** Runs the controllers of one cell for one term of leadership; everything is read again. */
export async function runCellControllers(ports: Ports, options: CellCommandOptions): Promise<void> {
  if (options.certificateAuthority === undefined) {
    throw cliError('NoAuthority', 'the kubeconfig names no certificate authority, which nodes need to verify the API server', {
      next: 'put certificate-authority-data into it',
    });
  }
  const keys = options.componentKeys === undefined ? {} : { componentKeys: options.componentKeys };
  const cell = { server: options.server, certificateAuthority: options.certificateAuthority, mirror: options.mirror, ...keys };
  const own = options.namespace === undefined ? {} : { namespace: options.namespace };
  const { reservedNodeNames = [], nodeDomains = [], serverURLs = [] } = options;
  const providers = new Map<string, InfraProvider>();
  if (options.localNodes !== undefined) providers.set('local', localProvider({ nodesDir: options.localNodes }));
  providers.set(
    SSH_PROVIDER,
    sshProvider({
      find: (key, signal) => ports.client.find(Machines, key, { signal }),
      listAll: async (signal) => (await ports.client.listAll(Machines, { signal })).items,
    }),
  );
  for (const provider of options.providers ?? []) providers.set(provider.name, provider);
  await together(ports.signal, [
    async (signal) => {
      const cache = createCache({ ...ports, signal, keepManagers: [MANAGERS.machine, MANAGERS.machineSet] });
      const endShow = ports.metrics === undefined ? undefined : showCell(ports.metrics, cache);
      const as = options.as ?? (() => ports.client);
      const recorder = (component: string) =>
        createRecorder({ ...ports, signal, client: as(component), component, instance: String(process.pid) });
      /** What a controller is given: it reads as this process, through the cache, and writes as `writer`. */
      const given = (writer: string, signal: AbortSignal) => ({ ...ports, signal, cache, client: as(writer), recorder: recorder(writer) });
      const term = Promise.withResolvers<number>();
      await together(signal, [
        (signal) =>
          runMachineController({ ...given(MANAGERS.machine, signal), reader: ports.client, providers, cell, onTerm: term.resolve }),
        (signal) =>
          runIdentityController({
            ...given(MANAGERS.identity, signal),
            ...own,
            reservedNodeNames,
            nodeDomains,
            serverURLs,
            providers,
            cell,
          }),
        (signal) => runMachineSetController({ ...given(MANAGERS.machineSet, signal), providers, term: term.promise }),
        (signal) => runMachineComponentSetController({ ...given(MANAGERS.machineComponentSet, signal), term: term.promise }),
        (signal) => runMachineComponentController(given(MANAGERS.machineComponentSet, signal)),
        (signal) => runDefenderPolicyController(given(MANAGERS.defender, signal)),
        (signal) => runFreezeController(given(MANAGERS.defender, signal)),
        (signal) => runRemedies((writer) => given(writer, signal)),
      ]);
      endShow?.();
      await cache.done();
    },
  ]);
}
