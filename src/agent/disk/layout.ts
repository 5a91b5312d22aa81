import { join } from 'node:path';

/** Where the agent keeps what. `root` is the node's root folder: `/` is written as the empty string. */
export interface DiskLayout {
  root: string;
  /** Everything of the agent's own. */
  state: string;
  journal: string;
  /** Given up when the journal cannot be written, so that it can on a disk that is full. */
  reserve: string;
  /** Artifacts by sha256. */
  store: string;
  /** MachineComponents as they were read: a cache. */
  specs: string;
  components: string;
  /** While this file is there the agent changes nothing. */
  hold: string;
  /** Public keys whose signature a component must carry; absent: none is demanded. */
  componentKeys: string;
}

export function layoutOf(root: string): DiskLayout {
  const state = join(root === '' ? '/' : root, 'var/lib/kubenode');
  return {
    root,
    state,
    journal: join(state, 'journal'),
    reserve: join(state, 'reserve'),
    store: join(state, 'store'),
    specs: join(state, 'specs'),
    components: join(state, 'components'),
    hold: join(root === '' ? '/' : root, 'etc/kubenode/hold'),
    componentKeys: join(root === '' ? '/' : root, 'etc/kubenode/component-keys'),
  };
}

/** Folders and files of one component. */
export interface ComponentLayout {
  folder: string;
  /** Symbolic link to the generation that runs. */
  current: string;
  receipt: string;
  generation(digest: string): string;
  /** Where a generation is built before it gets its name. */
  draft(digest: string): string;
}

export function componentLayout(layout: DiskLayout, name: string): ComponentLayout {
  const folder = join(layout.components, name);
  return {
    folder,
    current: join(folder, 'current'),
    receipt: join(folder, 'receipt.json'),
    generation: (digest) => join(folder, digest),
    draft: (digest) => join(folder, `.new-${digest}`),
  };
}

/** A path of the node on this disk. */
export const onNode = (root: string, path: string): string => (root === '' ? path : join(root, path));
