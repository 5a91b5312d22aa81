import { Type, type Static } from 'typebox';
import { canonical } from './digest.ts';
import { DISRUPTIONS } from './disruption.ts';
import { atomic, conditions, listMap, seconds, sha256, stringMap } from './fields.ts';
import { defineKind } from './kind.ts';

const argv = (description: string) => atomic(Type.String(), { minItems: 1, description });

const hook = () =>
  Type.Object({
    command: argv('argument vector; no shell. Must be safe to run again. Templates as in files'),
    timeoutSeconds: Type.Optional(seconds('limit', { default: 60, minimum: 1 })),
  });

const disruption = () => Type.Enum([...DISRUPTIONS]);

export const artifact = Type.Object({
  name: Type.String({ pattern: '^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$', description: 'folder under the component: {{dir}}/<name>' }),
  url: Type.String({ minLength: 1, description: 'https URL, or a path relative to the mirror the node was installed with' }),
  sha256: sha256(),
  unpack: Type.Optional(Type.Enum(['None', 'TarGz'], { default: 'None' })),
  mode: Type.Optional(Type.String({ pattern: '^0[0-7]{3}$', description: 'of a file that is not unpacked; default 0755' })),
});

/** Segments that are neither empty nor `.` nor `..`; at least one. */
const DISPOSABLE_PATH = '^(/([^/.\\0][^/\\0]*|\\.[^/.\\0][^/\\0]*|\\.\\.[^/\\0]+))+$';
/** The agent's own. */
const OWN_FOLDERS = ['/var/lib/kubenode', '/etc/kubenode', '/run/kubenode'];

