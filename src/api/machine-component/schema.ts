/** Schema of a MachineComponent. */
import { Type } from 'typebox';
import { DISRUPTIONS } from '../disruption.ts';
import { atomic, listMap, seconds, sha256, stringMap } from '../fields.ts';
import { celRules } from '../kind.ts';
import { AGENT_UNIT, KILL_MODES, LIMIT, MAX_UNITS, NUMBERS, RESTARTS, SERVICE_TYPES, SLICE_NAME, TASKS, UNIT_NAME } from '../systemd.ts';
import {
  ARTIFACT_DEFAULTS,
  ARTIFACT_NAME,
  COMPONENT_DEFAULTS,
  DRIFT_REACTIONS,
  FILE_DEFAULTS,
  HOOK_DEFAULTS,
  OWN_FOLDERS,
  PLAIN_NAME,
  PROBE_DEFAULTS,
  RELOADS,
  UNIT_DEFAULTS,
  UNPACKS,
} from './values.ts';

const argv = (description: string) => atomic(Type.String(), { minItems: 1, description });

const hook = () =>
  Type.Object({
    command: argv('argument vector; no shell. Must be safe to run again. Templates as in files'),
    timeoutSeconds: Type.Optional(seconds('limit', { default: HOOK_DEFAULTS.timeoutSeconds, minimum: 1 })),
  });

const unitNames = (description: string) =>
  Type.Optional(
    atomic(
      Type.String({
        pattern: UNIT_NAME,
        ...celRules({ rule: `self != '${AGENT_UNIT}'`, message: `must not be ${AGENT_UNIT}: the services of a node outlive its agent` }),
      }),
      { maxItems: MAX_UNITS, description },
    ),
  );

const limit = (description: string) => Type.Optional(Type.String({ pattern: LIMIT, description }));

const systemd = () =>
  Type.Object(
    {
      type: Type.Optional(Type.Enum([...SERVICE_TYPES], { description: 'by default exec' })),
      killMode: Type.Optional(Type.Enum([...KILL_MODES], { description: 'by default control-group' })),
      delegate: Type.Optional(Type.Boolean({ description: 'the service makes cgroups of its own' })),
      restart: Type.Optional(
        Type.Enum([...RESTARTS], { description: 'by systemd itself, also while no agent runs; by default no: the agent does it' }),
      ),
      restartSeconds: Type.Optional(Type.Integer({ ...NUMBERS.restartSeconds, description: 'between the end and a restart' })),
      startTimeoutSeconds: Type.Optional(
        Type.Integer({ ...NUMBERS.startTimeoutSeconds, description: 'until a service of type notify reports that it is ready' }),
      ),
      oomScoreAdjust: Type.Optional(Type.Integer({ ...NUMBERS.oomScoreAdjust })),
      limitNOFILE: limit('open files'),
      limitNPROC: limit('processes of its user'),
      limitCORE: limit('bytes of a core dump'),
      limitMEMLOCK: limit('bytes of locked memory'),
      tasksMax: Type.Optional(Type.String({ pattern: TASKS, description: 'tasks of the unit: a count, a percentage or infinity' })),
      after: unitNames('starts after these where they start too'),
      requires: unitNames('starts these too, and stops with them'),
      wants: unitNames('starts these too'),
      slice: Type.Optional(Type.String({ pattern: SLICE_NAME, description: 'whose cgroup it is in' })),
    },
    { description: 'directives of its unit file, on nodes with systemd; elsewhere they have no effect' },
  );

const disruption = () => Type.Enum([...DISRUPTIONS]);

export const artifact = Type.Object({
  name: Type.String({ pattern: ARTIFACT_NAME, description: 'folder under the component: {{dir}}/<name>' }),
  url: Type.String({ minLength: 1, description: 'https URL, or a path relative to the mirror the node was installed with' }),
  sha256: sha256(),
  unpack: Type.Optional(Type.Enum([...UNPACKS], { default: ARTIFACT_DEFAULTS.unpack })),
  mode: Type.Optional(Type.String({ pattern: '^0[0-7]{3}$', description: 'of a file that is not unpacked; default 0755' })),
});

/** Segments that are neither empty nor `.` nor `..`; at least one. */
const DISPOSABLE_PATH = '^(/([^/.\\0][^/\\0]*|\\.[^/.\\0][^/\\0]*|\\.\\.[^/\\0]+))+$';
/** For a path as `self`. */
const NOT_OWN = `!${JSON.stringify(OWN_FOLDERS)}.exists(own, (own + '/').startsWith(self + '/') || (self + '/').startsWith(own + '/'))`;

const credentialPath = (description: string) =>
  Type.String({
    maxLength: 1024,
    pattern: DISPOSABLE_PATH,
    description,
    ...celRules({ rule: NOT_OWN, message: `must not contain or be in a folder that is the agent's: ${OWN_FOLDERS.join(', ')}` }),
  });

