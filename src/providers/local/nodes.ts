import { join } from 'node:path';
import type { Instance, InstanceRequest, NodeBootstrap } from '../../api/provider.ts';
import { errnoOf, providerError } from '../errors.ts';
import { replaceFile, type Disk } from './disk.ts';
import { graveyardOf, isUID, layoutOf, parseHost, parseInstance, trashOf, type InstanceFile, type NodeLayout } from './layout.ts';
import { askPower, isKeptOff, retirePower } from './power.ts';
import { isAlive } from './process.ts';

const SCHEME = 'local://';

/** The nodes of one folder, by the UIDs of their Machines. */
export class LocalNodes {
  readonly #nodesDir: string;
  readonly #disk: Disk;

  constructor(nodesDir: string, disk: Disk) {
    this.#nodesDir = nodesDir;
    this.#disk = disk;
  }

  async get(machineUID: string): Promise<Instance | undefined> {
    const file = await this.#readInstance(machineUID);
    if (file !== undefined) return this.#instanceOf(file);
    await this.#assertReachable();
    return undefined;
  }

  async #readInstance(machineUID: string): Promise<InstanceFile | undefined> {
    const { instance } = layoutOf(this.#nodesDir, machineUID);
    const text = await this.#disk.read(instance);
    if (text === undefined) return undefined;
    return parseInstance(text, instance);
  }

