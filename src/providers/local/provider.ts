import type { InfraProvider } from '../../api/provider.ts';
import { asProviderError } from '../errors.ts';
import { nodeDisk, type Disk } from './disk.ts';
import { LocalNodes, providerIDOf, uidOf } from './nodes.ts';

export interface LocalProviderOptions {
  /** Folder of the nodes; the process that runs the host makes it. */
  nodesDir: string;
  disk?: Disk;
}

/**
 * Nodes that are folders on this machine, brought to life by `startLocalHost`, which may be another process: the two agree through files
 * alone. A node exists from the moment its `instance.json` does.
 */
export function localProvider({ nodesDir, disk = nodeDisk() }: LocalProviderOptions): InfraProvider {
  const nodes = new LocalNodes(nodesDir, disk);
  return {
    name: 'local',
    validate: (config) =>
      Object.keys(config).map((field) => ({ path: field, message: 'unknown field: the local provider takes no configuration' })),
    providerIDOf,
    ensure: (request, bootstrap, signal) =>
      guarded(signal, `make the node of ${request.namespace}/${request.name}`, () => nodes.ensure(request, bootstrap)),
    get: (providerID, signal) => guarded(signal, `read ${providerID}`, () => nodes.get(uidOf(providerID))),
    list: (signal) => guarded(signal, `list the nodes in ${nodesDir}`, () => nodes.list()),
    delete: (providerID, signal) => guarded(signal, `delete ${providerID}`, () => nodes.remove(uidOf(providerID))),
    reboot: (providerID, operationID, signal) =>
      guarded(signal, `reboot ${providerID}`, () => nodes.ask(uidOf(providerID), operationID, 'cycle', 'reboot')),
    stop: (providerID, operationID, signal) =>
      guarded(signal, `stop ${providerID}`, () => nodes.ask(uidOf(providerID), operationID, 'cut', 'stop')),
    retire: (providerID, operationID, signal) =>
      guarded(signal, `retire ${operationID} of ${providerID}`, () => nodes.retire(uidOf(providerID), operationID)),
  };
}

async function guarded<T>(signal: AbortSignal, doing: string, act: () => Promise<T>): Promise<T> {
  signal.throwIfAborted();
  try {
    return await act();
  } catch (error) {
    throw asProviderError(error, doing);
  }
}
