/** Values of a MachineComponent that need no schema: the agent imports them, and no validator with them. */

/** The kind by its names. */
export const MACHINE_COMPONENT = { kind: 'MachineComponent', plural: 'machinecomponents', namespaced: false } as const;

/** Name of a component and of a unit: both are names of files on a node too. */
export const PLAIN_NAME = '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$';
export const ARTIFACT_NAME = '^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$';
export const UNPACKS = ['None', 'TarGz'] as const;
/** What the agent does about a file that was changed on the node. */
export const DRIFT_REACTIONS = ['Repair', 'Report', 'Ignore'] as const;
export const RELOADS = ['None', 'SIGHUP'] as const;

/** The defaults where a component leaves a field out. Another default is another version of the form that is signed (component-form.ts). */
export const COMPONENT_DEFAULTS = { healthDeadlineSeconds: 300 } as const;
export const ARTIFACT_DEFAULTS = { unpack: 'None' } as const;
export const FILE_DEFAULTS = { mode: '0644', onDrift: 'Repair' } as const;
export const UNIT_DEFAULTS = { stopTimeoutSeconds: 10, reload: 'None' } as const;
export const HOOK_DEFAULTS = { timeoutSeconds: 60 } as const;
export const PROBE_DEFAULTS = { timeoutSeconds: 3, periodSeconds: 2, successThreshold: 1 } as const;

/** Folders of a node that no component may write to: the agent's own. */
export const OWN_FOLDERS = ['/var/lib/kubenode', '/etc/kubenode', '/run/kubenode'];

/** Name of the MachineComponent of a version. */
export const machineComponentName = (component: string, version: string): string =>
  `${component}-${version.toLowerCase().replaceAll(/[^a-z0-9.-]/g, '-')}`;