  /** A folder that cannot be read at all, for example because it is not mounted, must not pass for one without nodes. */
  async #assertReachable(): Promise<string[]> {
    const names = await this.#disk.list(this.#nodesDir);
    if (names !== undefined) return names;
    throw providerError('Unavailable', `there is no folder ${this.#nodesDir}`, { next: 'kubenode start' });
  }

  async #isBuried(machineUID: string): Promise<boolean> {
    return (await this.#disk.read(join(graveyardOf(this.#nodesDir), machineUID))) !== undefined;
  }

  async #bury(machineUID: string): Promise<void> {
    await this.#disk.makeFolder(graveyardOf(this.#nodesDir));
    await this.#disk.syncFolder(this.#nodesDir);
    // The process that wrote it may have died before it was on the disk.
    if (await this.#isBuried(machineUID)) await this.#disk.syncFolder(graveyardOf(this.#nodesDir));
    else await replaceFile(this.#disk, join(graveyardOf(this.#nodesDir), machineUID), '', 0o644);
  }

  async #stateOf(file: InstanceFile): Promise<Instance['state']> {
    if (file.deleting === true) return 'Deleting';
    const layout = layoutOf(this.#nodesDir, file.machineUID);
    const { agentPid, agentStart, off } = parseHost(await this.#disk.read(layout.host));
    if (off === true && (await isKeptOff(this.#disk, layout))) return 'Stopped';
    if (agentPid === undefined || agentStart === undefined) return 'Pending';
    return (await isAlive({ pid: agentPid, start: agentStart })) ? 'Running' : 'Pending';
  }

  async #instanceOf(file: InstanceFile): Promise<Instance> {
    const addresses = [
      { type: 'Hostname', address: file.name },
      { type: 'InternalIP', address: '127.0.0.1' },
    ];
    return { providerID: file.providerID, state: await this.#stateOf(file), addresses };
  }

  async ensure(request: InstanceRequest, bootstrap: NodeBootstrap): Promise<Instance> {
    const providerID = providerIDOf(request);
    const { machineUID, namespace, name, failureDomain } = request;
    const layout = layoutOf(this.#nodesDir, machineUID);
    const text = `${JSON.stringify(bootstrap, undefined, 2)}\n`;
    const existing = await this.#readInstance(machineUID);
    if (existing !== undefined) {
      // A new token re-admits a node that lost its identity.
      if (existing.deleting !== true && (await this.#disk.read(layout.bootstrap)) !== text)
        await replaceFile(this.#disk, layout.bootstrap, text, 0o600);
      return this.#instanceOf(existing);
    }
    await this.#assertReachable();
    const file: InstanceFile = {
      machineUID,
      namespace,
      name,
      providerID,
      ...(failureDomain === undefined ? {} : { failureDomain }),
    };
    await this.#assertNotBuried(machineUID);
    await this.#disk.makeFolder(layout.root);
    await replaceFile(this.#disk, layout.bootstrap, text, 0o600);
    await this.#disk.syncFolder(this.#nodesDir);
    await this.#assertNotBuried(machineUID);
    await replaceFile(this.#disk, layout.instance, `${JSON.stringify(file, undefined, 2)}\n`, 0o644);
    return this.#instanceOf(file);
  }

  /** A controller that was slow, or was deposed, must not bring a node back after its proof of absence. */
  async #assertNotBuried(machineUID: string): Promise<void> {
    if (!(await this.#isBuried(machineUID))) return;
    throw providerError('InvalidConfig', `the node of Machine UID ${machineUID} was deleted: none is made for it again`);
  }

  async remove(machineUID: string): Promise<'gone' | 'deleting'> {
    const names = await this.#assertReachable();
    await this.#bury(machineUID);
    if (!names.includes(machineUID)) return 'gone';
    const file = await this.#readInstance(machineUID);
    if (file === undefined) {
      await this.#removeHalfMade(machineUID);
      return 'gone';
    }
    if (file.deleting !== true) {
      const marked: InstanceFile = { ...file, deleting: true };
      await replaceFile(this.#disk, layoutOf(this.#nodesDir, machineUID).instance, `${JSON.stringify(marked, undefined, 2)}\n`, 0o644);
    }
    return 'deleting';
  }

  /** What `ensure` left when it died: the host never knew of it. Or the host has just taken the folder away, and there is nothing to do. */
  async #removeHalfMade(machineUID: string): Promise<void> {
    const trash = join(trashOf(this.#nodesDir), `half-${machineUID}`);
    await this.#disk.makeFolder(trashOf(this.#nodesDir));
    await this.#disk.remove(trash);
    try {
      await this.#disk.rename(layoutOf(this.#nodesDir, machineUID).folder, trash);
    } catch (error) {
      if (errnoOf(error) !== 'ENOENT') throw error;
    }
    await this.#disk.syncFolder(this.#nodesDir);
    await this.#disk.remove(trash);
  }

  /** A node that is there to be turned on and off. */
  async #powered(machineUID: string, doing: string): Promise<NodeLayout> {
    const file = await this.#readInstance(machineUID);
    if (file !== undefined && file.deleting !== true) return layoutOf(this.#nodesDir, machineUID);
    await this.#assertReachable();
    throw providerError('InvalidConfig', `there is no node ${SCHEME}${machineUID} to ${doing}`);
  }

  async ask(machineUID: string, operationID: string, kind: 'cycle' | 'cut', doing: string): Promise<void> {
    assertOperation(operationID);
    await askPower(this.#disk, await this.#powered(machineUID, doing), operationID, kind);
  }

  async retire(machineUID: string, operationID: string): Promise<void> {
    assertOperation(operationID);
    if ((await this.#readInstance(machineUID)) !== undefined)
      return await retirePower(this.#disk, layoutOf(this.#nodesDir, machineUID), operationID);
    await this.#assertReachable();
  }

  async list(): Promise<Instance[]> {
    const names = await this.#assertReachable();
    const files = await Promise.all(names.filter(isUID).map((uid) => this.#readInstance(uid)));
    return Promise.all(files.filter((file) => file !== undefined).map((file) => this.#instanceOf(file)));
  }
}

function assertOperation(operationID: string): void {
  if (isUID(operationID)) return;
  throw providerError('InvalidConfig', `an operation ID is letters, digits and dashes, at most 64; got "${operationID}"`);
}

export function providerIDOf({ machineUID }: Pick<InstanceRequest, 'machineUID'>): string {
  if (isUID(machineUID)) return `${SCHEME}${machineUID}`;
  throw providerError('InvalidConfig', `a Machine UID is letters, digits and dashes, at most 64; got "${machineUID}"`);
}

export function uidOf(providerID: string): string {
  const uid = providerID.startsWith(SCHEME) ? providerID.slice(SCHEME.length) : '';
  if (isUID(uid)) return uid;
  throw providerError('InvalidConfig', `an ID of the local provider is "${SCHEME}<machine UID>"; got "${providerID}"`);
}
