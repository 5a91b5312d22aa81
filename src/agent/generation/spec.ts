import { DISRUPTIONS } from '../../api/disruption.ts';
import type { Disruption } from '../../api/disruption.ts';
import type { MachineComponentSpec } from '../../api/machine-component.ts';
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
  UNPACKS,
} from '../../api/machine-component/values.ts';
import { agentError } from '../errors.ts';
import { argv, count, list, modeOf, object, oneOf, text, unique } from './fields.ts';
import type { Fields } from './fields.ts';
import { unitOf } from './unit-spec.ts';
import type { UnitSpec } from './unit-spec.ts';

/*
 * A MachineComponent as the agent uses it: checked field by field and with the defaults of its schema filled in. The schema's own
 * validator is not used: it costs 13 MB on every node (measured), and a node must not trust what an API server sends anyhow.
 */

export interface Hook {
  command: string[];
  timeoutSeconds: number;
}

export interface Artifact {
  name: string;
  url: string;
  sha256: string;
  unpack: 'None' | 'TarGz';
  mode: number;
}

export interface FileSpec {
  path: string;
  content: string;
  mode: number;
  onDrift: 'Repair' | 'Report' | 'Ignore';
}

export interface ProbeSpec {
  name: string;
  unit?: string;
  url?: string;
  exec?: string[];
  timeoutSeconds: number;
  periodSeconds: number;
  successThreshold: number;
}

/** A folder whose files may be deleted when the disk is full, once they are older than that. */
export interface Disposable {
  path: string;
  olderThanSeconds: number;
}

/** Paths of files that the agent makes for exactly this node. */
export interface NodeCredentials {
  kubeconfig: string;
  certificateAuthority: string;
  /** Path of certificate and key, which the kubeconfig then names; absent: they are in the kubeconfig. */
  clientCertificate?: string;
}

export interface ComponentSpec {
  componentName: string;
  version: string;
  artifacts: Artifact[];
  files: FileSpec[];
  units: UnitSpec[];
  hooks: { preInstall?: Hook; postInstall?: Hook; preRemove?: Hook };
  probes: ProbeSpec[];
  /** As `disposable`. */
  nodeCredentials?: NodeCredentials;
  /** Absent where the component has none: digests of generations that were made before this field existed must stay. */
  disposable?: Disposable[];
  healthDeadlineSeconds: number;
  disruption: NonNullable<MachineComponentSpec['disruption']>;
  requires: { componentName: string; versionRange?: string }[];
}

/** Errors: `SpecInvalid` with the field's path, `PathRefused`, `NoPlatform`. */
export function parseComponentSpec(value: unknown, platform: { os: string; arch: string }): ComponentSpec {
  const spec = object(value, 'spec');
  const units = list(spec['units'], 'spec.units').map(unitOf);
  const disposable = list(spec['disposable'], 'spec.disposable').map(disposableOf);
  const parsed: ComponentSpec = {
    componentName: text(spec['componentName'], 'spec.componentName', new RegExp(PLAIN_NAME)),
    version: text(spec['version'], 'spec.version'),
    artifacts: artifactsFor(list(spec['platforms'], 'spec.platforms'), platform),
    files: list(spec['files'], 'spec.files').map(fileOf),
    units,
    hooks: hooksOf(spec['hooks']),
    probes: list(spec['probes'], 'spec.probes').map((each, index) => probeOf(each, `spec.probes[${index}]`, units)),
    ...(spec['nodeCredentials'] === undefined ? {} : { nodeCredentials: credentialsOf(spec['nodeCredentials'], spec['files']) }),
    ...(disposable.length === 0 ? {} : { disposable }),
    healthDeadlineSeconds: count(spec['healthDeadlineSeconds'], 'spec.healthDeadlineSeconds', COMPONENT_DEFAULTS.healthDeadlineSeconds, 1),
    disruption: disruptionsOf(spec['disruption']),
    requires: list(spec['requires'], 'spec.requires').map(requirementOf),
  };
  unique(parsed.files, (each) => each.path, 'spec.files');
  unique(parsed.units, (each) => each.name, 'spec.units');
  unique(disposable, (each) => each.path, 'spec.disposable');
  unique(parsed.artifacts, (each) => each.name, 'spec.platforms.artifacts');
  return parsed;
}