export const machineComponentSpec = Type.Object({
  componentName: Type.String({ maxLength: 63, pattern: PLAIN_NAME }),
  version: Type.String({ maxLength: 128, pattern: '^[A-Za-z0-9][-A-Za-z0-9.+_]*$' }),
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
        path: Type.String({
          maxLength: 1024,
          pattern: '^/[^\\0]+$',
          description: 'absolute path on the node; never with ..',
          ...celRules({
            rule: "!(self + '/').contains('/../')",
            message: 'must not contain ".."',
            messageExpression: '\'must not contain "..", got "\' + self + \'"\'',
          }),
        }),
        content: Type.String({ description: 'template: {{values.x}}, {{machine.name}}, {{dir}} …; logic-less' }),
        mode: Type.Optional(Type.String({ pattern: '^0[0-7]{3}$', default: FILE_DEFAULTS.mode })),
        onDrift: Type.Optional(Type.Enum([...DRIFT_REACTIONS], { default: FILE_DEFAULTS.onDrift })),
      }),
      ['path'],
      { maxItems: 128 },
    ),
  ),
  units: Type.Optional(
    listMap(
      Type.Object({
        name: Type.String({ maxLength: 63, pattern: PLAIN_NAME }),
        exec: argv('argument vector of the service; templates as in files'),
        environment: Type.Optional(stringMap()),
        stopTimeoutSeconds: Type.Optional(seconds('from SIGTERM to SIGKILL', { default: UNIT_DEFAULTS.stopTimeoutSeconds, minimum: 1 })),
        reload: Type.Optional(Type.Enum([...RELOADS], { default: UNIT_DEFAULTS.reload })),
        systemd: Type.Optional(systemd()),
      }),
      ['name'],
      { maxItems: 32 },
    ),
  ),
  hooks: Type.Optional(
    Type.Object({ preInstall: Type.Optional(hook()), postInstall: Type.Optional(hook()), preRemove: Type.Optional(hook()) }),
  ),
  probes: Type.Optional(
    listMap(
      Type.Object(
        {
          name: Type.String({ minLength: 1 }),
          unit: Type.Optional(Type.String({ maxLength: 63, description: 'this unit runs and was not restarted since the switch' })),
          http: Type.Optional(Type.Object({ url: Type.String({ description: 'loopback URL that must answer 2xx; template' }) })),
          exec: Type.Optional(Type.Object({ command: argv('must exit 0') })),
          timeoutSeconds: Type.Optional(seconds('one try', { default: PROBE_DEFAULTS.timeoutSeconds, minimum: 1 })),
          periodSeconds: Type.Optional(seconds('between tries', { default: PROBE_DEFAULTS.periodSeconds, minimum: 1 })),
          successThreshold: Type.Optional(
            Type.Integer({ minimum: 1, default: PROBE_DEFAULTS.successThreshold, description: 'successes in a row' }),
          ),
        },
        celRules({
          rule: '[has(self.unit), has(self.http), has(self.exec)].filter(given, given).size() == 1',
          message: 'must have exactly one of unit, http and exec',
        }),
      ),
      ['name'],
      { maxItems: 32 },
    ),
  ),
  nodeCredentials: Type.Optional(
    Type.Object(
      {
        kubeconfig: credentialPath('0600: key and certificate of system:node:NAME, and the server'),
        certificateAuthority: credentialPath('0644: PEM of the authority of the server'),
        clientCertificate: Type.Optional(
          credentialPath(
            '0600: PEM of certificate and key, which the kubeconfig then names; for programs that read it again by themselves, and so outlive the first',
          ),
        ),
      },
      {
        description:
          'before its units start, the agent makes these files for exactly this node, and keeps them good; what is there is replaced',
      },
    ),
  ),
  disposable: Type.Optional(
    listMap(
      Type.Object({
        path: Type.String({
          maxLength: 1024,
          pattern: DISPOSABLE_PATH,
          description: 'folder on the node, absolute and plain: never with .., never /, and no symbolic link on the way',
          ...celRules({
            rule: NOT_OWN,
            message: `must not contain or be in a folder that is the agent's: ${OWN_FOLDERS.join(', ')}`,
            messageExpression: `'must not contain or be in a folder that is the agent\\'s (${OWN_FOLDERS.join(', ')}), got "' + self + '"'`,
          }),
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
  values: Type.Optional(
    listMap(
      Type.Object({
        name: Type.String({
          minLength: 1,
          maxLength: 253,
          description: 'path in `values`, as templates name it: `apiServer`, `limits.cpu`',
        }),
        pattern: Type.String({
          minLength: 1,
          maxLength: 1024,
          description:
            'regular expression (ECMAScript, flag u) that the whole of the value, as text, must match; a value has at most 4,096 characters',
        }),
      }),
      ['name'],
      {
        maxItems: 64,
        description:
          'values that sets may give: any other value is refused. Absent: sets may give any value; where signatures are demanded, none, since no signature covers values',
      },
    ),
  ),
  signatures: Type.Optional(
    listMap(
      Type.Object({
        keyID: Type.String({ pattern: '^SHA256:[A-Za-z0-9+/]{43}$', description: 'fingerprint of the key, as `ssh-keygen -l` prints it' }),
        value: Type.String({
          maxLength: 128,
          pattern: '^[A-Za-z0-9+/]+={0,2}$',
          description: 'Ed25519, base64; over all of spec but this',
        }),
      }),
      ['keyID'],
      { maxItems: 8, description: 'made where the fleet is written: `kubenode component sign`. May change, unlike the rest' },
    ),
  ),
  healthDeadlineSeconds: Type.Optional(
    seconds('all probes must pass within this time after a switch, else the node goes back', {
      default: COMPONENT_DEFAULTS.healthDeadlineSeconds,
      minimum: 1,
    }),
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
