import { join } from 'node:path';
import { Type, type Static, type TSchema } from 'typebox';
import { Value } from 'typebox/value';
import { providerError } from '../errors.ts';

/** Where a node that is a folder keeps what. */
export interface NodeLayout {
  folder: string;
  /** Written last when a node is made: without it there is no node. */
  instance: string;
  bootstrap: string;
  /** The host's own notes. */
  host: string;
  /** What the node sees as `/`. */
  root: string;
  run: string;
  bootID: string;
  /** Left by the agent: reboot this node. */
  rebootRequest: string;
  /**
   * What the provider asks for: a power cycle by a file `<operation>`, which the host renames to `<operation>.done` when the power is cut, before it
   * boots the node again; a cut by `<operation>.off`, which it removes when it has written down that the power is to stay off. What is done stays,
   * as does what the provider retires by such a file, so that no operation is done twice, or late.
   */
  powerAsks: string;
  /** The host's: the power stays off until the next cycle. */
  powerOff: string;
  log: string;
}

export function layoutOf(nodesDir: string, machineUID: string): NodeLayout {
  const folder = join(nodesDir, machineUID);
  const root = join(folder, 'root');
  const run = join(root, 'run');
  return {
    folder,
    instance: join(folder, 'instance.json'),
    bootstrap: join(folder, 'bootstrap.json'),
    host: join(folder, 'host.json'),
    root,
    run,
    bootID: join(run, 'kubenode/boot-id'),
    rebootRequest: join(run, 'kubenode/reboot-request'),
    powerAsks: join(folder, 'power-cycles'),
    powerOff: join(folder, 'power-off'),
    log: join(folder, 'agent.log'),
  };
}

/** Machine UIDs whose node was deleted: none is ever made for them again. */
export const graveyardOf = (nodesDir: string): string => join(nodesDir, '.gone');
/** Folders of nodes on their way out, moved here first so that no half of one is ever taken for a node. */
export const trashOf = (nodesDir: string): string => join(nodesDir, '.trash');
export const lockOf = (nodesDir: string): string => join(nodesDir, '.host.json');

/** UIDs name folders: nothing that could lead out of theirs. */
const UID = /^[A-Za-z0-9][A-Za-z0-9-]{0,63}$/;
export const isUID = (name: string): boolean => UID.test(name);

const instanceFile = Type.Object({
  machineUID: Type.String(),
  namespace: Type.String(),
  name: Type.String(),
  providerID: Type.String(),
  failureDomain: Type.Optional(Type.String()),
  deleting: Type.Optional(Type.Boolean()),
});
export type InstanceFile = Static<typeof instanceFile>;

const hostFile = Type.Object({
  bootID: Type.Optional(Type.String()),
  /** Boot of the machine below: when that is another, no process of the node is left. */
  hostBoot: Type.Optional(Type.String()),
  agentPid: Type.Optional(Type.Integer()),
  agentStart: Type.Optional(Type.String()),
  /** The power was cut and stays off: no process of the node runs. Gone before it is turned on again. */
  off: Type.Optional(Type.Boolean()),
});
export type HostFile = Static<typeof hostFile>;

/** Errors: `Unavailable` for content that is no such file; it never counts as absent. */
export function parseInstance(text: string, path: string): InstanceFile {
  return parse(instanceFile, text, path);
}

/** Notes that cannot be read count as none: all in them can be found again. */
export function parseHost(text: string | undefined): HostFile {
  try {
    return text === undefined ? {} : parse(hostFile, text, 'host.json');
  } catch {
    return {};
  }
}

function parse<T extends TSchema>(schema: T, text: string, path: string): Static<T> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw providerError('Unavailable', `${path} is not JSON`, { cause: error });
  }
  if (!Value.Check(schema, value)) throw providerError('Unavailable', `${path} has not the fields that it should have`);
  return value;
}