/** The entry that names this platform best. */
function artifactsFor(platforms: unknown[], { os, arch }: { os: string; arch: string }): Artifact[] {
  const entries = platforms.map((each, index) => ({ fields: object(each, `spec.platforms[${index}]`), index }));
  const score = ({ fields }: { fields: Fields }): number =>
    (fields['os'] === os ? 2 : fields['os'] === 'any' ? 0 : NaN) + (fields['arch'] === arch ? 1 : fields['arch'] === 'any' ? 0 : NaN);
  const fitting = entries.filter((each) => !Number.isNaN(score(each))).sort((a, b) => score(b) - score(a))[0];
  if (fitting === undefined) {
    const there = entries.map(({ fields }) => `${String(fields['os'])}/${String(fields['arch'])}`).join(', ');
    throw agentError('NoPlatform', `it has nothing for ${os}/${arch}; it has: ${there === '' ? 'nothing' : there}`);
  }
  const path = `spec.platforms[${fitting.index}].artifacts`;
  return list(fitting.fields['artifacts'], path).map((each, index) => {
    const at = `${path}[${index}]`;
    const fields = object(each, at);
    return {
      name: text(fields['name'], `${at}.name`, new RegExp(ARTIFACT_NAME)),
      url: text(fields['url'], `${at}.url`),
      sha256: text(fields['sha256'], `${at}.sha256`, /^[a-f0-9]{64}$/),
      unpack: oneOf(fields['unpack'], `${at}.unpack`, UNPACKS, ARTIFACT_DEFAULTS.unpack),
      mode: modeOf(fields['mode'], `${at}.mode`, '0755'),
    };
  });
}

function fileOf(value: unknown, index: number): FileSpec {
  const at = `spec.files[${index}]`;
  const fields = object(value, at);
  const path = pathOf(fields['path'], `${at}.path`);
  if (OWN_FOLDERS.some((own) => path === own || path.startsWith(`${own}/`))) {
    throw agentError('PathRefused', `${at}.path must not be in ${OWN_FOLDERS.join(' or ')}, got "${path}"`);
  }
  return {
    path,
    content: text(fields['content'], `${at}.content`, undefined, true),
    mode: modeOf(fields['mode'], `${at}.mode`, FILE_DEFAULTS.mode),
    onDrift: oneOf(fields['onDrift'], `${at}.onDrift`, DRIFT_REACTIONS, FILE_DEFAULTS.onDrift),
  };
}

function credentialsOf(value: unknown, files: unknown): NodeCredentials {
  const at = 'spec.nodeCredentials';
  const fields = object(value, at);
  const taken = new Set(list(files, 'spec.files').map((each, index) => object(each, `spec.files[${index}]`)['path']));
  const path = (name: keyof NodeCredentials): string => {
    const found = pathOf(fields[name], `${at}.${name}`);
    const own = OWN_FOLDERS.find((each) => `${each}/`.startsWith(`${found}/`) || `${found}/`.startsWith(`${each}/`));
    if (own !== undefined)
      throw agentError('PathRefused', `${at}.${name} must not contain or be in ${own}, which is the agent's; got "${found}"`);
    if (taken.has(found)) throw agentError('SpecInvalid', `${at}.${name} is a file of the component too: "${found}"`);
    taken.add(found);
    return found;
  };
  return {
    kubeconfig: path('kubeconfig'),
    certificateAuthority: path('certificateAuthority'),
    ...(fields['clientCertificate'] === undefined ? {} : { clientCertificate: path('clientCertificate') }),
  };
}

