import { mkdir, stat } from 'node:fs/promises';
import { CodedError } from '../../api/errors.ts';
import type { InfraProvider, Instance, InstanceRequest, NodeBootstrap } from '../../api/provider.ts';
import { folders, isAbsent, nodeFolder, readInstance, removeFolder, writeWhole, type InstanceFile } from './folder.ts';

const SCHEME = 'local://';

/**
 * Nodes that are folders and processes of this machine. The provider only writes down what should be; `startLocalHost` makes it
 * so. Every step may be repeated after a crash: a node begins to exist with its `instance.json`, which is written last.
 */
export function localProvider({ nodesDir }: { nodesDir: string }): InfraProvider {
  const providerIDOf = (machineUID: string): string => `${SCHEME}${machineUID}`;

  function uidOf(providerID: string): string {
    if (!providerID.startsWith(SCHEME)) throw new CodedError('InvalidConfig', `"${providerID}" is not an id of the local provider`);
    return providerID.slice(SCHEME.length);
  }

  async function exists(dir: string): Promise<boolean> {
    try {
      await stat(dir);
      return true;
    } catch (error) {
      if (isAbsent(error)) return false;
      throw new CodedError('Unavailable', `${dir} cannot be read`, { cause: error });
    }
  }

  async function describe(file: InstanceFile): Promise<Instance> {
    const folder = nodeFolder(nodesDir, file.machineUID);
    const booted = await exists(folder.host);
    return {
      providerID: file.providerID,
      state: file.deleting === true ? 'Deleting' : booted ? 'Running' : 'Pending',
      addresses: [
        { type: 'InternalIP', address: '127.0.0.1' },
        { type: 'Hostname', address: file.name },
      ],
    };
  }

  return {
    name: 'local',
    validate: (config) => Object.keys(config).map((path) => ({ path, message: 'unknown field: the local provider has no settings' })),
    providerIDOf: ({ machineUID }) => providerIDOf(machineUID),

    async ensure(request: InstanceRequest, bootstrap: NodeBootstrap) {
      const folder = nodeFolder(nodesDir, request.machineUID);
      const found = await readInstance(folder.instance);
      if (found !== undefined) return await describe(found);
      await mkdir(folder.root, { recursive: true });
      await writeWhole(folder.bootstrap, `${JSON.stringify(bootstrap)}\n`, 0o600);
      const file: InstanceFile = {
        machineUID: request.machineUID,
        namespace: request.namespace,
        name: request.name,
        providerID: providerIDOf(request.machineUID),
        ...(request.failureDomain === undefined ? {} : { failureDomain: request.failureDomain }),
      };
      await writeWhole(folder.instance, `${JSON.stringify(file)}\n`);
      return await describe(file);
    },

    async get(providerID) {
      const found = await readInstance(nodeFolder(nodesDir, uidOf(providerID)).instance);
      return found === undefined ? undefined : await describe(found);
    },

    async list() {
      const found = await Promise.all((await folders(nodesDir)).map((uid) => readInstance(nodeFolder(nodesDir, uid).instance)));
      return await Promise.all(found.filter((file) => file !== undefined).map(describe));
    },

    async delete(providerID) {
      const folder = nodeFolder(nodesDir, uidOf(providerID));
      const found = await readInstance(folder.instance);
      if (found === undefined) {
        // Nothing ever ran in a folder that has no instance.json: what a crash of `ensure` left is removed here.
        await removeFolder(folder.dir);
        return 'gone';
      }
      if (found.deleting !== true) await writeWhole(folder.instance, `${JSON.stringify({ ...found, deleting: true })}\n`);
      return 'deleting';
    },
  };
}