export const machineComponentSpec = Type.Object({
  componentName: Type.String({ pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$' }),
  version: Type.String({ pattern: '^[A-Za-z0-9][-A-Za-z0-9.+_]*$' }),
  platforms: listMap(
    Type.Object({
      os: Type.Enum(['linux', 'darwin', 'any']),
      arch: Type.Enum(['amd64', 'arm64', 'any']),
      artifacts: atomic(artifact, { maxItems: 16 }),
    }),
    ['os', 'arch'],
  ),
  files: Type.Optional(
    listMap(
      Type.Object({
        path: Type.String({ pattern: '^/[^\\0]+$', description: 'absolute path on the node; never with ..' }),
        content: Type.String({ description: 'template: {{values.x}}, {{machine.name}}, {{dir}} …; logic-less' }),
        mode: Type.Optional(Type.String({ pattern: '^0[0-7]{3}$', default: '0644' })),
        onDrift: Type.Optional(Type.Enum(['Repair', 'Report', 'Ignore'], { default: 'Repair' })),
      }),
      ['path'],
    ),
  ),
  units: Type.Optional(
    listMap(
      Type.Object({
        name: Type.String({ pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$' }),
        exec: argv('argument vector of the service; templates as in files'),
        environment: Type.Optional(stringMap()),
        stopTimeoutSeconds: Type.Optional(seconds('from SIGTERM to SIGKILL', { default: 10, minimum: 1 })),
        reload: Type.Optional(Type.Enum(['None', 'SIGHUP'], { default: 'None' })),
      }),
      ['name'],
    ),
  ),
  hooks: Type.Optional(
    Type.Object({ preInstall: Type.Optional(hook()), postInstall: Type.Optional(hook()), preRemove: Type.Optional(hook()) }),
  ),
  probes: Type.Optional(
    listMap(
      Type.Object({
        name: Type.String({ minLength: 1 }),
        unit: Type.Optional(Type.String({ description: 'this unit runs and was not restarted since the switch' })),
        http: Type.Optional(Type.Object({ url: Type.String({ description: 'loopback URL that must answer 2xx; template' }) })),
        exec: Type.Optional(Type.Object({ command: argv('must exit 0') })),
        timeoutSeconds: Type.Optional(seconds('one try', { default: 3, minimum: 1 })),
        periodSeconds: Type.Optional(seconds('between tries', { default: 2, minimum: 1 })),
        successThreshold: Type.Optional(Type.Integer({ minimum: 1, default: 1, description: 'successes in a row' })),
      }),
      ['name'],
    ),
  ),
  disposable: Type.Optional(
    listMap(
      Type.Object({
        path: Type.String({
          pattern: DISPOSABLE_PATH,
          description: 'folder on the node, absolute and plain: never with .., never /, and no symbolic link on the way',
        }),
        olderThanSeconds: seconds('since a file was last written', { minimum: 1 }),
      }),
      ['path'],
      {
        maxItems: 16,
        description:
          "CleanDisk may delete files of these folders, and of folders in them, once they are this old: never the component's own",
      },
    ),
  ),
  healthDeadlineSeconds: Type.Optional(
    seconds('all probes must hold by then after a switch, else the node goes back', { default: 300, minimum: 1 }),
  ),
  disruption: Type.Optional(
    Type.Object({
      install: Type.Optional(disruption()),
      config: Type.Optional(disruption()),
      patch: Type.Optional(disruption()),
      minor: Type.Optional(disruption()),
      major: Type.Optional(disruption()),
    }),
  ),
  requires: Type.Optional(
    listMap(
      Type.Object({ componentName: Type.String(), versionRange: Type.Optional(Type.String({ description: 'semver range' })) }),
      ['componentName'],
      {
        description: 'installed and healthy first',
      },
    ),
  ),
});

export type MachineComponentSpec = Static<typeof machineComponentSpec>;

export const machineComponentName = (component: string, version: string): string =>
  `${component}-${version.toLowerCase().replaceAll(/[^a-z0-9.-]/g, '-')}`;

export const MachineComponents = defineKind({
  kind: 'MachineComponent',
  plural: 'machinecomponents',
  shortNames: ['mcomp'],
  namespaced: false,
  description: 'One immutable version of one component: what to fetch, what to write, what to run, how to tell that it works.',
  spec: machineComponentSpec,
  status: Type.Object({ conditions: conditions() }),
  rules: [{ rule: 'self.spec == oldSelf.spec', message: 'a MachineComponent is immutable: make a new version', fieldPath: '.spec' }],
  columns: [
    { name: 'Component', type: 'string', jsonPath: '.spec.componentName' },
    { name: 'Version', type: 'string', jsonPath: '.spec.version' },
  ],
  check(object, old) {
    const errors = [];
    const { spec } = object;
    if (object.metadata.name !== machineComponentName(spec.componentName, spec.version)) {
      errors.push({ path: 'metadata.name', message: `must be "${machineComponentName(spec.componentName, spec.version)}"` });
    }
    if (old !== undefined && canonical(old.spec) !== canonical(spec)) {
      errors.push({ path: 'spec', message: 'a MachineComponent is immutable: make a new version' });
    }
    for (const [index, file] of (spec.files ?? []).entries()) {
      if (file.path.split('/').includes('..'))
        errors.push({ path: `spec.files[${index}].path`, message: `must not hold "..", got "${file.path}"` });
    }
    for (const [index, { path }] of (spec.disposable ?? []).entries()) {
      const own = OWN_FOLDERS.find((each) => `${each}/`.startsWith(`${path}/`) || `${path}/`.startsWith(`${each}/`));
      if (own !== undefined)
        errors.push({
          path: `spec.disposable[${index}].path`,
          message: `must not hold or be in ${own}, which is the agent's; got "${path}"`,
        });
    }
    const units = new Set((spec.units ?? []).map((unit) => unit.name));
    for (const [index, probe] of (spec.probes ?? []).entries()) {
      const kinds = [probe.unit, probe.http, probe.exec].filter((kind) => kind !== undefined).length;
      if (kinds !== 1) errors.push({ path: `spec.probes[${index}]`, message: 'must have exactly one of unit, http and exec' });
      if (probe.unit !== undefined && !units.has(probe.unit))
        errors.push({ path: `spec.probes[${index}].unit`, message: `names no unit of this component: "${probe.unit}"` });
    }
    return errors;
  },
});

export type MachineComponent = ReturnType<typeof MachineComponents.parse>;
