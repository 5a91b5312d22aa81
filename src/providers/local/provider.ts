import { join } from 'node:path';
import type { InfraProvider, Instance, InstanceRequest, NodeBootstrap } from '../../api/provider.ts';
import { asProviderError, errnoOf, providerError } from '../errors.ts';
import { nodeDisk, replaceFile, type Disk } from './disk.ts';
import { graveyardOf, isUID, layoutOf, parseHost, parseInstance, trashOf, type InstanceFile, type NodeLayout } from './layout.ts';
import { askPower, isKeptOff, retirePower } from './power.ts';
import { isAlive } from './process.ts';

export interface LocalProviderOptions {
  /** Folder of the nodes; whoever runs the host makes it. */
  nodesDir: string;
  disk?: Disk;
}

const SCHEME = 'local://';

/**
 * Nodes that are folders on this machine, brought to life by `startLocalHost`, which may be another process: the two agree through files
 * alone. A node exists from the moment its `instance.json` does.
 */
export function localProvider({ nodesDir, disk = nodeDisk() }: LocalProviderOptions): InfraProvider {
  async function readInstance(machineUID: string): Promise<InstanceFile | undefined> {
    const { instance } = layoutOf(nodesDir, machineUID);
    const text = await disk.read(instance);
    if (text === undefined) return undefined;
    return parseInstance(text, instance);
  }

  /** A folder that cannot be seen at all, say because it is not mounted, must not look like one without nodes. */
  async function assertReachable(): Promise<string[]> {
    const names = await disk.list(nodesDir);
    if (names !== undefined) return names;
    throw providerError('Unavailable', `there is no folder ${nodesDir}`, { next: 'kubenode start' });
  }

  async function isBuried(machineUID: string): Promise<boolean> {
    return (await disk.read(join(graveyardOf(nodesDir), machineUID))) !== undefined;
  }

  async function bury(machineUID: string): Promise<void> {
    await disk.makeFolder(graveyardOf(nodesDir));
    await disk.syncFolder(nodesDir);
    // Who wrote it may have died before it was on the disk.
    if (await isBuried(machineUID)) await disk.syncFolder(graveyardOf(nodesDir));
    else await replaceFile(disk, join(graveyardOf(nodesDir), machineUID), '', 0o644);
  }

  async function stateOf(file: InstanceFile): Promise<Instance['state']> {
    if (file.deleting === true) return 'Deleting';
    const layout = layoutOf(nodesDir, file.machineUID);
    const { agentPid, agentStart, off } = parseHost(await disk.read(layout.host));
    if (off === true && (await isKeptOff(disk, layout))) return 'Stopped';
    if (agentPid === undefined || agentStart === undefined) return 'Pending';
    return (await isAlive({ pid: agentPid, start: agentStart })) ? 'Running' : 'Pending';
  }

  async function instanceOf(file: InstanceFile): Promise<Instance> {
    const addresses = [
      { type: 'Hostname', address: file.name },
      { type: 'InternalIP', address: '127.0.0.1' },
    ];
    return { providerID: file.providerID, state: await stateOf(file), addresses };
  }

  async function ensure(request: InstanceRequest, bootstrap: NodeBootstrap): Promise<Instance> {
    const providerID = providerIDOf(request);
    const { machineUID, namespace, name, failureDomain } = request;
    const layout = layoutOf(nodesDir, machineUID);
    const text = `${JSON.stringify(bootstrap, undefined, 2)}\n`;
    const existing = await readInstance(machineUID);
    if (existing !== undefined) {
      // A new token re-admits a node that lost its identity.
      if (existing.deleting !== true && (await disk.read(layout.bootstrap)) !== text)
        await replaceFile(disk, layout.bootstrap, text, 0o600);
      return instanceOf(existing);
    }
    await assertReachable();
    const file: InstanceFile = {
      machineUID,
      namespace,
      name,
      providerID,
      ...(failureDomain === undefined ? {} : { failureDomain }),
    };
    await assertNotBuried(machineUID);
    await disk.makeFolder(layout.root);
    await replaceFile(disk, layout.bootstrap, text, 0o600);
    await disk.syncFolder(nodesDir);
    await assertNotBuried(machineUID);
    await replaceFile(disk, layout.instance, `${JSON.stringify(file, undefined, 2)}\n`, 0o644);
    return instanceOf(file);
  }

  /** A controller that was slow, or was deposed, must not bring a node back after its proof of absence. */
  async function assertNotBuried(machineUID: string): Promise<void> {
    if (!(await isBuried(machineUID))) return;
    throw providerError('InvalidConfig', `the node of Machine UID ${machineUID} was deleted: none is made for it again`);
  }

  async function remove(machineUID: string): Promise<'gone' | 'deleting'> {
    const names = await assertReachable();
    await bury(machineUID);
    if (!names.includes(machineUID)) return 'gone';
    const file = await readInstance(machineUID);
    if (file === undefined) {
      await removeHalfMade(machineUID);
      return 'gone';
    }
    if (file.deleting !== true) {
      const marked: InstanceFile = { ...file, deleting: true };
      await replaceFile(disk, layoutOf(nodesDir, machineUID).instance, `${JSON.stringify(marked, undefined, 2)}\n`, 0o644);
    }
    return 'deleting';
  }

  /** What `ensure` left when it died: the host never knew of it. Or the host has just taken the folder away, and there is nothing to do. */
  async function removeHalfMade(machineUID: string): Promise<void> {
    const trash = join(trashOf(nodesDir), `half-${machineUID}`);
    await disk.makeFolder(trashOf(nodesDir));
    await disk.remove(trash);
    try {
      await disk.rename(layoutOf(nodesDir, machineUID).folder, trash);
    } catch (error) {
      if (errnoOf(error) !== 'ENOENT') throw error;
    }
    await disk.syncFolder(nodesDir);
    await disk.remove(trash);
  }

  /** A node that is there to be turned on and off. */
  async function powered(machineUID: string, doing: string): Promise<NodeLayout> {
    const file = await readInstance(machineUID);
    if (file !== undefined && file.deleting !== true) return layoutOf(nodesDir, machineUID);
    await assertReachable();
    throw providerError('InvalidConfig', `there is no node ${SCHEME}${machineUID} to ${doing}`);
  }

  function assertOperation(operationID: string): void {
    if (isUID(operationID)) return;
    throw providerError('InvalidConfig', `an operation ID is letters, digits and dashes, at most 64; got "${operationID}"`);
  }

  async function ask(machineUID: string, operationID: string, kind: 'cycle' | 'cut', doing: string): Promise<void> {
    assertOperation(operationID);
    await askPower(disk, await powered(machineUID, doing), operationID, kind);
  }

  async function retire(machineUID: string, operationID: string): Promise<void> {
    assertOperation(operationID);
    if ((await readInstance(machineUID)) !== undefined) return await retirePower(disk, layoutOf(nodesDir, machineUID), operationID);
    await assertReachable();
  }

  async function list(): Promise<Instance[]> {
    const names = await assertReachable();
    const files = await Promise.all(names.filter(isUID).map(readInstance));
    return Promise.all(files.filter((file) => file !== undefined).map(instanceOf));
  }

  return {
    name: 'local',
    validate: (config) =>
      Object.keys(config).map((field) => ({ path: field, message: 'unknown field: the local provider takes no configuration' })),
    providerIDOf,
    ensure: (request, bootstrap, signal) =>
      guarded(signal, `make the node of ${request.namespace}/${request.name}`, () => ensure(request, bootstrap)),
    get: (providerID, signal) =>
      guarded(signal, `look at ${providerID}`, async () => {
        const file = await readInstance(uidOf(providerID));
        if (file !== undefined) return instanceOf(file);
        await assertReachable();
        return undefined;
      }),
    list: (signal) => guarded(signal, `list the nodes in ${nodesDir}`, list),
    delete: (providerID, signal) => guarded(signal, `delete ${providerID}`, () => remove(uidOf(providerID))),
    reboot: (providerID, operationID, signal) =>
      guarded(signal, `reboot ${providerID}`, () => ask(uidOf(providerID), operationID, 'cycle', 'reboot')),
    stop: (providerID, operationID, signal) =>
      guarded(signal, `stop ${providerID}`, () => ask(uidOf(providerID), operationID, 'cut', 'stop')),
    retire: (providerID, operationID, signal) =>
      guarded(signal, `retire ${operationID} of ${providerID}`, () => retire(uidOf(providerID), operationID)),
  };
}

function providerIDOf({ machineUID }: Pick<InstanceRequest, 'machineUID'>): string {
  if (isUID(machineUID)) return `${SCHEME}${machineUID}`;
  throw providerError('InvalidConfig', `a Machine UID is letters, digits and dashes, at most 64; got "${machineUID}"`);
}

function uidOf(providerID: string): string {
  const uid = providerID.startsWith(SCHEME) ? providerID.slice(SCHEME.length) : '';
  if (isUID(uid)) return uid;
  throw providerError('InvalidConfig', `an ID of the local provider is "${SCHEME}<machine UID>"; got "${providerID}"`);
}

async function guarded<T>(signal: AbortSignal, doing: string, act: () => Promise<T>): Promise<T> {
  signal.throwIfAborted();
  try {
    return await act();
  } catch (error) {
    throw asProviderError(error, doing);
  }
}
