import { mkdir, open, readFile, readdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { CodedError } from '../../api/errors.ts';

/** `instance.json`: what the provider wants of one local node. Written last when a node is made, so a folder without it is no node. */
export interface InstanceFile {
  machineUID: string;
  namespace: string;
  name: string;
  providerID: string;
  failureDomain?: string;
  deleting?: boolean;
}

/** `host.json`: what the host last did with it. */
export interface HostFile {
  bootID: string;
  agentPid: number;
}

export interface NodeFolder {
  dir: string;
  root: string;
  instance: string;
  bootstrap: string;
  host: string;
  bootID: string;
  rebootRequest: string;
  agentLog: string;
}

const UID = /^[0-9a-zA-Z][-0-9a-zA-Z]{0,62}$/;

/** Paths of one node. A UID is a folder's name here, so it must look like one. */
export function nodeFolder(nodesDir: string, machineUID: string): NodeFolder {
  if (!UID.test(machineUID)) throw new CodedError('InvalidConfig', `"${machineUID}" is not the UID of a Machine`);
  const dir = join(nodesDir, machineUID);
  const root = join(dir, 'root');
  return {
    dir,
    root,
    instance: join(dir, 'instance.json'),
    bootstrap: join(dir, 'bootstrap.json'),
    host: join(dir, 'host.json'),
    bootID: join(root, 'run/kubenode/boot-id'),
    rebootRequest: join(root, 'run/kubenode/reboot-request'),
    agentLog: join(dir, 'agent.log'),
  };
}

/** Whole or not there, also after a power loss. */
export async function writeWhole(path: string, text: string, mode = 0o644): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  const beside = `${path}.${process.pid}.new`;
  const file = await open(beside, 'w', mode);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(beside, path);
  await syncFolder(dirname(path));
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/** undefined: there is no such file. What is there and is not JSON of this shape is an error, never absence. */
export async function readInstance(path: string): Promise<InstanceFile | undefined> {
  const value = await readJson(path);
  if (value === undefined) return undefined;
  const { machineUID, namespace, name, providerID } = value as Partial<InstanceFile>;
  if ([machineUID, namespace, name, providerID].some((field) => typeof field !== 'string')) throw new CodedError('Unavailable', `${path} is not what the local provider wrote`);
  return value as InstanceFile;
}

async function readJson(path: string): Promise<unknown> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw new CodedError('Unavailable', `${path} cannot be read`, { cause: error });
  }
  try {
    return JSON.parse(text) as unknown;
  } catch (cause) {
    throw new CodedError('Unavailable', `${path} is not JSON`, { cause });
  }
}

export function isAbsent(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}

/** Names of the folders that may be nodes. */
export async function folders(nodesDir: string): Promise<string[]> {
  try {
    return (await readdir(nodesDir, { withFileTypes: true })).filter((entry) => entry.isDirectory() && UID.test(entry.name)).map((entry) => entry.name);
  } catch (error) {
    if (isAbsent(error)) return [];
    throw new CodedError('Unavailable', `${nodesDir} cannot be read`, { cause: error });
  }
}

export async function removeFolder(dir: string): Promise<void> {
  await rm(dir, { recursive: true, force: true });
}