function disposableOf(value: unknown, index: number): Disposable {
  const at = `spec.disposable[${index}]`;
  const fields = object(value, at);
  const path = pathOf(fields['path'], `${at}.path`);
  const own = OWN_FOLDERS.find((each) => `${each}/`.startsWith(`${path}/`) || `${path}/`.startsWith(`${each}/`));
  if (own !== undefined)
    throw agentError('PathRefused', `${at}.path must not contain or be in ${own}, which is the agent's; got "${path}"`);
  return { path, olderThanSeconds: count(fields['olderThanSeconds'], `${at}.olderThanSeconds`, undefined, 1) };
}

function pathOf(value: unknown, at: string): string {
  const path = text(value, at, /^\/[^\0]+$/);
  if (path.split('/').some((part, position) => part === '..' || part === '.' || (part === '' && position > 0))) {
    throw agentError('PathRefused', `${at} must be a plain absolute path, got "${path}"`);
  }
  return path;
}

function hooksOf(value: unknown): ComponentSpec['hooks'] {
  if (value === undefined) return {};
  const fields = object(value, 'spec.hooks');
  const hook = (name: string): Hook | undefined => {
    if (fields[name] === undefined) return undefined;
    const each = object(fields[name], `spec.hooks.${name}`);
    return {
      command: argv(each['command'], `spec.hooks.${name}.command`),
      timeoutSeconds: count(each['timeoutSeconds'], `spec.hooks.${name}.timeoutSeconds`, HOOK_DEFAULTS.timeoutSeconds, 1),
    };
  };
  const [preInstall, postInstall, preRemove] = ['preInstall', 'postInstall', 'preRemove'].map(hook);
  return {
    ...(preInstall === undefined ? {} : { preInstall }),
    ...(postInstall === undefined ? {} : { postInstall }),
    ...(preRemove === undefined ? {} : { preRemove }),
  };
}

function probeOf(value: unknown, at: string, units: UnitSpec[]): ProbeSpec {
  const fields = object(value, at);
  const kinds = ['unit', 'http', 'exec'].filter((kind) => fields[kind] !== undefined);
  if (kinds.length !== 1) throw agentError('SpecInvalid', `${at} must have exactly one of unit, http and exec`);
  const common = {
    name: text(fields['name'], `${at}.name`),
    timeoutSeconds: count(fields['timeoutSeconds'], `${at}.timeoutSeconds`, PROBE_DEFAULTS.timeoutSeconds, 1),
    periodSeconds: count(fields['periodSeconds'], `${at}.periodSeconds`, PROBE_DEFAULTS.periodSeconds, 1),
    successThreshold: count(fields['successThreshold'], `${at}.successThreshold`, PROBE_DEFAULTS.successThreshold, 1),
  };
  if (fields['unit'] !== undefined) {
    const unit = text(fields['unit'], `${at}.unit`);
    if (!units.some((each) => each.name === unit)) throw agentError('SpecInvalid', `${at}.unit names no unit of this component: "${unit}"`);
    return { ...common, unit };
  }
  if (fields['http'] !== undefined) return { ...common, url: text(object(fields['http'], `${at}.http`)['url'], `${at}.http.url`) };
  return { ...common, exec: argv(object(fields['exec'], `${at}.exec`)['command'], `${at}.exec.command`) };
}

function disruptionsOf(value: unknown): ComponentSpec['disruption'] {
  if (value === undefined) return {};
  const fields = object(value, 'spec.disruption');
  const out: ComponentSpec['disruption'] = {};
  for (const key of ['install', 'config', 'patch', 'minor', 'major'] as const) {
    if (fields[key] !== undefined) out[key] = oneOf<Disruption>(fields[key], `spec.disruption.${key}`, DISRUPTIONS, 'None');
  }
  return out;
}

function requirementOf(value: unknown, index: number): ComponentSpec['requires'][number] {
  const at = `spec.requires[${index}]`;
  const fields = object(value, at);
  const componentName = text(fields['componentName'], `${at}.componentName`);
  return fields['versionRange'] === undefined
    ? { componentName }
    : { componentName, versionRange: text(fields['versionRange'], `${at}.versionRange`) };
}
