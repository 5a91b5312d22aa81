/**
 * What a signature of a MachineComponent covers. Signer and agent make the same text of it, though an API server filled in the defaults of its schema
 * between the two: here they are filled in before either side reads the text. Without the schemas of src/api: this runs on every node.
 */
import { canonical } from './digest.ts';
import { type CodedError, objectError } from './errors.ts';
import {
  ARTIFACT_DEFAULTS,
  COMPONENT_DEFAULTS,
  FILE_DEFAULTS,
  HOOK_DEFAULTS,
  PROBE_DEFAULTS,
  UNIT_DEFAULTS,
} from './machine-component/values.ts';

/** Prefix of what is signed, so that a signature over other content, or of another version of this form, is never valid for a component. */
const CONTEXT = 'kubenode MachineComponent signature v1\n';

/** `Any` is taken as it is. Of a list each item has the shape; of an object only these fields may be there. */
export type Shape = 'Any' | { list: Shape } | { fields: Readonly<Record<string, Shape>>; defaults?: Readonly<Record<string, unknown>> };

const SYSTEMD: Shape = {
  fields: {
    type: 'Any',
    killMode: 'Any',
    delegate: 'Any',
    restart: 'Any',
    restartSeconds: 'Any',
    startTimeoutSeconds: 'Any',
    oomScoreAdjust: 'Any',
    limitNOFILE: 'Any',
    limitNPROC: 'Any',
    limitCORE: 'Any',
    limitMEMLOCK: 'Any',
    tasksMax: 'Any',
    after: 'Any',
    requires: 'Any',
    wants: 'Any',
    slice: 'Any',
  },
};

const HOOK: Shape = { fields: { command: 'Any', timeoutSeconds: 'Any' }, defaults: HOOK_DEFAULTS };

/** Equal to the schema of the kind, which component-form.test.ts checks: a field more, or another default, is another version of the form. */
const COMPONENT: Shape = {
  fields: {
    componentName: 'Any',
    version: 'Any',
    platforms: {
      list: {
        fields: {
          os: 'Any',
          arch: 'Any',
          artifacts: {
            list: { fields: { name: 'Any', url: 'Any', sha256: 'Any', unpack: 'Any', mode: 'Any' }, defaults: ARTIFACT_DEFAULTS },
          },
        },
      },
    },
    files: {
      list: { fields: { path: 'Any', content: 'Any', mode: 'Any', onDrift: 'Any' }, defaults: FILE_DEFAULTS },
    },
    units: {
      list: {
        fields: { name: 'Any', exec: 'Any', environment: 'Any', stopTimeoutSeconds: 'Any', reload: 'Any', systemd: SYSTEMD },
        defaults: UNIT_DEFAULTS,
      },
    },
    hooks: { fields: { preInstall: HOOK, postInstall: HOOK, preRemove: HOOK } },
    probes: {
      list: {
        fields: {
          name: 'Any',
          unit: 'Any',
          http: { fields: { url: 'Any' } },
          exec: { fields: { command: 'Any' } },
          timeoutSeconds: 'Any',
          periodSeconds: 'Any',
          successThreshold: 'Any',
        },
        defaults: PROBE_DEFAULTS,
      },
    },
    nodeCredentials: { fields: { kubeconfig: 'Any', certificateAuthority: 'Any', clientCertificate: 'Any' } },
    disposable: { list: { fields: { path: 'Any', olderThanSeconds: 'Any' } } },
    values: { list: { fields: { name: 'Any', pattern: 'Any' } } },
    healthDeadlineSeconds: 'Any',
    disruption: { fields: { install: 'Any', config: 'Any', patch: 'Any', minor: 'Any', major: 'Any' } },
    requires: { list: { fields: { componentName: 'Any', versionRange: 'Any' } } },
  },
  defaults: COMPONENT_DEFAULTS,
};

/**
 * The text that is signed, of a MachineComponent's spec; its own signatures are left out. A field that is not known here is an error and not left
 * out: a program that obeys the text alone would not do what it asks for. Errors: `FormUnknown` with the field's path.
 */
export function signedText(spec: unknown): string {
  if (spec === null || typeof spec !== 'object' || Array.isArray(spec)) throw unknown('spec', 'must be an object');
  const signed = Object.fromEntries(Object.entries(spec).filter(([field]) => field !== 'signatures'));
  return CONTEXT + canonical(formOf(signed, COMPONENT, 'spec'));
}

function formOf(value: unknown, shape: Shape, path: string): unknown {
  if (shape === 'Any') return value;
  if ('list' in shape) {
    if (!Array.isArray(value)) throw unknown(path, 'must be a list');
    return value.map((each: unknown, index) => formOf(each, shape.list, `${path}[${index}]`));
  }
  if (value === null || typeof value !== 'object' || Array.isArray(value)) throw unknown(path, 'must be an object');
  const { fields } = shape;
  const entries = Object.entries(value).filter(([, each]) => each !== undefined);
  const form = new Map(Object.entries(shape.defaults ?? {}));
  for (const [name, each] of entries) {
    const field = Object.hasOwn(fields, name) ? fields[name] : undefined;
    if (field === undefined) throw unknown(`${path}.${name}`, 'is not known to this version of KubeNode, which would not obey it');
    form.set(name, formOf(each, field, `${path}.${name}`));
  }
  return Object.fromEntries(form);
}

const unknown = (path: string, why: string): CodedError => objectError('FormUnknown', `${path} ${why}`);

/** For who shows what is signed, and for the test that compares it with the schema. */
export const componentForm = (): Shape => COMPONENT;
